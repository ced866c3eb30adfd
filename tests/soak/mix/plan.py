"""What comes in a mixed soak, drawn from a seed: single pods and groups of three priorities, and limits that change."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random

from tests.controlplane.rest import Json, Kind
from tests.soak.furnish import GPU, MEMORY, PART, TEAMS, an_object
from tests.soak.objects import a_pod, from_template
from tests.soak.plan import Plan

PRIORITIES = {"low": 1, "middle": 10, "high": 20}
_OFTEN = {"low": 60, "middle": 28, "high": 12}

SCHEDULERS = ("dra-scheduler", "second-scheduler")

KINDS = {"gpu": 30, "gpu-2": 25, "gpu-4": 25, "quarter": 10, "memory": 10}
"""What a single pod asks for, by templates of these names, and how often."""

MEMBERS = {"gpu": 3, "gpu-2": 4, "gpu-4": 2}
"""What each member of a group asks for."""

GPUS_OF = {"gpu": 1, "gpu-2": 2, "gpu-4": 4}
MEMORY_OF = {"memory": 10 << 30}
"""Of the devices that all nodes reach."""
PART_OF = {"quarter": 20 << 30}
"""Of the counter of a node's chip."""

GROUPS = 0.18
"""The share of arrivals that are groups."""

SIZES = (2, 8)
ALL_OF_IT = 0.75
BUDGETED = 0.25
"""The share of single pods that a budget protects."""

SLOW_TO_END = 0.3
END_S = 2
LEAVES_EARLY = 0.08
"""The share of arrivals that a user deletes while they may still wait."""

GROUP_LABEL, MINIMUM = "dra-scheduler.dev/group", "dra-scheduler.dev/group-min"
KIND, BUDGET = "kind", "budgeted"
BUDGETS = Kind("policy/v1", "PodDisruptionBudget")


@dataclass(frozen=True, slots=True)
class MixPlan(Plan):
    """One run. runs_s: how long pods run; nodes_fail_every_s, limits_change_every_s: how often."""

    minutes: float = 2.0
    nodes: int = 200
    good_rate: float = 3.0
    kill_every_s: float = 60.0
    leader_elect: bool = False
    pending: int = 150
    drain_s: float = 60.0
    runs_s: tuple[float, float] = (40.0, 160.0)
    nodes_fail_every_s: float = 15.0
    limits_change_every_s: float = 20.0


@dataclass(frozen=True, slots=True)
class MixArrival:
    """Pods that come together. group: the PodGroup that comes before them, if they have one.

    leaves_s: after so long all of them are deleted, whatever they do; None: they run for runs_s once they are bound.
    """

    pods: tuple[Json, ...]
    runs_s: float
    leaves_s: float | None = None
    group: Json | None = None


def mix(chance: Random, plan: MixPlan, group_version: str) -> Iterator[MixArrival]:
    """Without end; the same for one seed. group_version: in which PodGroups are served; empty: they are not."""
    for number in count():
        (priority,) = chance.choices(list(_OFTEN), list(_OFTEN.values()))
        namespace, scheduler = chance.choice(TEAMS), chance.choice(SCHEDULERS)
        runs_s = chance.uniform(*plan.runs_s)
        leaves_s = chance.uniform(0.0, 20.0) if chance.random() < LEAVES_EARLY else None
        grace_s = END_S if chance.random() < SLOW_TO_END else 0
        fields = {
            "schedulerName": scheduler,
            "priorityClassName": priority,
            "terminationGracePeriodSeconds": grace_s,
        }
        if chance.random() < GROUPS:
            name = f"group-{number}"
            pods, group = _group(chance, name, namespace, fields, group_version)
            yield MixArrival(pods, runs_s, leaves_s, group)
        else:
            (kind,) = chance.choices(list(KINDS), list(KINDS.values()))
            labels = {KIND: kind, **({BUDGET: namespace} if chance.random() < BUDGETED else {})}
            pod = _labelled(a_pod(namespace, f"pod-{number}", [from_template(kind)], **fields), labels)
            yield MixArrival((pod,), runs_s, leaves_s)


def _group(
    chance: Random, name: str, namespace: str, fields: Json, group_version: str
) -> tuple[tuple[Json, ...], Json | None]:
    """Its pods, and its PodGroup if it has one in place of our label."""
    size = chance.randint(*SIZES)
    minimum = size if chance.random() < ALL_OF_IT else chance.randint(2, size)
    (kind,) = chance.choices(list(MEMBERS), list(MEMBERS.values()))
    is_served = bool(group_version) and chance.random() < 0.5
    spec = {**fields, "schedulingGroup": {"podGroupName": name}} if is_served else fields
    pods = [a_pod(namespace, f"{name}-{one}", [from_template(kind)], **spec) for one in range(size)]
    labels = {KIND: kind, "of": name, "least": str(minimum)}
    if not is_served:
        ours = ({**labels, GROUP_LABEL: name}, {MINIMUM: str(minimum)})
        return tuple(_labelled(pod, *ours) for pod in pods), None
    policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}, "priorityClassName": fields["priorityClassName"]}
    metadata = {"name": name, "namespace": namespace}
    group = {"apiVersion": group_version, "kind": "PodGroup", "metadata": metadata, "spec": policy}
    return tuple(_labelled(pod, labels) for pod in pods), group


def _labelled(pod: Json, labels: Json, annotations: Json | None = None) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "labels": labels, "annotations": annotations or {}}}


def limits(chance: Random) -> list[Json]:
    """Those of the ConfigMap from one moment on: each of another form."""
    return [
        _limit("team-0-gpus", [TEAMS[0]], {"deviceClassName": GPU}, most=chance.randrange(100, 260)),
        _limit("each-gpus", [TEAMS[1], TEAMS[2]], {"driver": GPU}, each=True, most=chance.randrange(120, 300)),
        _limit(
            "memory", [TEAMS[3]], {"capacity": "memory", "driver": MEMORY}, most=f"{chance.randrange(4, 20) * 10}Gi"
        ),
        _limit("parts", None, {"counter": "memory", "driver": PART}, share=f"{chance.randint(2, 6)}%"),
        _limit("soft", None, {"driver": GPU}, most=chance.randrange(100, 700), soft=True),
    ]


def _limit(name: str, namespaces: list[str] | None, counted: Json, *, each: bool = False, **most: object) -> Json:
    named = {"names": namespaces} if namespaces else {}
    return {"name": name, "namespaces": {**named, "each": each}, "count": counted, **most}


def budget(namespace: str, allowed: int) -> Json:
    """The budget of a namespace, as its controller would write it."""
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": allowed,
        "desiredHealthy": 0,
        "expectedPods": allowed,
        "observedGeneration": 1,
    }
    spec = {"minAvailable": 0, "selector": {"matchLabels": {BUDGET: namespace}}}
    return {**an_object(BUDGETS, "budget", namespace, spec=spec), "status": status}

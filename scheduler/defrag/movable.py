"""Which pods may be moved: evicted, in the trust that their controllers make them again and they fit elsewhere.

Each rule that forbids a move has a name, under which answers and docs know it. Budgets are asked twice: here whether a
pod may go at all, and by the search for all the pods of a plan together.
Source: kubectl drain and Cluster Autoscaler for local storage, `safe-to-evict` and DaemonSets; the Eviction API.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from allocator.cluster.usage import occupying
from allocator.model import Claim, Requirement
from allocator.words import listed_up_to
from scheduler.core_v1.group_terms import PREFIX
from scheduler.core_v1.label_selectors import selects
from scheduler.core_v1.pod import Pod, claim_keys
from scheduler.core_v1.pod_volumes import text_of
from scheduler.core_v1.resources import objects
from scheduler.decision.cluster import Cluster
from scheduler.preemption.victims import moment
from scheduler.state.claims import awaited_claims, is_of_extended_resources
from scheduler.state.pods_by_priority import priority_of

MOVABLE = f"{PREFIX}movable"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Annotations of pods; "false" forbids a move."""

_MOST_NAMED = 3


class Forbidden(NamedTuple):
    """Why a pod stays. rule: its name."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Mover:
    """A pod that may be moved. had: its claims. claims: those that are made again with it, as they are now."""

    pod: Pod
    node: str
    claims: tuple[Claim, ...] = ()
    had: tuple[Claim, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """What it has, by id."""
        results = (one.allocation.results for one in self.had if one.allocation is not None)
        return tuple(sorted(str(result.id) for some in results for result in some))

    @property
    def held(self) -> int:
        """How many devices nobody else can have because of it."""
        return sum(len(occupying(one)) for one in self.had if one.allocation is not None)

    @property
    def uid(self) -> str:
        """Of the pod."""
        return self.pod.uid

    @property
    def started(self) -> float:
        """When it started; inf where it did not yet."""
        return moment(self.pod.started)

    @property
    def again(self) -> tuple[Pod, tuple[Claim, ...]]:
        """The pod as its controller makes it again, with the claims that it gets, which have no devices yet."""
        uid = f"{self.uid}-again"
        pod = self.pod.changed(
            uid=uid,
            node_name="",
            nominated_node="",
            claim_statuses={},
            phase="",
            conditions=(),
            device_fields=(),
            by_claims=(),
            started="",
        )
        return pod, tuple(replace(one, uid=f"{one.uid}-again", allocation=None) for one in self.claims)


@dataclass(frozen=True, slots=True)
class MoveRules:
    """What the user allows."""

    moves_jobs: bool = False
    most_priority: int | None = None
    """Pods of a higher one stay; None where all may go."""
    selector: tuple[Requirement, ...] = ()
    namespace: str = ""
    """Of the pods that may go; empty for all."""
    is_simulated: bool = False
    """Pods come from a trace: their controllers are not known, and make them again."""


class Movability:
    """Asks the rules of the pods of a cluster."""

    def __init__(self, cluster: Cluster, rules: MoveRules) -> None:
        self._cluster, self._rules = cluster, rules

    def split(self) -> tuple[dict[str, Mover], dict[str, tuple[Pod, Forbidden]]]:
        """The pods on nodes, by uid: those that may be moved, and those that may not. Cost: O(pods and claims)."""
        cluster = self._cluster
        movers: dict[str, Mover] = {}
        staying: dict[str, tuple[Pod, Forbidden]] = {}
        for number, pod in cluster.pods.on_nodes():
            if forbidden := self.forbids(pod):
                staying[pod.uid] = pod, forbidden
            else:
                movers[pod.uid] = self._mover(pod, cluster.name_of(number))
        return movers, staying

    def forbids(self, pod: Pod) -> Forbidden | None:
        """The first rule that forbids to move the pod; None where it may be moved."""
        return next(self._forbidding(pod), None)

    def _forbidding(self, pod: Pod) -> Iterator[Forbidden]:
        yield from _by_kind(pod, self._rules)
        yield from _by_annotation(pod)
        yield from _by_local_storage(pod)
        yield from self._by_claims(pod)
        if problem := self._kept_by_a_volume(pod):
            yield Forbidden("node-volume", problem)
        yield from self._by_choice(pod)
        yield from self._by_budget(pod)

    def _by_choice(self, pod: Pod) -> Iterator[Forbidden]:
        rules = self._rules
        if rules.namespace not in ("", pod.namespace):
            yield Forbidden("namespace", f"is not in namespace {rules.namespace}")
        if not selects(rules.selector, pod.labels):
            yield Forbidden("selector", "--movable does not select it")
        if rules.most_priority is not None and priority_of(pod) > rules.most_priority:
            yield Forbidden("priority", f"has priority {priority_of(pod)}, and the target {rules.most_priority}")

    def _by_budget(self, pod: Pod) -> Iterator[Forbidden]:
        budgets = self._cluster.budgets.of(pod)
        if len(budgets) > 1:
            names = listed_up_to(list(map(str, budgets)), _MOST_NAMED)
            yield Forbidden("budget", f"several PodDisruptionBudgets select it ({names}): nobody can evict it")
        for budget in budgets:
            if budget.disruptions_allowed < 1:
                yield Forbidden("budget", f"PodDisruptionBudget {budget} allows no disruption now")

    def _by_claims(self, pod: Pod) -> Iterator[Forbidden]:
        named = {entry.claim_name for entry in pod.claims if entry.claim_name}
        cluster = self._cluster
        for namespace, name in dict.fromkeys(awaited_claims(pod)):
            claim_object = cluster.claims.get(namespace, name)
            if claim_object is None:
                continue
            others = [one.name for one in claim_object.reserved_for if not one.is_pod(pod.name, pod.uid)]
            if others:
                users = listed_up_to([f"{namespace}/{other}" for other in others], _MOST_NAMED)
                yield Forbidden("shared-claim", f"shares claim {claim_object.claim} with {users}")
            elif name in named:
                yield Forbidden("named-claim", f"claim {claim_object.claim} is not made from a template")
            elif claim_object.claim.allocation and not claim_object.reserved_for:
                yield Forbidden("claim", f"claim {claim_object.claim} is allocated, and not reserved for it")
            elif claim_object.error:
                yield Forbidden("claim", f"claim {claim_object.claim} cannot be read")
        missing = [entry.name for entry in pod.claims if entry.claim_name == "" and _lacks(pod, entry.name)]
        if missing:
            yield Forbidden("claim", f"has no claim for its entry {missing[0]}")
        absent = [key for key in claim_keys(pod) if cluster.claims.get(*key) is None]
        if absent:
            yield Forbidden("claim", f"claim {'/'.join(absent[0])} is not there")

    def _kept_by_a_volume(self, pod: Pod) -> str:
        """Which volume only its node reaches, in words; empty where there is none."""
        volumes, number = self._cluster.volumes, self._cluster.number_of(pod.node_name)
        for volume in pod.volumes.claims:
            name = volume.claim_of(pod.name)
            claim = volumes.objects.claims.watched.get((pod.namespace, name))
            kept = volumes.objects.volumes.watched.get(claim.volume) if claim is not None and claim.volume else None
            if kept is None or volume.is_ephemeral or number is None:
                continue
            everywhere = self._cluster.fleet.all
            if volumes.reached(kept) & everywhere == 1 << number != everywhere:
                return f"only its node reaches the volume of PersistentVolumeClaim {pod.namespace}/{name}"
        return ""

    def _mover(self, pod: Pod, node: str) -> Mover:
        claim_objects = [self._cluster.claims.get(*key) for key in dict.fromkeys(awaited_claims(pod))]
        there = [one for one in claim_objects if one is not None]
        made = [one for one in there if not is_of_extended_resources(one.metadata.annotations)]
        return Mover(pod, node, tuple(one.claim for one in made), tuple(one.claim for one in there))


def _lacks(pod: Pod, entry: str) -> bool:
    """Whether no claim is known for the entry, which needs one."""
    return not pod.claim_statuses.get(entry, "") and pod.claim_statuses.get(entry, "") is not None


def _by_kind(pod: Pod, rules: MoveRules) -> Iterator[Forbidden]:
    kind = pod.owner.kind if pod.owner else ""
    if pod.is_static or kind == "Node":
        yield Forbidden("static", "is a static pod: its kubelet runs it from a file")
    if pod.is_deleting:
        yield Forbidden("terminating", "is terminating")
    if not kind and not rules.is_simulated:
        yield Forbidden("no-controller", "no controller makes it again")
    if kind == "DaemonSet":
        yield Forbidden("daemonset", f"belongs to its node by DaemonSet {_owner(pod)}")
    if kind == "Job" and not (rules.moves_jobs or rules.is_simulated):
        yield Forbidden("job", f"would lose its run: Job {_owner(pod)} (--move-jobs allows it)")
    if pod.group:
        yield Forbidden("group", f"belongs to group {pod.group}, which is placed as a whole")


def _owner(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.owner.name}" if pod.owner else ""


def _by_annotation(pod: Pod) -> Iterator[Forbidden]:
    metadata = pod.raw.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    for name in (MOVABLE, SAFE_TO_EVICT):
        if isinstance(annotations, dict) and annotations.get(name) == "false":
            yield Forbidden("annotation", f"its annotation {name} is false")


def _by_local_storage(pod: Pod) -> Iterator[Forbidden]:
    for volume in _volumes(pod):
        name, directory = text_of(volume, "name"), volume.get("emptyDir")
        if "hostPath" in volume:
            yield Forbidden("local-storage", f"volume {name} is a directory of its node (hostPath)")
        elif isinstance(directory, dict) and directory.get("medium") != "Memory":
            yield Forbidden("local-storage", f"volume {name} is on its node, and is lost with it (emptyDir)")


def _volumes(pod: Pod) -> Sequence[Mapping[str, object]]:
    spec = pod.raw.get("spec")
    return objects(spec, "volumes") if isinstance(spec, dict) else ()

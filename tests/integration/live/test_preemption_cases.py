"""Who goes and who is placed, case by case as kube-scheduler decides it; all cases at once, each with nodes of its own.

Devices are won as well, where kube-scheduler evicts nobody. A pod that needs a victim gets its place only when that is
gone, so who is placed tells that who was to go has gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.controlplane.contents import clear, ensure_namespace
from tests.controlplane.ours import Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import POD, VOLUME_CLAIM, Json, Kind
from tests.integration.live.storage import Storage
from tests.integration.live.test_preemption import CLASSES, deleted, is_ending
from tests.integration.live.world import NAMESPACE, PRIORITY, SCHEDULER, World, a_device, an_object

BUDGET = Kind("policy/v1", "PodDisruptionBudget")
OTHER = "live-other"
NEVER = "never"
"""The priority class of pods that preempt nobody."""

TAINTED = [{"key": "example.com/no", "effect": "NoSchedule"}]
HOST = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Who:
    """A pod. claim: whether it has one for a device. spec: what more it says."""

    name: str
    priority: str
    cpu: str = "0"
    node: str = "a"
    claim: bool = False
    guarded: bool = False
    """By a PodDisruptionBudget that permits nobody to go."""
    ends: bool = False
    """It is deleted before, and its node has not ended it yet."""
    namespace: str = NAMESPACE
    spec: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Who is there, the pod that comes, who goes for it, and where it is then; "" where it gets no place.

    nodes: taints by name. text: what the pod is told where it gets no place. nominated: where it was promised a place.
    """

    there: Sequence[Who]
    comes: Who
    goes: str = ""
    place: str = ""
    text: str = ""
    nodes: Mapping[str, Sequence[Json]] = field(default_factory=lambda: {"a": ()})
    devices: int = 0
    nominated: str = ""


TWO_NODES: Mapping[str, Sequence[Json]] = {"a": (), "b": ()}
LOW = Who("q", "low", "1")
HIGH = Who("p", "high", "2")
ONE_CPU = Who("p", "high", "1")
VOLUME = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "once"}}]}


def beside_none(case: str) -> dict[str, Any]:
    """On no node with the pod of the case that comes."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"case": case, "role": "p"}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(case: str) -> dict[str, Any]:
    """Pods of the case are on all its nodes, whose numbers differ by one at most."""
    one = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"case": case}},
    }
    return {"topologySpreadConstraints": [one]}


CASES = {
    "d1": Case([LOW], HIGH, goes="q", place="a"),
    "d2": Case([Who("q", "high", "1")], HIGH, text="No preemption victims found for incoming pod"),
    "d3": Case([LOW], Who("p", NEVER, "2"), text="not eligible due to preemptionPolicy=Never"),
    "d4": Case([LOW, Who("r", "middle", "1")], ONE_CPU, goes="q", place="a"),
    "d5": Case([Who("q", "low", "1", guarded=True), Who("r", "middle", "1")], ONE_CPU, goes="r", place="a"),
    "d6": Case([Who("q", "low", "1", guarded=True)], HIGH, goes="q", place="a"),
    "d7": Case(
        [Who("q", "low", "2", guarded=True), Who("r", "middle", "2", node="b")],
        HIGH,
        goes="r",
        place="b",
        nodes=TWO_NODES,
    ),
    "d8": Case(
        [Who("q", "middle", "1"), Who("s", "low", "1"), Who("r", "middle", "2", node="b")],
        HIGH,
        goes="r",
        place="b",
        nodes=TWO_NODES,
    ),
    "d9": Case([LOW], HIGH, text="Preemption is not helpful for scheduling", nodes={"a": TAINTED}),
    "d10": Case([Who("q", "low", claim=True)], Who("p", "high", claim=True), goes="q", place="a", devices=1),
    "d11": Case([Who("q", "low", "1", claim=True)], Who("p", "high", "2", claim=True), goes="q", place="a", devices=1),
    "d12": Case([Who("q", "low", "1", claim=True)], Who("p", "high", "2", claim=True), goes="q", place="a", devices=2),
    "d13": Case([Who("q", "low", spec=beside_none("d13"))], Who("p", "high"), goes="q", place="a"),
    "d14": Case(
        [Who("q", "low")],
        Who("p", "high", spec=spread("d14")),
        goes="q",
        place="a",
        nodes={"a": (), "b": TAINTED},
    ),
    "d15": Case([Who("q", "low", "1", ends=True)], HIGH, place="a"),
    "d16": Case(
        [Who("q", "low", "1", ends=True), Who("r", "low", "1", node="b")],
        HIGH,
        text="not eligible due to a terminating pod on the nominated node",
        nodes=TWO_NODES,
        nominated="a",
    ),
    # A pod that goes frees no claim of the same name in another namespace.
    "d17": Case(
        [Who("q", "high", node="b", spec=VOLUME), Who("r", "low", namespace=OTHER, spec=VOLUME)],
        Who("p", "middle", spec=VOLUME),
        text="ReadWriteOncePod",
        nodes=TWO_NODES,
    ),
}


@pytest.fixture(scope="module")
def world(plane: ControlPlane, proxy: Proxy, program: Scheduler) -> Iterator[World]:
    """All cases, whose pods have come."""
    found = World(plane, proxy, program)
    ensure_namespace(found.api, OTHER)
    for name, value in CLASSES.items():
        found.a_priority(name, value)
    found.a_priority(NEVER, CLASSES["high"], preemptionPolicy="Never")
    the_volumes(found)
    found.a_class()
    for name, case in CASES.items():
        the_nodes(found, name, case)
    the_holders(found)
    for name, case in CASES.items():
        a_comer(found, name, case)
    yield found
    found.check()
    for name in (*CLASSES, NEVER):
        found.api.delete(PRIORITY, name)
    for budget in found.api.list(BUDGET, NAMESPACE):
        found.api.delete(BUDGET, budget["metadata"]["name"], NAMESPACE)
    clear(plane, with_rights=False)


def the_volumes(world: World) -> None:
    """A volume that one pod alone may use, and another one for a claim of the same name elsewhere."""
    storage, modes = Storage(world), ["ReadWriteOncePod"]
    for namespace in (NAMESPACE, OTHER):
        volume = f"once-of-{namespace}"
        there = {"namespace": namespace, "name": "once"}
        storage.a_volume(volume, "d17-a", "d17-b", accessModes=modes, claimRef=there)
        asked = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": modes}
        spec = {**asked, "storageClassName": "local", "volumeName": volume}
        world.api.create(an_object(VOLUME_CLAIM, "once", spec, namespace))
    world.api.await_all(
        VOLUME_CLAIM, lambda found: len(found) == 2 and all(one["status"].get("phase") == "Bound" for one in found)
    )


def the_nodes(world: World, name: str, case: Case) -> None:
    for node, taints in case.nodes.items():
        world.a_node(f"{name}-{node}", allocatable={"cpu": "2"}, taints=list(taints))
    if case.devices:
        world.a_slice(f"{name}-a", *(a_device(f"gpu-{number}") for number in range(case.devices)))
    if any(one.guarded for one in case.there):
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"case": name, "guarded": "yes"}}}
        world.api.create(an_object(BUDGET, name, spec, NAMESPACE))


def the_holders(world: World) -> None:
    """All who are there, each on its node, and some of them on their way to end."""
    there = [(name, one) for name, case in CASES.items() for one in case.there]
    for name, one in there:
        a_holder(world, name, one)
    for name, one in there:
        if one.claim:
            world.bound(f"{name}-{one.name}")
        if one.ends:
            world.api.delete(POD, f"{name}-{one.name}", NAMESPACE, grace_s=600)


def a_pod(world: World, case: str, one: Who, **spec: Any) -> None:
    name = f"{case}-{one.name}"
    if one.claim:
        world.a_claim(f"of-{name}")
    world.await_seen()
    claims = [{"name": "gpu", "resourceClaimName": f"of-{name}"}] if one.claim else []
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": one.cpu}}}
    fields = {
        "schedulerName": SCHEDULER,
        "priorityClassName": one.priority,
        "containers": [container],
        "resourceClaims": claims,
        "terminationGracePeriodSeconds": 0,
        **one.spec,
        **spec,
    }
    pod = an_object(POD, name, fields, one.namespace)
    pod["metadata"]["labels"] = {"case": case, "role": one.name, "guarded": "yes" if one.guarded else "no"}
    world.api.create(pod)


def a_holder(world: World, case: str, one: Who) -> None:
    """It is on its node; one with a claim gets there by our scheduler."""
    node = f"{case}-{one.node}"
    a_pod(world, case, one, **({"nodeSelector": {HOST: node}} if one.claim else {"nodeName": node}))


def a_comer(world: World, name: str, case: Case) -> None:
    gates = [{"name": "example.com/not-yet"}] if case.nominated else []
    a_pod(world, name, case.comes, nodeSelector={"kind": name}, schedulingGates=gates)
    if case.nominated:
        pod, reason = f"{name}-{case.comes.name}", "PreemptionByScheduler"
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
        victims = [f"{name}-{one.name}" for one in case.there if one.ends]
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
        for victim in victims:
            world.update_pod(victim, lambda found: {**found["status"], "conditions": [condition]})
        world.update_pod(pod, lambda found: {**found["status"], "nominatedNodeName": f"{name}-{case.nominated}"})
        world.leave_gates(pod)


@pytest.mark.parametrize("name", CASES)
def test_who_goes_and_who_is_placed(world: World, name: str) -> None:
    case = CASES[name]
    pod = f"{name}-{case.comes.name}"
    if case.place:
        ending = [f"{name}-{one.name}" for one in case.there if one.ends]
        for one in ending:
            world.pod_when(pod, lambda found: found["status"].get("nominatedNodeName") == f"{name}-{case.place}")
            assert is_ending(world.pod(one))
            world.delete_pod(one)
        assert world.node_of(pod) == f"{name}-{case.place}"
    else:
        world.refused(pod, case.text)
        world.await_queue(pod, queue="unschedulable")
    gone = {one for one in deleted(world) if one.startswith(f"{name}-")}
    assert gone == ({f"{name}-{case.goes}"} if case.goes else set())

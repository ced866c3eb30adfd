"""However much users ask for, a decision looks at the time again and again: nobody else is heard in between."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Literal

import pytest

from allocator.limits import ONE_DEVICE, CountedDevices, Namespaces, TenantLimit
from allocator.model import (
    Allocation,
    Alternative,
    Claim,
    Constraint,
    Container,
    Device,
    DeviceResult,
    Reach,
    Request,
    Requirement,
    Slice,
)
from allocator.outcome import AllocationError
from allocator.policies import policy_of
from cel.values.quantity import Quantity
from scheduler.core_v1.group_terms import NO_TERMS, AttributeTerm, GroupTerms
from scheduler.core_v1.label_selectors import AffinityTerm, PodAffinity, equal_labels
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.core_v1.pod_volumes import ClaimVolume, PodVolumes
from scheduler.core_v1.storage_objects import CSIDriver
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced
from scheduler.decision.time_limits import MOST_S, DecisionTimeLimit
from scheduler.plugins.profile import Profile
from scheduler.pod_groups.group import LABEL, GroupKey, GroupOfPods
from scheduler.pod_groups.group_placer import place_group
from scheduler.pod_groups.group_preemption import preempt_for_group
from scheduler.preemption.preemption import Preemption, Preemptor
from tests.builders import DRIVER, a_class, a_container, a_node, a_pod, amounts, an_init_container, kubernetes, watched
from tests.storage import DRIVER as STORAGE_DRIVER
from tests.storage import a_capacity, a_pv, a_pvc, a_storage_class, where_label

MOST_CALLS_BETWEEN_LOOKS = 400_000
"""Some tenth of a second."""

LOOKS = 20_000
"""After so many a decision has no time left."""

RESOURCE = "deviceclass.resource.kubernetes.io/gpu"


class Room:
    """A cluster whose decisions take calls for their time."""

    def __init__(self, policy: str = "first-fit") -> None:
        self.calls = self.most = self.last = self.looks = 0
        self.cluster = Cluster(
            kubernetes(),
            is_ours=lambda _: True,
            profiles=[Profile(policy=policy_of(policy))],
            time_limit=DecisionTimeLimit(self._look),
            makes_claims=True,
        )
        self.cluster.set_class(a_class())

    def _look(self) -> float:
        self.most, self.last = max(self.most, self.calls - self.last), self.calls
        self.looks += 1
        return self.looks * MOST_S / LOOKS

    def nodes(
        self, number: int, devices: int, attributes: Callable[[int, int], Mapping[str, str]], **more: object
    ) -> None:
        """Nodes of so many devices each, in slices of 128."""
        for node in range(number):
            name = f"n-{node}"
            self.cluster.set_node(a_node(name, allocatable=amounts(cpu="999", memory="999Gi", pods="999")))
            for first in range(0, devices, 128):
                own = tuple(
                    Device(
                        f"gpu-{one}",
                        DRIVER,
                        name,
                        attributes={key: ("string", text) for key, text in attributes(node, one).items()},
                        **more,  # type: ignore[arg-type]
                    )
                    for one in range(first, min(first + 128, devices))
                )
                reach = Reach(node_name=name)
                self.cluster.set_slice(Slice(f"{name}-{first}", DRIVER, name, 1, -(-devices // 128), reach, own))

    def full_of_pods(
        self, nodes: int, devices: int, containers: Sequence[Container] = (), *, is_deleting: bool = False
    ) -> None:
        """Each device has a pod of its own, of no priority, with these containers beside its own."""
        for node in range(nodes):
            for one in range(devices):
                has = Allocation((DeviceResult("r0", DRIVER, f"n-{node}", f"gpu-{one}"),))
                self.pod(
                    f"low-{node}-{one}",
                    [a_claim_for(f"low-{node}-{one}", allocation=has)],
                    containers,
                    node_name=f"n-{node}",
                    labels={"app": "low"},
                    is_deleting=is_deleting,
                )

    def pod(self, name: str, claims: Sequence[Claim], containers: Sequence[Container] = (), **more: object) -> Pod:
        """A pod with these claims, and these containers beside its own."""
        used = tuple(PodClaim(f"c{number}", claim.name) for number, claim in enumerate(claims))
        pod = a_pod(a_container(cpu="10m"), *containers, name=name, claims=used, **more)
        self.cluster.set_pod(pod)
        for claim in claims:
            users = (pod,) if pod.node_name else ()
            self.cluster.set_claim(watched(claim, users=users), 1)
        return pod

    def group(self, claims: Sequence[Sequence[Claim]], terms: GroupTerms = NO_TERMS, priority: int = 0) -> GroupOfPods:
        """A group with a pod for each of these."""
        pods = tuple(self.pod(f"member-{place}", own, priority=priority) for place, own in enumerate(claims))
        return GroupOfPods(GroupKey(LABEL, "default", "g"), pods, len(pods), priority=priority, terms=terms)

    def most_calls_between_looks(self, decision: Callable[[], object]) -> int:
        """Functions that are called between two looks at the time, Python's own included."""
        self.cluster.fleet.refresh()

        def seen(_frame: FrameType, event: str, _argument: object) -> None:
            self.calls += event in {"call", "c_call"}

        before = sys.getprofile()
        sys.setprofile(seen)
        try:
            with suppress(AllocationError):
                decision()
        finally:
            sys.setprofile(before)
        return max(self.most, self.calls - self.last)

    def preemption(self, pod: Pod, claims: Sequence[Claim]) -> Callable[[], Preemption]:
        """The preemption for a pod that fits nowhere."""
        self.cluster.time_limit.give(math.inf)
        refused = decide(self.cluster, pod, claims)
        assert isinstance(refused, NotPlaced), refused
        self.cluster.time_limit.give(MOST_S)

        def preemption() -> Preemption:
            with self.cluster.time_limit.limited():
                return Preemptor(self.cluster).preemption(PodCycle(self.cluster, pod, claims), refused)

        return preemption


def a_claim_for(name: str, requests: int = 1, alternatives: int = 1, selector: str = "true", **more: object) -> Claim:
    """A claim of so many requests; a %d in the selector is another number in each."""

    def one(request: int, place: int) -> Alternative:
        own = f"r{request}" if alternatives == 1 else f"r{request}/s{place}"
        text = selector % (request * alternatives + place) if "%d" in selector else selector
        return Alternative(own, "gpu", (text,), capacity=dict(capacity))  # type: ignore[call-overload]

    capacity = more.pop("capacity", {})
    asked = tuple(
        Request(
            f"r{number}",
            tuple(one(number, place) for place in range(alternatives)),
            is_first_available=alternatives > 1,
        )
        for number in range(requests)
    )
    return replace(Claim("default", name, f"uid-of-{name}", asked, ()), **more)  # type: ignore[arg-type]


def alike(_node: int, _device: int) -> Mapping[str, str]:
    return {f"a{number}": "one" for number in range(32)}


def all_different(node: int, device: int) -> Mapping[str, str]:
    return {f"a{number}": f"{number}-{node}-{device}" for number in range(8)}


def a_group_with_terms(
    kind: Literal["match", "distinct"], attributes: Callable[[int, int], Mapping[str, str]], members: int
) -> int:
    room = Room()
    room.nodes(40, 8, attributes)
    terms = tuple(AttributeTerm("*", f"{DRIVER}/a{number}") for number in range(len(attributes(0, 0))))
    said = GroupTerms(match=terms) if kind == "match" else GroupTerms(distinct=terms)
    has = Allocation(tuple(DeviceResult("r0", DRIVER, "n-0", f"gpu-{one}") for one in range(8)))
    shared = a_claim_for("shared", allocation=has)
    group = room.group([(a_claim_for(f"c{one}"), shared) for one in range(members)], said)
    return room.most_calls_between_looks(lambda: place_group(room.cluster, group))


def a_pod_with_terms() -> int:
    room = Room()
    room.nodes(4, 8, alike, allow_multiple_allocations=True)
    has = [
        Allocation(
            tuple(
                DeviceResult(f"r{one}", DRIVER, "n-0", f"gpu-{one % 8}", share_id=f"{number}-{one}")
                for one in range(32)
            )
        )
        for number in range(200)
    ]
    claims = [a_claim_for("own"), *(a_claim_for(f"c{n}", 32, allocation=one) for n, one in enumerate(has))]
    named = ",".join(f"*={DRIVER}/a{number}" for number in range(32))
    pod = room.pod("pod", claims, grouping={"dra-scheduler.dev/match-attribute": named})
    return room.most_calls_between_looks(lambda: decide(room.cluster, pod, claims))


def extended_resources() -> int:
    room = Room()
    room.nodes(4, 8, alike)
    first = [replace(an_init_container(f"i{one}"), requests=amounts(**{RESOURCE: "1"})) for one in range(2000)]
    then = [replace(a_container(f"c{one}"), requests=amounts(**{RESOURCE: "1"})) for one in range(2000)]
    pod = a_pod(*first, *then)
    room.cluster.set_pod(pod)
    return room.most_calls_between_looks(lambda: decide(room.cluster, pod, []))


def preemption_on(nodes: int, devices: int, requests: int, alternatives: int) -> int:
    room = Room()
    room.nodes(nodes, devices, all_different)
    room.full_of_pods(nodes, devices)
    claim = a_claim_for("own", requests, alternatives, f"device.attributes['{DRIVER}'].a0 != '%d'")
    preemption = room.preemption(room.pod("high", [claim], priority=1000), [claim])
    return room.most_calls_between_looks(preemption)


def a_group_whose_terms_name_no_request() -> int:
    room = Room()
    room.nodes(4, 8, alike)
    shared = [a_claim_for(f"c{one}", 8) for one in range(100)]
    terms = tuple(AttributeTerm(f"absent-{number}", f"{DRIVER}/a{number}") for number in range(32))
    group = room.group([shared] * 60, GroupTerms(match=terms))
    return room.most_calls_between_looks(lambda: place_group(room.cluster, group))


def a_group_in_domains() -> int:
    room = Room()
    for node in range(800):
        labels = {"kubernetes.io/hostname": f"n-{node}"}
        room.cluster.set_node(a_node(f"n-{node}", labels, allocatable=amounts(cpu="999", pods="999")))
    hostname = "kubernetes.io/hostname"
    group = room.group([[]], GroupTerms(required=hostname, preferred=(hostname,) * 8))
    return room.most_calls_between_looks(lambda: place_group(room.cluster, group))


def a_group_on_nodes_that_differ() -> int:
    room = Room()
    for number in range(600):
        name = f"n-{number}"
        allocatable = amounts(cpu=str(number + 2), memory="999Gi", pods="999")
        room.cluster.set_node(a_node(name, {"kubernetes.io/hostname": name}, allocatable=allocatable))
    group = room.group([[], []], GroupTerms(required="kubernetes.io/hostname"))
    return room.most_calls_between_looks(lambda: place_group(room.cluster, group))


def a_group_beside_others() -> int:
    room = Room()
    room.cluster.set_node(a_node("n-0", {"rack": "a"}, allocatable=amounts(cpu="999", pods="9999")))
    for one in range(2000):
        named = ",".join(f"{number}={DRIVER}/a{number}" for number in range(32))
        said = {"dra-scheduler.dev/topology-required": "rack", "dra-scheduler.dev/match-attribute": named}
        room.pod(f"pod-{one}", [], node_name="n-0", labels={"dra-scheduler.dev/group": f"g{one}"}, grouping=said)
    group = room.group([[]], GroupTerms(required="rack", exclusive=True))
    return room.most_calls_between_looks(lambda: place_group(room.cluster, group))


def a_group_of_pods_that_differ() -> int:
    room = Room()
    room.cluster.set_node(a_node("n-0", allocatable=amounts(cpu="9", pods="9999")))
    pods = tuple(a_pod(a_container(cpu=f"{one + 1}m"), name=f"member-{one}") for one in range(1000))
    for pod in pods:
        room.cluster.set_pod(pod)
    group = GroupOfPods(GroupKey(LABEL, "default", "g"), pods, len(pods), priority=0)
    return room.most_calls_between_looks(lambda: place_group(room.cluster, group))


def preemption_by_a_group(budgets: int = 0) -> int:
    room = Room()
    room.nodes(20, 8, all_different)
    room.full_of_pods(20, 8)
    for one in range(budgets):
        room.cluster.budgets.set(PodDisruptionBudget("default", f"budget-{one}", equal_labels({"app": "low"})))
    selector = f"device.attributes['{DRIVER}'].a0 != '%d'"
    group = room.group([[a_claim_for(f"c{one}", 4, 4, selector)] for one in range(20)], priority=1000)

    def decision() -> None:
        with room.cluster.time_limit.limited():
            preempt_for_group(room.cluster, group)

    return room.most_calls_between_looks(decision)


def preemption_by_a_group_among_many(containers: int = 1) -> int:
    room = Room()
    nodes = 400 if containers == 1 else 40
    room.nodes(nodes, 8, alike)
    room.full_of_pods(nodes, 8, [a_container(cpu=f"{one}n") for one in range(containers - 1)])
    group = room.group([[a_claim_for(f"c{one}")] for one in range(2)], priority=1000)

    def decision() -> None:
        with room.cluster.time_limit.limited():
            preempt_for_group(room.cluster, group)

    return room.most_calls_between_looks(decision)


def preemption_by_a_group_beside_pods_that_end() -> int:
    room = Room()
    room.nodes(100, 8, alike)
    room.full_of_pods(100, 8, is_deleting=True)
    group = room.group([[a_claim_for("c", 9)]])

    def decision() -> None:
        with room.cluster.time_limit.limited():
            preempt_for_group(room.cluster, group)

    return room.most_calls_between_looks(decision)


def a_term_that_is_held_against_thousands(values: int, requirements: int) -> int:
    room = Room()
    for number in range(4):
        room.cluster.set_node(a_node(f"n-{number}", {"zone": "z"}, allocatable=amounts(cpu="999", pods="999")))
    for number in range(2000):
        room.pod(f"bound-{number}", [], node_name=f"n-{number % 4}", labels={"name": f"bound-{number}"})
    selector = tuple(
        Requirement(f"key-{number}", "NotIn", tuple(f"value-{one}" for one in range(values)))
        for number in range(requirements)
    )
    near = PodAffinity(required=(AffinityTerm("zone", frozenset({"default"}), selector),))
    pod = room.pod("pod", [], pod_affinity=near)
    return room.most_calls_between_looks(lambda: decide(room.cluster, pod, []))


def limits() -> int:
    room = Room()
    capacity = {f"c{number}": Quantity.of(1000) for number in range(8)}
    room.nodes(1, 2000, lambda _, one: {"a0": str(one % 7)}, allow_multiple_allocations=True, capacity=capacity)
    every = Namespaces(frozenset({"default"}))
    room.cluster.set_limits(
        [TenantLimit(f"l{n}", every, CountedDevices("capacity", f"c{n % 8}"), 10**6 * ONE_DEVICE) for n in range(50)]
    )
    claim = a_claim_for("own", 32, 8, capacity={name: Quantity.of(1) for name in capacity})
    pod = room.pod("pod", [claim])
    return room.most_calls_between_looks(lambda: decide(room.cluster, pod, [claim]))


def a_policy(name: str) -> int:
    room = Room(name)
    room.nodes(2, 1500, all_different)
    for one in range(30):
        own = a_claim_for(f"c{one}", 1 + one % 8, 1 + one % 4, f"device.attributes['{DRIVER}'].a0 != '%d'")
        room.pod(f"pod-{one}", [own])
    claim = a_claim_for("own", 8, 8, f"device.attributes['{DRIVER}'].a0 != '%d'")
    pod = room.pod("pod", [claim])
    return room.most_calls_between_looks(lambda: decide(room.cluster, pod, [claim]))


def a_policy_for_a_costly_workload(name: str) -> int:
    """Pods of others ask by selectors of thousands of steps, of which no two are alike."""
    room = Room(name)
    room.nodes(50, 8, all_different)
    numbers = list(range(20))
    steps = f"{numbers}.all(x, {numbers}.all(y, {numbers}.all(z, x + y + z >= 0 && '%d' != '')))"
    for one in range(20):
        own = a_claim_for(f"c{one}", selector=steps.replace("%d", str(one)))
        room.cluster.expect(room.pod(f"pod-{one}", [own]), [own])
    claim = a_claim_for("own")
    pod = room.pod("pod", [claim])
    room.cluster.expect(pod, [claim])
    return room.most_calls_between_looks(lambda: decide(room.cluster, pod, [claim]))


def many_claims() -> int:
    room = Room()
    room.nodes(1, 500, alike)
    constraints = tuple(Constraint((), match_attribute=f"{DRIVER}/a{number}") for number in range(32))
    claims = [a_claim_for(f"c{one}", 2, constraints=constraints) for one in range(200)]
    pod = room.pod("pod", claims)
    return room.most_calls_between_looks(lambda: decide(room.cluster, pod, claims))


def volumes_of_a_pod(of_capacities: int) -> int:
    """Of 128 volumes, each from one of thousands that are local, or of a size of its own where a node has so much."""
    room, number = Room(), 1000
    volumes = room.cluster.volumes
    volumes.set_class(a_storage_class())
    volumes.set_driver(CSIDriver(STORAGE_DRIVER, publishes_capacity=True))
    for one in range(number):
        name = f"n-{one}"
        room.cluster.set_node(a_node(name, {"name": name}, allocatable=amounts(cpu="999", pods="999")))
        if one < of_capacities:
            volumes.set_capacity(a_capacity(f"c{one}", "1Ti", Requirement("name", "In", (name,))))
        else:
            volumes.set_volume(a_pv(f"pv{one}", affinity=where_label("name", name)))
    claims = [a_pvc(f"v{one}", size=f"{one + 1}Mi") for one in range(128)]
    for claim in claims:
        volumes.set_claim(claim)
    pod = room.pod("pod", [], volumes=PodVolumes(claims=tuple(ClaimVolume(claim.name) for claim in claims)))
    return room.most_calls_between_looks(lambda: decide(room.cluster, pod, []))


CASES: Mapping[str, Callable[[], int]] = {
    "a group whose devices have 32 attributes in common": lambda: a_group_with_terms("match", alike, 60),
    "a group whose devices have 8 attributes apart": lambda: a_group_with_terms("distinct", all_different, 60),
    "two pods whose devices have unique attributes in common": lambda: a_group_with_terms("match", all_different, 2),
    "a group whose terms name no request": a_group_whose_terms_name_no_request,
    "a group in many domains": a_group_in_domains,
    "a group on nodes of which none is like another": a_group_on_nodes_that_differ,
    "a group beside many others": a_group_beside_others,
    "a group of pods that differ": a_group_of_pods_that_differ,
    "a pod with thousands of devices that have 32 attributes in common": a_pod_with_terms,
    "thousands of containers with extended resources": extended_resources,
    "preemption on nodes with many devices": lambda: preemption_on(20, 100, 16, 4),
    "preemption on many nodes": lambda: preemption_on(150, 16, 4, 1),
    "preemption by a group": preemption_by_a_group,
    "preemption by a group among thousands of pods": preemption_by_a_group_among_many,
    "preemption by a group among pods of hundreds of containers": lambda: preemption_by_a_group_among_many(300),
    "preemption by a group beside hundreds of pods that end": preemption_by_a_group_beside_pods_that_end,
    "preemption where a thousand budgets select each pod": lambda: preemption_by_a_group(1000),
    "a term of thousands of values": lambda: a_term_that_is_held_against_thousands(5000, 1),
    "a term of thousands of requirements": lambda: a_term_that_is_held_against_thousands(1, 5000),
    "hundreds of volumes that are local": lambda: volumes_of_a_pod(0),
    "hundreds of volumes of which each has its size": lambda: volumes_of_a_pod(1000),
    "limits": limits,
    "many claims with constraints": many_claims,
    **{f"policy {name}": partial(a_policy, name) for name in ("pack", "spread", "fill-value", "least-fragmentation")},
    **{
        f"policy {name} for a costly workload": partial(a_policy_for_a_costly_workload, name)
        for name in ("fgd", "fill-value")
    },
}


@pytest.mark.parametrize("case", CASES)
def test_looks_at_the_time_come_between_all_that_a_decision_does(case: str) -> None:
    assert CASES[case]() < MOST_CALLS_BETWEEN_LOOKS


def test_preemption_that_has_no_time_for_all_nodes_takes_the_best_of_those_that_it_has_seen() -> None:
    room = Room()
    room.nodes(60, 4, all_different)
    room.full_of_pods(60, 4)
    claim = a_claim_for("own", 2, 1, f"device.attributes['{DRIVER}'].a0 != '%d'")
    preemption = room.preemption(room.pod("high", [claim], priority=1000), [claim])
    preemption()  # what is known afterwards costs no looks
    before, whole = room.looks, preemption()
    needed = room.looks - before
    room.cluster.time_limit.give(0.7 * needed * MOST_S / LOOKS)
    before, in_part = room.looks, preemption()
    assert whole.candidate is not None
    assert in_part.candidate is not None
    assert in_part.candidate.cost == whole.candidate.cost
    assert room.looks - before < needed

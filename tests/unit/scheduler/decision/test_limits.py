"""Limits of tenants in the cluster of the live programs: what refuses a pod, what wakes it, and whom it may evict."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from allocator.limits import ONE_DEVICE, CountedDevices, Namespaces, TenantLimit
from allocator.model import Claim, Requirement
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.plugins.plugin import Refusal
from scheduler.preemption.preemption import Preemptor
from scheduler.queue import helps
from scheduler.state.cluster_changes import (
    ClaimChanged,
    Event,
    GivenBack,
    LimitsChanged,
    NamespaceChanged,
    SliceChanged,
)
from tests.builders import (
    a_claim,
    a_class,
    a_device,
    a_node,
    a_result,
    a_slice,
    a_user,
    amounts,
    an_allocated_claim,
    an_alternative,
    first_available,
    kubernetes,
    on_node,
    watched,
)
from tests.unit.scheduler.churn import AT_ONCE, FEW, assert_nothing_has_grown, entries

H100, A100 = 'device.attributes["gpu.example"].model == "H100"', 'device.attributes["gpu.example"].model == "A100"'
GOLD = TenantLimit(
    "gold", Namespaces(labels=(Requirement("tier", "In", ("gold",)),)), CountedDevices(selectors=(H100,)), ONE_DEVICE
)
OF_A = TenantLimit("of-a", Namespaces(frozenset({"team-a"})), CountedDevices(selectors=(H100,)), ONE_DEVICE)
EITHER = first_available("gpu", an_alternative("h", selectors=(H100,)), an_alternative("a", selectors=(A100,)))
ONLY_H100 = first_available("gpu", an_alternative("h", selectors=(H100,)))


class World:
    """A node with three H100 and one A100. users: running pods, each with a claim of its own of one device."""

    def __init__(self, limits: Sequence[TenantLimit], **users: str) -> None:
        self.cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        self.cluster.set_class(a_class())
        self.cluster.set_node(a_node(allocatable=amounts(cpu="9", pods="20")))
        models = {"h0": "H100", "h1": "H100", "h2": "H100", "a0": "A100"}
        devices = [a_device(name, {"model": model}) for name, model in models.items()]
        self.cluster.set_slice(a_slice(*devices, reach=on_node()))
        self.cluster.set_limits(limits)
        self.claims: dict[str, Claim] = {}
        for name, device in users.items():
            self.add(name, device)

    def add(self, name: str, device: str) -> None:
        namespace = "team-" + name.partition("_")[0]
        claim = an_allocated_claim(a_result(device), name=f"{name}-claim", namespace=namespace)
        pod = replace(a_user(name, claim.name, node_name="node-0", priority=1), namespace=namespace)
        self.claims[name] = claim
        self.cluster.set_claim(watched(claim, users=[pod]), 1)
        self.cluster.set_pod(pod)

    def refusal(self, request: Any = ONLY_H100, namespace: str = "team-a") -> Refusal | None:
        """Of a pod that asks for this, None where it is placed."""
        pod, claim = self.asking(request, namespace)
        decided = decide(self.cluster, pod, [claim])
        assert isinstance(decided, Placed | NotPlaced)
        return decided.refusal if isinstance(decided, NotPlaced) else None

    @staticmethod
    def asking(request: Any, namespace: str) -> tuple[Pod, Claim]:
        claim = a_claim(request, name="own", namespace=namespace)
        return replace(a_user("urgent", "own", priority=10), namespace=namespace), claim

    def victims(self, request: Any = ONLY_H100, namespace: str = "team-a") -> list[str] | None:
        pod, claim = self.asking(request, namespace)
        refused = decide(self.cluster, pod, [claim])
        assert isinstance(refused, NotPlaced)
        won = Preemptor(self.cluster).preemption(PodCycle(self.cluster, pod, [claim]), refused)
        return [victim.name for victim in won.candidate.pods] if won.candidate else None


def test_pod_reads_the_limit_of_its_tenant() -> None:
    world = World([OF_A], a_one="h0")
    refusal = world.refusal()
    assert refusal is not None
    assert "limit of-a: 1 of 1 in use, 1 more requested" in refusal.message
    assert world.refusal(EITHER) is None
    assert world.refusal(namespace="team-b") is None


def test_limit_follows_labels_classes_and_its_own_change() -> None:
    world = World([GOLD], a_one="h0")
    assert world.refusal() is None
    world.cluster.set_namespace(Namespace("team-a", {"tier": "gold"}))
    assert world.refusal() is not None
    world.cluster.remove_namespace("team-a")
    assert world.refusal() is None
    world.cluster.set_limits([OF_A])
    assert world.refusal() is not None
    world.cluster.set_limits(())
    assert world.refusal() is None


@pytest.fixture(scope="module")
def full() -> World:
    return World([OF_A], a_one="h0", b_two="h1", b_three="a0")


def helped(world: World, event: Event, request: Any = ONLY_H100) -> bool:
    refusal = world.refusal(request)
    assert refusal is not None
    pod, _ = world.asking(request, "team-a")
    return helps(pod, refusal, event)


def released(world: World, name: str) -> ClaimChanged:
    return ClaimChanged(world.claims[name], None)


def test_pod_at_its_limit_wakes_when_something_counted_comes_free_or_may_do_without(full: World) -> None:
    assert helped(full, released(full, "a_one"))
    assert not helped(full, released(full, "b_two")), "another tenant's device of the kind that counts"
    assert helped(full, released(full, "b_three"), EITHER), "a device that counts for no limit"
    assert helped(full, LimitsChanged())
    assert helped(full, NamespaceChanged(None, Namespace("team-a", {"tier": "gold"})))
    assert helped(full, SliceChanged(None, a_slice("new")))


def test_pod_at_its_limit_wakes_when_an_attempt_gives_back_what_counts(full: World) -> None:
    pod = a_user("other")
    assert helped(full, GivenBack(pod, (full.claims["a_one"],), "node-0"))
    assert not helped(full, GivenBack(pod, (full.claims["b_two"],), "node-0"))


def test_pod_without_devices_does_not_wake_for_limits() -> None:
    world = World([OF_A], b_1="h0", b_2="h1", b_3="h2")
    refusal = world.refusal()
    assert refusal is not None
    pod, _ = world.asking(ONLY_H100, "team-a")
    assert not helps(pod, refusal, LimitsChanged())
    assert helps(pod, refusal, released(world, "b_1"))


def test_pod_that_lacked_devices_before_is_told_of_the_limit() -> None:
    """Its condition is written again where the gist is another one."""
    before, now = World([OF_A], b_1="h0", b_2="h1", b_3="h2").refusal(), World([OF_A], a_one="h0").refusal()
    assert before is not None
    assert now is not None
    assert before.gist != now.gist


def come_and_go(world: World, tenants: Sequence[str]) -> None:
    for position, name in enumerate(tenants):
        namespace = f"team-{name}"
        world.cluster.set_namespace(Namespace(namespace, {"tier": "gold"} if position % 2 else {}))
        claim = an_allocated_claim(a_result("h0"), name=f"{name}-claim", namespace=namespace)
        world.cluster.set_claim(watched(claim, users=[]), 1)
        assert world.refusal(namespace=namespace) is not None
        world.cluster.remove_namespace(namespace)  # as a watch may show it, before what was in it
        world.cluster.remove_claim(claim.uid)
        assert world.refusal(namespace=namespace) is None
    world.cluster.violations()  # looked at every few seconds


def test_nothing_is_kept_of_tenants_that_are_gone_while_the_slices_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.limit_use.MOST_NAMESPACES", FEW)
    monkeypatch.setattr("allocator.memo.LEAST_CHANGES", 2 * FEW)  # half of them are forgotten at a time
    world = World([TenantLimit("each", Namespaces(each=True), CountedDevices(selectors=(H100,)), ONE_DEVICE)])
    come_and_go(world, [f"a{number}" for number in range(3 * AT_ONCE)])
    before = entries(world.cluster)
    come_and_go(world, [f"b{number}" for number in range(3 * AT_ONCE)])
    assert_nothing_has_grown(before, entries(world.cluster))


def test_tenant_at_its_limit_evicts_its_own_pods_alone() -> None:
    assert World([OF_A], a_own="h0", b_1="h1").victims() == ["a_own"]
    assert World([OF_A], b_1="h0", b_2="h1", b_3="h2").victims() == ["b_3"]


def test_tenant_at_its_limit_evicts_nobody_where_it_has_no_pod() -> None:
    zero = TenantLimit("zero", OF_A.namespaces, OF_A.counted, 0)
    assert World([zero], b_1="h0", b_2="h1", b_3="h2").victims() is None

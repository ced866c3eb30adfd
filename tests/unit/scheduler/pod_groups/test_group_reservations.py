"""What groups that have waited for long hold as it frees, and against whom."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from allocator.limit_use import limit_statuses
from allocator.limits import ONE_DEVICE, TenantLimit
from scheduler.core_v1.group_terms import GroupTerms
from scheduler.core_v1.pod import Owner, Pod, PodClaim
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import Placed
from scheduler.pod_groups.group import LABEL, GroupKey, GroupOfPods
from scheduler.pod_groups.group_placer import place_group
from scheduler.pod_groups.group_reservations import GroupReservations
from scheduler.pod_groups.group_result import GroupPlaced
from scheduler.state.cluster_changes import GivenBack
from tests.builders import (
    a_claim,
    a_class,
    a_container,
    a_node,
    a_pod,
    a_slice,
    amounts,
    kubernetes,
    on_node,
    watched,
)

AFTER_S = 60.0


class Fleet:
    """Nodes with two CPUs and one device each, in racks; a pod of one CPU is on each of the first `busy`."""

    def __init__(self, nodes: int, busy: int, *, racks: int = 1) -> None:
        self.cluster = cluster = Cluster(kubernetes(), is_ours=None)
        self.freed: list[GivenBack] = []
        self.sizes: Counter[GroupKey] = Counter()
        cluster.set_class(a_class())
        for number in range(nodes):
            name = f"n{number}"
            labels = {"rack": f"r{number % racks}"}
            cluster.set_node(a_node(name, labels, allocatable=amounts(cpu="2", pods="9")))
            cluster.set_slice(a_slice(f"gpu-{name}", name=f"slice-{name}", pool=name, reach=on_node(name)))
        for number in range(busy):
            cluster.set_pod(a_pod(a_container(cpu="1"), name=f"busy-{number}", node_name=f"n{number}"))
        self.reservations = GroupReservations(cluster, AFTER_S, self.sizes.__getitem__, self.freed.append)

    def group(self, name: str, pods: int, *, cpu: str = "2", priority: int = 0, devices: bool = False) -> GroupOfPods:
        members = []
        for place in range(pods):
            claim = f"claim-{name}-{place}"
            if devices:
                self.cluster.set_claim(watched(a_claim(name=claim)), 1)
            claims = (PodClaim("gpu", claim),) if devices else ()
            members.append(a_pod(a_container(cpu=cpu), name=f"{name}-{place}", priority=priority, claims=claims))
            self.cluster.set_pod(members[-1])
        group = GroupOfPods(GroupKey(LABEL, "default", name), tuple(members), pods, priority)
        self.sizes[group.key] = pods
        return group

    def fits(self, pod: Pod) -> bool:
        """Whether the pod has a place beside what is held."""
        with self.reservations.seen_by(pod):
            claims = self.cluster.claims_of(pod)
            assert isinstance(claims, list | tuple)
            return isinstance(decide(self.cluster, pod, [one.claim for one in claims]), Placed)

    def places(self, group: GroupOfPods) -> bool:
        with self.reservations.seen_by(group.waiting[0], group.key):
            return isinstance(place_group(self.cluster, group), GroupPlaced)

    def held(self, group: GroupOfPods) -> list[str]:
        found = self.reservations.of(group.key)
        return found.nodes if found else []


def small(name: str = "small", priority: int = 0) -> Pod:
    return a_pod(a_container(cpu="1"), name=name, priority=priority)


def test_nothing_is_held_before_the_time_and_then_where_the_fewest_pods_are() -> None:
    fleet = Fleet(3, 2)
    fleet.cluster.set_pod(a_pod(a_container(cpu="1"), name="more", node_name="n0"))
    group = fleet.group("g", 2)
    assert not fleet.reservations.refused(group, 0.0, AFTER_S - 1)
    assert fleet.fits(small())
    assert fleet.reservations.refused(group, 0.0, AFTER_S)
    assert fleet.held(group) == ["n1", "n2"]
    assert not fleet.fits(small())  # n2 is free, and is held
    assert not fleet.places(group)
    fleet.cluster.remove_pod("uid-busy-1")
    assert not fleet.fits(small())
    assert fleet.places(group)


def test_what_is_held_is_free_to_those_of_higher_priority() -> None:
    fleet = Fleet(2, 1)
    group = fleet.group("g", 2)
    assert fleet.reservations.refused(group, 0.0, AFTER_S)
    assert not fleet.fits(small())
    assert fleet.fits(small(priority=1))


def test_devices_in_use_are_held_from_the_moment_they_are_free() -> None:
    fleet = Fleet(2, 0)
    others = fleet.group("o", 1, cpu="0", devices=True)
    (own,) = place_group(fleet.cluster, others).members  # type: ignore[union-attr]
    fleet.cluster.reserve(own.pod, own.placed)
    group, rival = fleet.group("g", 2, cpu="0", devices=True), fleet.group("r", 1, cpu="0", devices=True)
    assert fleet.reservations.refused(group, 0.0, AFTER_S)
    fleet.cluster.unreserve(own.pod.uid)
    assert not fleet.fits(rival.members[0])
    assert fleet.places(group)


def test_one_that_holds_gives_up_after_the_same_time_and_others_have_their_turn() -> None:
    fleet = Fleet(2, 1)
    first, second = fleet.group("a", 2), fleet.group("b", 2)
    assert not fleet.reservations.refused(first, 0.0, 1.0)
    assert not fleet.reservations.refused(second, 1.0, AFTER_S + 1)  # the other one is first
    assert fleet.reservations.refused(first, 0.0, AFTER_S + 2)
    assert not fleet.reservations.refused(second, 1.0, AFTER_S + 3)
    fleet.reservations.end_old(2 * AFTER_S + 1)
    assert fleet.held(first)
    fleet.reservations.end_old(2 * AFTER_S + 2)
    assert not fleet.held(first)
    assert {one.node for one in fleet.freed} == {"n0", "n1"}
    assert not fleet.reservations.refused(first, 0.0, 2 * AFTER_S + 3)
    assert fleet.reservations.refused(second, 1.0, 2 * AFTER_S + 4)


def test_a_namespace_whose_groups_hold_in_vain_waits_longer_each_time() -> None:
    fleet, now, held = Fleet(2, 2), 0.0, list[float]()
    groups = [fleet.group(name, 2) for name in "abcdefgh"]
    while now < 60 * AFTER_S:
        if any(fleet.reservations.refused(group, 0.0, now) for group in groups):
            held.append(now)
        now += AFTER_S / 4
        fleet.reservations.end_old(now)
    between = [round((after - before) / AFTER_S) for before, after in pairwise(held)]
    assert between == [1, 1, 2, 3, 5, 9, 17]  # of which it holds something for 1
    fleet.reservations.placed(fleet.group("small", 1).key)  # it held nothing
    assert not any(fleet.reservations.refused(group, 0.0, now) for group in groups)
    now = held[-1] + 33 * AFTER_S
    holder = next(group for group in groups if fleet.reservations.refused(group, 0.0, now))
    fleet.reservations.placed(holder.key)
    assert any(fleet.reservations.refused(group, 0.0, now + 1) for group in groups)


def test_one_group_holds_a_domain_at_a_time_and_others_hold_other_domains() -> None:
    fleet = Fleet(4, 4, racks=2)
    first, second, third = (
        replace(fleet.group(name, 2), terms=GroupTerms(required="rack")) for name in ("a", "b", "c")
    )
    free = fleet.group("free", 2)
    assert fleet.reservations.refused(first, 0.0, AFTER_S)
    assert fleet.reservations.refused(second, 1.0, AFTER_S + 1)
    assert {tuple(fleet.held(one)) for one in (first, second)} == {("n0", "n2"), ("n1", "n3")}
    assert not fleet.reservations.refused(third, 2.0, AFTER_S + 2)
    assert not fleet.reservations.refused(free, 3.0, AFTER_S + 3)
    urgent = fleet.group("urgent", 4, priority=5)
    assert fleet.reservations.refused(urgent, 4.0, AFTER_S + 4)  # it takes what lower ones hold
    assert not fleet.held(first)
    assert not fleet.held(second)


def test_group_that_would_not_fit_whoever_ends_lets_others_go_first() -> None:
    fleet = Fleet(2, 1)
    own = replace(a_pod(a_container(cpu="1"), name="agent", node_name="n1"), owner=Owner("DaemonSet", "agent", "u"))
    fleet.cluster.set_pod(own)
    hopeless, modest = fleet.group("a", 2), fleet.group("b", 3, cpu="1")
    assert not fleet.reservations.refused(hopeless, 0.0, AFTER_S + 1)  # the agent of n1 stays
    assert fleet.reservations.refused(modest, 1.0, AFTER_S + 2)


def test_group_with_too_few_pods_holds_nothing_any_more() -> None:
    fleet = Fleet(2, 1)
    group = fleet.group("g", 2)
    assert fleet.reservations.refused(group, 0.0, AFTER_S)
    fleet.sizes[group.key] = 1
    fleet.reservations.end_old(AFTER_S + 1)
    assert fleet.fits(small())


def test_a_group_that_is_placed_holds_nothing_any_more() -> None:
    fleet = Fleet(2, 1)
    group = fleet.group("g", 2)
    assert fleet.reservations.refused(group, 0.0, AFTER_S)
    fleet.reservations.placed(group.key)
    assert fleet.fits(small())


@given(st.floats(0, 1e10))
@example(86.82761801673821)  # with 60 it adds up to a sum that is less than 60 more
def test_at_the_end_of_its_time_a_group_holds_nothing_any_more(since: float) -> None:
    """A simulation goes from moment to moment: it would stay at this one for ever. Sums of fractions are rounded."""
    fleet = Fleet(1, 1)
    group = fleet.group("g", 1)
    assert fleet.reservations.refused(group, since - 2 * AFTER_S, since)
    end = fleet.reservations.next_end()
    assert end is not None
    fleet.reservations.end_old(end)
    assert fleet.held(group) == []


def test_what_a_group_holds_for_when_others_have_ended_is_not_told_as_in_use_meanwhile() -> None:
    fleet = Fleet(1, 0)
    fleet.cluster.set_limits([TenantLimit("few", most=ONE_DEVICE)])
    others, group = (fleet.group(name, 1, cpu="0", devices=True) for name in ("o", "g"))
    (own,) = place_group(fleet.cluster, others).members  # type: ignore[union-attr]
    fleet.cluster.reserve(own.pod, own.placed)
    assert fleet.reservations.refused(group, 0.0, AFTER_S)
    with fleet.reservations.only_held():
        assert [one.used for one in limit_statuses(fleet.cluster.fleet.current)] == [ONE_DEVICE]
    fleet.cluster.unreserve(own.pod.uid)
    with fleet.reservations.only_held():
        assert [one.used for one in limit_statuses(fleet.cluster.fleet.current)] == [ONE_DEVICE]

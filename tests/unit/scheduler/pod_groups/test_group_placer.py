"""Where a group is placed, and what is said of one that is not."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

import pytest

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.model import Allocation
from scheduler.core_v1.group_terms import EXCLUSIVE, REQUIRED, GroupTerms
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.pod_group import CompositePodGroup, PodGroup
from scheduler.decision.cluster import Cluster
from scheduler.decision.time_limits import DecisionTimeLimit, TooLong
from scheduler.pod_groups.group import LABEL, GroupKey, GroupOfPods, groups_of
from scheduler.pod_groups.group_placer import missing_text, place_group
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced, GroupSteps, GroupUnknown
from tests.builders import (
    a_claim,
    a_class,
    a_container,
    a_node,
    a_pod,
    a_result,
    a_slice,
    amounts,
    kubernetes,
    on_node,
    watched,
)

RACKS = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1"}


def a_cluster(racks: Mapping[str, str] = RACKS, *, cpu: str = "4") -> Cluster:
    cluster = Cluster(kubernetes(), is_ours=None)
    for name, rack in racks.items():
        labels = {"rack": rack, "block": "b0"} if rack else {}
        cluster.set_node(a_node(name, labels, allocatable=amounts(cpu=cpu, pods="9")))
    return cluster


def occupy(cluster: Cluster, node: str, cpu: str) -> None:
    cluster.set_pod(a_pod(a_container(cpu=cpu), name=f"on-{node}", node_name=node))


def a_group(*cpus: str, least: int = 0, bound: str = "", **terms: object) -> GroupOfPods:
    members = [a_pod(a_container(cpu=cpu), name=f"g-{place}") for place, cpu in enumerate(cpus)]
    if bound:
        members[0] = replace(members[0], node_name=bound)
    wishes = GroupTerms(**terms)  # type: ignore[arg-type]
    return GroupOfPods(GroupKey(LABEL, "default", "g"), tuple(members), least or len(members), terms=wishes)


def nodes(found: object) -> dict[str, str]:
    assert isinstance(found, GroupPlaced), found
    return {one.pod.name: one.placed.node for one in found.members}


def refusal(found: object, pods: list[Pod]) -> str:
    assert isinstance(found, GroupNotPlaced), found
    return missing_text(found, pods)


def test_member_that_only_fits_where_another_one_would_go_gets_that_place() -> None:
    cluster = a_cluster({"n0": "", "n1": ""})
    occupy(cluster, "n1", "2")
    assert nodes(place_group(cluster, a_group("2", "2", "4", least=2, required=""))) == {"g-0": "n0", "g-1": "n0"}
    assert nodes(place_group(cluster, a_group("1", "4"))) == {"g-0": "n1", "g-1": "n0"}


def test_required_topology_keeps_all_members_in_one_domain() -> None:
    cluster = a_cluster()
    occupy(cluster, "n0", "4")
    found = place_group(cluster, a_group("4", "4", required="rack"))
    assert set(nodes(found).values()) == {"n2", "n3"}
    assert isinstance(found, GroupPlaced)
    assert found.domain == "r1"


def test_bound_member_says_which_domain_it_is() -> None:
    found = place_group(a_cluster(), a_group("1", "1", "1", bound="n2", required="rack"))
    assert set(nodes(found).values()) <= {"n2", "n3"}


def test_preferred_topology_is_the_narrowest_that_has_room() -> None:
    cluster = a_cluster()
    occupy(cluster, "n0", "2")
    two = a_group("4", "4", preferred=("block", "rack"))
    assert set(nodes(place_group(cluster, two)).values()) == {"n2", "n3"}
    three = a_group("4", "4", "4", preferred=("block", "rack"))
    assert set(nodes(place_group(cluster, three)).values()) == {"n1", "n2", "n3"}


def test_unknown_topology_is_refused_by_name() -> None:
    group = a_group("1", required="cage")
    text = refusal(place_group(a_cluster(), group), group.waiting)
    assert text == "no node has the label cage, by which group default/g must be kept together"


def test_exclusive_domains_have_one_group_each_way() -> None:
    cluster = a_cluster()
    other = {"dra-scheduler.dev/group": "other"}
    marks = {REQUIRED: "rack", EXCLUSIVE: "true", "dra-scheduler.dev/group-min": "1"}
    cluster.set_pod(a_pod(name="there", node_name="n0", labels=other, grouping=marks))
    assert set(nodes(place_group(cluster, a_group("1", required="rack"))).values()) <= {"n2", "n3"}
    shared = replace(cluster.pods.known("uid-there") or a_pod(), grouping={**marks, EXCLUSIVE: "false"})
    cluster.set_pod(shared)
    found = place_group(cluster, a_group("1", required="rack", exclusive=True))
    assert set(nodes(found).values()) <= {"n2", "n3"}


def test_refusal_names_the_largest_part_that_fits_the_next_member_and_what_is_missing() -> None:
    group = a_group("4", "4", "4", required="rack")
    text = refusal(place_group(a_cluster(), group), group.waiting)
    assert text == (
        "3 of 3 pods have to fit at once: "
        "in r0, 2 of 3 fit; pod g-2: 0/2 nodes are available: 2 Insufficient cpu.; "
        "in r1, 2 of 3 fit; pod g-2: 0/2 nodes are available: 2 Insufficient cpu."
    )


def test_search_that_ended_is_no_refusal() -> None:
    cluster = a_cluster({f"n{number}": "" for number in range(4)}, cpu="5")
    found = place_group(cluster, a_group("3", "3", "3", "3", "2", "2", "2", "2", "1"), most_steps=5)
    assert found == GroupUnknown(5)
    assert str(found) == "search ended after 5 steps: whether the group fits is not known"


def test_alike_members_and_nodes_are_counted_and_not_tried_one_by_one() -> None:
    cluster = a_cluster({f"n{number:03}": "" for number in range(100)})
    group = a_group(*["3"] * 101)
    found = place_group(cluster, group)
    assert isinstance(found, GroupNotPlaced)
    assert found.steps < 1_000
    assert "100 of 101 fit; pod g-100: 0/100 nodes are available: 100 Insufficient cpu." in refusal(
        found, group.waiting
    )


def test_more_than_all_nodes_have_together_is_refused_without_a_search() -> None:
    cluster = a_cluster({f"n{number:02}": "" for number in range(20)}, cpu="7")
    group = a_group(*["3", "2", "4"] * 15, "6")
    found = place_group(cluster, group)
    assert isinstance(found, GroupNotPlaced)
    assert found.steps < 20_000


def test_steps_of_a_search_end_with_the_time_of_its_decision() -> None:
    """None of them need ask anything that looks at the clock."""
    limit = DecisionTimeLimit(count().__next__, 10)
    steps = GroupSteps(10_000, limit.look)
    with pytest.raises(TooLong), limit.limited():
        take_all(steps)
    assert steps.taken < 1_000


def take_all(steps: GroupSteps) -> None:
    while True:
        steps.take()


@pytest.mark.parametrize("own", [0, 2])
def test_no_more_members_are_placed_than_a_claim_can_be_reserved_for(own: int) -> None:
    """They would all write, and take it back, again and again. own: members for whom it is reserved already."""
    cluster = Cluster(kubernetes(), is_ours=None)
    cluster.set_class(a_class())
    cluster.set_node(a_node("n0", allocatable=amounts(cpu="16", pods="99")))
    cluster.set_slice(a_slice("gpu-0", name="n0", pool="n0", reach=on_node("n0")))
    spec = (PodClaim("gpu", claim_name="shared"),)
    members = tuple(a_pod(name=f"g-{place}", claims=spec) for place in range(9))
    users = [a_pod(name=f"other-{number}") for number in range(RESERVED_FOR_MAX - 5)] + list(members[4 : 4 + own])
    claim = a_claim(name="shared", allocation=Allocation((a_result(pool="n0"),)))
    cluster.set_claim(watched(claim, users=users), 1)
    key = GroupKey(LABEL, "default", "g")
    refused = place_group(cluster, GroupOfPods(key, members, 6))
    assert "is reserved for 256 pods already" in refusal(refused, list(members))
    assert len(nodes(place_group(cluster, GroupOfPods(key, members, 5)))) == 5


def test_a_group_that_names_more_claims_than_are_looked_at_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.pod_groups.group_placer.MOST_CLAIMS", 5)
    cluster = a_cluster()
    cluster.set_claim(watched(a_claim(name="shared", allocation=Allocation((a_result(pool="n0"),)))), 1)
    entries = (PodClaim("a", claim_name="shared"), PodClaim("b", claim_name="shared"))
    members = tuple(a_pod(a_container(cpu="1"), name=f"g-{place}", claims=entries) for place in range(3))
    key = GroupKey(LABEL, "default", "g")
    refused = place_group(cluster, GroupOfPods(key, members, 3))
    told = "has 6 entries in spec.resourceClaims of its pods; at most 5 are looked at"
    assert f"group default/g {told}" in refusal(refused, list(members))
    assert "entries" not in str(place_group(cluster, GroupOfPods(key, members[:2], 2)))


@pytest.fixture
def few_calls() -> Iterator[None]:
    """Python calls fewer functions in each other than the groups have members."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 120)
    yield
    sys.setrecursionlimit(usual)


@pytest.mark.usefixtures("few_calls")
def test_group_of_more_slices_than_python_calls_functions_in_each_other_is_placed() -> None:
    cluster = a_cluster({f"n{number}": f"r{number % 4}" for number in range(20)}, cpu="9")
    assert len(nodes(place_group(cluster, a_group(*["1"] * 150, required="rack", slice_size=1)))) == 150


@pytest.mark.usefixtures("few_calls")
def test_tree_of_more_groups_than_python_calls_functions_in_each_other_is_placed() -> None:
    cluster = Cluster(kubernetes(), is_ours=None)
    cluster.set_node(a_node("n", {"rack": "r", "block": "b"}, allocatable=amounts(cpu="150", pods="150")))
    cluster.pod_groups.set(CompositePodGroup("default", "tree", "", 1))
    cluster.pod_groups.set(CompositePodGroup("default", "half", "", 150, parent="tree", topology=("block",)))
    for number in range(150):
        cluster.pod_groups.set(PodGroup("default", f"g{number}", "", 1, parent="half", topology=("rack",)))
    pods = [a_pod(a_container(cpu="1"), name=f"p{number}", group=f"g{number}") for number in range(150)]
    (group,) = groups_of(pods, cluster.pod_groups)
    assert len(nodes(place_group(cluster, group))) == len(pods)

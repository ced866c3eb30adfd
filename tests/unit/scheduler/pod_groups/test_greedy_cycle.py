"""kube-scheduler's own cycle for groups: greedy, with its words, and who would have to go for it."""

from dataclasses import replace

from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.greedy_cycle import GreedyCycle, greedy_cycles
from scheduler.pod_groups.group import POD_GROUP, GroupKey, GroupOfPods, GroupTree
from scheduler.pod_groups.group_placer import place_group
from scheduler.pod_groups.group_result import GroupPlaced
from tests.builders import a_container, a_pod
from tests.unit.scheduler.pod_groups.test_group_placer import a_cluster, a_group, occupy


def cycle(cluster: Cluster, group: GroupOfPods, *, by_topology: bool = False) -> GreedyCycle:
    (found,) = greedy_cycles(cluster, group, by_topology=by_topology)
    return found


def nodes(found: GreedyCycle) -> dict[str, str]:
    return {one.pod.name: one.placed.node for one in found.members if one.placed is not None}


def test_what_was_placed_is_not_taken_back_though_all_would_fit() -> None:
    cluster, group = a_cluster({"n0": "", "n1": ""}), a_group("2", "2", "4")
    found = cycle(cluster, group)
    assert found.reason == "Unschedulable"
    assert found.message == (
        "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, "
        "pod group preemption: No preemption victims found for incoming preemptor"
    )
    assert isinstance(place_group(cluster, group), GroupPlaced)


def test_members_say_of_themselves_or_of_the_group_why_they_are_not_placed() -> None:
    cluster, group = a_cluster({"n0": ""}), a_group("4", "4", "4")
    found = cycle(cluster, group)
    nobody = "pod group preemption: No preemption victims found for incoming preemptor"
    short = "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"
    assert [found.message_of(pod) for pod in group.members] == [
        f"pod group is unschedulable, {short}, {nobody}",
        "0/1 nodes are available: 1 Insufficient cpu.",
        short,
    ]


def test_group_whose_minimum_is_bound_and_that_places_nobody_is_refused_as_such() -> None:
    cluster = a_cluster({"n0": ""}, cpu="1")
    occupy(cluster, "n0", "1")
    found = cycle(cluster, a_group("1", "1", least=1, bound="n0"))
    assert (found.reason, found.placed) == ("Unschedulable", [])
    assert found.message.startswith("pod group is unschedulable, pod group preemption: ")


def test_domains_are_tried_only_where_the_gate_is_on() -> None:
    cluster = a_cluster()
    occupy(cluster, "n1", "4")
    group = a_group("4", "4", "4", required="rack")
    assert set(nodes(cycle(cluster, group)).values()) == {"n0", "n2", "n3"}
    refused = greedy_cycles(cluster, group, by_topology=True)
    assert {one.message.partition(": ")[0] for one in refused} == {
        "pod group is unschedulable, 0/2 placements are available, first placement status"
    }
    two = a_group("4", "4", required="rack")
    assert set(nodes(cycle(cluster, two, by_topology=True)).values()) == {"n2", "n3"}


def test_domain_for_more_members_goes_first_and_the_fuller_of_equals() -> None:
    cluster = a_cluster()
    occupy(cluster, "n3", "2")
    one = a_group("2", least=1, required="rack")
    assert set(nodes(cycle(cluster, one, by_topology=True)).values()) <= {"n2", "n3"}
    four = a_group("2", "2", "2", "2", least=3, required="rack")
    assert set(nodes(cycle(cluster, four, by_topology=True)).values()) == {"n0", "n1"}


def test_whoever_is_lower_goes_unless_the_members_still_pass_beside_it() -> None:
    cluster = a_cluster({"n0": ""})
    for name, cpu, priority in (("small", "1", 1), ("large", "2", 2), ("equal", "1", 9)):
        cluster.set_pod(a_pod(a_container(cpu=cpu), name=name, node_name="n0", priority=priority))
    group = a_group("1", "1")
    members = tuple(replace(pod, priority=9) for pod in group.members)
    found = cycle(cluster, replace(group, members=members, priority=9))
    assert [pod.name for unit in found.victims for pod in unit.pods] == ["large"]
    assert nodes(replace(found, members=found.nominated)) == {"g-0": "n0", "g-1": "n0"}
    assert found.message == (
        "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, "
        "pod group preemption: found a placement for podgroup, preempting 1 victims"
    )
    assert found.message_of(group.members[0]) == "0/1 nodes are available: 1 Insufficient cpu."


def test_group_with_unlike_members_is_an_error_and_one_that_is_held_says_nothing() -> None:
    cluster, group = a_cluster(), a_group("1", "1")
    found = cycle(cluster, replace(group, key=GroupKey(POD_GROUP, "default", "g"), problem="got 1 and 2"))
    assert (found.reason, found.message) == ("SchedulerError", "got 1 and 2")
    assert found.message_of(group.members[0]) == "got 1 and 2"
    assert greedy_cycles(cluster, replace(group, held="waits"), by_topology=False) == []


def test_group_of_groups_is_not_run_as_kube_scheduler_runs_it_and_says_so() -> None:
    cluster, group = a_cluster({"n0": ""}), replace(a_group("2"), tree=GroupTree("g", 1))
    found = cycle(cluster, group)
    assert found.reason == "SchedulerError"
    assert found.message.endswith(": what kube-scheduler does with groups of groups is not copied")

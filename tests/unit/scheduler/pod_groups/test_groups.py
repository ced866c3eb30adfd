"""Which pods wait for others of their group, and when operators are told that they do."""

import pytest

from allocator.gates import Features
from scheduler.core_v1.group_terms import GROUP, MINIMUM
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import CompositePodGroup, PodGroup
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import COMPOSITE, LABEL, POD_GROUP, GroupKey
from scheduler.pod_groups.groups import HELD_S, Groups
from scheduler.state.cluster_changes import Event, PodChanged, PodGroupChanged
from tests.builders import a_pod

KEY = GroupKey(POD_GROUP, "default", "g")


class GroupRoom:
    """A cluster of pods alone, its groups, and the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cluster = Cluster(Features.of("1.37"), is_ours=lambda _: True)
        self.groups = Groups(self.cluster, lambda: self.now, is_ours=lambda pod: pod.scheduler_name != "another")

    def show(self, pod: Pod, old: Pod | None = None) -> set[str]:
        self.cluster.set_pod(pod)
        return self.woken(PodChanged(old, pod))

    def remove(self, pod: Pod) -> set[str]:
        self.cluster.remove_pod(pod.uid)
        return self.woken(PodChanged(pod, None))

    def set_group(self, minimum: int) -> set[str]:
        group = PodGroup("default", "g", "uid-g", minimum)
        old = self.cluster.pod_groups.get("default", "g")
        self.cluster.pod_groups.set(group)
        return self.woken(PodGroupChanged(old, group))

    def woken(self, event: Event) -> set[str]:
        """Which pods are looked at, where none can be tried."""
        looked_at: list[str] = []

        def look_again(uid: str) -> bool:
            looked_at.append(uid)
            return False

        self.groups.wake(self.groups.on_event(event), look_again)
        for pod in self.cluster.pods.pending():
            self.groups.gate(pod)
        return set(looked_at)

    def late(self) -> list[str]:
        return [text for _, text in self.groups.late(self.now)]


@pytest.fixture
def room() -> GroupRoom:
    return GroupRoom()


def member(name: str, **fields: object) -> Pod:
    return a_pod(name=name, group="g", **fields)


def labelled(name: str, minimum: int) -> Pod:
    return a_pod(name=name, labels={GROUP: "g"}, grouping={MINIMUM: str(minimum)})


def test_pod_of_its_own_waits_for_nobody(room: GroupRoom) -> None:
    pod = a_pod(name="single")
    assert room.show(pod) == set()
    assert room.groups.gate(pod) == ""


def test_members_wait_for_their_group_and_for_its_minimum(room: GroupRoom) -> None:
    first, second = member("a"), member("b")
    room.show(first)
    assert room.groups.gate(first) == 'waiting for pods\'s pod group "g" to appear in scheduling queue'
    assert room.set_group(2) == {first.uid}
    assert room.groups.gate(first) == "waiting for minCount pods from a gang to appear in scheduling queue"
    assert room.show(second) == {first.uid, second.uid}
    assert room.groups.gate(first) == ""
    assert room.remove(second) == set()
    assert room.groups.gate(first)
    assert room.set_group(1) == {first.uid}
    assert room.groups.gate(first) == ""


def test_labelled_members_wait_for_as_many_as_they_say(room: GroupRoom) -> None:
    first, second = labelled("a", 2), labelled("b", 2)
    room.show(first)
    assert room.groups.gate(first) == "waiting for 1 of 2 pods of group default/g"
    room.show(second)
    assert room.groups.gate(first) == ""
    assert room.groups.group(GroupKey(LABEL, "default", "g")).minimum == 2


def test_report_of_a_pod_that_changes_nothing_wakes_nobody(room: GroupRoom) -> None:
    first = member("a")
    room.set_group(1)
    room.show(first)
    assert room.show(member("a", phase="Pending", labels={"x": "y"}), first) == set()
    assert room.show(member("a", gates=("wait",)), first) == {first.uid}


def test_assumed_member_counts_as_placed(room: GroupRoom) -> None:
    first = member("a")
    room.show(first)
    room.set_group(1)
    room.cluster.pods.assume(first, "node")
    assert [pod.node_name for pod in room.groups.group(KEY).members] == ["node"]


def test_group_that_waits_for_long_is_reported_once_with_what_is_missing(room: GroupRoom) -> None:
    room.set_group(3)
    room.show(member("a"))
    room.now = HELD_S - 1
    assert room.late() == []
    room.now = HELD_S
    assert room.late() == ["waiting for 2 of 3 pods of group default/g to be created"]
    room.now = 10 * HELD_S
    room.show(member("b"))
    assert room.late() == []


def test_group_that_was_complete_waits_anew(room: GroupRoom) -> None:
    room.set_group(2)
    second = member("b")
    room.show(member("a"))
    room.now = HELD_S - 1
    room.show(second)
    room.now = HELD_S
    assert room.late() == []
    room.remove(second)
    room.now = 2 * HELD_S - 1
    assert room.late() == []
    room.now = 2 * HELD_S
    assert room.late() == ["waiting for 1 of 2 pods of group default/g to be created"]


def test_pods_of_another_scheduler_are_no_members(room: GroupRoom) -> None:
    room.set_group(2)
    own, other = member("a"), member("b", scheduler_name="another")
    room.show(own)
    assert room.show(other) == set()
    assert room.groups.gate(own)
    assert room.groups.gate(other) == ""


def test_groups_of_pods_that_wait_say_how_many_do_and_what_for(room: GroupRoom) -> None:
    first, second, alone = labelled("a", 3), labelled("b", 3), a_pod(name="single")
    bound = a_pod(name="c", labels={GROUP: "other"}, grouping={MINIMUM: "1"}, node_name="node-0")
    for pod in (first, second, alone, bound):
        room.show(pod)
    common = {"group": "default/g", "source": LABEL, "minimum": 3}
    (found,) = room.groups.waiting([first, alone, second])
    assert found == {**common, "pods": 2, "waiting": 2, "reason": "waiting for 1 of 3 pods of group default/g"}
    room.show(labelled("d", 3))
    (found,) = room.groups.waiting([first])
    assert found == {**common, "pods": 3, "waiting": 1, "reason": ""}


def show_object(room: GroupRoom, group: PodGroup | CompositePodGroup) -> set[str]:
    room.cluster.pod_groups.set(group)
    return room.woken(PodGroupChanged(None, group))


def test_pods_of_a_tree_wait_for_enough_groups_with_enough_pods_and_are_then_looked_at_together(
    room: GroupRoom,
) -> None:
    left, right = a_pod(name="left", group="left"), a_pod(name="right", group="right")
    room.show(left)
    show_object(room, PodGroup("default", "left", "uid-left", 1, parent="tree"))
    assert room.groups.gate(left) == (
        'pod group "left" or one of its composite pod group ancestors has not been created yet'
    )
    show_object(room, CompositePodGroup("default", "tree", "uid-tree", 2))
    quorum = "waiting for CompositePodGroup default/tree to meet its quorum: "
    assert room.groups.gate(left) == f"{quorum}it has 1 of 2 groups"
    show_object(room, PodGroup("default", "right", "uid-right", 1, parent="tree"))
    assert room.groups.gate(left) == f"{quorum}PodGroup right has 0 of 1 pods"
    room.now = HELD_S
    assert room.late() == [f"{quorum}PodGroup right has 0 of 1 pods"]
    assert room.show(right) == {left.uid, right.uid}
    assert room.groups.gate(left) == ""
    tree = GroupKey(COMPOSITE, "default", "tree")
    assert room.groups.key_of(left) == room.groups.key_of(right) == tree
    assert set(room.groups.members(tree)) == {left.uid, right.uid}
    (group,) = room.groups.all()
    assert [(str(own), has_enough) for own, has_enough in room.groups.objects_of(group)] == [
        ("default/tree", False),
        ("default/left", False),
        ("default/right", False),
    ]
    assert room.remove(right) == set()
    assert room.groups.gate(left) == f"{quorum}PodGroup right has 0 of 1 pods"


def test_pods_of_a_tree_that_loses_its_root_wait_for_it(room: GroupRoom) -> None:
    pod = a_pod(name="left", group="left")
    room.show(pod)
    root = CompositePodGroup("default", "tree", "uid-tree", 1)
    show_object(room, root)
    assert show_object(room, PodGroup("default", "left", "uid-left", 1, parent="tree")) == {pod.uid}
    assert room.groups.gate(pod) == ""
    room.cluster.pod_groups.remove(root)
    assert room.woken(PodGroupChanged(root, None)) == {pod.uid}
    assert "has not been created yet" in room.groups.gate(pod)

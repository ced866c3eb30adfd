"""What trees of groups have is kept by change: it is what a count made anew says, and no event costs a whole tree."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from types import FrameType
from typing import Any

import pytest

from allocator.gates import Features
from scheduler.core_v1.group_terms import EXCLUSIVE, REQUIRED
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.core_v1.pod_group import AnyPodGroup, CompositePodGroup, PodGroup
from scheduler.decision.cluster import Cluster
from scheduler.plugins.plugin import OF_GROUP, Refusal
from scheduler.pod_groups.group import COMPOSITE, POD_GROUP, GroupKey, group_of, not_created
from scheduler.pod_groups.groups import Groups, GroupsToWake
from scheduler.queue import ASKED_EVERY_S, PodPlace, Queue
from scheduler.state.cluster_changes import PodChanged, PodGroupChanged
from scheduler.state.pod_groups import MOST_POD_GROUPS, NOTHING, PodGroupIndex, index_of
from scheduler.state.pods import pod_requests
from tests import extent
from tests.builders import a_pod

HISTORIES = extent.chosen("GROUP_HISTORIES", 60, 5_000)
SEED = extent.chosen("GROUP_SEED", 1, extent.day())
EVENTS = 60
REFUSAL = Refusal(frozenset({OF_GROUP}), pod_requests(Pod("", "")))


class Room:
    """A cluster of pods alone, its groups, and the queue that asks them."""

    def __init__(self) -> None:
        self.cluster = Cluster(Features.of("1.37"), is_ours=lambda _: True)
        self.groups = Groups(self.cluster, lambda: 0.0)
        self.queue = Queue(0.0, gate=self._gate, on_move=lambda _place, _why: None)
        self.now = 0.0
        self.objects: dict[tuple[str, str], AnyPodGroup] = {}
        self.pods: dict[str, Pod] = {}

    def _gate(self, pod: Pod) -> str:
        return "waiting for claims" if pod.claims else self.groups.gate(pod)

    def attempt(self) -> None:
        """All members of the next pod's group are tried, and refused."""
        self.now += 100
        if (entry := self.queue.pop(self.now)) is None:
            return
        key = self.groups.key_of(entry.pod)
        assert key is not None
        if self.groups.gate(entry.pod):
            self.queue.held(entry.pod.uid, self.now, self.now)
            return
        uids = [entry.pod.uid, *(uid for uid in self.groups.members(key) if self.queue.take(uid, self.now))]
        for uid in uids:
            self.queue.refused(uid, REFUSAL, self.now)

    def set(self, group: AnyPodGroup) -> None:
        old = self.objects.get(of_kind(group))
        self.objects[of_kind(group)] = group
        self.cluster.pod_groups.set(group)
        self._wake(self.groups.on_event(PodGroupChanged(old, group)))

    def remove(self, group: AnyPodGroup) -> None:
        del self.objects[of_kind(group)]
        self.cluster.pod_groups.remove(group)
        self._wake(self.groups.on_event(PodGroupChanged(group, None)))

    def show(self, pod: Pod, *, tells_old: bool = True) -> None:
        old = self.pods.get(pod.uid) if tells_old else None
        self.pods[pod.uid] = pod
        self.cluster.set_pod(pod)
        groups = self.groups.on_event(PodChanged(old, pod))
        if pod.node_name or pod.is_over:
            self.queue.remove(pod.uid)
        else:
            self.queue.add(pod, self.now)
        self._wake(groups)

    def take(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        self.cluster.remove_pod(pod.uid)
        groups = self.groups.on_event(PodChanged(pod, None))
        self.queue.remove(pod.uid)
        self._wake(groups)

    def _wake(self, groups: Sequence[GroupsToWake]) -> None:
        self.groups.wake(groups, lambda uid: self.queue.look_again(uid, self.now, "test"))


def of_kind(group: AnyPodGroup) -> tuple[str, str]:
    return type(group).__name__, group.name


# -- the same as a count made anew


@pytest.mark.parametrize("number", range(HISTORIES))
def test_what_is_kept_is_what_a_count_made_anew_says(number: int) -> None:
    random, room = Random(f"{SEED}/{number}"), Room()  # noqa: S311 - histories, no secrets
    for _ in range(EVENTS):
        happen(random, room)
        assert_nobody_is_forgotten(room)
    assert_as_made_anew(room)
    room.now += ASKED_EVERY_S
    told = {entry.pod.uid: entry.gate for entry in room.queue.long_gated(room.now)}
    assert_nobody_is_forgotten(room, is_late=True)
    assert all(text == room._gate(room.pods[uid]) for uid, text in told.items())
    for group in list(room.objects.values()):
        room.remove(group)
    for pod in list(room.pods.values()):
        room.take(pod)
    assert room.cluster.pod_groups._nodes == {}
    assert (room.groups._members, room.groups._waiting, room.groups._held_since) == ({}, {}, {})


def happen(random: Random, room: Room) -> None:
    """One event: of few names, so that groups come before and after those around them, and are in one another."""
    kind = random.choice(("pod", "pod", "group", "group", "composite", "composite", "attempt"))
    gone = random.random() < 0.3
    if kind == "attempt":
        room.attempt()
        return
    if kind == "pod":
        name = f"pod-{random.randrange(6)}"
        if gone and (pod := room.pods.get(f"uid-{name}")):
            room.take(pod)
        else:
            more: dict[str, Any] = {"priority": random.choice((0, 0, 0, 1))}
            more |= {"node_name": "node"} if random.random() < 0.2 else {}
            more |= {"phase": "Succeeded"} if random.random() < 0.1 else {}
            more |= {"claims": (PodClaim("own", "missing"),)} if name == "pod-0" else {}
            pod = a_pod(name=name, group=f"g-{random.randrange(4)}", **more)
            room.show(pod, tells_old=random.random() < 0.8)  # simulations do not tell what it was
        return
    name = f"g-{random.randrange(4)}" if kind == "group" else f"c-{random.randrange(6)}"
    known = room.objects.get(("PodGroup" if kind == "group" else "CompositePodGroup", name))
    if gone and known:
        room.remove(known)
    elif kind == "group":
        room.set(PodGroup("default", name, "", **fields(random)))
    else:
        room.set(CompositePodGroup("default", name, "", **fields(random)))


def fields(random: Random) -> dict[str, Any]:
    odd = random.random() < 0.1
    return {
        "minimum": random.choice((None, 1, 1, 2)) if odd else random.choice((1, 2)),
        "parent": random.choice(("", *(f"c-{number}" for number in range(6)))),
        "priority": random.choice((None, 0, 1)) if odd else 0,
        "preempts": not odd or random.random() < 0.5,
        "goes_whole": odd and random.random() < 0.5,
        "workload": "other" if odd and random.random() < 0.3 else "",
        "annotations": {EXCLUSIVE: "true", REQUIRED: "zone"} if odd and random.random() < 0.2 else {},
    }


def assert_nobody_is_forgotten(room: Room, *, is_late: bool = False) -> None:
    """Of each group that has what it needs one is tried, if one waits as if others were missing.

    is_late: also those that are refused whatever comes are known to be; until a minute ago they may have waited.
    """
    for entry in (room.queue.get(uid) for uid in room.pods):
        if entry is None or entry.place is not PodPlace.GATED or entry.pod.claims:
            continue
        key = room.groups.key_of(entry.pod)
        assert key is not None
        is_met = key.source != COMPOSITE or room.cluster.pod_groups.state("default", key.name).is_met
        if not room.groups.gate(entry.pod) and (is_met or is_late):
            assert any(room.queue.is_tried(uid) for uid in room.groups.members(key)), (str(entry.pod), entry.gate)


def assert_as_made_anew(room: Room) -> None:
    counts = Counter(pod.group for pod in room.pods.values() if not pod.is_over)
    anew = index_of(())
    for group in sorted(room.objects.values(), key=lambda one: one.name, reverse=True):
        anew.set(group)
    for name, pods in counts.items():
        waiting = bool(room.groups._waiting.get(GroupKey(POD_GROUP, "default", name)))
        anew.count("default", name, pods, is_waiting=waiting)
    kept = room.cluster.pod_groups
    for name in {f"c-{number}" for number in range(6)}:
        assert kept.state("default", name) == anew.state("default", name)
        assert kept.first_with_few("default", name) == anew.first_with_few("default", name)
        if (composite := kept.composite("default", name)) is not None and kept.root_name(composite) in ("", name):
            assert_as_its_tree(composite, room, counts)
    for pod in room.pods.values():
        if not pod.is_over and not pod.node_name:
            assert room.groups.gate(pod) == gate_by_tree(pod, room)


def assert_as_its_tree(root: CompositePodGroup, room: Room, counts: Counter[str]) -> None:
    """Read from its root on."""
    index = room.cluster.pod_groups
    state, group = index.state("default", root.name), group_of(GroupKey(COMPOSITE, "default", root.name), (), index)
    assert state.is_wrong == bool(group.problem), group.problem
    if group.problem or group.tree is None:
        return
    assert state.is_met == group.tree.is_met(counts)
    assert state.pod_groups == len(group.tree.pod_groups)
    assert state.pods == group.tree.pods_of(counts)
    assert state.groups == len(group.tree.children or ())


def gate_by_tree(pod: Pod, room: Room) -> str:
    """As its whole group says."""
    index = room.cluster.pod_groups
    key = room.groups.key_of(pod)
    assert key is not None
    members = [one for one in room.pods.values() if not one.is_over and room.groups.key_of(one) == key]
    if key.source != COMPOSITE:
        whole = group_of(key, members, index)
        return whole.held
    if index.composite("default", key.name) is None:
        return not_created(pod.group)
    return "" if group_of(key, [pod], index).problem else group_of(key, members, index).held


# -- what an event costs

MOST_CALLS = 450
"""Of Python's functions, for an event; also for those with all levels of a tree."""


def calls(action: Callable[[], object]) -> int:
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def leaf(number: int, **more: Any) -> PodGroup:
    return PodGroup("default", f"g-{number:04}", f"uid-{number}", **{"minimum": 1, "parent": "tree", **more})


def member(number: int, **more: Any) -> Pod:
    return a_pod(**{"name": f"pod-{number:04}", "group": f"g-{number:04}", **more})


Steps = Iterator[Callable[[], object]]


def a_tree_that_waits(room: Room, groups: int) -> Steps:
    """All come, one after the other, and have too few at the end."""
    yield partial(room.set, CompositePodGroup("default", "tree", "uid", groups + 1))
    for number in range(groups):
        yield partial(room.set, leaf(number))
        yield partial(room.show, member(number))


def a_tree_of_which_one_is_enough(room: Room, groups: int) -> Steps:
    """All come, are tried, say so, change, are bound, and go."""
    yield partial(room.set, CompositePodGroup("default", "tree", "uid", 1))
    for number in range(groups):
        yield partial(room.set, leaf(number))
        yield partial(room.show, member(number))
    for number in range(groups):
        yield partial(room.set, leaf(number, is_scheduled=True))
        yield partial(room.set, leaf(number, minimum=1 + number % 2))
        yield partial(room.show, member(number, node_name="node"))
    for number in range(groups):
        yield partial(room.take, member(number))
        yield partial(room.remove, leaf(number))


def a_tree_without_its_root(room: Room, groups: int) -> Steps:
    for number in range(groups):
        yield partial(room.show, member(number))
        yield partial(room.set, leaf(number))
    for number in range(groups):
        yield partial(room.take, member(number))


def a_tree_that_is_wrong(room: Room, groups: int) -> Steps:
    yield partial(room.set, CompositePodGroup("default", "tree", "uid", groups, priority=1))
    for number in range(groups):
        yield partial(room.set, leaf(number))
        yield partial(room.show, member(number))


def link(number: int) -> CompositePodGroup:
    return CompositePodGroup("default", f"c-{number}", "", 1, parent=f"c-{number + 1}")


def a_chain(room: Room, groups: int) -> Steps:
    """Each group is in the next one; pods come and go at its end."""
    for number in range(groups):
        yield partial(room.set, link(number))
    yield partial(room.set, leaf(0, parent="c-0"))
    for number in range(groups):
        yield partial(room.show, a_pod(name=f"pod-{number}", group="g-0000"))
    yield partial(room.remove, link(groups // 2))


def a_circle(room: Room, groups: int) -> Steps:
    yield from a_chain(room, groups)
    yield partial(room.set, link(groups // 2))
    yield partial(room.set, replace(link(groups), parent="c-0"))
    for number in range(groups):
        yield partial(room.take, a_pod(name=f"pod-{number}", group="g-0000"))
    yield partial(room.remove, replace(link(groups), parent="c-0"))


def a_group_that_pods_join(room: Room, groups: int) -> Steps:
    """One PodGroup alone, of which one pod is enough."""
    yield partial(room.set, leaf(0, parent=""))
    for number in range(groups):
        yield partial(room.show, member(0, name=f"pod-{number}"))
        yield partial(room.set, leaf(0, parent="", minimum=1 + number % 2))
    for number in range(groups):
        yield partial(room.show, member(0, name=f"pod-{number}", node_name="node"))


def a_group_whose_claims_never_come(room: Room, groups: int) -> Steps:
    """Its pods are looked at once, and not each time that one more makes it complete, or another goes."""
    yield partial(room.set, leaf(0, parent="", minimum=groups + 1))
    for number in range(groups):
        yield partial(room.show, member(0, name=f"pod-{number}", claims=(PodClaim("own", "missing"),)))
    for _ in range(groups):
        yield partial(room.show, member(0, name="last", claims=(PodClaim("own", "missing"),)))
        yield partial(room.take, member(0, name="last"))
    yield partial(room.set, leaf(0, parent="", minimum=1))
    for _ in range(groups):
        yield partial(room.show, member(0, name="last", claims=(PodClaim("own", "missing"),)))
        yield partial(room.take, member(0, name="last"))


HISTORIES_OF_ONE_TREE = (
    a_group_whose_claims_never_come,
    a_tree_that_waits,
    a_tree_of_which_one_is_enough,
    a_tree_without_its_root,
    a_tree_that_is_wrong,
    a_chain,
    a_circle,
    a_group_that_pods_join,
)


@pytest.mark.parametrize("history", HISTORIES_OF_ONE_TREE)
def test_no_event_costs_more_where_a_tree_has_more_groups(history: Callable[[Room, int], Steps]) -> None:
    room = Room()
    costs = [calls(step) for step in history(room, 150)]
    assert sum(costs) / len(costs) <= MOST_CALLS


# -- trees that are too large


def test_tree_of_more_groups_than_can_be_placed_is_refused_by_name_and_read_no_further() -> None:
    index = PodGroupIndex()
    index.set(CompositePodGroup("default", "tree", "uid", 1))
    for number in range(MOST_POD_GROUPS):
        index.set(leaf(number))
    key = GroupKey(COMPOSITE, "default", "tree")
    assert not group_of(key, (), index).problem
    assert not index.state("default", "tree").is_wrong
    index.set(leaf(MOST_POD_GROUPS))
    assert index.state("default", "tree").is_wrong
    assert group_of(key, [member(0)], index).problem == (
        "CompositePodGroup default/tree: 1001 PodGroups are in it by their spec.parentCompositePodGroupName, "
        "more than 1000"
    )
    index.remove(leaf(7))
    assert not index.state("default", "tree").is_wrong
    assert index.state("default", "none") == NOTHING

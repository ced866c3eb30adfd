"""Whose turn it is, whatever pile one namespace has: priorities first, then namespaces by what they have used."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core_v1.pod import Pod
from scheduler.fair_queue import AHEAD_MOST
from scheduler.queue import PodPlace, Queue, QueuedPod
from tests.builders import a_pod
from tests.unit.scheduler.churn import entries

NAMESPACES = ("a", "b", "c")
COSTS = st.sampled_from([0.001, 0.003, 0.05, 1.0, AHEAD_MOST])
Step = tuple[str, str, int, float]

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "pop", "pop", "pop", "rest", "wait", "first", "change", "remove"]),
        st.sampled_from(NAMESPACES),
        st.integers(0, 5),
        COSTS,
    ),
    max_size=60,
)


class Room:
    """A queue, and the time. Pods whose names are even rest."""

    def __init__(self) -> None:
        self.now = 10.0
        self.rests_until = 0.0
        self.queue = Queue(self.now, gate=lambda _: "", on_move=lambda *_: None)
        self.number = 0

    def add(self, namespace: str, priority: int = 0) -> Pod:
        self.number += 1
        pod = replace(a_pod(name=f"{self.number}", priority=priority), namespace=namespace)
        self.queue.add(pod, self.now)
        return pod

    def active(self) -> list[QueuedPod]:
        entries = [self.queue.get(pod.uid) for pod in self.queue.pods()]
        return [one for one in entries if one and one.place is PodPlace.ACTIVE]

    def try_next(self, cost: float) -> Pod | None:
        """The pod whose turn it is; its attempt costs so much."""
        found = self.queue.pop(self.now)
        if found is None:
            return None
        self.queue.done(found.pod.uid)
        self.queue.used(found.pod, cost)
        return found.pod


def rests(pod: Pod) -> bool:
    return int(pod.name) % 2 == 0


def take(room: Room, step: Step) -> None:
    what, namespace, size, cost = step
    match what:
        case "add":
            room.add(namespace, size % 2)
        case "pop":
            look_and_pop(room, cost)
        case "rest":
            room.rests_until = room.now + size / 10
            room.queue.rest(room.rests_until, rests)
        case "wait":
            room.now += size / 4
        case "first":
            for entry in room.active()[size : size + 1]:
                room.queue.goes_first(entry.pod.uid)
        case "change":
            for entry in room.active()[size : size + 1]:
                room.queue.add(replace(entry.pod, priority=1), room.now)
        case _:
            for entry in room.active()[:size]:
                room.queue.remove(entry.pod.uid)


def look_and_pop(room: Room, cost: float) -> None:
    active = room.active()
    highest = max((one.pod.priority or 0 for one in active), default=0)
    of_highest = [one for one in active if one.pod.priority == highest]
    lanes: dict[str, list[QueuedPod]] = {}
    for one in of_highest:
        lanes.setdefault("" if not one.since else one.pod.namespace, []).append(one)
    heads = [min(lane, key=lambda one: one.order) for lane in lanes.values()]
    may_go = [one.pod for one in heads if room.now >= room.rests_until or not rests(one.pod)]
    ready = room.queue.next_ready(room.now)
    found = room.try_next(cost)
    assert found in may_go if may_go else found is None
    assert ready == (room.now if may_go else room.rests_until if active else None)
    if may_go and "" in lanes and (first := min(lanes[""], key=lambda one: one.order).pod) in may_go:
        assert found == first


@given(steps)
def test_a_higher_priority_never_waits_for_a_lower_one_and_a_namespace_keeps_its_order(taken: list[Step]) -> None:
    room = Room()
    for step in taken:
        take(room, step)
    room.now = max(room.now, room.rests_until)
    while room.active():
        look_and_pop(room, 0.001)


@given(st.data())
def test_pod_waits_for_one_turn_of_each_other_namespace_whatever_pile_they_have(data: st.DataObject) -> None:
    room = Room()
    piles = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=6), label="piles")
    for number, pile in enumerate(piles):
        for _ in range(pile):
            room.add(f"pile-{number}")
            room.add(f"pile-{number}", priority=-1)
    for _ in range(data.draw(st.integers(0, sum(piles)), label="turns before")):
        room.try_next(data.draw(COSTS))
    new = room.add("new")
    turns = [room.try_next(data.draw(COSTS)) for _ in range(len(piles) + 1)]
    assert new in turns
    before = [one.namespace for one in turns[: turns.index(new)] if one]
    assert len(before) == len(set(before))


@given(st.lists(COSTS, min_size=30, max_size=60))
def test_namespaces_that_always_have_pods_use_as_much_as_each_other(costs: list[float]) -> None:
    room = Room()
    for _ in range(60):
        for namespace in NAMESPACES:
            room.add(namespace)
    used = dict.fromkeys(NAMESPACES, 0.0)
    for cost in costs:
        pod = room.try_next(cost)
        assert pod is not None
        used[pod.namespace] += cost
        assert max(used.values()) - min(used.values()) <= 2 * max(costs)


@given(st.lists(st.tuples(st.sampled_from(NAMESPACES), st.integers(0, 2)), max_size=40))
def test_where_nothing_is_counted_the_order_is_that_of_pods_alone(added: list[tuple[str, int]]) -> None:
    """As in simulations, where nobody waits for the decisions of others."""
    room = Room()
    pods = [room.add(namespace, priority) for namespace, priority in added]
    assert [room.try_next(0.0) for _ in pods] == sorted(pods, key=lambda pod: -(pod.priority or 0))


def test_little_is_kept_of_pods_that_leave_while_those_of_a_higher_priority_have_their_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.fair_queue.MOST_FLOWS", 16)
    room = Room()
    room.add("busy", 1)
    stays = [room.add(f"stays-{number}") for number in range(10)]
    for number in range(4000):
        namespace = NAMESPACES[number % 3] if number % 2 else f"new-{number}"
        room.queue.remove(room.add(namespace).uid)
        room.queue.goes_first(stays[number % 10].uid)
    assert max(entries(room.queue).values()) < 1000
    tried = [room.try_next(0.001) for _ in range(11)]
    assert all(pod in tried for pod in stays)

"""Whose turn it is, where namespaces yield: as if all pods were looked at each time."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.schedule_result import NamespaceShare
from scheduler.queue import PodPlace, Queue, QueuedPod
from tests.builders import a_pod

NAMESPACES = ("a", "b", "c")
Step = tuple[str, str, int]

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "pop", "pop", "spend", "rest", "wait", "remove"]),
        st.sampled_from(NAMESPACES),
        st.integers(0, 5),
    ),
    max_size=60,
)


class Turns:
    """A queue, the share of each namespace, and the time."""

    def __init__(self) -> None:
        self.now = 10.0
        self.share = NamespaceShare()
        self.queue = Queue(self.now, gate=lambda _: "", on_move=lambda *_: None)
        self.number = 0

    def do(self, step: Step) -> None:
        what, namespace, size = step
        match what:
            case "add":
                self.number += 1
                pod = a_pod(name=f"{self.number}", priority=size % 2)
                self.queue.add(replace(pod, namespace=namespace), self.now)
            case "pop":
                self.pop()
            case "spend":
                self.share.spent_on_group(namespace, size / 100, self.now)
            case "rest":
                self.share.rest(size / 10, self.now)
            case "wait":
                self.now += size / 4
            case _:
                for entry in self.active()[:size]:
                    self.queue.remove(entry.pod.uid)

    def active(self) -> list[QueuedPod]:
        entries = [self.queue.get(pod.uid) for pod in self.queue.pods()]
        return [one for one in entries if one and one.place is PodPlace.ACTIVE]

    def pop(self) -> None:
        active = self.active()
        first = [one for one in active if self.share.yields_until(one.pod.namespace) <= self.now]
        if not first and active and self.now >= self.share.rests_until:
            least = min(self.share.yields_until(one.pod.namespace) for one in active)
            first = [one for one in active if self.share.yields_until(one.pod.namespace) == least]
        found = self.queue.pop(self.now, self.share.yields_until, self.share.rests_until)
        assert (found is None) == (not first)
        if found is None:
            assert self.queue.next_ready(self.now) == (self.share.rests_until if active else None)
            return
        own = [one.order for one in first if one.pod.namespace == found.pod.namespace]
        assert found.order == min(own)
        if self.share.yields_until(found.pod.namespace) <= self.now:
            assert found.order == min(one.order for one in first)


@given(steps)
def test_namespaces_that_yield_come_last_and_first_that_which_has_used_least(taken: list[Step]) -> None:
    turns = Turns()
    for step in taken:
        turns.do(step)
    turns.share.rest(0.0, turns.now)
    while turns.active():
        turns.pop()

"""Whose turn it is: of the pods that are to be tried the highest priority goes first, and namespaces take turns.

Each namespace has used so much of the turns of a priority. That which has used least is next, and one that had no pods
begins where that one was which came last: it is owed nothing. So the first pod of a namespace waits for one turn of
each other namespace at the most, however many pods those have. While nothing is counted (`used`), pods have their turns
in their order, as if there were one namespace.

Source: start-time fair queueing (Goyal, Vin and Cheng, 1996).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf

PodOrder = tuple[int, float, int]
"""The negative priority, since when the pod waits, and its number."""

QueuedItem = tuple[PodOrder, str]
"""The order of a pod that is to be tried, and its uid."""

_Head = tuple[float, PodOrder, str]
"""What a namespace has used, the order of its first pod, and its name."""

AHEAD_MOST = 5.0
"""Beyond others nobody counts as having used more: who had none to compete with is not made to pay for all of it."""

MOST_FLOWS = 1024
"""Namespaces after which it is forgotten what those have used that have no pods."""

MOST_PRIORITIES = 64
"""Priorities after which those are forgotten that no pod has."""

MOST_OLD = 64
"""Entries of pods that have left, beyond as many as there are others."""

_FIRST = ""
"""The flow of pods that go first, which is no namespace's."""


@dataclass(slots=True)
class _Flow:
    """The pods of a namespace that have one priority. used: of its turns. head: the entry of the first pod.

    most: entries after which those of pods that have left are looked for.
    """

    used: float
    items: list[QueuedItem] = field(default_factory=list)
    most: int = MOST_OLD
    head: _Head | None = None


class _Priority:
    """The pods of one priority. is_current: whether a pod is still to be tried, with that order."""

    def __init__(self, is_current: Callable[[QueuedItem], bool]) -> None:
        self._is_current = is_current
        self._flows = {_FIRST: _Flow(-inf)}
        self._heads: list[_Head] = []
        self._reached = 0.0  # what the namespace had used whose turn was last
        self._most_flows = MOST_FLOWS

    @property
    def has_pods(self) -> bool:
        """Whether any is left; exact after `next` has found none."""
        return bool(self._heads)

    def push(self, namespace: str, item: QueuedItem) -> None:
        flow = self._flow(namespace)
        if not flow.items and namespace != _FIRST:
            flow.used = max(flow.used, self._reached)
        if len(flow.items) >= flow.most:
            self._clean(namespace, flow)
        heappush(flow.items, item)
        if flow.items[0] is item:
            self._plan(namespace, flow)

    def used(self, namespace: str, amount: float) -> None:
        flow = self._flow(namespace)
        flow.used = max(flow.used, min(flow.used + amount, self._reached + AHEAD_MOST))
        self._plan(namespace, flow)

    def next(self, rests: Callable[[str], bool]) -> _Head | None:
        """The next turn of a pod that does not rest. Cost: O(namespaces whose first pod rests)."""
        found, aside = None, []
        while self._heads and found is None:
            head = self._heads[0]
            flow = self._flows.get(head[2])
            if flow is None or flow.head is not head:
                heappop(self._heads)
            elif not self._is_current(flow.items[0]):
                heappop(self._heads)
                heappop(flow.items)
                self._plan(head[2], flow)
            elif rests(flow.items[0][1]):
                aside.append(heappop(self._heads))
            else:
                found = head
        for head in aside:
            heappush(self._heads, head)
        return found

    def take(self, head: _Head) -> str:
        used, _, namespace = head
        flow = self._flows[namespace]
        _, uid = heappop(flow.items)
        self._reached = max(self._reached, used)
        self._plan(namespace, flow)
        return uid

    def _flow(self, namespace: str) -> _Flow:
        if namespace not in self._flows:
            if len(self._flows) >= self._most_flows:
                for name, flow in self._flows.items():
                    self._clean(name, flow)
                self._flows = {name: flow for name, flow in self._flows.items() if flow.items or name == _FIRST}
                self._most_flows = 2 * len(self._flows) + MOST_FLOWS
            self._flows[namespace] = _Flow(self._reached)
        return self._flows[namespace]

    def _clean(self, namespace: str, flow: _Flow) -> None:
        """While those of higher priorities have their turns, pods come and go here, and nobody looks at them."""
        flow.items = list(dict.fromkeys(filter(self._is_current, flow.items)))
        heapify(flow.items)
        flow.most = 2 * len(flow.items) + MOST_OLD
        self._plan(namespace, flow)

    def _plan(self, namespace: str, flow: _Flow) -> None:
        """The flow has another first pod, or has used more. Its entry before stays until it comes up."""
        flow.head = (flow.used, flow.items[0][0], namespace) if flow.items else None
        if flow.head:
            heappush(self._heads, flow.head)
        if len(self._heads) > 2 * len(self._flows) + MOST_OLD:
            self._heads = [one.head for one in self._flows.values() if one.head]
            heapify(self._heads)


class FairQueue:
    """The turns of all pods that are to be tried. is_current: whether a pod still is, with that order."""

    def __init__(self, is_current: Callable[[QueuedItem], bool]) -> None:
        self._is_current = is_current
        self._priorities: dict[int, _Priority] = {}

    def push(self, namespace: str, item: QueuedItem) -> None:
        """A pod of the namespace is to be tried; again, where its order has changed."""
        self._of(item[0][0]).push(namespace, item)

    def push_first(self, item: QueuedItem) -> None:
        """The pod is the next of its priority."""
        self.push(_FIRST, item)

    def used(self, priority: int, namespace: str, amount: float) -> None:
        """The namespace has used so much of the turns of the priority."""
        self._of(-priority).used(namespace, amount)

    def has_next(self, rests: Callable[[str], bool]) -> bool:
        """Whether `pop` has a pod."""
        return self._next(rests) is not None

    def pop(self, rests: Callable[[str], bool]) -> str | None:
        """The pod, by uid, whose turn it is. rests: pods that are passed over, but not by lower priorities."""
        found = self._next(rests)
        return found[0].take(found[1]) if found else None

    def _next(self, rests: Callable[[str], bool]) -> tuple[_Priority, _Head] | None:
        for _, priority in sorted(self._priorities.items()):
            if (head := priority.next(rests)) is not None:
                return priority, head
            if priority.has_pods:
                return None
        return None

    def _of(self, number: int) -> _Priority:
        if number not in self._priorities:
            if len(self._priorities) >= MOST_PRIORITIES:
                self._priorities = {key: one for key, one in self._priorities.items() if one.has_pods}
            self._priorities[number] = _Priority(self._is_current)
        return self._priorities[number]

"""The largest claim that still fits on one node: for how many devices of a class, and on which nodes."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from allocator.allocate import BUDGET_STEPS, allocate
from allocator.fleet.fleet import Fleet
from allocator.fleet.hardware_kinds import HardwareKinds
from allocator.model import Alternative, Claim, Request
from allocator.outcome import Allocated, AllocationError
from allocator.requests.candidates import MAX_RESULTS
from allocator.search.rules import Mask, bits
from cel.lru import LruCache

MOST_USES = 1 << 14
"""Kinds of nodes with certain devices in use, of which it is remembered how much fits."""

_NAME = "largest-claim"


@dataclass(frozen=True, slots=True)
class LargestClaim:
    """count: of devices in one request without selectors of its own; at most 32, as the API allows. nodes: that fit it.

    error: why it cannot be determined, or empty.
    """

    count: int = 0
    nodes: Mask = 0
    error: str = ""


def largest_claim(fleet: Fleet, class_name: str) -> LargestClaim:
    """The largest claim for devices of the class that a node of the fleet has room for now."""
    found = LargestClaims(fleet, class_name)
    for _ in found.catch_up():
        pass
    return found.largest


@dataclass(slots=True)
class _Bounds:
    """What is known of a node. fitting: a claim for so many devices fits; too_many: one for so many does not.

    fails: whether the search for a single device ends with an error, as on a device on which a selector fails.
    """

    fitting: int = 0
    too_many: int = MAX_RESULTS + 1
    fails: bool = False

    @property
    def are_tight(self) -> bool:
        return self.too_many - self.fitting == 1

    def between(self, guess: int) -> int:
        """A count to try: the guess, one more, or the middle."""
        for count in (guess, guess + 1):
            if self.fitting < count < self.too_many:
                return count
        return (self.fitting + self.too_many) // 2


class LargestClaims:
    """The largest claim for devices of a class, followed node by node, for as long as the class stays as it is.

    budget_steps: of a search. A node on which a search spends them has no room for that claim.
    """

    def __init__(self, fleet: Fleet, class_name: str, budget_steps: int = BUDGET_STEPS) -> None:
        self._fleet = fleet
        self._claims = [[_claim(class_name, count)] for count in range(1, MAX_RESULTS + 1)]
        self._budget_steps = budget_steps
        self._kinds: HardwareKinds | None = None
        self._known: LruCache[Hashable, _Bounds] = LruCache(MOST_USES, MOST_USES)
        self._guess = 0
        self._of_node: dict[int, _Bounds] = {}
        self._by_count: dict[int, Mask] = {}
        self._seen = (-1, -1)

    def catch_up(self) -> Iterator[None]:
        """Look at the nodes that have changed. Between two steps of the iterator, others may work.

        Cost of a step: a search, or O(1) for a node that is like one before; usually two searches, at most eight, for
        any other node. What happens meanwhile is seen by then, or the next time.
        """
        now, touched = self._fleet.changed_nodes(self._seen)
        for number in sorted(self._numbers() if touched is None else touched):
            yield from self._look_at(number)
        self._seen = now

    @property
    def largest(self) -> LargestClaim:
        """As of the last `catch_up`, without nodes that are gone. The error of a node counts where no node has room."""
        for count in sorted(self._by_count, reverse=True):
            if nodes := self._by_count[count] & self._fleet.all:
                return LargestClaim(count, nodes)
        failing = (one for one in bits(self._fleet.all) if one in self._of_node and self._of_node[one].fails)
        return LargestClaim(error=next(map(self._error, failing), ""))

    def _error(self, number: int) -> str:
        """Why not even one device can be asked for on the node."""
        try:
            self._fits(number, 1)
        except AllocationError as error:
            return str(error)
        return ""

    def _numbers(self) -> set[int]:
        return {*self._of_node, *bits(self._fleet.all)}

    def _look_at(self, number: int) -> Iterator[None]:
        """The bounds are those of the node as it is, whatever has happened since the last step."""
        bounds = self._bounds(number)
        while bounds and not bounds.are_tight:
            self._tighten(bounds, number)
            yield
            bounds = self._bounds(number)
        self._put(number, bounds)
        self._guess = bounds.fitting if bounds else self._guess
        yield

    def _bounds(self, number: int) -> _Bounds | None:
        """Of all nodes that are like this one; None where there is no such node."""
        if not self._fleet.all >> number & 1:
            return None
        if self._kinds is None or not self._fleet.are_current(self._kinds):
            self._kinds = self._fleet.kinds(self._claims[0])
        key = self._kinds.of(number), self._fleet.usage_on(number)
        return self._known.get(key, 1, _Bounds)

    def _tighten(self, bounds: _Bounds, number: int) -> None:
        """Ask the allocator once. If a claim fits, so does each smaller one."""
        count = bounds.between(self._guess)
        try:
            fits = self._fits(number, count)
        except AllocationError:
            fits, bounds.fails = False, count == 1
        if fits:
            bounds.fitting = count
        else:
            bounds.too_many = count

    def _fits(self, number: int, count: int) -> bool:
        snapshot, node, claims = self._fleet.current, self._fleet.node(number), self._claims[count - 1]
        return isinstance(allocate(snapshot, node, claims, budget_steps=self._budget_steps), Allocated)

    def _put(self, number: int, bounds: _Bounds | None) -> None:
        old = self._of_node.pop(number, None)
        if bounds:
            self._of_node[number] = bounds
        if bounds is not old:
            self._flip(old, number)
            self._flip(bounds, number)

    def _flip(self, bounds: _Bounds | None, number: int) -> None:
        """Put the node among those with so much room, or take it away."""
        if bounds and bounds.fitting:
            nodes = self._by_count.pop(bounds.fitting, 0) ^ 1 << number
            if nodes:
                self._by_count[bounds.fitting] = nodes


def _claim(class_name: str, count: int) -> Claim:
    return Claim("", _NAME, _NAME, (Request("devices", (Alternative("devices", class_name, count=count),)),))

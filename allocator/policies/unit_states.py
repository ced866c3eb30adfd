"""What can become of units: each state that a unit may be in, and where the requests of pods lead from there.

Units that say the same of every request of the workload, and of which as much is left, are in the same state, on
whichever node they are. A state is a number, so that a node is a few numbers, and to place a pod on it is to look them
up.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from allocator.policies.cells import Cells, UnitCells
from allocator.policies.fullness import fraction

UNIT: Final = 1000
"""What is left of a unit of which nothing is in use."""

PRICE: Final = 1 << 10
"""Of a thousandth of a unit, where its driver has none of its own."""

MOST_TIMES: Final = 1 << 53
"""Devices that there is room for, at most: a driver may publish 10**18 times what one takes."""

NONE: Final = -1
"""The state that a request leads to for which there is no room."""

UNKNOWN: Final = -2


@dataclass(slots=True, eq=False)
class Takes:
    """What devices for a request may take of a unit: one of these. nexts, best: where that leads, as far as known."""

    cells: tuple[Cells, ...]
    nexts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    best: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class UnitKind:
    """Units that are alike. takes: for each request of the workload."""

    unit: UnitCells
    takes: tuple[Takes, ...]


class UnitStates:
    """The states of all units, for so many requests of the workload.

    left: of each, in thousandths of a unit. worth: the same at its driver's price. serves: for which requests there is
    room, as bits. best_of: `best` for each request, UNKNOWN where it was not asked for.
    """

    def __init__(self, requests: int) -> None:
        self.left: list[int] = []
        self.worth: list[int] = []
        self.serves: list[int] = []
        self.kind_of: list[UnitKind] = []
        self.best_of: list[list[int]] = [[] for _ in range(requests)]
        self._cells: list[Cells] = []
        self._numbers: dict[tuple[UnitKind, Cells], int] = {}
        self._kinds: dict[Hashable, UnitKind] = {}
        self._takes: dict[tuple[Cells, ...], Takes] = {}
        self._prices: Mapping[str, int] = {}

    def __len__(self) -> int:
        return len(self.left)

    def set_prices(self, prices: Mapping[str, int]) -> None:
        """The prices of drivers from now on."""
        self._prices = prices
        self.worth[:] = [left * self.price(kind.unit) for left, kind in zip(self.left, self.kind_of, strict=True)]

    def price(self, unit: UnitCells) -> int:
        """Of a thousandth of the unit."""
        return self._prices.get(unit.driver, PRICE)

    def takes(self, cells: tuple[Cells, ...]) -> Takes:
        """The one object for these."""
        known = self._takes.get(cells)
        if known is None:
            known = self._takes[cells] = Takes(cells)
        return known

    def kinds(self, units: Sequence[UnitCells], takes: Sequence[Sequence[Takes]]) -> list[UnitKind]:
        """The kind of each unit. takes: for each request of the workload, for each unit."""
        found: list[UnitKind] = []
        for number, unit in enumerate(units):
            own = tuple([of[number] for of in takes])
            known = self._kinds.get((unit, own))
            if known is None:
                known = self._kinds[unit, own] = UnitKind(unit, own)
            found.append(known)
        return found

    def number(self, kind: UnitKind, cells: Cells) -> int:
        """The state of a unit of which that is left."""
        found = self._numbers.get((kind, cells))
        if found is None:
            found = self._numbers[kind, cells] = len(self.left)
            left = thousandths(kind.unit, cells)
            self.left.append(left)
            self.worth.append(left * self.price(kind.unit))
            self.serves.append(_serves(kind, cells))
            self.kind_of.append(kind)
            self._cells.append(cells)
            for best in self.best_of:
                best.append(UNKNOWN)
        return found

    def nexts(self, state: int, takes: Takes) -> tuple[int, ...]:
        """The states that one device may lead to, in the order of devices."""
        known = takes.nexts.get(state)
        if known is None:
            kind, cells = self.kind_of[state], self._cells[state]
            found: dict[int, None] = {}
            for take in takes.cells:
                after = _less(cells, take)
                if after is not None:
                    found[self.number(kind, after)] = None
            known = takes.nexts[state] = tuple(found)
        return known

    def best(self, state: int, takes: Takes) -> int:
        """The state after one device, of those the one that leaves room for most; NONE where there is no room."""
        known = takes.best.get(state)
        if known is None:
            nexts = self.nexts(state, takes)
            known = max(nexts, key=self._room, default=NONE) if len(nexts) != 1 else nexts[0]
            takes.best[state] = known
        return known

    def best_for(self, state: int, request: int) -> int:
        """The same for a request of the workload."""
        found = self.best_of[request][state] = self.best(state, self.kind_of[state].takes[request])
        return found

    def times(self, state: int, request: int) -> int:
        """How many devices for the request of the workload there is room for; of tiny or empty ones at least UNIT."""
        takes = self.kind_of[state].takes[request]
        if len(takes.cells) == 1:
            return _times(self._cells[state], takes.cells[0])
        number = 0
        while number < UNIT and (state := self.best(state, takes)) != NONE:
            number += 1
        return number

    def taken(self, state: int, after: int) -> Cells:
        """What has to be taken for the one state to become the other."""
        return tuple([one - two for one, two in zip(self._cells[state], self._cells[after], strict=True)])

    def _room(self, state: int) -> int:
        """How many of the workload's choices of devices there still is room for."""
        kind, cells = self.kind_of[state], self._cells[state]
        return sum(_less(cells, take) is not None for takes in kind.takes for take in takes.cells)


def thousandths(unit: UnitCells, cells: Cells) -> int:
    """How much of the unit that is: of each cell of which there is any, on average, each rounded down."""
    shares = [fraction(n, whole, UNIT) for n, whole in zip(cells, unit.whole, strict=True) if whole]
    return sum(shares) // len(shares) if shares else 0


def _serves(kind: UnitKind, cells: Cells) -> int:
    found = 0
    for request, takes in enumerate(kind.takes):
        for take in takes.cells:
            if _less(cells, take) is not None:
                found |= 1 << request
                break
    return found


def _less(cells: Cells, take: Cells) -> Cells | None:
    after = tuple([left - amount for left, amount in zip(cells, take, strict=True)])
    return None if min(after) < 0 else after


def _times(cells: Cells, take: Cells) -> int:
    times = [min(MOST_TIMES, left // amount) for left, amount in zip(cells, take, strict=True) if amount]
    return min(times, default=UNIT)

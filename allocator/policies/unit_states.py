"""What can become of units: each state that a unit may be in, and where the requests of a workload lead from there.

Units that say the same of every request, and of which as much is left, are in the same state, on whichever node they
are. A state is a number, so that a node is a few numbers, and to place a pod on it is to look them up.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from allocator.policies.cells import Cells, UnitCells

UNIT = 1000
"""What is left of a unit of which nothing is in use."""

NONE = -1
"""The state that a request leads to for which there is no room."""

UNKNOWN = -2


@dataclass(frozen=True, slots=True, eq=False)
class UnitKind:
    """Units that are alike. takes: for each request of the workload what its devices may take of one."""

    unit: UnitCells
    takes: tuple[tuple[Cells, ...], ...]


class UnitStates:
    """The states of all units, for so many requests. left: of each, in thousandths of a unit. best_of: see `best`."""

    def __init__(self, requests: int) -> None:
        self.left: list[int] = []
        self.kind_of: list[UnitKind] = []
        self.best_of: list[list[int]] = [[] for _ in range(requests)]
        self._next: list[list[tuple[int, ...] | None]] = [[] for _ in range(requests)]
        self._cells: list[Cells] = []
        self._numbers: dict[tuple[UnitKind, Cells], int] = {}
        self._kinds: dict[Hashable, UnitKind] = {}

    def __len__(self) -> int:
        return len(self.left)

    def kinds(self, units: Sequence[UnitCells], takes: Sequence[Sequence[Sequence[Cells]]]) -> list[UnitKind]:
        """The kind of each unit. takes: for each request, for each unit, what its devices may take of it."""
        found = [UnitKind(unit, tuple([tuple(of[number]) for of in takes])) for number, unit in enumerate(units)]
        return [self._kinds.setdefault((kind.unit, kind.takes), kind) for kind in found]

    def number(self, kind: UnitKind, cells: Cells) -> int:
        """The state of a unit of which that is left."""
        found = self._numbers.get((kind, cells))
        if found is None:
            found = self._numbers[kind, cells] = len(self.left)
            shares = [UNIT * n // whole for n, whole in zip(cells, kind.unit.whole, strict=True) if whole]
            self.left.append(sum(shares) // len(shares) if shares else 0)
            self.kind_of.append(kind)
            self._cells.append(cells)
            for best in self.best_of:
                best.append(UNKNOWN)
            for nexts in self._next:
                nexts.append(None)
        return found

    def nexts(self, state: int, request: int) -> tuple[int, ...]:
        """The states that one device for the request may lead to, in the order of devices."""
        known = self._next[request][state]
        if known is None:
            kind, cells = self.kind_of[state], self._cells[state]
            found = dict.fromkeys(
                self.number(kind, after) for take in kind.takes[request] if (after := _less(cells, take)) is not None
            )
            known = self._next[request][state] = tuple(found)
        return known

    def best(self, state: int, request: int) -> int:
        """The state after one device, of those the one that leaves room for most; NONE where there is no room."""
        known = self.best_of[request][state]
        if known == UNKNOWN:
            nexts = self.nexts(state, request)
            known = max(nexts, key=self._room, default=NONE) if len(nexts) != 1 else nexts[0]
            self.best_of[request][state] = known
        return known

    def times(self, state: int, request: int) -> int:
        """How many devices for the request there is room for."""
        takes = self.kind_of[state].takes[request]
        if len(takes) == 1:
            return _times(self._cells[state], takes[0])
        number = 0
        while (state := self.best(state, request)) != NONE:
            number += 1
        return number

    def taken(self, state: int, after: int) -> Cells:
        """What has to be taken for the one state to become the other."""
        return tuple([one - two for one, two in zip(self._cells[state], self._cells[after], strict=True)])

    def _room(self, state: int) -> int:
        """How many of the workload's choices of devices there still is room for."""
        kind, cells = self.kind_of[state], self._cells[state]
        return sum(_less(cells, take) is not None for takes in kind.takes for take in takes)


def _less(cells: Cells, take: Cells) -> Cells | None:
    after = tuple([left - amount for left, amount in zip(cells, take, strict=True)])
    return None if min(after) < 0 else after


def _times(cells: Cells, take: Cells) -> int:
    return min([left // amount for left, amount in zip(cells, take, strict=True) if amount], default=UNIT)

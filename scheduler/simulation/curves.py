"""Curves over the arrivals: allocated share and fragmentation at each percent of the capacity that was requested.

Column c of a curve is the mean over the arrivals at which the amount that has arrived, in percent of the capacity,
rounds to c (half to even). Each value is rounded to two places first, and so is the mean. Refused pods count as
arrived.
Source: the analysis of "Beware of Fragmentation" (USENIX ATC 2023), which the recorded curves come from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from allocator.policies.published import fragment
from scheduler.decision.rooms import Rooms

ALLOCATION = "allocation"
FRAGMENTATION = "fragmentation"
FRAGMENTATION_RATIO = "fragmentation-ratio"
KINDS = (ALLOCATION, FRAGMENTATION, FRAGMENTATION_RATIO)


class Fragments:
    """The sum of the fragments of all nodes, and of what is left of their units; in thousandths of a unit."""

    def __init__(self, rooms: Rooms) -> None:
        self.total = 0.0
        self.left = 0
        self._rooms = rooms
        self._seen = -1
        self._of_node: dict[int, tuple[float, int]] = {}

    def catch_up(self) -> None:
        """Evaluate the nodes that have changed. Cost: a fragment for each of those."""
        self._rooms.catch_up()
        changes = self._rooms.changes
        if self._seen == changes.now:
            return
        changed = changes.since(self._seen)
        for number in sorted({*self._of_node, *self._rooms.numbers}) if changed is None else changed:
            room = self._rooms.get(number)
            before, left = self._of_node.get(number, (0.0, 0))
            after = (fragment(room), sum(room.units)) if room else (0.0, 0)
            self._of_node[number] = after
            self.total += after[0] - before
            self.left += after[1] - left
        self._seen = changes.now


@dataclass(slots=True)
class Curves:
    """The curves of a run. capacity: of all units, in thousandths."""

    capacity: int
    fragments: Fragments
    arrived: int = 0
    allocated: int = 0
    _values: dict[int, list[tuple[float, float, float]]] = field(default_factory=dict)

    def add(self, amount: int, *, is_placed: bool) -> None:
        """Count a pod that requests this amount, after its decision."""
        self.arrived += amount
        self.allocated += amount * is_placed
        self.fragments.catch_up()
        total, left = self.fragments.total, self.fragments.left
        column = round(100 * self.arrived / self.capacity)  # one rounding: halves stay halves
        ratio = 100 * total / left if left else 0.0
        found = (100 * self.allocated / self.capacity, 100 * total / self.capacity, ratio)
        self._values.setdefault(column, []).append((round(found[0], 2), round(found[1], 2), round(found[2], 2)))

    def columns(self, kind: str) -> Mapping[int, float]:
        """The curve, in percent, by arrived percent."""
        place = KINDS.index(kind)
        return {column: _mean([value[place] for value in values]) for column, values in sorted(self._values.items())}


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 2)


def differing(found: Mapping[int, float], recorded: Mapping[int, float], tolerance: float = 0.01) -> list[int]:
    """The columns in which a curve differs from the record by more than the tolerance."""
    slack = tolerance + 1e-9
    return [c for c, value in recorded.items() if c not in found or abs(found[c] - value) > slack]

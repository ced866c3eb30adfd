"""The free resources of a fleet, node by node, updated as nodes change."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from allocator.policies.published import fragment, fragment_by_cause
from allocator.policies.whole_nodes import UNIT, NodeRoom
from scheduler.decision.rooms import Rooms


class _OfNode(NamedTuple):
    """size: its units. left, fragment: in thousandths of a unit. whole: units of which nothing is in use."""

    size: int = 0
    left: int = 0
    whole: int = 0
    fragment: float = 0.0


_NOTHING = _OfNode()


class FleetFigures:
    """Sums over all nodes. capacity, left: in thousandths of a unit; total: of the fragments, in the same."""

    def __init__(self, rooms: Rooms) -> None:
        self.capacity = 0
        self.left = 0
        self.total = 0.0
        self.whole_units = 0
        self.whole_nodes = 0
        self._rooms = rooms
        self._seen = -1
        self._of_node: dict[int, _OfNode] = {}
        self._blocks: Counter[int] = Counter()
        self._causes: dict[str, float] = {}
        self._causes_of: dict[int, Mapping[str, float]] = {}
        self._stale: set[int] = set()

    def catch_up(self) -> None:
        """Evaluate the nodes that have changed. Cost: a fragment for each of those."""
        self._rooms.catch_up()
        changes = self._rooms.changes
        if self._seen == changes.now:
            return
        changed = changes.since(self._seen)
        numbers = sorted({*self._of_node, *self._rooms.numbers}) if changed is None else changed
        for number in numbers:
            self._replace(number, self._rooms.get(number))
        self._stale.update(numbers)
        self._seen = changes.now

    def _replace(self, number: int, room: NodeRoom | None) -> None:
        before = self._of_node.pop(number, _NOTHING)
        after = _figures(room) if room else _NOTHING
        if room:
            self._of_node[number] = after
        self.capacity += (after.size - before.size) * UNIT
        self.left += after.left - before.left
        self.total += after.fragment - before.fragment
        self.whole_units += after.whole - before.whole
        self.whole_nodes += _is_whole(after) - _is_whole(before)
        self._blocks[before.whole] -= 1
        self._blocks[after.whole] += 1

    @property
    def allocated(self) -> int:
        """What is in use, in thousandths of a unit."""
        return self.capacity - self.left

    @property
    def largest_block(self) -> int:
        """The largest number of idle units on one node. Cost: O(units of a node)."""
        return max((whole for whole, nodes in self._blocks.items() if nodes > 0), default=0)

    def causes(self) -> Mapping[str, float]:
        """The fragments by cause, in thousandths of a unit. Cost: a fragment for each node that has changed since."""
        for number in sorted(self._stale):
            room = self._rooms.get(number)
            before = self._causes_of.pop(number, {})
            after = fragment_by_cause(room) if room else {}
            self._causes_of[number] = after
            for cause in {**before, **after}:
                grown = after.get(cause, 0.0) - before.get(cause, 0.0)
                self._causes[cause] = self._causes.get(cause, 0.0) + grown
        self._stale.clear()
        return self._causes


def _figures(room: NodeRoom) -> _OfNode:
    return _OfNode(len(room.units), sum(room.units), room.units.count(UNIT), fragment(room))


def _is_whole(node: _OfNode) -> bool:
    return 0 < node.size == node.whole

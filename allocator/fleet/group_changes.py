"""Groups of nodes, and which nodes have left theirs, so that answers can catch up with what has changed."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from allocator.model import Slice
from allocator.search.rules import Mask

LEAST_CHANGES: Final = 256
"""Changes that are kept however few nodes there are; of a large fleet, two for each node."""


NOBODY: Final = -1
"""In place of the number of the only node in a group."""


@dataclass(slots=True, eq=False)
class NodeGroup:
    """Nodes with one fingerprint and the same devices in use: one of them answers for all.

    usage: of the slices that one node alone reaches. shared: the numbers of the other slices, which several nodes
    reach.
    """

    # Where each device has a serial number, each node is a group of its own: a mask for each would take O(nodes^2).
    fingerprint: int
    usage: tuple[Hashable, ...]
    shared: tuple[int, ...]
    _number: int = 0
    _only: int = NOBODY
    _several: Mask = 0

    @property
    def nodes(self) -> Mask:
        """Those in the group now."""
        return self._several if self._only == NOBODY else 1 << self._only

    @property
    def first(self) -> int:
        """The lowest number of a node in the group, which has one."""
        return (self._several & -self._several).bit_length() - 1 if self._only == NOBODY else self._only

    @property
    def is_empty(self) -> bool:
        """Whether no node is in the group."""
        return not self._number

    def add(self, number: int) -> None:
        """The node is in the group."""
        self._only, self._several = (NOBODY, self.nodes | 1 << number) if self._number else (number, 0)
        self._number += 1

    def discard(self, number: int) -> None:
        """The node, which is in the group, is so no more."""
        self._number -= 1
        if not self._number:
            self._only = NOBODY
            return
        rest = self.nodes ^ 1 << number
        self._only, self._several = (rest.bit_length() - 1, 0) if self._number == 1 else (NOBODY, rest)


class Changes:
    """Which nodes have left which group, the oldest first.

    shared: how often the use of a slice that several nodes reach has changed.
    """

    def __init__(self) -> None:
        self.shared = 0
        self._left: list[tuple[int, NodeGroup | None]] = []
        self._forgotten = 0
        self._watched: Counter[int] = Counter()
        self._moments: dict[int, int] = {}

    @property
    def now(self) -> int:
        """The number of changes so far."""
        return self._forgotten + len(self._left)

    @property
    def forgotten(self) -> int:
        """The number of changes that are not kept any more."""
        return self._forgotten

    def add(self, number: int, old: NodeGroup | None, nodes: int) -> None:
        """A node has left its group; None if it was in no group yet. nodes: how many nodes there are."""
        self._left.append((number, old))
        if len(self._left) > max(LEAST_CHANGES, 2 * nodes):
            older = len(self._left) // 2
            self._forgotten += older
            del self._left[:older]

    def since(self, seen: int) -> Mapping[int, NodeGroup | None] | None:
        """The nodes that have left a group after the first `seen` changes, with that group; None if not known."""
        if seen < self._forgotten:
            return None
        before: dict[int, NodeGroup | None] = {}
        for number, old in self._left[seen - self._forgotten :]:
            before.setdefault(number, old)
        return before

    def watch(self, group: NodeGroup) -> None:
        """The group has its first node."""
        self._watched.update(group.shared)

    def unwatch(self, group: NodeGroup) -> None:
        """The group has lost its last node."""
        for slice_number in group.shared:
            self._watched[slice_number] -= 1
            if not self._watched[slice_number]:
                del self._watched[slice_number]
                self._moments.pop(slice_number, None)

    def of_shared(self, slice_: Slice) -> None:
        """The use of the slice has changed."""
        if slice_.number in self._watched:
            self.shared += 1
            self._moments[slice_.number] = self.shared

    def has_shared(self, slice_numbers: Iterable[int], seen: int) -> bool:
        """True if the use of one of the slices has changed after `shared` was `seen`."""
        return any(self._moments.get(number, 0) > seen for number in slice_numbers)

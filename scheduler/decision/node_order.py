"""The order in which equally good nodes are taken; it differs between schedulers that share a fleet.

Two schedulers that took the first of equal nodes would allocate the same devices, and one would have to undo its
writes. With different orders, they use different nodes while there are many, and share what is left. Schedulers that
have met split the nodes: each takes its own first, and the others only when these are full or clearly worse. The order
depends only on identities and names, so that a decision can be repeated.
"""

from collections.abc import Collection
from hashlib import blake2b

import numpy as np

from scheduler.state.masks import Numbers

_DIGEST_BYTES = 8
_FEWEST = 64
_OF_OTHERS = 1 << 63
"""Added to the keys of nodes that are another scheduler's: they go last."""

MOST_OTHERS = 8
"""Schedulers that the nodes are split with; a client that invents more of them costs no more time."""

MOST_BEHIND = 10
"""Points that a total may be lower on an own node: one pod more or less on a node changes about as much.

Without it, a scheduler that has used its own nodes once finds the last unused ones of the other better, and both meet.
"""


class NodeOrder:
    """Keys of nodes by their numbers; the least goes first.

    identity: such as the name of a Lease; "" for the nodes as they are numbered. Cost: O(1) for a node,
    and O(nodes) for another identity.
    """

    def __init__(self, identity: str = "") -> None:
        self.identity = identity
        self._own = ""
        self._others: tuple[str, ...] = ()
        self._names: dict[int, str] = {}
        self._keys = np.zeros(_FEWEST, np.uint64)

    def set_node(self, number: int, name: str) -> None:
        """The node of that name has this number."""
        if number >= len(self._keys):
            self._keys = np.resize(self._keys, 2 * number + 1)
        self._names[number] = name
        self._keys[number] = self._key(name)

    def search_as(self, identity: str) -> None:
        """Take nodes in the order of that identity from now on."""
        if identity != self.identity:
            self.identity = identity
            self._sort()

    def split(self, own: str, others: Collection[str]) -> None:
        """Take the nodes that are `own`'s first. own, others: names by which all of them split alike; no others: all.

        Each node is of one of them, about as many of each.
        """
        others = tuple(sorted(others))[:MOST_OTHERS]
        if (own, others) != (self._own, self._others):
            self._own, self._others = own, others
            self._sort()

    @property
    def others(self) -> Collection[str]:
        """The schedulers that the nodes are split with."""
        return self._others

    def best(self, numbers: Numbers, totals: Numbers) -> tuple[int, int]:
        """The first of the nodes with the highest total, and that total; of the own ones if they come close.

        numbers: ascending, at least one. totals: in their order.
        """
        if self._others:
            own = self._keys[numbers] < _OF_OTHERS
            if own.any() and totals[own].max() >= totals.max() - MOST_BEHIND:
                numbers, totals = numbers[own], totals[own]
        place = totals.argmax()  # the first of equals
        highest = totals.item(place)
        if self._is_by_number:
            return numbers.item(place), highest
        return self.first(numbers[totals == highest]), highest

    def first(self, numbers: Numbers) -> int:
        """The one of these nodes that goes first. numbers: ascending, at least one."""
        if self._is_by_number:
            return numbers.item(0)
        return numbers.item(self._keys[numbers].argmin())

    @property
    def _is_by_number(self) -> bool:
        return not self.identity and not self._others

    def _sort(self) -> None:
        for number, name in self._names.items():
            self._keys[number] = self._key(name)

    def _key(self, name: str) -> int:
        key = _digest(self.identity, name) // 2
        is_own = all(_digest(self._own, name) > _digest(other, name) for other in self._others)
        return key if is_own else key + _OF_OTHERS


def _digest(identity: str, name: str) -> int:
    """From 0 to 2**64 - 1."""
    return int.from_bytes(blake2b(f"{identity} {name}".encode(), digest_size=_DIGEST_BYTES).digest(), "big")

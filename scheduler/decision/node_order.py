"""The order in which equally good nodes are taken; it differs between schedulers that share a fleet.

Two schedulers that took the first of equal nodes would allocate the same devices, and one would have to undo its
writes. With different orders, they use different nodes while there are many, and share what is left. The order depends
only on identity and names, so that a decision can be repeated.
"""

from hashlib import blake2b

import numpy as np

from scheduler.state.masks import Numbers

_DIGEST_BYTES = 8
_FEWEST = 64


class NodeOrder:
    """Keys of nodes by their numbers; the least goes first.

    identity: such as the name of a Lease; "" for the nodes as they are numbered. Cost: O(1) for a node,
    and O(nodes) for another identity.
    """

    def __init__(self, identity: str = "") -> None:
        self.identity = identity
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
            for number, name in self._names.items():
                self._keys[number] = self._key(name)

    def first(self, numbers: Numbers) -> int:
        """The one of these nodes that goes first. numbers: ascending, at least one."""
        if not self.identity:
            return int(numbers[0])
        return int(numbers[np.argmin(self._keys[numbers])])

    def _key(self, name: str) -> int:
        text = f"{self.identity} {name}".encode()
        return int.from_bytes(blake2b(text, digest_size=_DIGEST_BYTES).digest(), "big")

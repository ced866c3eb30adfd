"""What has happened to the states of nodes, in order, so that each shape can catch up with what it missed."""

from collections import Counter
from collections.abc import Iterable, Mapping

from allocator.fleet.answers import State
from allocator.model import Slice

LEAST_CHANGES = 256
"""Changes that a shape can catch up with one by one, however few nodes there are; else as many as two of each node."""


class Changes:
    """Which nodes have left which state, the oldest first, for the shapes that look at what is new to them.

    shared: how often something else was in use of a slice that several nodes reach.
    """

    def __init__(self) -> None:
        self.shared = 0
        self._left: list[tuple[int, State | None]] = []
        self._forgotten = 0
        self._watched: Counter[int] = Counter()
        self._moments: dict[int, int] = {}

    @property
    def now(self) -> int:
        """How many there were."""
        return self._forgotten + len(self._left)

    @property
    def forgotten(self) -> int:
        """With how many of them nobody can catch up any more."""
        return self._forgotten

    def add(self, number: int, old: State | None, nodes: int) -> bool:
        """A node has left its state; None is that of a node that was not looked at yet. nodes: how many there are.

        True where the older half of the changes was forgotten: who has not seen them has to begin anew.
        """
        self._left.append((number, old))
        if len(self._left) <= max(LEAST_CHANGES, 2 * nodes):
            return False
        older = len(self._left) // 2
        self._forgotten += older
        del self._left[:older]
        return True

    def since(self, seen: int) -> Mapping[int, State | None] | None:
        """The nodes that have left a state since there were so many changes, with that state; None if not known."""
        if seen < self._forgotten:
            return None
        before: dict[int, State | None] = {}
        for number, old in self._left[seen - self._forgotten :]:
            before.setdefault(number, old)
        return before

    def watch(self, state: State) -> None:
        """There are nodes in that state."""
        self._watched.update(state.shared)

    def unwatch(self, state: State) -> None:
        """There are none any more."""
        for identity in state.shared:
            self._watched[identity] -= 1
            if not self._watched[identity]:
                del self._watched[identity]
                self._moments.pop(identity, None)

    def of_shared(self, piece: Slice) -> None:
        """Something else of the slice is in use."""
        if id(piece) in self._watched:
            self.shared += 1
            self._moments[id(piece)] = self.shared

    def has_shared(self, identities: Iterable[int], seen: int) -> bool:
        """Whether something else was in use of one of these slices since `shared` was that."""
        return any(self._moments.get(identity, 0) > seen for identity in identities)

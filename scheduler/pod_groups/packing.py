"""Members that see each other only by what is left on their node: how many of each class have a place at once.

Nodes of one kind with the same members on them are one state, and a search counts how many nodes are in each. It is
complete: classes that have few places go first, onto the fullest nodes, and what came to nothing is not tried again.
For one class of members, counting the places of all nodes is the answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from scheduler.pod_groups.group_result import GroupSteps

NodeLoad = tuple[int, ...]
"""By class how many members are on a node."""

NodeState = tuple[int, NodeLoad]
"""The kind of a node, and its load."""

NodeCounts = Mapping[NodeState, int]
"""How many nodes are in each state."""


class NodeStates:
    """What nodes of each kind have room for. fits: whether one more of a class has a place on a node in that state."""

    def __init__(self, fits: Callable[[NodeState, int], bool], steps: GroupSteps) -> None:
        self._fits = fits
        self.steps = steps
        self._known: dict[tuple[NodeState, int], bool] = {}
        self._room: dict[tuple[NodeState, int], int] = {}

    def more(self, state: NodeState, one: int) -> NodeState | None:
        """The state with one more of the class, None where it has no place there."""
        if (state, one) not in self._known:
            self.steps.take()
            self._known[state, one] = self._fits(state, one)
        return (state[0], _plus(state[1], one)) if self._known[state, one] else None

    def room(self, state: NodeState, one: int) -> int:
        """So many more of the class have a place on such a node."""
        if (state, one) not in self._room:
            # Along the way, so that no node of a thousand places is a thousand calls deep.
            path, end = [state], self.more(state, one)
            while end is not None and (end, one) not in self._room:
                path.append(end)
                end = self.more(end, one)
            room = 0 if end is None else self._room[end, one] + 1
            for passed in reversed(path):
                self._room[passed, one] = room
                room += 1
        return self._room[state, one]


class Packing:
    """On some nodes. nodes: how many there are of each kind. classes: how many there are of members."""

    def __init__(self, states: NodeStates, nodes: Sequence[int], classes: int) -> None:
        self._states = states
        self._nodes = nodes
        self._classes = classes
        self._found: dict[NodeLoad, NodeCounts | None] = {}

    def feasible(self, wanted: NodeLoad) -> NodeCounts | None:
        """The states of nodes with so many members of each class; None where there are none. Raises OutOfGroupSteps."""
        if wanted not in self._found:
            self._found[wanted] = self._search(wanted)
        return self._found[wanted]

    def places(self, one: int) -> int:
        """How many members of the class have a place if no others do."""
        empty = (0,) * self._classes
        return sum(count * self._states.room((kind, empty), one) for kind, count in enumerate(self._nodes))

    def _search(self, wanted: NodeLoad) -> NodeCounts | None:
        empty = (0,) * self._classes
        start: dict[NodeState, int] = {(kind, empty): count for kind, count in enumerate(self._nodes) if count}
        order = sorted((one for one in range(self._classes) if wanted[one]), key=self.places)
        items = [one for one in order for _ in range(wanted[one])]
        dead: set[tuple[int, frozenset[tuple[NodeState, int]]]] = set()
        path = [(start, self._tries(start, items, 0, wanted))]
        while path:
            states, tries = path[-1]
            place = len(path) - 1
            if place == len(items):
                return states
            moved = next(tries, None)
            if moved is None:
                path.pop()
                dead.add((place, frozenset(states.items())))
            elif (place + 1, frozenset(moved.items())) not in dead:
                path.append((moved, self._tries(moved, items, place + 1, wanted)))
        return None

    def _tries(
        self, states: dict[NodeState, int], items: Sequence[int], place: int, wanted: NodeLoad
    ) -> Iterator[dict[NodeState, int]]:
        """The states with one more of the items placed, that on the fullest node first; none where one has no room."""
        if place == len(items) or self._lacks_room(states, items, place):
            return
        one = items[place]
        for state in sorted(states, key=lambda state: (self._states.room(state, one), -sum(state[1]), state)):
            if (filled := self._states.more(state, one)) is not None:
                self._states.steps.take()
                yield _moved(states, state, filled)

    def _lacks_room(self, states: Mapping[NodeState, int], items: Sequence[int], place: int) -> bool:
        """Whether some class has fewer places left than members, whatever becomes of the others."""
        left: dict[int, int] = {}
        for one in items[place:]:
            left[one] = left.get(one, 0) + 1
        for one, count in left.items():
            room = 0
            for state, nodes in states.items():
                room += nodes * self._states.room(state, one)
                if room >= count:
                    break
            if room < count:
                return True
        return False


def _plus(load: NodeLoad, one: int) -> NodeLoad:
    return (*load[:one], load[one] + 1, *load[one + 1 :])


def _moved(states: Mapping[NodeState, int], old: NodeState, new: NodeState) -> dict[NodeState, int]:
    """One node has changed its state."""
    found = dict(states)
    found[new] = found.get(new, 0) + 1
    found[old] -= 1
    if not found[old]:
        del found[old]
    return found

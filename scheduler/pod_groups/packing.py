"""Members that see each other only by what is left on their node: how many of each class have a place at once.

Nodes of one kind with the same members on them are one state, and a search counts how many nodes are in each: classes
that have few places go first, onto the fullest nodes. So is found what fits in many ways. The rest is searched node by
node: each gets a load to which none of the rest can be added, and a branch ends where the nodes that are left
cannot take, of some resource, what is left. Both are complete, and what came to nothing is not tried again.
For one class of members, counting the places of all nodes is the answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import mul

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
    """On some nodes. nodes: how many there are of each kind that is among them. classes: how many there are of members.

    weights: by resource, what a member of each class takes of it. They only show early that something cannot fit.
    """

    def __init__(
        self, states: NodeStates, nodes: Mapping[int, int], classes: int, weights: Sequence[NodeLoad] = ()
    ) -> None:
        self._states = states
        self._nodes = nodes
        self._classes = classes
        self._weights = weights
        self._found: dict[NodeLoad, NodeCounts | None] = {}

    def feasible(self, wanted: NodeLoad) -> NodeCounts | None:
        """The states of nodes with so many members of each class; None where there are none. Raises OutOfGroupSteps."""
        if wanted not in self._found:
            self._found[wanted] = self._search(wanted)
        return self._found[wanted]

    def places(self, one: int) -> int:
        """How many members of the class have a place if no others do. Raises Cancelled."""
        self._states.steps.look()
        empty = (0,) * self._classes
        return sum(count * self._states.room((kind, empty), one) for kind, count in self._nodes.items())

    def _search(self, wanted: NodeLoad) -> NodeCounts | None:
        empty = (0,) * self._classes
        start: dict[NodeState, int] = {(kind, empty): count for kind, count in self._nodes.items()}
        order = sorted((one for one in range(self._classes) if wanted[one]), key=self.places)
        if len(order) == 1:
            return self._filled(start, order[0], wanted[order[0]])
        items = [one for one in order for _ in range(wanted[one])]
        dead: set[tuple[int, frozenset[tuple[NodeState, int]]]] = set()
        path = [(start, self._tries(start, items, 0, wanted))]
        left = _TRIES * len(items)
        while path:
            left -= 1
            if left == 0 and sum(map(bool, wanted)) > 1 and (loads := self._maximal_loads(wanted)) is not None:
                return _ByNodes(self._states.steps, self._nodes, loads, self._weights, self._classes).search(wanted)
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

    def _filled(self, states: NodeCounts, one: int, wanted: int) -> NodeCounts | None:
        """Members of one class alone, on the nodes with the most room: what these have is all that counts."""
        filled, left = dict(states), wanted
        for state in sorted(states, key=lambda state: (-self._states.room(state, one), state)):
            room = self._states.room(state, one)
            for _ in range(min(states[state], -(-left // room) if room else 0)):
                kind, load = state
                more = min(room, left)
                filled = _moved(filled, state, (kind, (*load[:one], more, *load[one + 1 :])))
                left -= more
        return filled if not left else None

    def _maximal_loads(self, wanted: NodeLoad) -> Mapping[int, list[NodeLoad]] | None:
        """By kind the loads to which no further member can be added; None where these are too many to list."""
        by_kind: dict[int, list[NodeLoad]] = {}
        number = 0
        for kind in self._nodes:
            loads = self._loads_of(kind, wanted, _MOST_LOADS - number)
            if loads is None:
                return None
            by_kind[kind] = loads
            number += len(loads)
        return by_kind

    def _loads_of(self, kind: int, wanted: NodeLoad, most: int) -> list[NodeLoad] | None:
        used = [one for one in range(self._classes) if wanted[one]]
        begun: list[NodeLoad] = [(0,) * self._classes]
        for number in used[:-1]:
            begun = [load for first in begun for load in self._more(kind, first, number, wanted[number])]
            if len(begun) > most:
                return None
        last = used[-1]
        full = [
            (*load[:last], min(self._states.room((kind, load), last), wanted[last]), *load[last + 1 :])
            for load in begun
        ]
        return [load for load in full if not self._has_room(kind, load, used, wanted)]

    def _more(self, kind: int, load: NodeLoad, one: int, most: int) -> Iterator[NodeLoad]:
        """The load with none, one, two and so on of the class. Raises Cancelled."""
        self._states.steps.look()
        for number in range(min(self._states.room((kind, load), one), most) + 1):
            yield (*load[:one], number, *load[one + 1 :])

    def _has_room(self, kind: int, load: NodeLoad, used: Sequence[int], wanted: NodeLoad) -> bool:
        self._states.steps.look()
        return any(load[one] < wanted[one] and self._states.more((kind, load), one) is not None for one in used)

    def _tries(
        self, states: dict[NodeState, int], items: Sequence[int], place: int, wanted: NodeLoad
    ) -> Iterator[dict[NodeState, int]]:
        """The states with one more of the items placed, that on the fullest node first; none where one has no room."""
        if place == len(items) or self._lacks_room(states, items, place):
            return
        item = items[place]
        for state in sorted(states, key=lambda state: (self._states.room(state, item), -sum(state[1]), state)):
            if (filled := self._states.more(state, item)) is not None:
                self._states.steps.take()
                yield _moved(states, state, filled)

    def _lacks_room(self, states: Mapping[NodeState, int], items: Sequence[int], place: int) -> bool:
        """Whether some class has fewer places left than members, whatever becomes of the others."""
        left: dict[int, int] = {}
        for item in items[place:]:
            left[item] = left.get(item, 0) + 1
        for item, count in left.items():
            self._states.steps.look()
            room = 0
            for state, nodes in states.items():
                room += nodes * self._states.room(state, item)
                if room >= count:
                    break
            if room < count:
                return True
        return False


_TRIES = 3
"""So many for each member before the nodes are looked at one by one."""

_MOST_LOADS = 5_000
"""Of all kinds of nodes together."""


class _ByNodes:
    """One node after the other gets one of its maximal loads, as far as that is wanted.

    Something that fits also fits so: what a node could take more is taken from the nodes after it.
    """

    def __init__(
        self,
        steps: GroupSteps,
        nodes: Mapping[int, int],
        loads: Mapping[int, Sequence[NodeLoad]],
        weights: Sequence[NodeLoad],
        classes: int,
    ) -> None:
        self._steps = steps
        self._loads = loads
        self._weights = weights
        self._classes = classes
        # Kinds of few loads first: they have the least choice.
        order = sorted(nodes, key=lambda kind: (len(loads[kind]), kind))
        self._kinds = [kind for kind in order for _ in range(nodes[kind])]
        most = {
            kind: [max(amounts) for amounts in zip(*map(self._amounts, loads[kind]), strict=True)] for kind in order
        }
        rooms = [[0] * (len(weights) + classes)]
        for kind in reversed(self._kinds):
            rooms.append([own + after for own, after in zip(most[kind], rooms[-1], strict=True)])
        self._rooms = rooms[::-1]

    def search(self, wanted: NodeLoad) -> NodeCounts | None:
        """The states of nodes; None where there are none. Raises OutOfGroupSteps."""
        dead: set[tuple[int, NodeLoad]] = set()
        path = [(wanted, self._tries(0, wanted))]
        taken: list[NodeLoad] = []
        while path:
            left, tries = path[-1]
            if not any(left):
                return self._counts(taken)
            load = next(tries, None)
            if load is None:
                dead.add((len(taken), left))
                path.pop()
                if taken:
                    taken.pop()
                continue
            self._steps.take()
            rest = tuple(one - other for one, other in zip(left, load, strict=True))
            if (len(taken) + 1, rest) not in dead:
                taken.append(load)
                path.append((rest, self._tries(len(taken), rest)))
        return None

    def _tries(self, place: int, left: NodeLoad) -> Iterator[NodeLoad]:
        """What the node of that place may get: as much of everything as the nodes after it cannot take."""
        if place == len(self._kinds):
            return
        after = self._rooms[place + 1]
        least = [amount - room for amount, room in zip(self._amounts(left), after, strict=True)]
        loads = {tuple(map(min, load, left)) for load in self._loads[self._kinds[place]]}
        enough = [
            load for load in loads if all(amount >= few for amount, few in zip(self._amounts(load), least, strict=True))
        ]
        yield from sorted(enough, key=lambda load: (-self._amounts(load)[0], sum(load), load))

    def _amounts(self, load: NodeLoad) -> list[int]:
        """What the load takes of each resource, and how many members of each class it has. Raises Cancelled."""
        self._steps.look()
        return [*(sum(map(mul, weight, load)) for weight in self._weights), *load]

    def _counts(self, taken: Sequence[NodeLoad]) -> NodeCounts:
        empty = (0,) * self._classes
        loads = [*taken, *[empty] * (len(self._kinds) - len(taken))]
        counts: dict[NodeState, int] = {}
        for state in zip(self._kinds, loads, strict=True):
            counts[state] = counts.get(state, 0) + 1
        return counts


def _plus(load: NodeLoad, one: int) -> NodeLoad:
    return (*load[:one], load[one] + 1, *load[one + 1 :])


def _moved(states: Mapping[NodeState, int], old: NodeState, new: NodeState) -> dict[NodeState, int]:
    """One node has changed its state."""
    moved = dict(states)
    moved[new] = moved.get(new, 0) + 1
    moved[old] -= 1
    if not moved[old]:
        del moved[old]
    return moved

"""The choices of a pod on a node, for the policy fill-value: which devices, and what that leaves.

The choices of a single device are all tried; of several devices each is taken where the least is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from allocator.policies.cells import Cells
from allocator.policies.fill_amounts import FillAmounts
from allocator.policies.fill_rollouts import Units, tightest
from allocator.policies.unit_states import Takes, UnitKind, UnitStates, thousandths

Step = tuple[int, int]
"""The place of a unit, and what becomes of it."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeTakes:
    """What a pod may take of one kind of node: for each request, of each unit, and how many devices.

    least: what it takes at least of units that the workload can use, at their prices.
    """

    requests: Sequence[tuple[Sequence[Takes], int]]
    least: int


@dataclass(frozen=True, slots=True, eq=False)
class NodeState:
    """What is left of nodes. units: in their order. cpu: in thousandths. memory: in MiB.

    number: of no other state. of_units: their number. left: of all units, at their prices. filled: by the sequences.
    """

    number: int
    units: Units
    cpu: int
    memory: int
    of_units: int
    left: int
    filled: int


@dataclass(frozen=True, slots=True, eq=False)
class NodeChoices:
    """The choices on a node, in parallel lists. units: the number of what is left. cpu, memory: that are left.

    lost: of what sequences fill. taken: of the units, at their prices. steps: by which units.
    """

    cpu: int
    memory: int
    units: list[int]
    lost: list[int]
    taken: list[int]
    steps: list[Sequence[Step]]


def least_taken(states: UnitStates, kinds: Sequence[UnitKind], requests: Sequence[tuple[Sequence[Takes], int]]) -> int:
    """For `NodeTakes.least`. kinds: of the node's units."""
    found = 0
    for of_units, count in requests:
        amounts = [
            _amount(kind, takes, take, states.price(kind.unit))
            for kind, takes in zip(kinds, of_units, strict=True)
            for take in takes.cells
        ]
        found += count * min(amounts, default=0)
    return found


def _amount(kind: UnitKind, takes: Takes, take: Cells, price: int) -> int:
    """What a device takes at least; nothing if no pod of the workload takes the same, which then may be of no use."""
    return price * thousandths(kind.unit, take) if takes in kind.takes else 0


def choices_on(
    amounts: FillAmounts, states: UnitStates, state: NodeState, wanted: NodeTakes, needs: Step
) -> NodeChoices:
    """All choices. needs: cpu and memory."""
    cpu, memory = max(0, state.cpu - needs[0]), max(0, state.memory - needs[1])
    found = NodeChoices(cpu, memory, [], [], [], [])
    for steps in _steps(states, state.units, wanted.requests):
        now = list(state.units)
        taken = 0
        for place, after in steps:
            taken += states.worth[now[place]] - states.worth[after]
            now[place] = after
        units = amounts.number(now)
        found.units.append(units)
        found.lost.append(state.filled - amounts.of(units, cpu, memory))
        found.taken.append(taken)
        found.steps.append(steps)
    return found


def _steps(states: UnitStates, units: Units, requests: Sequence[tuple[Sequence[Takes], int]]) -> list[tuple[Step, ...]]:
    """Those of a single device, the unit with the least left first."""
    asked = [(takes, count) for takes, count in requests if count]
    if len(asked) == 1 and asked[0][1] == 1:
        return _of_one(states, units, asked[0][0])
    now, steps = list(units), list[Step]()
    for takes, count in asked:
        found = tightest(states, now, takes, count)
        if found is None:
            return []
        for place, after in found:
            steps.append((place, after))
            now[place] = after
    return [tuple(steps)]


def _of_one(states: UnitStates, units: Units, takes: Sequence[Takes]) -> list[tuple[Step, ...]]:
    different: dict[tuple[int, Takes], int] = {}
    for place, unit in enumerate(units):
        different.setdefault((unit, takes[place]), place)
    places = sorted([(states.left[unit], unit, place) for (unit, _), place in different.items()])
    return [((place, after),) for _, unit, place in places for after in states.nexts(unit, takes[place])]

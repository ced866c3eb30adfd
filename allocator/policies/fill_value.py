"""Fill value: the node and the devices that leave the fleet worth most to the workload.

The value of a node is what random pods of the workload would still fill of it. A choice costs what that value falls by,
what pods lose for which there are few places, and how much the node's pool is needed by those that can go nowhere else
(`fill_values`). All nodes are compared at once, so that it scores no node alone. The choices of a single device are all
tried; of several devices each is taken where the least is left.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from allocator.bits import Mask, bits
from allocator.features.contract import NodeAttempt
from allocator.policies.contract import PricedOrder, Requests, Score, Scoring
from allocator.policies.fill_rollouts import PLENTY, Filled, Rollouts, Takes, UnitKind, Units, UnitStates, tightest
from allocator.policies.hardware import Cells, thousandths
from allocator.search.backtracking import Order, OrderEffort
from allocator.search.rules import DeviceSlot, Pick


class FillValue:
    """The policy by name; as one of a single attempt it leaves devices and nodes as they are."""

    name = "fill-value"
    scoring = Scoring.BY_FLEET
    reads: Sequence[str] = ()

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order | None:
        """As they are."""
        return None

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """All answers are as good."""
        return ()


class FromDevices:
    """The policy of one attempt that takes these devices first, by position, in their order."""

    reads: Sequence[str] = ()

    def __init__(self, name: str, devices: Iterable[int]) -> None:
        self.name = name
        self._places = {device: place for place, device in enumerate(dict.fromkeys(devices))}

    @property
    def key(self) -> Hashable:
        """By name, and by the devices in their order."""
        return self.name, *self._places

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order:
        """The devices first, then all others."""
        places = self._places

        def first(_slot: DeviceSlot, domain: Mask, _picks: Sequence[Pick]) -> Iterable[int]:
            return sorted(bits(domain), key=lambda device: places.get(device, len(places)))

        return PricedOrder(first, OrderEffort(device=3))

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """All answers are as good: the node is chosen already."""
        return ()


# What rollouts fill of the units of nodes, for the policy fill-value: worked out once for each set of units.
#
# For most amounts of cpu and memory the rollouts do the same, so that what was worked out for one counts for others.


MOST_KEPT: Final = 1 << 17
"""Amounts that are kept; beyond, all are forgotten."""


class FillAmounts:
    """The amounts by units, which have numbers. units: of each. worth: of these. totals: see `Rollouts.totals`."""

    def __init__(self, states: UnitStates, rollouts: Rollouts) -> None:
        self.units: list[Units] = []
        self.worth: list[int] = []
        self.totals: list[list[int]] = []
        self._states = states
        self._rollouts = rollouts
        self._numbers: dict[Units, int] = {}
        self._least_cpu: dict[int, list[int]] = {}
        self._filled: dict[int, list[Filled]] = {}
        self._short: dict[tuple[int, int, int], int] = {}
        self._kept = 0
        self.rolled_out = 0

    def number(self, units: Iterable[int]) -> int:
        """The number of these units, those left out that no request of the workload can use."""
        serves, left = self._states.serves, self._states.left
        ordered = sorted([(left[unit], unit) for unit in units if serves[unit]])
        in_order = tuple([unit for _, unit in ordered])
        number = self._numbers.get(in_order)
        if number is None:
            number = self._numbers[in_order] = len(self.units)
            self.units.append(in_order)
            self.totals.append(self._rollouts.totals(in_order))
            self.worth.append(sum([self._states.worth[unit] for unit in in_order]))
        return number

    def of(self, units: int, cpu: int, memory: int) -> int:
        """What all sequences together fill of the units of that number. Cost: a rollout of each, the first time."""
        least = self._least_cpu.get(units)
        if least is not None:
            place = bisect_right(least, cpu) - 1
            if place >= 0:
                filled = self._filled[units][place]
                if cpu <= filled.most_cpu and memory >= filled.least_memory:
                    return filled.amount
        amount = self._short.get((units, cpu, memory))
        return self._work_out(units, cpu, memory) if amount is None else amount

    def _work_out(self, units: int, cpu: int, memory: int) -> int:
        if self._kept >= MOST_KEPT:
            self._least_cpu.clear()
            self._filled.clear()
            self._short.clear()
            self._kept = 0
        self._kept += 1
        self.rolled_out += 1
        filled = self._rollouts.fill(self.units[units], cpu, memory)
        if filled.least_memory == PLENTY:
            self._short[units, cpu, memory] = filled.amount
        else:
            self._keep(units, filled)
        return filled.amount

    def _keep(self, units: int, found: Filled) -> None:
        least = self._least_cpu.get(units)
        if least is None:
            least = self._least_cpu[units] = []
            self._filled[units] = []
        place = bisect_right(least, found.least_cpu)
        least.insert(place, found.least_cpu)
        self._filled[units].insert(place, found)


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
    """What is left of nodes."""

    number: int
    """Nodes with the same number have the same left."""
    units: Units
    """What is left of each unit, in the order of the units."""
    cpu: int
    """Thousandths of a CPU that are free."""
    memory: int
    """MiB that are free."""
    of_units: int
    """The number of the units."""
    left: int
    """What is left of all units, at their prices."""
    filled: int
    """How much of that the sequences fill."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeChoices:
    """The choices on a node, in parallel lists."""

    cpu: int
    """What is free after the pod, in thousandths of a CPU."""
    memory: int
    """What is free after the pod, in MiB."""
    units: list[int]
    """The number of the units as each choice leaves them."""
    lost: list[int]
    """How much less the sequences fill after each choice."""
    taken: list[int]
    """What each choice takes of the units, at their prices."""
    steps: list[Sequence[Step]]
    """Which units each choice takes from."""


def least_taken(states: UnitStates, kinds: Sequence[UnitKind], requests: Sequence[tuple[Sequence[Takes], int]]) -> int:
    """For `NodeTakes.least`. kinds: of the node's units."""
    least = 0
    for of_units, count in requests:
        amounts = [
            _amount(kind, takes, take, states.price(kind.unit))
            for kind, takes in zip(kinds, of_units, strict=True)
            for take in takes.cells
        ]
        least += count * min(amounts, default=0)
    return least


def _amount(kind: UnitKind, takes: Takes, take: Cells, price: int) -> int:
    """What a device takes at least; nothing if no pod of the workload takes the same, which then may be of no use."""
    return price * thousandths(kind.unit, take) if takes in kind.takes else 0


def choices_on(
    amounts: FillAmounts, states: UnitStates, state: NodeState, wanted: NodeTakes, needs: Step
) -> NodeChoices:
    """All choices. needs: cpu and memory."""
    cpu, memory = max(0, state.cpu - needs[0]), max(0, state.memory - needs[1])
    choices = NodeChoices(cpu, memory, [], [], [], [])
    for steps in _steps(states, state.units, wanted.requests):
        now = list(state.units)
        taken = 0
        for place, after in steps:
            taken += states.worth[now[place]] - states.worth[after]
            now[place] = after
        units = amounts.number(now)
        choices.units.append(units)
        choices.lost.append(state.filled - amounts.of(units, cpu, memory))
        choices.taken.append(taken)
        choices.steps.append(steps)
    return choices


def _steps(states: UnitStates, units: Units, requests: Sequence[tuple[Sequence[Takes], int]]) -> list[tuple[Step, ...]]:
    """Those of a single device, the unit with the least left first."""
    asked = [(takes, count) for takes, count in requests if count]
    if len(asked) == 1 and asked[0][1] == 1:
        return _of_one(states, units, asked[0][0])
    now, steps = list(units), list[Step]()
    for takes, count in asked:
        tight = tightest(states, now, takes, count)
        if tight is None:
            return []
        for place, after in tight:
            steps.append((place, after))
            now[place] = after
    return [tuple(steps)]


def _of_one(states: UnitStates, units: Units, takes: Sequence[Takes]) -> list[tuple[Step, ...]]:
    different: dict[tuple[int, Takes], int] = {}
    for place, unit in enumerate(units):
        different.setdefault((unit, takes[place]), place)
    places = sorted([(states.left[unit], unit, place) for (unit, _), place in different.items()])
    return [((place, after),) for _, unit, place in places for after in states.nexts(unit, takes[place])]

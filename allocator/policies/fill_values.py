"""What it costs to place a pod on each node of a cluster: the state of the policy fill-value.

The cost of a choice has three components, in units of `PRICE` to a thousandth: what sequences of pods fill less of the
node (`fill_rollouts`), what pods lose for which there are few places anywhere, and how much the node's pool is needed
by those that can go nowhere else.

Most nodes cost far more than the best one. So each has a lower bound of its cost, and those are worked out whose bound
is not above the best cost, the lowest first. The bound of a node that has changed is what its sequences fill, less what
they could fill of all that is left once the pod is there; of another one what its best choice lost before, with its
scarcity of that time, times the least that any scarcity has changed by since.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from allocator.memo import ChangedNumbers
from allocator.policies.fill_rollouts import NONE, PRICE, SEQUENCES, FillShape, Rollouts, Units, UnitStates
from allocator.policies.fill_value import FillAmounts, NodeChoices, NodeState, NodeTakes, Step, choices_on
from allocator.policies.hardware import UNIT

# For how many pods of each shape of the workload nodes have room, for the policy fill-value.


Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


class FillSlots:
    """The rooms of sets of units, which have numbers, and of nodes with these."""

    def __init__(self, states: UnitStates, shapes: Sequence[FillShape]) -> None:
        self._states = states
        self._none = len(states.best_of)
        layers = max((len(shape.requests) for shape in shapes), default=0)
        asked = [[*shape.requests, *[(self._none, 1)] * (layers - len(shape.requests))] for shape in shapes]
        self._layers = [
            (np.array([own[layer][0] for own in asked]), np.array([float(max(own[layer][1], 1)) for own in asked]))
            for layer in range(layers)
        ]
        self._of_units: NDArray[np.float32] = np.zeros((64, len(shapes)), np.float32)
        self._known = 0
        self._times: dict[int, Array] = {}
        self._cpu = _Divided([shape.cpu for shape in shapes])
        self._memory = _Divided([shape.memory for shape in shapes])

    def add(self, every: Sequence[Units]) -> None:
        """The units of all numbers so far."""
        for units in every[self._known :]:
            if self._known == len(self._of_units):
                self._of_units = np.pad(self._of_units, ((0, self._known), (0, 0)))
            self._of_units[self._known] = self._row(units)
            self._known += 1

    def of(self, units: Sequence[int], cpu: Sequence[int], memory: Sequence[int]) -> Array:
        """The rooms of nodes, in rows. units: the number of each. Cost: O(nodes times shapes) array operations."""
        rooms = np.minimum(self._of_units[np.array(units, np.int64)], self._cpu.by(cpu))
        return np.minimum(rooms, self._memory.by(memory), out=rooms)

    def _row(self, units: Units) -> Array:
        times = sum((self._times_of(unit) for unit in units), np.zeros(self._none + 1))
        times[self._none] = UNIT
        row = np.full(self._of_units.shape[1], float(UNIT))
        for requests, counts in self._layers:
            np.minimum(row, np.floor(times[requests] / counts), out=row)
        return row

    def _times_of(self, unit: int) -> Array:
        """How many devices for each request there is room for on the unit."""
        times = self._times.get(unit)
        if times is None:
            numbers = [self._states.times(unit, request) for request in range(self._none)]
            times = self._times[unit] = np.array([*numbers, 0], np.float64)
        return times


class _Divided:
    """How often what each shape requests is in what is left."""

    def __init__(self, requested: Sequence[int]) -> None:
        self._requested = np.array([amount or 1 for amount in requested], np.float64)
        self._free = np.array([number for number, amount in enumerate(requested) if not amount], np.int64)

    def by(self, left: Sequence[int]) -> Array:
        """In rows."""
        times: Array = np.array(left, np.float64)[:, None] / self._requested
        np.floor(times, out=times)
        if len(self._free):
            times[:, self._free] = np.inf
        return times


# What the workload of the policy fill-value requests, at the prices of drivers: the shortest one's units cost most.


def set_prices(states: UnitStates, shapes: Sequence[FillShape], nodes: Mapping[Units, int]) -> list[int]:
    """Set the prices of all drivers, and return the weight of each shape: what its devices take on average.

    nodes: how many have units in these states if nothing is in use.
    """
    units: dict[int, int] = {}
    for node, number in nodes.items():
        for unit in node:
            units[unit] = units.get(unit, 0) + number
    of_request = [_mean_amounts(states, request, units) for request in range(len(states.best_of))]
    prices = _prices(shapes, of_request, _capacity(states, units))
    states.set_prices(prices)
    return [round(_weight(shape, of_request, prices)) for shape in shapes]


def _weight(shape: FillShape, of_request: Sequence[Mapping[str, float]], prices: Mapping[str, int]) -> float:
    return sum(
        count * amount * prices[driver]
        for request, count in shape.requests
        for driver, amount in of_request[request].items()
    )


def _mean_amounts(states: UnitStates, request: int, units: Mapping[int, int]) -> Mapping[str, float]:
    """What one device takes of the units that can serve it, on average, by driver."""
    sums: dict[str, tuple[float, int]] = {}
    for unit, number in units.items():
        after = states.best_for(unit, request)
        if after != NONE:
            driver = states.kind_of[unit].unit.driver
            amount, seen = sums.get(driver, (0.0, 0))
            sums[driver] = amount + number * (states.left[unit] - states.left[after]), seen + number
    return {driver: amount / seen for driver, (amount, seen) in sums.items()}


def _capacity(states: UnitStates, units: Mapping[int, int]) -> Mapping[str, float]:
    capacity: dict[str, float] = {}
    for unit, number in units.items():
        driver = states.kind_of[unit].unit.driver
        capacity[driver] = capacity.get(driver, 0.0) + number * states.left[unit]
    return capacity


def _prices(
    shapes: Iterable[FillShape], of_request: Sequence[Mapping[str, float]], capacity: Mapping[str, float]
) -> Mapping[str, int]:
    """How short the fleet is of the units of each driver: PRICE for the shortest."""
    demand = dict.fromkeys(capacity, 0.0)
    for shape in shapes:
        for request, count in shape.requests:
            for driver, amount in of_request[request].items():
                demand[driver] += shape.share * count * amount
    loads = {driver: demand[driver] / capacity[driver] if capacity[driver] else 0.0 for driver in capacity}
    highest = max(loads.values(), default=0.0)
    return {driver: round(PRICE * load / highest) if highest else PRICE for driver, load in loads.items()}


# What is left of the fleet for the policy fill-value: scarce places, and pools that pods need which fit nowhere else.
#
# A pool has the nodes that the same shapes can use. The fleet's demand is that of pods of the workload until all that
# is left is filled. Numbers have few binary places, so that sums are exact, and the same in any order.


PLACES = 1 << 8

SCARCITY = 0.1
"""What the loss of places counts at most, beside the loss of the node's own future."""


class FillPools:
    """The pools by number, and what is left of them. weights: of the shapes."""

    def __init__(self, shapes: Sequence[FillShape], weights: Sequence[int]) -> None:
        self._shares = np.array([shape.share for shape in shapes])
        self._weights = np.array(weights, np.float64)
        self._mean = _sum(self._shares * self._weights)
        self._with_devices = np.array([bool(shape.requests) for shape in shapes], np.bool_)
        self._numbers: dict[int, int] = {}
        self._slots = np.zeros((0, len(shapes)))
        self._left = np.zeros(0)
        self._restricted = np.zeros(len(shapes), np.bool_)

    def number(self, shapes: int) -> int:
        """The number of the pool of nodes that these shapes can use, as bits."""
        number = self._numbers.get(shapes)
        if number is None:
            number = self._numbers[shapes] = len(self._numbers)
            self._slots = np.pad(self._slots, ((0, 1), (0, 0)))
            self._left = np.pad(self._left, (0, 1))
            pools = [pool for pool in self._numbers if pool]
            refused = [any(not pool >> shape & 1 for pool in pools) for shape in range(len(self._shares))]
            self._restricted = np.array(refused, np.bool_) & self._with_devices
        return number

    def add(self, number: int, slots: Array, left: int) -> None:
        """A node of that pool has so much left."""
        self._slots[number] += slots
        self._left[number] += left

    def subtract(self, number: int, slots: Array, left: int) -> None:
        """A node of that pool has that no longer."""
        self._slots[number] -= slots
        self._left[number] -= left

    def scarcity(self) -> Array:
        """What one place less costs, for each shape.

        The pods for each place, added up over all shapes, are 1 while each shape can use all that is left. The weight
        of scarcity grows with what they exceed that by, up to SCARCITY for twice as many.
        """
        wanted = self._pods_per_slot()
        excess = _sum(wanted * self._with_devices) - 1
        return _with_few_places(SCARCITY * min(max(excess, 0.0), 1.0) * self._weights * wanted)

    def load(self) -> Array:
        """How much of what is left of each pool those ask for that can go nowhere else."""
        asked: Array = self._slots @ (self._restricted * _with_few_places(self._weights * self._pods_per_slot()))
        return asked / np.maximum(self._left, UNIT * PRICE)

    def _pods_per_slot(self) -> Array:
        """How many pods of each shape are still to come for each of its places."""
        slots = np.maximum(self._slots.sum(axis=0), 1.0)
        expected = float(self._left.sum()) / self._mean if self._mean else 0.0
        pods: Array = self._shares * expected / slots
        return pods


def _sum(numbers: Array) -> float:
    """One after the other: the same on every machine."""
    total: float = sum(numbers.tolist())
    return total


def _with_few_places(numbers: Array) -> Array:
    rounded: Array = np.rint(PLACES * numbers) / PLACES
    return rounded


PRESSURE = 0.3
"""What the demand of those counts that can go nowhere else."""

MOST_UNITS = 1 << 15
"""Sets of units; beyond, it is better to start anew."""

MOST_CHOICES = 1 << 8
"""States of nodes for which the choices of one pod are kept."""

FIRST = 4
GROWTH = 8
"""How many nodes are worked out together at first, and how many times as many from then on."""

UNKNOWN = -np.inf

ROUNDING = 1e-3
"""More than costs and bounds differ by because they are not exact."""


NO_NODES: Mapping[Units, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FillNode:
    """A node. units: the states of its units, in their order. cpu: in thousandths. memory: in MiB."""

    units: Units
    cpu: int
    memory: int


@dataclass(frozen=True, slots=True, eq=False)
class _FleetDemand:
    """What the fleet's demand adds to costs. scarcity: of a place of each shape. load: of each pool."""

    scarcity: Array
    load: Array


@dataclass(slots=True, eq=False)
class _AlikeNodes:
    """Nodes in one state. rooms: for pods of each shape. nodes: how many there are."""

    state: NodeState
    pool: int
    rooms: Array
    nodes: int = 0


class PodCosts:
    """What is known of the costs of pods that ask for the same.

    kinds_of: the kind of each of these nodes, for `takes_of`. cpu, memory: as for `FillNode`.
    """

    def __init__(
        self, cpu: int, memory: int, kinds_of: Callable[[IntArray], IntArray], takes_of: Callable[[int], NodeTakes]
    ) -> None:
        self.needs = cpu, memory
        self.kinds_of = kinds_of
        self.takes_of = takes_of
        self.choices: dict[tuple[int, int], NodeChoices] = {}
        self.scarcity: Array = np.zeros(0)
        self.lost: Array = np.zeros(0)
        self.scarce: Array = np.zeros(0)
        self.at = 0

    def grow(self, size: int) -> None:
        """There are numbers of nodes up to this."""
        more = size - len(self.lost)
        if more > 0:
            self.lost = np.pad(self.lost, (0, more), constant_values=UNKNOWN)
            self.scarce = np.pad(self.scarce, (0, more))


class FillValues:
    """The values of all nodes of a cluster, for a workload.

    nodes: how many have units in these states if nothing is in use.
    """

    def __init__(self, states: UnitStates, shapes: Sequence[FillShape], nodes: Mapping[Units, int] = NO_NODES) -> None:
        self.units = states
        weights = set_prices(states, shapes, nodes)
        self._shapes = shapes
        self._amounts = FillAmounts(states, Rollouts(states, shapes))
        self._slots = FillSlots(states, shapes)
        self._pools = FillPools(shapes, weights)
        self._pool_of_kinds: dict[object, int] = {}
        self._alike: dict[FillNode, _AlikeNodes] = {}
        self._nodes: dict[int, NodeState] = {}
        self._numbered = 0
        self._changes = ChangedNumbers()
        self._demand: _FleetDemand | None = None
        self._state_of: IntArray = np.zeros(0, np.int64)
        self._pool_of: IntArray = np.zeros(0, np.int64)
        self._filled: Array = np.zeros(0)
        self._worth: Array = np.zeros(0)
        self._totals: Array = np.zeros((0, SEQUENCES))
        self._rooms: Array = np.zeros((0, len(shapes)))

    # -- the nodes

    def set_node(self, number: int, node: FillNode) -> None:
        """The node is so from now on. Cost: a rollout of each sequence, where no node was like that before."""
        old = self._nodes.get(number)
        if old is not None and (old.units, old.cpu, old.memory) == (node.units, node.cpu, node.memory):
            return
        self.remove_node(number)
        self._grow(number)
        alike = self._alike_of(node)
        alike.nodes += 1
        state = self._nodes[number] = alike.state
        self._state_of[number], self._pool_of[number] = state.number, alike.pool
        self._filled[number], self._worth[number] = state.filled, self._amounts.worth[state.of_units]
        self._totals[number] = self._amounts.totals[state.of_units]
        self._rooms[number] = alike.rooms
        self._pools.add(alike.pool, alike.rooms, state.left)
        self._change(number)

    def remove_node(self, number: int) -> None:
        """The node is gone, if it was there."""
        state = self._nodes.pop(number, None)
        if state is not None:
            node = FillNode(state.units, state.cpu, state.memory)
            alike = self._alike[node]
            self._pools.subtract(alike.pool, alike.rooms, state.left)
            alike.nodes -= 1
            if not alike.nodes:
                del self._alike[node]
            self._change(number)

    def units_of(self, number: int) -> Units:
        """The states of the node's units. Raises KeyError."""
        return self._nodes[number].units

    def is_full(self) -> bool:
        """Whether so much is kept that it is better to start anew."""
        return len(self._amounts.units) > MOST_UNITS

    @property
    def rolled_out(self) -> int:
        """How often sequences were placed."""
        return self._amounts.rolled_out

    def _change(self, number: int) -> None:
        self._changes.note(number, len(self._nodes))
        self._demand = None

    def _alike_of(self, node: FillNode) -> "_AlikeNodes":
        alike = self._alike.get(node)
        if alike is None:
            state = self._state(node)
            self._slots.add(self._amounts.units)
            rooms = self._slots.of([state.of_units], [node.cpu], [node.memory])[0]
            alike = self._alike[node] = _AlikeNodes(state, self._pool(node.units), rooms)
        return alike

    def _state(self, node: FillNode) -> NodeState:
        units = self._amounts.number(node.units)
        filled = self._amounts.of(units, node.cpu, node.memory)
        left = sum(self.units.worth[unit] for unit in node.units)
        self._numbered += 1
        return NodeState(self._numbered, node.units, node.cpu, node.memory, units, left, filled)

    def _pool(self, units: Units) -> int:
        """The pool of nodes with units of these kinds: by which shapes they can serve if nothing is in use."""
        kinds = frozenset(self.units.kind_of[unit] for unit in units)
        pool = self._pool_of_kinds.get(kinds)
        if pool is None:
            served = {number for kind in kinds for number, takes in enumerate(kind.takes) if takes.cells}
            possible = sum(
                1 << number
                for number, shape in enumerate(self._shapes)
                if shape.requests and all(request in served for request, _ in shape.requests)
            )
            pool = self._pool_of_kinds[kinds] = self._pools.number(possible)
        return pool

    def _grow(self, number: int) -> None:
        more = number + 1 - len(self._state_of)
        if more > 0:
            more += len(self._state_of) // 2
            self._state_of, self._pool_of = np.pad(self._state_of, (0, more)), np.pad(self._pool_of, (0, more))
            self._worth, self._filled = np.pad(self._worth, (0, more)), np.pad(self._filled, (0, more))
            self._totals, self._rooms = (np.pad(one, ((0, more), (0, 0))) for one in (self._totals, self._rooms))

    # -- the costs

    def costs(self, pod: PodCosts, numbers: IntArray) -> Array:
        """What the pod costs on each of these nodes by its best choice; infinite where it has no room.

        Of nodes that cost more than the best ones a lower bound, which is more as well.
        Cost: O(nodes) array operations; for each state of nodes with a bound below the best O(choices times shapes).
        """
        demand = self._catch_up(pod)
        kinds = pod.kinds_of(numbers)
        costs = self._bounds(pod, demand, numbers, kinds)
        codes = (self._state_of[numbers] << 20) + kinds
        is_exact = np.zeros(len(numbers), np.bool_)
        best, at_once = np.inf, FIRST
        while True:
            open_ = np.flatnonzero((costs <= best + ROUNDING) & ~is_exact)
            if not len(open_):
                return costs
            first = open_[np.argpartition(costs[open_], at_once - 1)[:at_once]] if len(open_) > at_once else open_
            different, places = np.unique(codes[first], return_index=True)
            worked_out = self._worked_out(pod, demand, numbers[first[places]], kinds[first[places]])
            position = np.searchsorted(different, codes[open_]) % len(different)
            same = different[position] == codes[open_]
            alike, position = open_[same], position[same]
            costs[alike], is_exact[alike] = worked_out[0][position], True
            pod.lost[numbers[alike]], pod.scarce[numbers[alike]] = worked_out[1][position], worked_out[2][position]
            best, at_once = min(best, float(worked_out[0].min())), GROWTH * at_once

    def steps(self, pod: PodCosts, number: int) -> Sequence[Step]:
        """What becomes of which units of the node by the best choice; nothing where the pod has no room."""
        demand, numbers = self._catch_up(pod), np.array([number])
        kind = int(pod.kinds_of(numbers)[0])
        choices = self._choices(pod, number, kind)
        if not choices.steps:
            return ()
        costs, _ = self._of_choices(pod, demand, numbers, [choices])
        return choices.steps[int(np.argmin(costs))]

    def _catch_up(self, pod: PodCosts) -> _FleetDemand:
        """Nothing is known of nodes that have changed."""
        demand = self._demand
        if demand is None:
            demand = self._demand = _FleetDemand(self._pools.scarcity(), self._pools.load())
        pod.grow(len(self._state_of))
        if pod.at != self._changes.now:
            numbers = self._changes.numbers_since(pod.at)
            changed = np.arange(len(pod.lost)) if numbers is None else np.array(numbers, np.int64)
            pod.lost[changed], pod.scarce[changed] = UNKNOWN, 0.0
            pod.at = self._changes.now
        if len(pod.choices) > MOST_CHOICES:
            pod.choices.clear()
        pod.scarce *= _least_ratio(pod.scarcity, demand.scarcity)
        pod.scarcity = demand.scarcity
        return demand

    def _bounds(self, pod: PodCosts, demand: _FleetDemand, numbers: IntArray, kinds: IntArray) -> Array:
        least = np.array([pod.takes_of(kind).least for kind in range(int(kinds.max(initial=-1)) + 1)])[kinds]
        unknown = np.flatnonzero(pod.lost[numbers] == UNKNOWN)
        pod.lost[numbers[unknown]] = self._least_lost(numbers[unknown], least[unknown])
        bounds: Array = pod.lost[numbers] + pod.scarce[numbers]
        bounds += PRESSURE * demand.load[self._pool_of[numbers]] * least
        return bounds

    def _least_lost(self, numbers: IntArray, taken: IntArray) -> Array:
        """What sequences fill less of nodes of which that is taken, if they fill what they can."""
        most = np.minimum(self._totals[numbers], (self._worth[numbers] - taken)[:, None]).sum(axis=1)
        lost: Array = (self._filled[numbers] - most) / SEQUENCES
        return lost

    def _choices(self, pod: PodCosts, number: int, kind: int) -> NodeChoices:
        state = self._nodes[number]
        choices = pod.choices.get((state.number, kind))
        if choices is None:
            choices = choices_on(self._amounts, self.units, state, pod.takes_of(kind), pod.needs)
            pod.choices[state.number, kind] = choices
        return choices

    def _worked_out(self, pod: PodCosts, demand: _FleetDemand, numbers: IntArray, kinds: IntArray) -> Array:
        """In rows: the cost of the best choice on each node, and the least lost and scarce of all choices there."""
        choices = [self._choices(pod, *one) for one in zip(numbers.tolist(), kinds.tolist(), strict=True)]
        able = [place for place, one in enumerate(choices) if one.steps]
        least = np.full((3, len(choices)), np.inf)
        least[2] = 0.0
        if able:
            of_able = [choices[place] for place in able]
            starts = np.cumsum([0, *[len(one.steps) for one in of_able[:-1]]])
            costs, scarce = self._of_choices(pod, demand, numbers[able], of_able)
            lost = np.array([lost for one in of_able for lost in one.lost]) / SEQUENCES
            for row, values in enumerate((costs, lost, scarce)):
                least[row, able] = np.minimum.reduceat(values, starts)
        return least

    def _of_choices(
        self, pod: PodCosts, demand: _FleetDemand, numbers: IntArray, choices: Sequence[NodeChoices]
    ) -> tuple[Array, Array]:
        """The cost of each choice, and its scarcity at the time of which that is known for the pod."""
        self._slots.add(self._amounts.units)
        lengths = [len(one.steps) for one in choices]
        units = [units for one in choices for units in one.units]
        cpu = [one.cpu for one in choices for _ in one.units]
        memory = [one.memory for one in choices for _ in one.units]
        fewer = np.repeat(self._rooms[numbers], lengths, axis=0) - self._slots.of(units, cpu, memory)
        np.maximum(fewer, 0.0, out=fewer)  # partitions left may be cut into more, as each is cut where room is left
        lost = np.array([lost for one in choices for lost in one.lost]) / SEQUENCES
        taken = np.array([taken for one in choices for taken in one.taken], np.float64)
        load = np.repeat(demand.load[self._pool_of[numbers]], lengths)
        return lost + fewer @ demand.scarcity + PRESSURE * load * taken, fewer @ pod.scarcity


def _least_ratio(before: Array, now: Array) -> float:
    """How many times what it counted before each counts now, at least; 0 where nothing was known."""
    if not len(before):
        return 0.0
    some = before > 0
    return float((now[some] / before[some]).min()) if some.any() else 1.0

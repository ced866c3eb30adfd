"""What nodes are worth to a workload, and what it costs to place a pod on one: the state of the policy fill-value.

The cost of a choice has three parts, in thousandths of a unit: what the node's future loses (`fill_plays`), what pods
lose for which there are few places anywhere, and how much the node's kind is needed by those that can go nowhere else.
All states are remembered: a node that has not changed is not looked at again.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from allocator.policies.fill_plays import FillShape, Plays, Units, tightest
from allocator.policies.unit_states import NONE, UNIT, UnitStates

SCARCITY = 0.1
"""What the loss of places counts, beside the loss of the node's own future."""

PRESSURE = 0.3
"""What the demand of those counts that can go nowhere else."""

PLENTY = 1 << 62
"""Memory that is never short."""

MOST_STATES = 1 << 17
"""Of nodes; beyond, all is forgotten."""

Array = NDArray[np.float32]
Step = tuple[int, int]
"""A unit's state, and what it becomes."""


@dataclass(frozen=True, slots=True)
class FillNode:
    """A node. units: the states of its units, in their order. cpu: in thousandths. memory: in bytes."""

    units: Units
    cpu: int
    memory: int


@dataclass(slots=True, eq=False)
class _State:
    """What is left of nodes. slots: how many pods of each shape there is room for. pool: the number of its pool."""

    number: int
    units: Units
    cpu: int
    memory: int
    slots: Array
    value: float
    peak: int
    pool: int


@dataclass(slots=True, eq=False)
class _Question:
    """The choices of a pod on the states that were asked for.

    place: of each state among those. starts: where their choices start. lost: of the future, for each choice. fewer:
    slots that are lost, for each choice and shape.
    """

    place: NDArray[np.int64]
    starts: list[int]
    lost: list[float]
    fewer: Array
    steps: list[Sequence[Step]]


class FillValues:
    """The values of all nodes of a cluster, for a workload. weights of shapes are worked out from `nodes`.

    nodes: the states of the units of every node if nothing is in use. largest: the most memory that a pod asks for.
    """

    def __init__(
        self,
        states: UnitStates,
        shapes: Sequence[FillShape],
        nodes: Iterable[Units] = (),
        largest: int = 0,
    ) -> None:
        self.states = states
        self._amounts = _Amounts(states, shapes, nodes)
        self.shapes = [replace(shape, weight=self._amounts.weight(shape.requests)) for shape in shapes]
        self._plays = Plays(states, self.shapes)
        self._largest = largest
        self._cpu = np.array([shape.cpu for shape in shapes], np.float64)
        self._memory = np.array([shape.memory for shape in shapes], np.float64)
        self._weights = np.array([shape.weight for shape in self.shapes], np.float64)
        self._shares = np.array([shape.share for shape in shapes], np.float64)
        self._known: dict[tuple[Units, int, int], _State] = {}
        self._all: list[_State] = []
        self._nodes: dict[int, tuple[FillNode, _State]] = {}
        self._state_of = np.zeros(0, np.int64)
        self._pool_of = np.zeros(0, np.int64)
        self._pools: dict[int, int] = {}
        self._slots = np.zeros((0, len(shapes)), np.float64)
        self._left = np.zeros(0, np.float64)
        self._restricted = np.zeros((0, len(shapes)), np.bool_)
        self._times: dict[int, Array] = {}
        self._questions: dict[Hashable, _Question] = {}

    # -- nodes

    def set_node(self, number: int, node: FillNode) -> None:
        """The node is so from now on. Cost: a value, where no node was in that state before."""
        self.remove_node(number)
        state = self._state(tuple(sorted(node.units)), node.cpu, node.memory)
        if number >= len(self._state_of):
            more = number + 1 - len(self._state_of) + len(self._state_of) // 2
            self._state_of, self._pool_of = np.pad(self._state_of, (0, more)), np.pad(self._pool_of, (0, more))
        self._nodes[number] = node, state
        self._state_of[number], self._pool_of[number] = state.number, state.pool
        self._slots[state.pool] += state.slots
        self._left[state.pool] += self._amounts.left(state.units)

    def remove_node(self, number: int) -> None:
        """The node is gone, if it was there."""
        if found := self._nodes.pop(number, None):
            _, state = found
            self._slots[state.pool] -= state.slots
            self._left[state.pool] -= self._amounts.left(state.units)

    def is_full(self) -> bool:
        """Whether so many states are kept that it is better to start anew."""
        return len(self._all) > MOST_STATES

    # -- questions

    def costs(self, key: Hashable, asked: FillShape, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the pod costs on each of these nodes, by its best choice; infinite where it has no room.

        key: of what the pod asks for. Cost: O(different states) array operations, and a value for each new one.
        """
        states = self._state_of[numbers]
        question = self._question(key, asked, states)
        costs = self._costs_of(question)
        best: NDArray[np.float64] = np.minimum.reduceat(costs, question.starts)[question.place[states]]
        if not asked.requests:
            return best
        load = self._load()[self._pool_of[numbers]]
        found: NDArray[np.float64] = best + PRESSURE * self._amounts.weight(asked.requests) * load
        return found

    def steps(self, key: Hashable, asked: FillShape, number: int) -> Sequence[Step]:
        """What becomes of which units of the node by the best choice; nothing where the pod has no room."""
        state = self._state_of[number : number + 1]
        question = self._question(key, asked, state)
        place = int(question.place[state[0]])
        start, end = [*question.starts, len(question.lost)][place : place + 2]
        return question.steps[start + int(np.argmin(self._costs_of(question)[start:end]))]

    def _costs_of(self, question: _Question) -> NDArray[np.float64]:
        """The cost of each choice, without the pool's load."""
        lost = np.array(question.lost, np.float64)
        found: NDArray[np.float64] = lost + (question.fewer[: len(lost)] @ self._scarce()).astype(np.float64)
        return found

    def _scarce(self) -> Array:
        """What one place less costs, for each shape."""
        slots = np.maximum(self._slots.sum(axis=0), 1.0)
        found: Array = (SCARCITY * self._weights * self._shares * self._expected() / slots).astype(np.float32)
        return found

    def _load(self) -> NDArray[np.float64]:
        """How much of what is left of each pool those ask for that can go nowhere else."""
        slots = np.maximum(self._slots.sum(axis=0), 1.0)
        demand = self._restricted * (self._shares * self._expected() * self._weights / slots) * self._slots
        found: NDArray[np.float64] = demand.sum(axis=1) / np.maximum(self._left, UNIT)
        return found

    def _expected(self) -> float:
        """The pods that are still to come, if all that is left is to be filled."""
        mean = float(self._shares @ self._weights)
        return float(self._left.sum()) / mean if mean else 0.0

    def _question(self, key: Hashable, asked: FillShape, states: NDArray[np.int64]) -> _Question:
        question = self._questions.get(key)
        different = np.unique(states)
        if question is None or len(question.starts) > 2 * len(different) + 256:
            empty = np.zeros((64, len(self.shapes)), np.float32)
            question = self._questions[key] = _Question(np.full(len(self._all), -1), [], [], empty, [])
        if len(question.place) < len(self._all):
            more = len(self._all) - len(question.place) + len(self._all) // 2
            question.place = np.pad(question.place, (0, more), constant_values=-1)
        for number in different[question.place[different] < 0].tolist():
            self._add(question, asked, self._all[number])
        return question

    def _add(self, question: _Question, asked: FillShape, state: _State) -> None:
        """The choices of the pod in that state."""
        if state.number >= len(question.place):
            question.place = np.pad(question.place, (0, len(self._all)), constant_values=-1)
        question.place[state.number] = len(question.starts)
        question.starts.append(len(question.lost))
        choices = self._choices(state.units, asked)
        for steps in choices:
            after = self._state(_after(state.units, steps), state.cpu - asked.cpu, self._memory_after(state, asked))
            row = len(question.lost)
            if row == len(question.fewer):
                question.fewer = np.pad(question.fewer, ((0, row), (0, 0)))
            question.lost.append(state.value - after.value)
            question.fewer[row] = state.slots - after.slots
            question.steps.append(steps)
        if not choices:
            question.lost.append(np.inf)
            question.steps.append(())
            if len(question.lost) > len(question.fewer):
                question.fewer = np.pad(question.fewer, ((0, len(question.fewer)), (0, 0)))

    def _memory_after(self, state: _State, asked: FillShape) -> int:
        return state.memory if state.memory == PLENTY else max(0, state.memory - asked.memory)

    def _choices(self, units: Units, asked: FillShape) -> list[Sequence[Step]]:
        """The choices of a single device are all tried, the unit with the least left first; of several the tightest."""
        if sum(count for _, count in asked.requests) != 1:
            found = self._tightest(units, asked)
            return [] if found is None else [found]
        request = next(request for request, count in asked.requests if count)
        different = sorted(set(units), key=lambda unit: (self.states.left[unit], unit))
        return [((unit, after),) for unit in different for after in self.states.nexts(unit, request)]

    def _tightest(self, units: Units, asked: FillShape) -> Sequence[Step] | None:
        now, steps = list(units), list[Step]()
        for request, count in asked.requests:
            taken = tightest(self.states, now, request, count)
            if taken is None:
                return None
            for place, after in taken:
                steps.append((now[place], after))
                now[place] = after
        return steps

    # -- states

    def _state(self, units: Units, cpu: int, memory: int) -> _State:
        plenty = self._known.get((units, cpu, PLENTY)) or self._new(units, cpu, PLENTY)
        if memory >= plenty.peak + self._largest:  # still enough once any pod is there
            return plenty
        return self._known.get((units, cpu, memory)) or self._new(units, cpu, memory)

    def _new(self, units: Units, cpu: int, memory: int) -> _State:
        slots = self._slots_of(units, cpu, memory)
        fitting = int.from_bytes(np.packbits(slots > 0, bitorder="little").tobytes(), "little")
        value, peak = self._plays.value(units, cpu, memory, fitting)
        state = _State(len(self._all), units, cpu, memory, slots, value, peak, self._pool(units))
        self._known[units, cpu, memory] = state
        self._all.append(state)
        return state

    def _slots_of(self, units: Units, cpu: int, memory: int) -> Array:
        requests = sum((self._times_of(unit) for unit in units), np.zeros(len(self.states.best_of), np.float32))
        found = np.full(len(self.shapes), np.float32(np.inf))
        self._amounts.lower(found, requests)
        np.minimum(found, _floors(cpu, self._cpu), out=found)
        np.minimum(found, _floors(memory, self._memory), out=found)
        np.minimum(found, np.float32(UNIT), out=found)
        return found

    def _times_of(self, unit: int) -> Array:
        known = self._times.get(unit)
        if known is None:
            numbers = [self.states.times(unit, request) for request in range(len(self.states.best_of))]
            known = self._times[unit] = np.array(numbers, np.float32)
        return known

    def _pool(self, units: Units) -> int:
        """The number of the pool of nodes that the same shapes can use."""
        possible = self._amounts.possible(units)
        number = self._pools.get(possible)
        if number is None:
            number = self._pools[possible] = len(self._pools)
            self._slots = np.pad(self._slots, ((0, 1), (0, 0)))
            self._left = np.pad(self._left, (0, 1))
            every = [pool for pool in self._pools if pool]
            restricted = [any(not pool >> shape & 1 for pool in every) for shape in range(len(self.shapes))]
            with_devices = np.array([bool(shape.requests) for shape in self.shapes], np.bool_)
            self._restricted = np.tile(np.array(restricted, np.bool_) & with_devices, (number + 1, 1))
        return number


def _after(units: Units, steps: Iterable[Step]) -> Units:
    now = list(units)
    for before, after in steps:
        now[now.index(before)] = after
    return tuple(sorted(now))


def _floors(left: int, asked: NDArray[np.float64]) -> Array:
    found = np.full(len(asked), np.float32(np.inf))
    np.divide(left, asked, out=found, where=asked > 0, casting="unsafe")
    return np.floor(found, out=found)


class _Amounts:
    """What shapes ask of units, in thousandths of the units of the driver that the fleet is shortest of."""

    def __init__(self, states: UnitStates, shapes: Sequence[FillShape], nodes: Iterable[Units]) -> None:
        self._states = states
        self._possible: dict[int, int] = {}
        self._shapes = shapes
        units: dict[int, int] = {}
        for node in nodes:
            for unit in node:
                units[unit] = units.get(unit, 0) + 1
        self._of_request = [_mean_amounts(states, request, units) for request in range(len(states.best_of))]
        self._prices = _prices(shapes, self._of_request, _capacity(states, units))
        flat = [(number, *asked) for number, shape in enumerate(shapes) for asked in shape.requests]
        self._shape_of = np.array([shape for shape, _, _ in flat], np.int64)
        self._request_of = np.array([request for _, request, _ in flat], np.int64)
        self._count_of = np.array([max(count, 1) for _, _, count in flat], np.float32)

    def weight(self, requests: Iterable[tuple[int, int]]) -> float:
        """Of all devices of the requests."""
        return sum(
            count * amount * self._prices.get(driver, 1.0)
            for request, count in requests
            for driver, amount in self._of_request[request].items()
        )

    def left(self, units: Units) -> float:
        """What is left of the units."""
        kinds, left = self._states.kind_of, self._states.left
        return sum(left[unit] * self._prices.get(kinds[unit].unit.driver, 1.0) for unit in units)

    def lower(self, found: Array, requests: Array) -> None:
        """Lower the number of pods of each shape to those for which the requests have room."""
        if len(self._shape_of):
            np.minimum.at(found, self._shape_of, np.floor(requests[self._request_of] / self._count_of))

    def possible(self, units: Units) -> int:
        """The shapes with devices that the units can serve if nothing is in use, as bits."""
        served = 0
        for unit in set(units):
            served |= self._served(unit)
        return sum(
            1 << number
            for number, shape in enumerate(self._shapes)
            if shape.requests and all(served >> request & 1 for request, _ in shape.requests)
        )

    def _served(self, unit: int) -> int:
        known = self._possible.get(unit)
        if known is None:
            takes = self._states.kind_of[unit].takes
            known = self._possible[unit] = sum(1 << number for number, own in enumerate(takes) if own)
        return known


def _mean_amounts(states: UnitStates, request: int, units: Mapping[int, int]) -> Mapping[str, float]:
    """What one device takes of the units that can serve it, on average, by driver."""
    sums: dict[str, tuple[float, int]] = {}
    for unit, number in units.items():
        after = states.best(unit, request)
        if after != NONE:
            driver = states.kind_of[unit].unit.driver
            amount, seen = sums.get(driver, (0.0, 0))
            sums[driver] = amount + number * (states.left[unit] - states.left[after]), seen + number
    return {driver: amount / seen for driver, (amount, seen) in sums.items()}


def _capacity(states: UnitStates, units: Mapping[int, int]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for unit, number in units.items():
        driver = states.kind_of[unit].unit.driver
        found[driver] = found.get(driver, 0.0) + number * states.left[unit]
    return found


def _prices(
    shapes: Iterable[FillShape], of_request: Sequence[Mapping[str, float]], capacity: Mapping[str, float]
) -> Mapping[str, float]:
    """How short the fleet is of the units of each driver: 1 for the shortest."""
    demand = dict.fromkeys(capacity, 0.0)
    for shape in shapes:
        for request, count in shape.requests:
            for driver, amount in of_request[request].items():
                demand[driver] += shape.share * count * amount
    loads = {driver: demand[driver] / capacity[driver] for driver in capacity if capacity[driver]}
    highest = max(loads.values(), default=0.0)
    return {driver: load / highest if highest else 1.0 for driver, load in loads.items()}

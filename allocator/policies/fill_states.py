"""The states of nodes for the policy fill-value: what is left of a node, what that is worth, and for how many pods.

Nodes of which as much is left are in the same state, which is worked out once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocator.policies.fill_demand import Array, FillDemand
from allocator.policies.fill_rollouts import FillShape, Rollouts, Units
from allocator.policies.unit_states import UNIT, UnitStates

PLENTY = 1 << 62
"""Memory that is never short."""

Step = tuple[int, int]
"""A unit's state, and what it becomes."""


@dataclass(slots=True, eq=False)
class NodeState:
    """What is left of nodes. units: sorted. cpu: in thousandths. memory: in bytes, PLENTY where it is not short.

    value: the weight that rollouts place. peak: the most memory that they take. slots: for how many pods of each shape
    there is room.
    """

    number: int
    units: Units
    cpu: int
    memory: int
    value: float
    peak: int
    slots: Array


class NodeStates:
    """All states so far, by number. largest: the most memory that a pod requests."""

    def __init__(self, demand: FillDemand, rollouts: Rollouts, shapes: Sequence[FillShape], largest: int) -> None:
        self.units: UnitStates = demand.states
        self._demand = demand
        self._rollouts = rollouts
        self._largest = largest
        self._cpu = np.array([shape.cpu for shape in shapes], np.float64)
        self._memory = np.array([shape.memory for shape in shapes], np.float64)
        self._known: dict[tuple[Units, int, int], NodeState] = {}
        self._all: list[NodeState] = []
        self._times: dict[int, Array] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, number: int) -> NodeState:
        return self._all[number]

    def of(self, units: Iterable[int], cpu: int, memory: int) -> NodeState:
        """The state in which that is left. Cost: O(what rollouts place), the first time."""
        own = tuple(sorted(units))
        plenty = self._known.get((own, cpu, PLENTY)) or self._new(own, cpu, PLENTY)
        if memory >= plenty.peak + self._largest:  # still enough once any pod is there
            return plenty
        return self._known.get((own, cpu, memory)) or self._new(own, cpu, memory)

    def after(self, state: NodeState, steps: Iterable[Step], asked: FillShape) -> NodeState:
        """The state once the pod is there. steps: what becomes of units."""
        now = list(state.units)
        for before, after in steps:
            now[now.index(before)] = after
        memory = state.memory if state.memory == PLENTY else max(0, state.memory - asked.memory)
        return self.of(now, state.cpu - asked.cpu, memory)

    def _new(self, units: Units, cpu: int, memory: int) -> NodeState:
        slots = self._slots(units, cpu, memory)
        fitting = int.from_bytes(np.packbits(slots > 0, bitorder="little").tobytes(), "little")
        value, peak = self._rollouts.value(units, cpu, memory, fitting)
        state = NodeState(len(self._all), units, cpu, memory, value, peak, slots)
        self._known[units, cpu, memory] = state
        self._all.append(state)
        return state

    def _slots(self, units: Units, cpu: int, memory: int) -> Array:
        devices = sum((self._times_of(unit) for unit in units), np.zeros(len(self.units.best_of), np.float32))
        found = np.full(len(self._cpu), np.float32(UNIT))
        self._demand.lower(found, devices)
        np.minimum(found, _floors(cpu, self._cpu), out=found)
        np.minimum(found, _floors(memory, self._memory), out=found)
        return found

    def _times_of(self, unit: int) -> Array:
        """How many devices for each request there is room for on the unit."""
        known = self._times.get(unit)
        if known is None:
            numbers = [self.units.times(unit, request) for request in range(len(self.units.best_of))]
            known = self._times[unit] = np.array(numbers, np.float32)
        return known


def _floors(left: int, requested: NDArray[np.float64]) -> Array:
    found = np.full(len(requested), np.float32(np.inf))
    np.divide(left, requested, out=found, where=requested > 0, casting="unsafe")
    return np.floor(found, out=found)

"""For how many pods of each shape of the workload nodes have room, for the policy fill-value."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allocator.policies.fill_rollouts import FillShape, Units
from allocator.policies.unit_states import UNIT, UnitStates

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


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
        found = np.minimum(self._of_units[np.array(units, np.int64)], self._cpu.by(cpu))
        return np.minimum(found, self._memory.by(memory), out=found)

    def _row(self, units: Units) -> Array:
        times = sum((self._times_of(unit) for unit in units), np.zeros(self._none + 1))
        times[self._none] = UNIT
        found = np.full(self._of_units.shape[1], float(UNIT))
        for requests, counts in self._layers:
            np.minimum(found, np.floor(times[requests] / counts), out=found)
        return found

    def _times_of(self, unit: int) -> Array:
        """How many devices for each request there is room for on the unit."""
        known = self._times.get(unit)
        if known is None:
            numbers = [self._states.times(unit, request) for request in range(self._none)]
            known = self._times[unit] = np.array([*numbers, 0], np.float64)
        return known


class _Divided:
    """How often what each shape requests is in what is left."""

    def __init__(self, requested: Sequence[int]) -> None:
        self._requested = np.array([amount or 1 for amount in requested], np.float64)
        self._free = np.array([number for number, amount in enumerate(requested) if not amount], np.int64)

    def by(self, left: Sequence[int]) -> Array:
        """In rows."""
        found: Array = np.array(left, np.float64)[:, None] / self._requested
        np.floor(found, out=found)
        if len(self._free):
            found[:, self._free] = np.inf
        return found

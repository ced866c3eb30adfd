"""What is left of the fleet for the policy fill-value: scarce places, and pools that pods need which fit nowhere else.

A pool has the nodes that the same shapes can use. The fleet's demand is that of pods of the workload until all that is
left is filled.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allocator.policies.fill_demand import Array
from allocator.policies.fill_rollouts import FillShape
from allocator.policies.unit_states import UNIT

SCARCITY = 0.1
"""What the loss of places counts, beside the loss of the node's own future."""


class FillPools:
    """The pools by number, and what is left of them."""

    def __init__(self, shapes: Sequence[FillShape]) -> None:
        self._weights = np.array([shape.weight for shape in shapes], np.float64)
        self._shares = np.array([shape.share for shape in shapes], np.float64)
        self._with_devices = np.array([bool(shape.requests) for shape in shapes], np.bool_)
        self._numbers: dict[int, int] = {}
        self._slots = np.zeros((0, len(shapes)), np.float64)
        self._left = np.zeros(0, np.float64)
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

    def add(self, number: int, slots: Array, left: float) -> None:
        """A node of that pool has so much left."""
        self._slots[number] += slots
        self._left[number] += left

    def subtract(self, number: int, slots: Array, left: float) -> None:
        """A node of that pool has that no longer."""
        self._slots[number] -= slots
        self._left[number] -= left

    def scarcity(self) -> Array:
        """What one place less costs, for each shape."""
        found: Array = (SCARCITY * self._demand_per_slot()).astype(np.float32)
        return found

    def load(self) -> NDArray[np.float64]:
        """How much of what is left of each pool those ask for that can go nowhere else."""
        found: NDArray[np.float64] = self._slots @ (self._restricted * self._demand_per_slot())
        return found / np.maximum(self._left, UNIT)

    def _demand_per_slot(self) -> NDArray[np.float64]:
        slots = np.maximum(self._slots.sum(axis=0), 1.0)
        found: NDArray[np.float64] = self._weights * self._shares * self._expected() / slots
        return found

    def _expected(self) -> float:
        """The pods that are still to come, if all that is left is to be filled."""
        mean = float(self._shares @ self._weights)
        return float(self._left.sum()) / mean if mean else 0.0

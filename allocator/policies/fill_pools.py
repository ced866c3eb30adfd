"""What is left of the fleet for the policy fill-value: scarce places, and pools that pods need which fit nowhere else.

A pool has the nodes that the same shapes can use. The fleet's demand is that of pods of the workload until all that is
left is filled. Numbers have few binary places, so that sums are exact, and the same in any order.
"""

from collections.abc import Sequence

import numpy as np

from allocator.policies.fill_rollouts import FillShape
from allocator.policies.fill_slots import Array
from allocator.policies.unit_states import PRICE, UNIT

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
        found: Array = self._slots @ (self._restricted * _with_few_places(self._weights * self._pods_per_slot()))
        return found / np.maximum(self._left, UNIT * PRICE)

    def _pods_per_slot(self) -> Array:
        """How many pods of each shape are still to come for each of its places."""
        slots = np.maximum(self._slots.sum(axis=0), 1.0)
        expected = float(self._left.sum()) / self._mean if self._mean else 0.0
        found: Array = self._shares * expected / slots
        return found


def _sum(numbers: Array) -> float:
    """One after the other: the same on every machine."""
    found: float = sum(numbers.tolist())
    return found


def _with_few_places(numbers: Array) -> Array:
    found: Array = np.rint(PLACES * numbers) / PLACES
    return found

"""What the workload of the policy fill-value requests, in thousandths of the units of the driver that is shortest."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from allocator.policies.fill_rollouts import FillShape, Units
from allocator.policies.unit_states import NONE, UnitStates

Array = NDArray[np.float32]


class FillDemand:
    """The shapes' requests, weighed. nodes: the states of the units of every node if nothing is in use."""

    def __init__(self, states: UnitStates, shapes: Sequence[FillShape], nodes: Iterable[Units]) -> None:
        self.states = states
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
        kinds, left = self.states.kind_of, self.states.left
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
            takes = self.states.kind_of[unit].takes
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

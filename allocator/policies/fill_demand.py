"""What the workload of the policy fill-value requests, at the prices of drivers: the shortest one's units cost most."""

from collections.abc import Iterable, Mapping, Sequence

from allocator.policies.fill_rollouts import FillShape, Units
from allocator.policies.unit_states import NONE, PRICE, UnitStates


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
    found: dict[str, float] = {}
    for unit, number in units.items():
        driver = states.kind_of[unit].unit.driver
        found[driver] = found.get(driver, 0.0) + number * states.left[unit]
    return found


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

"""What pods take of a node at least, as the policy fill-value bounds it, against every way to give them devices."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random

import pytest

from allocator.policies.fill_rollouts import PRICE, FillShape, Rollouts, Takes, UnitStates
from allocator.policies.fill_value import FillAmounts, NodeState, NodeTakes, choices_on, least_taken
from allocator.policies.hardware import UNIT, Cells, UnitCells

DRIVERS = ("gpu.example.com", "nic.example.com")
WHOLES: Sequence[Cells] = ((1000,), (7, 80), (3, 0, 5))
"""A share of a device, counters of partitions, and a unit of which one counter is empty."""

Place = tuple[UnitCells, Cells]
"""A unit, and what is left of it."""


def a_take(draw: Random, whole: Cells) -> Cells:
    """Of some cell at least one, where there is any."""
    taken = tuple(draw.randrange(n + 1) for n in whole)
    return taken if any(taken) else whole


def takes_of(draw: Random, units: Sequence[UnitCells]) -> list[tuple[Cells, ...]]:
    """What one request may take of each unit; equal for equal units, and nothing of some."""
    of_kinds = {
        unit: tuple(dict.fromkeys(a_take(draw, unit.whole) for _ in range(draw.randrange(3))))
        for unit in dict.fromkeys(units)
    }
    return [of_kinds[unit] for unit in units]


def ways(left: Sequence[Cells], asked: Sequence[tuple[Sequence[tuple[Cells, ...]], int]]) -> Iterator[list[Cells]]:
    """What may be left of the units: any devices, in any order."""
    if not asked:
        yield list(left)
        return
    (takes, count), rest = asked[0], asked[1:]
    every = [(place, take) for place, own in enumerate(takes) for take in own for _ in range(count)]
    for chosen in combinations(every, count):
        after = list(left)
        for place, take in chosen:
            after[place] = tuple(n - m for n, m in zip(after[place], take, strict=True))
        if all(n >= 0 for cells in after for n in cells):
            yield from ways(after, rest)


def worth(units: Sequence[UnitCells], left: Sequence[Cells], prices: dict[str, int]) -> int:
    found = 0
    for unit, cells in zip(units, left, strict=True):
        shares = [UNIT * n // whole for n, whole in zip(cells, unit.whole, strict=True) if whole]
        found += prices.get(unit.driver, PRICE) * (sum(shares) // len(shares))
    return found


@pytest.mark.parametrize("seed", range(150))
def test_no_way_to_give_the_devices_takes_less(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - no secret
    units = [UnitCells(draw.choice(DRIVERS), draw.choice(WHOLES)) for _ in range(draw.randrange(1, 4))]
    units.sort(key=repr)
    left = [tuple(draw.choice([n, draw.randrange(n + 1)]) for n in unit.whole) for unit in units]
    requested = [takes_of(draw, units) for _ in range(2)]
    prices = {DRIVERS[1]: draw.choice([0, PRICE // 3, 2 * PRICE])}
    states = UnitStates(1)
    states.set_prices(prices)
    of_requests: list[list[Takes]] = [[states.takes(own) for own in takes] for takes in requested]
    kinds = states.kinds(units, of_requests[:1])  # the workload has the first request, and not the second one
    asked = [(number, draw.choice([1, 1, 2])) for number in draw.sample(range(2), draw.randrange(1, 3))]
    wanted = [(of_requests[number], count) for number, count in asked]
    least = least_taken(states, kinds, wanted)

    before = worth(units, left, prices)
    every = [
        before - worth(units, after, prices) for after in ways(left, [(requested[n], count) for n, count in asked])
    ]
    assert least <= min(every, default=least)

    numbers = tuple(states.number(kind, cells) for kind, cells in zip(kinds, left, strict=True))
    amounts = FillAmounts(states, Rollouts(states, [FillShape(1.0, 1000, 0, ((0, 1),))]))
    own = amounts.number(numbers)
    filled = amounts.of(own, 9000, 9000)
    state = NodeState(0, numbers, 9000, 9000, own, sum(states.worth[unit] for unit in numbers), filled)
    found = choices_on(amounts, states, state, NodeTakes(wanted, least), (0, 0))
    for units_left, taken in zip(found.units, found.taken, strict=True):
        assert taken >= least
        assert taken in every
        assert amounts.worth[units_left] <= amounts.worth[own] - least

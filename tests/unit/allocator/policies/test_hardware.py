"""What devices are cut from: the cells are exact, and how full units are follows from them."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from allocator.allocate import share_id_of
from allocator.features.contract import NodeAttempt, attempt_of
from allocator.model import Claim, CounterConsumption, CounterSet, Slice
from allocator.policies.hardware import FULL, Unit, cells_left, cells_of, fullness_of, hardware_of
from tests.builders import a_device, a_node, a_slice
from tests.unit.allocator.policies.hardware import a_partition, a_share, a_shared_device, amounts, homed, mig_slices
from tests.unit.allocator.policies.simulation import Simulation

SHARED = (homed(a_slice(*(a_shared_device(f"gpu-{n}") for n in range(3))), "n"),)


def _attempt(simulation: Simulation) -> NodeAttempt:
    snapshot = simulation.snapshot
    return attempt_of(snapshot, snapshot.view(a_node("n")), share_id_of)


def _exact(attempt: NodeAttempt, unit: Unit) -> Fraction:
    """How full the unit is by its cells, from 0 to 1."""
    cells, left = cells_of(attempt.view), cells_left(attempt)
    places = [place for (of, _), place in cells.places.items() if of == unit]
    shares = [Fraction(left[of][place], cells.units[of].whole[place]) for of, place in places]
    return 1 - sum(shares, Fraction()) / len(shares)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("slices", [mig_slices("n", 2), SHARED], ids=["partitions", "shares"])
def test_units_are_as_full_as_their_cells_say(slices: Sequence[Slice], seed: int) -> None:
    draw, simulation = Random(seed), Simulation("first-fit", slices)  # noqa: S311
    for number in range(12):
        simulation.place(_a_claim(draw, f"claim-{number}", is_cut=slices is not SHARED))
        if simulation.held and draw.random() < 0.3:
            simulation.held.pop(draw.choice(sorted(simulation.held)))
    attempt, most_lost = _attempt(simulation), 2 * len(simulation.held)
    assert any(fullness_of(attempt).of_local())
    for unit, full in zip(hardware_of(attempt.view).local, fullness_of(attempt).of_local(), strict=True):
        assert 0 <= _exact(attempt, unit) * FULL - full <= most_lost


def _a_claim(draw: Random, name: str, *, is_cut: bool) -> Claim:
    return a_partition(name, draw.choice(("1g", "2g", "3g"))) if is_cut else a_share(f"{draw.randrange(1, 30)}Gi", name)


def test_counter_set_and_capacity_of_one_name_are_two_cells() -> None:
    taken = (CounterConsumption("gpu", amounts(memory=10)),)
    device = replace(a_shared_device("gpu", memory="40"), consumes_counters=taken)
    slices = [
        a_slice(name="counters", counter_sets=(CounterSet("gpu", amounts(memory=80)),)),
        a_slice(device, a_device("whole", consumes_counters=taken), name="devices"),
    ]
    attempt = _attempt(Simulation("first-fit", [homed(one, "n", slice_count=2) for one in slices]))
    (unit,) = cells_of(attempt.view).units
    assert unit.whole == (80 * 10**9, 40 * 10**9, 1)

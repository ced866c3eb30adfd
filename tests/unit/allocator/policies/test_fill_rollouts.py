"""Futures that are played into what is left of a node, against the obvious way to play them."""

from collections.abc import Sequence
from random import Random

import pytest

from allocator.policies.cells import UnitCells
from allocator.policies.fill_rollouts import LENGTHS, SEQUENCES, FillShape, Rollouts, _drawn, tightest
from allocator.policies.unit_states import NONE, UnitKind, UnitStates

MILLI = (1000, 500, 300, 100)
"""What a device of each request takes of a unit."""


def units_of(states: UnitStates, *left: int) -> tuple[int, ...]:
    (kind,) = states.kinds([UnitCells("gpu.example.com", (1000,))], [[[(milli,)]] for milli in MILLI])
    return tuple(states.number(kind, (milli,)) for milli in left)


def shapes_of(draw: Random) -> list[FillShape]:
    """No device; a part of one; one or several whole ones; two requests."""
    asked: list[tuple[tuple[int, int], ...]] = [(), ((1, 1),), ((2, 1),), ((3, 1),), ((0, draw.choice([1, 2])),)]
    asked.append(((1, 1), (3, 2)))
    return [
        FillShape(share, draw.choice([0, 1000, 4000]), draw.choice([0, 2, 8]), own, sum(MILLI[r] * n for r, n in own))
        for own in asked
        if (share := draw.random())
    ]


def played(shapes: Sequence[FillShape], sequence: Sequence[int], left: list[int], cpu: int, memory: int) -> float:
    """The weight of what is placed, each shape tried where it stands, on the unit with the least left."""
    placed = 0.0
    for shape in (shapes[number] for number in sequence):
        now, fits = list(left), shape.cpu <= cpu and shape.memory <= memory
        for request, count in shape.requests:
            fitting = sorted((n, place) for place, n in enumerate(now) if n >= MILLI[request])
            fits &= len(fitting) >= count
            for _, place in fitting[:count]:
                now[place] -= MILLI[request]
        if fits:
            left[:], cpu, memory, placed = now, cpu - shape.cpu, memory - shape.memory, placed + shape.weight
    return placed


@pytest.mark.parametrize("seed", range(30))
def test_a_state_is_worth_what_futures_place_on_average(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - no secret
    states, shapes = UnitStates(len(MILLI)), shapes_of(draw)
    left = [draw.randrange(0, 1001, 100) for _ in range(draw.randrange(1, 5))]
    cpu, memory = draw.choice([0, 9000, 10**6]), draw.choice([0, 30, 10**6])
    every = (1 << len(shapes)) - 1
    value, _ = Rollouts(states, shapes).value(units_of(states, *left), cpu, memory, every)
    expected = sum(played(shapes, one, list(left), cpu, memory) for one in _drawn([one.share for one in shapes]))
    assert value == pytest.approx(expected / SEQUENCES)


def test_memory_beyond_the_peak_changes_nothing_and_less_does() -> None:
    states = UnitStates(len(MILLI))
    rollouts = Rollouts(states, [FillShape(1.0, 0, 4, ((1, 1),), 500.0)])
    units = units_of(states, 1000, 1000)
    value, peak = rollouts.value(units, 0, 1 << 62, 1)
    assert (value, peak) == (2000.0, 16)
    assert rollouts.value(units, 0, peak, 1)[0] == value
    assert rollouts.value(units, 0, peak - 1, 1)[0] == 1500.0


def test_sequences_are_the_same_each_time_and_follow_the_shares() -> None:
    first, again = (list(_drawn([0.7, 0.3])) for _ in range(2))
    assert first == again
    assert [len(one) for one in first[:5]] == list(LENGTHS)
    drawn = [shape for sequence in first for shape in sequence]
    assert drawn.count(0) / len(drawn) == pytest.approx(0.7, abs=0.05)


def test_nothing_is_drawn_from_an_unknown_workload() -> None:
    assert list(_drawn([])) == [[]] * SEQUENCES


def test_several_devices_come_from_different_units_the_least_left_first() -> None:
    states = UnitStates(len(MILLI))
    units = units_of(states, 900, 500, 700)
    found = tightest(states, units, 1, 2)
    assert found is not None
    assert [place for place, _ in found] == [1, 2]
    assert [states.left[after] for _, after in found] == [0, 200]
    assert tightest(states, units, 1, 4) is None


def test_a_state_says_how_many_devices_there_is_room_for() -> None:
    states = UnitStates(len(MILLI))
    (state,) = units_of(states, 700)
    assert [states.times(state, request) for request in range(len(MILLI))] == [0, 1, 2, 7]
    assert states.best(state, 0) == NONE


def test_of_several_partitions_the_one_is_taken_that_leaves_room_for_most() -> None:
    """As on a MIG GPU: two places for a small one, of which the first breaks the only place of a large one."""
    states = UnitStates(2)
    cells = UnitCells("gpu.example.com", (1, 1, 1))
    small, large = [(1, 0, 0), (0, 0, 1)], [(1, 1, 0)]
    kind: UnitKind
    (kind,) = states.kinds([cells], [[small], [large]])
    whole = states.number(kind, (1, 1, 1))
    assert states.taken(whole, states.best(whole, 0)) == (0, 0, 1)
    assert states.times(whole, 0) == 2

"""Futures that are played into what is left of a node, against the obvious way to play them."""

from collections.abc import Sequence
from random import Random

import pytest

from allocator.policies.fill_rollouts import (
    LENGTHS,
    NONE,
    PLENTY,
    PRICE,
    SEQUENCES,
    FillShape,
    Rollouts,
    UnitKind,
    UnitStates,
    _drawn,
    tightest,
)
from allocator.policies.fill_value import FillAmounts
from allocator.policies.hardware import UnitCells

MILLI = (1000, 500, 300, 100)
"""What a device of each request takes of a unit."""


def units_of(states: UnitStates, *left: int) -> tuple[int, ...]:
    takes = [[states.takes(((milli,),))] for milli in MILLI]
    (kind,) = states.kinds([UnitCells("gpu.example.com", (1000,))], takes)
    return tuple(states.number(kind, (milli,)) for milli in left)


def shapes_of(draw: Random) -> list[FillShape]:
    """No device; a part of one; one or several whole ones; two requests."""
    asked: list[tuple[tuple[int, int], ...]] = [(), ((1, 1),), ((2, 1),), ((3, 1),), ((0, draw.choice([1, 2])),)]
    asked.append(((1, 1), (3, 2)))
    return [
        FillShape(share, draw.choice([0, 1000, 4000]), draw.choice([0, 2, 8]), own)
        for own in asked
        if (share := draw.random())
    ]


def played(shapes: Sequence[FillShape], left: Sequence[int], cpu: int, memory: int) -> int:
    """What all sequences place, each shape tried where it stands, on the unit with the least left."""
    return sum(_played(shapes, one, list(left), cpu, memory) for one in _drawn([shape.share for shape in shapes]))


def _played(shapes: Sequence[FillShape], sequence: Sequence[int], left: list[int], cpu: int, memory: int) -> int:
    placed = 0
    for shape in (shapes[number] for number in sequence):
        now, fits = list(left), shape.cpu <= cpu and shape.memory <= memory
        for request, count in shape.requests:
            fitting = sorted((n, place) for place, n in enumerate(now) if n >= MILLI[request])
            fits &= len(fitting) >= count
            for _, place in fitting[:count]:
                now[place] -= MILLI[request]
        if fits:
            placed += sum(left) - sum(now)
            left[:], cpu, memory = now, cpu - shape.cpu, memory - shape.memory
    return placed


@pytest.mark.parametrize("seed", range(30))
def test_sequences_fill_what_they_place_and_as_much_where_it_is_said_so(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - no secret
    states, shapes = UnitStates(len(MILLI)), shapes_of(draw)
    left = [draw.randrange(0, 1001, 100) for _ in range(draw.randrange(1, 5))]
    cpu, memory = draw.choice([0, 9000, 10**6]), draw.choice([0, 30, 10**6])
    rollouts = Rollouts(states, shapes)
    amounts = FillAmounts(states, rollouts)
    units = amounts.number(units_of(states, *left))
    found = rollouts.fill(amounts.units[units], cpu, memory)
    assert found.amount == PRICE * played(shapes, left, cpu, memory)
    assert found.least_cpu <= cpu <= found.most_cpu
    for other in {found.least_cpu, min(found.most_cpu, 10**7), (found.least_cpu + cpu) // 2}:
        assert PRICE * played(shapes, left, other, memory) == found.amount
    if found.least_memory < PLENTY:
        assert PRICE * played(shapes, left, cpu, found.least_memory) == found.amount
        assert PRICE * played(shapes, left, cpu, 10**7) == found.amount


@pytest.mark.parametrize("seed", range(5))
def test_amounts_are_those_of_rollouts_in_whichever_order_they_are_asked_for(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - no secret
    states, shapes = UnitStates(len(MILLI)), shapes_of(draw)
    amounts = FillAmounts(states, Rollouts(states, shapes))
    for _ in range(60):
        left = [draw.choice([0, 50, 300, 1000]) for _ in range(draw.randrange(1, 3))]
        cpu, memory = draw.randrange(0, 20_000, 500), draw.choice([0, 5, 10, 20, 10**6])
        units = amounts.number(units_of(states, *left))
        assert amounts.of(units, cpu, memory) == PRICE * played(shapes, left, cpu, memory)
    assert amounts.rolled_out < 60


def test_memory_beyond_the_peak_changes_nothing_and_less_does() -> None:
    states = UnitStates(len(MILLI))
    rollouts = Rollouts(states, [FillShape(1.0, 0, 4, ((1, 1),))])
    units = units_of(states, 1000, 1000)
    found = rollouts.fill(units, 0, 1 << 40)
    assert (found.amount, found.least_memory) == (SEQUENCES * PRICE * 2000, 16)
    assert rollouts.fill(units, 0, 16).amount == found.amount
    assert rollouts.fill(units, 0, 15).amount == SEQUENCES * PRICE * 1500


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
    takes = [states.takes(((500,),))] * 3
    found = tightest(states, units, takes, 2)
    assert found is not None
    assert [place for place, _ in found] == [1, 2]
    assert [states.left[after] for _, after in found] == [0, 200]
    assert tightest(states, units, takes, 4) is None


def test_a_state_says_how_many_devices_there_is_room_for() -> None:
    states = UnitStates(len(MILLI))
    (state,) = units_of(states, 700)
    assert [states.times(state, request) for request in range(len(MILLI))] == [0, 1, 2, 7]
    assert states.best_for(state, 0) == NONE


def test_of_several_partitions_the_one_is_taken_that_leaves_room_for_most() -> None:
    """As on a MIG GPU: two places for a small one, of which the first breaks the only place of a large one."""
    states = UnitStates(2)
    cells = UnitCells("gpu.example.com", (1, 1, 1))
    small, large = [(1, 0, 0), (0, 0, 1)], [(1, 1, 0)]
    kind: UnitKind
    (kind,) = states.kinds([cells], [[states.takes(tuple(small))], [states.takes(tuple(large))]])
    whole = states.number(kind, (1, 1, 1))
    assert states.taken(whole, states.best_for(whole, 0)) == (0, 0, 1)
    assert states.times(whole, 0) == 2

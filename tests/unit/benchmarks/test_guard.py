"""The pure parts of the guard's benchmark: which device comes when, and what the figures come to."""

import pytest

from benchmarks.extender.figures import Row
from benchmarks.guard.figures import TARGET_MS, rows
from benchmarks.guard.measurement import PairedRound, device, status, turned
from scheduler.guard.reviewer import holder_of


def a_row(name: str, *rounds: PairedRound) -> Row:
    return next(row for row in rows(rounds) if row.case == name)


def test_no_device_comes_twice_within_two_rounds() -> None:
    pairs, nodes = 25, 10
    taken = [device(number, turn, nodes, 2 * pairs) for number in (1, 2) for turn in range(2 * pairs)]
    assert len(set(taken)) == len(taken) == 100


def test_status_allocates_the_device() -> None:
    taken = device(0, 3, 10, 50)
    metadata = {"namespace": "ns", "name": "claim", "uid": "u"}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    allocation = holder_of({**kind, "metadata": metadata, "status": status(taken)}).claim.allocation
    assert allocation is not None
    assert [(one.pool, one.device) for one in allocation.results] == [(taken.node, taken.device)]


@pytest.mark.parametrize(("number", "expected"), [(0, ("a", "b")), (1, ("b", "a")), (2, ("a", "b"))])
def test_pair_is_turned_in_every_other_round_and_back(number: int, expected: tuple[str, str]) -> None:
    assert turned(("a", "b"), number) == expected
    assert turned(turned(("a", "b"), number), number) == ("a", "b")


def test_what_is_added_is_the_difference_of_percentiles_and_of_pairs() -> None:
    one = PairedRound(guarded_s=[0.004] * 98 + [0.020] * 2, free_s=[0.003] * 98 + [0.015] * 2, cpu_s=0.001)
    assert a_row("asked about: p99", one).ours == pytest.approx(20)
    assert a_row("added at the median", one).ours == pytest.approx(1)
    added = a_row("added at p99", one)
    assert added.ours == pytest.approx(5)
    assert added.target == TARGET_MS
    assert a_row("median of the differences in pairs", one).ours == pytest.approx(1)
    assert a_row("processor time of the guard, a pair", one).ours == pytest.approx(1)

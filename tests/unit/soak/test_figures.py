"""The verdict is told from the figures: each rule can break."""

from dataclasses import replace

import pytest

from tests.soak.checker import Waited
from tests.soak.figures import growth, memory_rule, percentile, time_rule, waits
from tests.soak.plan import BOUND_WITHIN_S, READY_WITHIN_S, ROOM_S, WARM_S, Plan
from tests.soak.processes import NAMES, Gap, Sample, victims

FIRST, SECOND = NAMES


def a_wait(ready_s: float, bound_s: float | None) -> Waited:
    return Waited("pod", ready_s, bound_s)


def some_waits(slow: int) -> list[Waited]:
    """Two hundred, of which so many are too slow."""
    return [a_wait(0.0, BOUND_WITHIN_S * (2.0 if number < slow else 0.1)) for number in range(200)]


@pytest.mark.parametrize(("slow", "holds"), [(0, True), (2, True), (3, False)])
def test_one_pod_of_a_hundred_may_wait_longer(slow: int, holds: bool) -> None:  # noqa: FBT001 - a case
    assert time_rule(waits(some_waits(slow), [], 100.0)).holds == holds


def test_pod_that_was_never_bound_counts_as_long_as_it_has_waited() -> None:
    found = waits([a_wait(0.0, None)], [], 100.0)
    assert (found.p99_s, found.unbound) == (100.0, 1)
    assert not time_rule(found).holds


KILL = Gap(FIRST, 10.0, 14.0)
ENDS_S = 14.0 + ROOM_S


@pytest.mark.parametrize(
    ("ready_s", "bound_s", "counted_s"),
    [
        (0.0, 9.0, 9.0),
        (9.0, 11.0, None),
        (12.0, 12.1, None),
        (10.0, ENDS_S + 1.0, None),
        (10.0, ENDS_S + 5.0, 5.0),
        (8.0, ENDS_S + 5.0, 7.0),
        (ENDS_S + 0.1, ENDS_S + 0.2, 0.1),
    ],
)
def test_wait_that_meets_the_gap_of_a_kill_counts_as_far_as_it_is_too_long_without_it(
    ready_s: float, bound_s: float, counted_s: float | None
) -> None:
    found = waits([a_wait(ready_s, bound_s)], [KILL], 100.0)
    assert (found.counted, found.left_out) == ((0, 1) if counted_s is None else (1, 0))
    assert found.longest_s == pytest.approx(counted_s or 0.0)


def test_pod_that_waits_from_kill_to_kill_is_too_late_all_the_same() -> None:
    kills = [Gap(FIRST, 10.0 * number, 10.0 * number + 1.0) for number in range(10)]
    found = waits([a_wait(0.0, None)], kills, 100.0)
    assert found.longest_s == pytest.approx(100.0 - 10 * (1.0 + ROOM_S))
    assert not time_rule(found).holds


def test_process_that_is_never_ready_again_excuses_nobody_for_long() -> None:
    found = waits([a_wait(20.0, None)], [Gap(FIRST, 20.0)], 100.0)
    assert found.longest_s == pytest.approx(80.0 - READY_WITHIN_S - ROOM_S)
    assert not time_rule(found).holds


def test_gaps_that_overlap_are_taken_off_once() -> None:
    found = waits([a_wait(0.0, 30.0)], [KILL, Gap(SECOND, 12.0, 15.0)], 100.0)
    assert found.longest_s == pytest.approx(30.0 - (15.0 + ROOM_S - 10.0))


def test_verdict_needs_waits_to_report_of() -> None:
    assert not time_rule(waits([], [], 100.0)).holds


def test_percentile_is_the_least_value_that_enough_do_not_exceed() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.5, 0.75, 0.99)] == [2.0, 3.0, 4.0]


def samples(name: str, before_mib: float, after_mib: float, end_s: float) -> list[Sample]:
    """Of processes that are killed at the age of 30 s."""
    found = []
    for number in range(int(end_s / 10)):
        at_s = number * 10.0
        found.append(Sample(name, at_s, at_s % 30, before_mib if at_s < (WARM_S + end_s) / 2 else after_mib))
    return found


@pytest.mark.parametrize(("after_mib", "holds"), [(100.0, True), (109.0, True), (112.0, False)])
@pytest.mark.parametrize("grown", NAMES)
def test_memory_may_grow_by_a_tenth(after_mib: float, holds: bool, grown: str) -> None:  # noqa: FBT001 - a case
    end_s = WARM_S * 3
    every = [one for name in NAMES for one in samples(name, 100.0, after_mib if name == grown else 100.0, end_s)]
    found = growth(every, end_s)
    assert found.keys() == set(NAMES)
    assert memory_rule(found, end_s).holds == holds


def test_memory_of_a_short_run_says_nothing() -> None:
    assert memory_rule(growth(samples(FIRST, 100.0, 500.0, WARM_S), WARM_S), WARM_S).holds


def test_memory_of_a_process_that_lives_on_is_compared_with_its_own() -> None:
    end_s = WARM_S * 3
    found = growth([replace(one, age_s=one.at_s) for one in samples(FIRST, 100.0, 150.0, end_s)], end_s)
    assert found == {FIRST: 1.5}


def test_memory_that_could_not_be_compared_in_a_long_run_is_no_success() -> None:
    end_s = WARM_S * 3
    early = [one for one in samples(FIRST, 100.0, 100.0, end_s) if one.at_s < WARM_S * 2]
    assert not memory_rule(growth(early, end_s), end_s).holds
    assert not memory_rule(growth([], end_s), end_s).holds


def test_processes_are_killed_in_turn_and_the_first_is_spared_once_a_run_is_long() -> None:
    short = [name for name, _ in zip(victims(Plan(minutes=2.0)), range(4), strict=False)]
    long = [name for name, _ in zip(victims(Plan(minutes=30.0)), range(20), strict=False)]
    alone = [name for name, _ in zip(victims(Plan(minutes=30.0, replicas=1)), range(20), strict=False)]
    assert short == [SECOND, FIRST, SECOND, FIRST]
    assert set(alone) == {FIRST}
    assert long[:9] == [SECOND, FIRST, SECOND, FIRST, SECOND, FIRST, SECOND, FIRST, SECOND]
    assert set(long[9:]) == {SECOND}


def test_nobody_is_killed_where_nobody_is_to_be() -> None:
    assert list(victims(Plan(kill_every_s=0.0))) == []

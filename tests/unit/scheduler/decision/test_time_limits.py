from itertools import count

import pytest

from scheduler.decision.time_limits import DecisionTimeLimit, TooLong


def looking(limit: DecisionTimeLimit, times: int) -> str:
    """Work that looks at the time so often; each look takes a second."""
    for _ in range(times):
        limit.look()
    return "done"


def test_work_within_its_time_returns_what_it_finds() -> None:
    limit = DecisionTimeLimit(count().__next__, 100.0)
    with limit.limited():
        assert limit.within(10.0, lambda: looking(limit, 5), "otherwise") == "done"


def test_work_that_takes_longer_has_no_say_and_the_decision_goes_on() -> None:
    limit = DecisionTimeLimit(count().__next__, 100.0)
    with limit.limited():
        assert limit.within(10.0, lambda: looking(limit, 50), "otherwise") == "otherwise"
        assert looking(limit, 5) == "done"


def test_work_that_is_out_of_the_time_of_its_decision_ends_that() -> None:
    """It continues later, with what was worked out until then."""
    limit = DecisionTimeLimit(count().__next__, 5.0)
    with pytest.raises(TooLong), limit.limited():
        limit.within(10.0, lambda: looking(limit, 50), "otherwise")


def test_without_a_clock_work_takes_as_long_as_it_takes() -> None:
    limit = DecisionTimeLimit()
    with limit.limited():
        assert limit.within(0.1, lambda: looking(limit, 1000), "otherwise") == "done"

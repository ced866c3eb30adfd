"""Waits between failed calls."""

from scheduler.client.errors import ApiError, ApiStatus, Unanswered
from scheduler.client.watcher import WatchBackoff

CUT = Unanswered("GET /x", "cut", is_ambiguous=True)


def test_first_failure_is_not_waited_for_and_the_next_ones_longer_and_longer() -> None:
    waits = [WatchBackoff().delay_s(failures, CUT, 0.0) for failures in range(1, 10)]
    assert waits == [0.0, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_chance_lengthens_a_wait_up_to_double() -> None:
    assert WatchBackoff().delay_s(2, None, 0.5) == 0.8 * 1.5


def test_very_many_failures_wait_no_longer_than_the_longest() -> None:
    assert WatchBackoff().delay_s(10**6, CUT, 0.0) == 30.0


def test_server_that_says_when_to_come_again_is_not_asked_before() -> None:
    busy = ApiError("GET /x", 429, ApiStatus("", "", retry_after_s=7.0))
    assert WatchBackoff().delay_s(1, busy, 0.0) == 7.0
    assert WatchBackoff().delay_s(2, busy, 0.0) == 7.0
    assert WatchBackoff().delay_s(9, busy, 0.0) == 30.0

"""Waits between failed calls."""

import json

from hypothesis import given
from hypothesis import strategies as st

from scheduler.client.errors import ApiError, ApiStatus, Unanswered, api_error
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


@given(
    st.sampled_from([408, 410, 429, 500, 503]),
    st.one_of(st.integers(-5, 10**30).map(str), st.just("9" * 5000), st.text(max_size=8)),
    st.one_of(st.integers(-5, 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=3), st.booleans(), st.none()),
    st.integers(0, 100),
)
def test_whatever_stands_between_keeps_a_watch_from_asking_for_no_longer_than_the_longest_wait(
    status: int, header: str, in_details: object, failures: int
) -> None:
    body = json.dumps({"kind": "Status", "details": {"retryAfterSeconds": in_details}}).encode()
    backoff = WatchBackoff()
    wait_s = backoff.delay_s(failures, api_error("GET /x", status, body, header), 1.0)
    assert 0.0 <= wait_s <= backoff.longest_s * (1 + backoff.jitter)

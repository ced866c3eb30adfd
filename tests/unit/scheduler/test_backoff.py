import pytest

from scheduler.rates import backoff_s


def test_wait_doubles_with_each_failure_up_to_the_longest() -> None:
    assert [backoff_s(failures, 0.5, 3.0) for failures in range(6)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize("failures", [1_024, 1_025, 10**6, 10**18])
def test_no_number_of_failures_is_too_many(failures: int) -> None:
    assert backoff_s(failures, 0.05, 5.0) == 5.0


def test_first_wait_that_is_longer_than_the_longest_is_cut() -> None:
    assert backoff_s(1, 9.0, 5.0) == 5.0

from itertools import count

import pytest

from scheduler.decision.time_limits import SCORES_REST_S, SCORES_S, DecisionTimeLimit, TooLong

LOOK_S = SCORES_S / 10
"""How long it is from one look at the time to the next."""


def a_limit(most_s: float) -> DecisionTimeLimit:
    return DecisionTimeLimit((one * LOOK_S for one in count()).__next__, most_s)


def looking(limit: DecisionTimeLimit, times: int) -> str:
    """Work that looks at the time so often."""
    for _ in range(times):
        limit.look()
    return "done"


def test_a_policy_says_what_it_finds_in_its_time() -> None:
    limit = a_limit(1000.0)
    with limit.limited():
        assert limit.scored(lambda: looking(limit, 5), "otherwise") == "done"


def test_a_policy_that_takes_longer_has_no_say_for_a_while_and_the_decision_goes_on() -> None:
    limit = a_limit(1000.0)
    with limit.limited():
        assert limit.scored(lambda: looking(limit, 50), "otherwise") == "otherwise"
        assert limit.scored(lambda: "quick", "otherwise") == "otherwise"
        assert looking(limit, int(SCORES_REST_S / LOOK_S)) == "done"
        assert limit.scored(lambda: "quick", "otherwise") == "quick"


def test_a_policy_that_is_out_of_the_time_of_its_decision_ends_that() -> None:
    """It continues later, with what was worked out until then."""
    limit = a_limit(SCORES_S / 2)
    with pytest.raises(TooLong), limit.limited():
        limit.scored(lambda: looking(limit, 50), "otherwise")
    with limit.limited(1000.0):
        assert limit.scored(lambda: "quick", "otherwise") == "quick"


def test_without_a_clock_a_policy_takes_as_long_as_it_takes() -> None:
    limit = DecisionTimeLimit()
    with limit.limited():
        assert limit.scored(lambda: looking(limit, 1000), "otherwise") == "done"

from dataclasses import dataclass

import pytest

from scheduler.decision.time_limits import FACTOR, SCORES_BURST_S, SCORES_S, DecisionTimeLimit, TooLong

LOOK_S = SCORES_S / 20
"""How long it is from one look at the time to the next."""


@dataclass(slots=True)
class Asked:
    """A policy that looks at whole nodes, and a limit that has so long."""

    most_s: float
    now: float = 0.0

    def limit(self) -> DecisionTimeLimit:
        return DecisionTimeLimit(lambda: self.now, self.most_s, lambda: self.now)

    def work(self, limit: DecisionTimeLimit, looks: int) -> str:
        for _ in range(looks):
            self.now += LOOK_S
            limit.look()
        return "done"

    def answer(self, limit: DecisionTimeLimit, looks: int) -> str:
        with limit.limited():
            return limit.scored(lambda: self.work(limit, looks), "otherwise")


def test_a_policy_says_what_it_finds_in_its_time() -> None:
    asked = Asked(1000.0)
    assert asked.answer(asked.limit(), 5) == "done"


def test_a_policy_that_takes_longer_has_no_say_and_the_decision_goes_on() -> None:
    asked = Asked(1000.0)
    limit = asked.limit()
    assert asked.answer(limit, 50) == "otherwise"
    assert asked.now == pytest.approx(SCORES_S, abs=2 * LOOK_S)
    assert asked.answer(limit, 1) == "done", "it has more at once: what it has worked out is kept"
    assert not limit.scores_trouble


def test_a_policy_that_takes_long_again_and_again_has_a_twentieth_of_the_time() -> None:
    """Whether the turns are its own or those of decisions, which are shorter."""
    for most_s in (1000.0, SCORES_S / 2):
        asked = Asked(most_s)
        limit = asked.limit()
        answers = []
        while asked.now < 1000:
            asked.now += 0.1
            try:
                answers.append(asked.answer(limit, 50))
            except TooLong:
                answers.append("out of time")
        assert limit.scored_s <= 2 * SCORES_BURST_S + 1000 / FACTOR
        assert answers.count("otherwise") > len(answers) * 0.9
        assert limit.scores_trouble.startswith("policies that look at whole nodes take long, and have no say for ")


def test_a_quick_policy_never_rests() -> None:
    asked = Asked(1000.0)
    limit = asked.limit()
    assert {asked.answer(limit, 1) for _ in range(1000)} == {"done"}


def test_a_policy_that_is_out_of_the_time_of_its_decision_ends_that() -> None:
    """It continues later, with what was worked out until then."""
    asked = Asked(SCORES_S / 2)
    limit = asked.limit()
    with pytest.raises(TooLong):
        asked.answer(limit, 50)
    assert asked.answer(limit, 1) == "done"


def test_without_a_clock_a_policy_takes_as_long_as_it_takes() -> None:
    limit, asked = DecisionTimeLimit(), Asked(0.0)
    with limit.limited():
        assert limit.scored(lambda: asked.work(limit, 1000), "otherwise") == "done"

"""The log names what is denied, and is not flooded by it."""

import pytest

from scheduler.attempt.write_outcome import EVERY_S, Denials

REASON = 'PUT /a: 409: admission webhook "hook.example.com" denied the request: no'


def test_each_namespace_is_named_once_a_minute_with_how_many_more_there_were(caplog: pytest.LogCaptureFixture) -> None:
    denials = Denials()
    for moment in (0.0, 1.0, EVERY_S - 1, EVERY_S):
        denials.denied("bad", REASON, moment)
    denials.denied("worse", REASON, EVERY_S)
    assert caplog.messages == [REASON, f"{REASON} (2 more since the last message)", REASON]


def test_namespaces_that_were_named_long_ago_are_forgotten() -> None:
    denials = Denials()
    for number in range(1000):
        denials.denied(f"namespace-{number}", REASON, number * EVERY_S)
    assert len(denials) == 1


def test_denial_is_logged_also_once_the_clock_was_set_back(caplog: pytest.LogCaptureFixture) -> None:
    denials = Denials()
    denials.denied("bad", REASON, 3600.0)
    denials.denied("bad", REASON, 0.0)
    assert caplog.messages == [REASON, REASON]

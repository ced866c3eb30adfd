"""Watches are told with their numbers, and the troubled ones by name and reason."""

from scheduler.client.watch_states import Progressed, Restarted, WatchEvent
from scheduler.client.watcher import ALIVE_S
from scheduler.runtime.core import silent, unfilled, watch_states
from scheduler.runtime.metrics import Watch
from tests.unit.scheduler.client.test_reflector import LISTED, cut, played
from tests.unit.scheduler.client.watched import a_refused, applied

DEAD_AT = 10 + ALIVE_S


def test_watch_is_reported_with_its_numbers() -> None:
    reflector = played((0.0, LISTED), (5.0, LISTED), (10.0, Progressed(1)))
    expected = Watch("pods", objects=1, restarts=1, refused=0, failures=0, silence_s=2.0, is_alive=True)
    assert watch_states([reflector], 12.0) == [expected]


def test_resource_that_was_never_listed_is_reported_with_what_keeps_it() -> None:
    assert unfilled([played((0.0, LISTED))]) == ""
    refused = played((0.0, cut("refused")))
    assert unfilled([played((0.0, LISTED)), refused]) == "pods (v1): not listed yet (GET /x: refused)"
    assert silent([refused], DEAD_AT) == ""


def test_object_that_must_be_read_and_never_was_is_reported_with_what_is_wrong() -> None:
    first: tuple[float, WatchEvent[str]] = (0.0, Restarted((a_refused(),), 1))
    assert unfilled([played(first)]) == ""
    assert unfilled([played(first, needs_all=True)]) == "pods (v1): ns/a cannot be read: spec: is wrong"
    assert unfilled([played(first, (1.0, applied("a", 2)), needs_all=True)]) == ""


def test_watch_that_died_is_reported_with_how_long_ago() -> None:
    assert silent([played((10.0, LISTED))], 11.0) == ""
    assert silent([played((10.0, LISTED))], DEAD_AT) == "pods (v1): not heard for 120 s"
    assert silent([played((10.0, LISTED), (11.0, cut("cut")))], DEAD_AT).endswith("(GET /x: cut)")


def test_several_troubles_are_reported_together() -> None:
    both = [played((0.0, cut("a"))), played((0.0, cut("b")))]
    assert unfilled(both) == "pods (v1): not listed yet (GET /x: a); pods (v1): not listed yet (GET /x: b)"

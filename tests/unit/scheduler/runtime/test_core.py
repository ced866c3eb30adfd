"""Parts of a program that fail, and begin again."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import pytest

from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.client.errors import CallFailed, Unanswered
from scheduler.plugins.profile import Profile
from scheduler.runtime import core
from scheduler.runtime.configuration import Configuration
from scheduler.runtime.core import LASTS_S, STILL_S, Core, Reporter, Site
from scheduler.runtime.metrics import Metrics
from scheduler.state.invariants import Violation
from tests.builders import kubernetes


class CoreHeard(Reporter):
    """Takes down which parts have failed."""

    def __init__(self) -> None:
        super().__init__(Metrics(lambda: pytest.fail("nobody reads them")))
        self.parts: list[str] = []
        self.violations: list[Violation] = []

    def failed(self, part: str) -> None:
        self.parts.append(part)

    def violated(self, violation: Violation) -> None:
        self.violations.append(violation)


def a_core(heard: CoreHeard) -> Core:
    site = Site(cast(Connection, None), Served("v1.37.0", "1.37", "v1", None), kubernetes())
    return Core(
        Configuration(),
        site,
        name="ours",
        api=site.connection,
        is_ours=bool,
        reporter=heard,
        on_event=lambda _: None,
        makes_claims=True,
        places_pods=True,
        profiles=(Profile(),),
    )


def kept(heard: CoreHeard, *errors: Exception) -> None:
    """Keeps a part that fails so, one time after the other, and then ends."""
    parts = a_core(heard)
    left: Iterator[Exception] = iter(errors)

    async def work() -> None:
        for error in left:
            raise error

    asyncio.run(parts.kept("sweep", work))


def test_part_that_fails_begins_again_and_says_why_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(core, "AGAIN_S", 0.0)
    heard = CoreHeard()
    with caplog.at_level(logging.ERROR):
        kept(heard, KeyError("a"), KeyError("a"), KeyError("b"))
    assert heard.parts == ["sweep"] * 3
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["'a'", "'b'"]


def test_one_that_leads_lists_the_claims_until_it_has_them_and_has_the_epoch_of_its_election(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core, "AGAIN_S", 0.0)
    parts = a_core(CoreHeard())
    answers: Iterator[CallFailed | None] = iter([Unanswered("GET /", "cut", is_ambiguous=False), None])

    async def catch_up() -> None:
        if error := next(answers):
            raise error

    monkeypatch.setattr(parts.watched.claims, "catch_up", catch_up)
    asyncio.run(parts.succeed(epoch=7))
    assert parts.binder.epoch == 7
    assert next(answers, "none is left") == "none is left"


def reported(
    monkeypatch: pytest.MonkeyPatch,
    looks: Iterable[list[Violation]],
    before_each: Callable[[Core], None] = lambda _: None,
) -> list[Violation]:
    """What is reported. looks: what each look finds."""
    heard = CoreHeard()
    parts = a_core(heard)
    left = iter(looks)

    async def filled() -> None:
        pass

    async def sleep(_: float) -> None:
        before_each(parts)

    monkeypatch.setattr(parts.watched, "filled", filled)
    monkeypatch.setattr(parts.cluster, "violations", lambda: next(left))
    monkeypatch.setattr("scheduler.runtime.core.asyncio.sleep", sleep)
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(parts._check_all_the_time())
    return heard.violations


def test_violation_is_reported_once_it_was_seen_twice_and_not_again_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lasting, passing = (Violation("I1", subject, "twice") for subject in ("lasting", "passing"))
    looks = [[lasting, passing], [lasting], [lasting], [], [lasting], [lasting]]
    assert reported(monkeypatch, looks) == [lasting, lasting]


@pytest.mark.parametrize(
    ("pods", "silence_s", "passed_s", "expected"),
    [(6, 0.0, 0.0, 0), (7, 0.0, 0.0, 1), (6, STILL_S, 0.0, 1), (6, 0.0, LASTS_S, 1)],
    ids=["behind", "has shown it", "has nothing to show", "lasts"],
)
def test_violation_is_not_reported_while_a_watch_is_behind(
    monkeypatch: pytest.MonkeyPatch, pods: int, silence_s: float, passed_s: float, expected: int
) -> None:
    """As of a pod that has gone with its claim, which the watch of claims shows before."""
    now = 1000.0
    monkeypatch.setattr("scheduler.runtime.core.time.monotonic", lambda: now)

    def before_each(parts: Core) -> None:
        nonlocal now
        for reflector in parts.watched:
            reflector.store.resource_version, reflector._heard_at = 7, now
        parts.watched.pods.store.resource_version = pods
        parts.watched.pods._heard_at = now - silence_s
        now += passed_s

    assert len(reported(monkeypatch, [[Violation("I2", "pod", "not allocated")]] * 2, before_each)) == expected

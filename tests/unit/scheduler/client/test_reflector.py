"""The reflector's word on whether its watch is alive, and what it logs."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Never, cast

import pytest

from scheduler.client.api_resources import PODS, Resource
from scheduler.client.errors import Unanswered
from scheduler.client.watch_states import Applied, Interrupted, Outdated, Progressed, Restarted, WatchEvent
from scheduler.client.watcher import ALIVE_S, Reflector, Watcher
from tests.unit.scheduler.client.watched import a_refused, an_entry

LISTED = Restarted((an_entry(),), 1)


class ReflectorOver(Exception):
    """A script has come to its end."""


@dataclass
class Script:
    """Tells events at given times in place of a watcher."""

    events: list[tuple[float, WatchEvent[str]]]
    resource: Resource = PODS
    now: float = 0.0

    async def run(self, tell: Callable[[WatchEvent[str]], None]) -> Never:
        for at, event in self.events:
            self.now = at
            tell(event)
        raise ReflectorOver


def cut(reason: str) -> Interrupted:
    return Interrupted(Unanswered("GET /x", reason, is_ambiguous=True), 1.0)


def played(*events: tuple[float, WatchEvent[str]], needs_all: bool = False) -> Reflector[str]:
    script = Script(list(events))
    reflector = Reflector(cast(Watcher[str], script), lambda: script.now, needs_all=needs_all)
    with pytest.raises(ReflectorOver):
        asyncio.run(reflector.run())
    return reflector


def test_reflector_is_alive_once_listed_and_while_anything_is_heard() -> None:
    assert not played((0.0, cut("refused"))).is_alive(0.0)
    reflector = played((0.0, LISTED), (100.0, Progressed(1)))
    assert reflector.is_alive(100.0 + ALIVE_S - 1)
    assert not reflector.is_alive(100.0 + ALIVE_S)


def test_lists_that_no_watch_goes_on_from_are_no_sign_of_life() -> None:
    """As where each watch ends with 410 at once: no decisions are made in between."""
    lost: list[tuple[float, WatchEvent[str]]] = [
        (moment, event) for moment in (0.0, 60.0, 120.0, 180.0) for event in (Outdated(1), LISTED)
    ]
    assert played(*lost[:4]).is_alive(120.0)
    assert not played(*lost).is_alive(60.0 + ALIVE_S)
    assert played(*lost, (181.0, Progressed(1)), (240.0, LISTED)).is_alive(240.0)


def test_reflector_is_outdated_from_the_loss_of_changes_to_the_next_list() -> None:
    assert not played((0.0, LISTED), (1.0, cut("reset"))).is_outdated
    assert played((0.0, LISTED), (1.0, Outdated(1)), (2.0, cut("refused"))).is_outdated
    assert not played((0.0, LISTED), (1.0, Outdated(1)), (2.0, LISTED)).is_outdated


def test_interruption_is_no_word_of_the_server_and_is_reported_while_it_lasts() -> None:
    reflector = played((0.0, LISTED), (100.0, cut("refused")))
    assert reflector.trouble == "GET /x: refused"
    assert not reflector.is_alive(ALIVE_S)
    assert played((0.0, LISTED), (1.0, cut("refused")), (2.0, Progressed(1))).trouble == ""


def test_interruptions_are_logged_when_their_reason_changes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        played((0.0, cut("refused")), (1.0, cut("refused")), (2.0, cut("cut")), (3.0, LISTED))
    assert [record.getMessage() for record in caplog.records] == [
        "pods (v1): GET /x: refused; retrying in 1.0 s",
        "pods (v1): GET /x: cut; retrying in 1.0 s",
        "pods (v1): the watch works again",
    ]


def test_object_that_cannot_be_decoded_is_logged_once_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    again: WatchEvent[str] = Restarted((a_refused("a", 1),), 3)
    changed: WatchEvent[str] = Applied(a_refused("a", 4))
    other: WatchEvent[str] = Applied(a_refused("a", 5, "spec: is worse"))
    with caplog.at_level(logging.INFO):
        reflector = played((0.0, again), (1.0, again), (2.0, changed), (3.0, other))
    assert [record.getMessage() for record in caplog.records] == [
        "pods (v1): skipping ns/a: spec: is wrong",
        "pods (v1): skipping ns/a: spec: is worse",
    ]
    assert reflector.store.undecoded[a_refused("a").key].resource_version == 5


@dataclass
class Unlisted:
    """A watcher whose lists fail; each takes a turn."""

    resource: Resource = PODS
    lists: int = 0

    async def list_now(self) -> Never:
        self.lists += 1
        await asyncio.sleep(0)
        raise Unanswered("GET /x", f"list {self.lists}", is_ambiguous=False)


def test_list_that_fails_fails_for_all_who_had_asked_when_it_began() -> None:
    watcher = Unlisted()
    reflector = Reflector(cast(Watcher[str], watcher), float)

    async def ask(number: int) -> list[str]:
        return [
            str(one)
            for one in await asyncio.gather(*[reflector.catch_up() for _ in range(number)], return_exceptions=True)
        ]

    async def act() -> list[list[str]]:
        return [await ask(20), await ask(3)]

    first, second = asyncio.run(act())
    assert set(first) == {"GET /x: list 1", "GET /x: list 2"}  # the others asked while the first was under way
    assert set(second) == {"GET /x: list 3", "GET /x: list 4"}

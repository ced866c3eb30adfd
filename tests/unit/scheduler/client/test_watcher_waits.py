"""The watcher asks again as soon as it may, and no sooner."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import orjson
import pytest

from scheduler.client.api_resources import PODS
from scheduler.client.connection import Connection
from scheduler.client.watch_states import WatchEvent
from scheduler.client.watcher import WatchBackoff, Watcher

LIST = {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": []}
BOOKMARK = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5"}}}'


class WatcherWaitsOver(BaseException):
    """A script has come to its end."""


class Server:
    """Lists no pods, and ends each watch after the lines of its turn. waits: the call before, and the seconds."""

    def __init__(self, *watches: tuple[bytes, ...]) -> None:
        self.waits: list[tuple[str, float]] = []
        self._watches = iter(watches)
        self._call = ""

    async def text(self, *_: object, **__: object) -> bytes:
        self._call = "list"
        return orjson.dumps(LIST)

    @asynccontextmanager
    async def stream(self, *_: object) -> AsyncIterator[AsyncIterator[bytes]]:
        async def lines(of: tuple[bytes, ...]) -> AsyncIterator[bytes]:
            for line in of:
                yield line

        watch = next(self._watches, None)
        if watch is None:
            raise WatcherWaitsOver
        self._call = "watch"
        yield lines(watch)

    async def sleep(self, seconds: float) -> None:
        self.waits.append((self._call, seconds))


def waits(monkeypatch: pytest.MonkeyPatch, *watches: tuple[bytes, ...]) -> list[tuple[str, float]]:
    """What the watcher waits after its calls."""
    server = Server(*watches)
    reported: list[WatchEvent[str]] = []
    monkeypatch.setattr("scheduler.client.watcher.asyncio.sleep", server.sleep)
    connection, backoff = cast(Connection, server), WatchBackoff(1.0, longest_s=5.0)
    watcher = Watcher(connection, PODS, lambda _: "", lambda: 0.0, lists_by_watch=False, backoff=backoff)
    with pytest.raises(WatcherWaitsOver):
        asyncio.run(watcher.run(reported.append))
    return server.waits


def test_watch_that_ends_without_a_word_is_opened_again_at_once_and_then_ever_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = waits(monkeypatch, (), (), (), (), (), ())
    assert [seconds for call, seconds in found if call == "watch"] == [0, 1, 2, 4, 5, 5]
    assert {seconds for call, seconds in found if call == "list"} == {0}


def test_watch_that_brought_something_is_opened_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = waits(monkeypatch, (), (), (BOOKMARK,), (), (BOOKMARK,))
    assert [seconds for call, seconds in found if call == "watch"] == [0, 1, 0, 1, 0]

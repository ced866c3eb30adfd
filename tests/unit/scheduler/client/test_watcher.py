"""What a watcher tells of watches that come to nothing, and of what it cannot read."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.client.api_resources import PODS
from scheduler.client.connection import Connection
from scheduler.client.errors import TooLarge
from scheduler.client.watch_states import Interrupted, Outdated, Progressed, Restarted, WatchEvent
from scheduler.client.watcher import PAGE_BYTES, VAIN_OPENINGS, WatchBackoff, Watcher

PAGE = orjson.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": []})
BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}'
EXPIRED = b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old resource version: 7 (9)"}}'
ENDLESS = b"a line without an end"
BROKEN = b'{"type":"MODIFIED","object":{"metadata":{}}}'


class WatcherOver(BaseException):
    """A script has come to its end."""


class Server:
    """Answers each list with a page, and each watch with the next lines, until there are none. lists: their number."""

    def __init__(self, *watches: tuple[bytes, ...]) -> None:
        self.lists = 0
        self._watches = iter(watches)

    async def text(self, path: str, query: Mapping[str, str], timeout_s: float, most_bytes: int | None) -> bytes:
        self.lists += "limit" in query and query["limit"] != "1"
        return PAGE

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], idle_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        lines = next(self._watches, None)
        if lines is None:
            raise WatcherOver

        async def tell() -> AsyncIterator[bytes]:
            for line in lines:
                if line == ENDLESS:
                    raise TooLarge(f"GET {path}", 1, "a line of the watch")
                yield line

        yield tell()


def whole(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return raw


def failing(*_: object) -> None:
    raise RuntimeError("a defect")


def reported(server: Server, backoff: WatchBackoff | None = None) -> list[WatchEvent[Mapping[str, Any]]]:
    events: list[WatchEvent[Mapping[str, Any]]] = []
    at_once = backoff or WatchBackoff(0.0, longest_s=0.0)
    connection = cast(Connection, server)
    watcher = Watcher(connection, PODS, whole, lambda: 0.0, lists_by_watch=False, backoff=at_once)
    with pytest.raises(WatcherOver):
        asyncio.run(watcher.run(events.append))
    return events


def test_watch_that_is_opened_again_and_again_and_reports_nothing_is_no_word_of_the_server() -> None:
    events = reported(Server(*[()] * (3 * VAIN_OPENINGS)))
    assert events == [Restarted((), 7), *[Progressed(7)] * (VAIN_OPENINGS - 1)]


def test_watch_that_expires_after_each_list_is_no_word_of_the_server_either() -> None:
    events = reported(Server(*[(EXPIRED,)] * (3 * VAIN_OPENINGS)))
    assert [type(event) for event in events].count(Progressed) == VAIN_OPENINGS - 1
    assert [type(event) for event in events].count(Restarted) == 3 * VAIN_OPENINGS + 1


def test_watch_that_reports_something_is_heard_again() -> None:
    before = reported(Server(*[()] * VAIN_OPENINGS))
    events = reported(Server(*[()] * VAIN_OPENINGS, (BOOKMARK,), ()))
    assert events[len(before) :] == [Progressed(7), Progressed(7)]


@pytest.mark.parametrize("line", [BROKEN, ENDLESS])
def test_line_that_cannot_be_read_is_made_up_for_by_a_list_and_the_watch_goes_on(line: bytes) -> None:
    server = Server((line, BOOKMARK), (BOOKMARK,))
    events = reported(server)
    kinds = [type(event) for event in events]
    assert kinds == [Restarted, Progressed, Outdated, Interrupted, Restarted, Progressed, Progressed]
    assert server.lists == 2


def test_lists_that_make_up_for_the_same_again_and_again_come_ever_later() -> None:
    events = reported(Server(*[(BROKEN,)] * 5), WatchBackoff(0.001, longest_s=1.0, jitter=0.0))
    waits = [event.retry_in_s for event in events if isinstance(event, Interrupted)]
    assert waits == [0.0, 0.001, 0.002, 0.004, 0.008]


def test_defect_of_our_own_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("scheduler.client.watcher.input_of", failing)
    events = reported(Server((BOOKMARK,), (BOOKMARK,)))
    assert [type(event) for event in events].count(Restarted) == 3
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "pods (v1): cannot process what the API server sent"
    ] * 2


class Paging:
    """Answers lists by pages of objects of these sizes. largest: bytes of the largest page of several objects."""

    def __init__(self, *sizes: int) -> None:
        self.largest = 0
        identity = {"namespace": "a", "uid": "u", "resourceVersion": "7"}
        self._items: list[dict[str, Any]] = [
            {"metadata": {**identity, "name": f"p{number}"}, "": size} for number, size in enumerate(sizes)
        ]

    async def text(self, path: str, query: Mapping[str, str], timeout_s: float, most_bytes: int | None) -> bytes:
        first = int(query.get("continue", "0"))
        after = first + int(query["limit"])
        items = self._items[first:after]
        size = sum(item[""] for item in items)  # the texts themselves do not have to be there
        if most_bytes is not None and size > most_bytes:
            raise TooLarge(f"GET {path}", most_bytes)
        self.largest = max(self.largest, size if len(items) > 1 else 0)
        metadata = {"resourceVersion": "7", "continue": str(after) if after < len(self._items) else ""}
        return orjson.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": items})


@given(sizes=st.lists(st.sampled_from([2_000, 100_000, 9_400_000, PAGE_BYTES + 1]), max_size=1_200))
def test_pages_hold_so_few_objects_that_their_writers_do_not_decide_how_large_they_are(sizes: list[int]) -> None:
    server = Paging(*sizes)
    listed = asyncio.run(Watcher(cast(Connection, server), PODS, whole, lambda: 0.0).list_now())
    assert [found.key.name for found in listed.objects] == [f"p{number}" for number in range(len(sizes))]
    assert server.largest <= PAGE_BYTES

"""/ui over HTTP: headers, methods, bounds, readers who do not read, and nothing at work without a reader."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import aiohttp
import pytest

from scheduler import VERSION
from scheduler.output import live_view, ui_server
from scheduler.output.data_page import live_policy
from scheduler.output.time_line import EVERY_S, MOST, MOST_SAMPLES, WORK_S
from scheduler.output.ui_server import MOST_STREAMS, Ui
from scheduler.runtime.health import Endpoints, serving
from tests.unit.scheduler.output.shown import Program, State, answer_of, applied, rows_of

Answer = TypeVar("Answer")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "REFRESH_S", 0.01)
    monkeypatch.setattr(ui_server, "ALIVE_S", 0.05)


class Served:
    """A program whose page is asked for."""

    def __init__(self) -> None:
        self.program = Program(1, 2)
        self.ui = Ui(self.program.source)

    def asked(self, use: Callable[[aiohttp.ClientSession], Awaitable[Answer]]) -> Answer:
        async def within() -> Answer:
            async with self.open() as url, aiohttp.ClientSession(url) as session:
                return await use(session)

        return asyncio.run(within())

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        endpoints = Endpoints({}, {}, {}, lambda _: (b"", "text/plain"), list, self.ui.attach, ("/ui",))
        async with serving("127.0.0.1:0", endpoints) as url:
            yield url


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while True:
            if holds():
                return
            await asyncio.sleep(0)


async def events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, list[object]]]:
    """Name and data of each event."""
    name = ""
    async for line in answer.content:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


async def until_now(answer: aiohttp.ClientResponse, state: State) -> State:
    """The state of the page once it is told that it is up to date."""
    async for name, data in events(answer):
        applied(state, [json.dumps(one).encode() for one in data])
        if name == "now":
            return state
    raise AssertionError("the stream has ended")


def test_the_page_has_the_headers_of_a_page_that_nobody_frames_or_keeps() -> None:
    async def ask(session: aiohttp.ClientSession) -> tuple[int, dict[str, str], str]:
        async with session.get("/ui") as answer:
            return answer.status, dict(answer.headers), await answer.text()

    status, headers, text = Served().asked(ask)
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert headers["Content-Security-Policy"] == live_policy("frame-ancestors 'none'")
    assert "connect-src 'self'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert {name: headers[name] for name in ("Cache-Control", "X-Content-Type-Options", "X-Frame-Options")} == {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    assert "<h1>dra test</h1>" in text
    assert f">context test · Kubernetes 1.37 · dra-scheduler {VERSION}</p>" in text


@pytest.mark.parametrize("path", ["/ui", "/ui/events"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_get_is_answered(path: str, method: str) -> None:
    async def ask(session: aiohttp.ClientSession) -> int:
        async with session.request(method, path) as answer:
            return answer.status

    assert Served().asked(ask) == 405


def test_the_index_names_it() -> None:
    async def ask(session: aiohttp.ClientSession) -> list[str]:
        async with session.get("/") as answer:
            return (await answer.text()).splitlines()

    assert Served().asked(ask)[-1] == "/ui"


def test_a_reader_gets_the_state_and_then_what_changes() -> None:
    served = Served()

    async def follow(session: aiohttp.ClientSession) -> tuple[State, State]:
        async with session.get("/ui/events") as answer:
            assert answer.content_type == "text/event-stream"
            assert answer.headers["Cache-Control"] == "no-store"
            first: State = {}
            while not rows_of(first, "queue"):
                served.program.waiting = [{"pod": "ml/a", "queue": "active"}]
                first = await until_now(answer, first)
            before = {key: list(rows) for key, rows in first.items()}
            served.program.waiting = []
            while rows_of(first, "queue"):
                await until_now(answer, first)
            return before, first

    before, after = served.asked(follow)
    assert rows_of(before, "queue") == [["ml/a", "active", "-", "-", "-"]]
    assert len([key for key in before if key[0] == "devices"]) == 2
    assert answer_of(after)[:2] == [
        "3 of 3 devices are free.",
        "0 pods wait; 0 decisions since the program started.",
    ]


def test_nothing_is_worked_out_without_a_reader() -> None:
    served = Served()

    async def look(session: aiohttp.ClientSession) -> None:
        async with session.get("/ui") as answer:
            await answer.text()
        assert next(served.program.asked) == 0
        async with session.get("/ui/events") as answer:
            await until_now(answer, {})
        await until(lambda: not served.ui.readers)
        asked = next(served.program.asked)
        assert asked > 1
        for _ in range(50):
            await asyncio.sleep(0)
        assert next(served.program.asked) == asked + 1

    served.asked(look)


def test_readers_beyond_the_limit_are_asked_to_come_again() -> None:
    served = Served()

    async def crowd(session: aiohttp.ClientSession) -> tuple[list[int], str, int]:
        streams = [await session.get("/ui/events") for _ in range(MOST_STREAMS + 2)]
        statuses, again = [one.status for one in streams], streams[-1].headers["Retry-After"]
        for one in streams:
            one.close()
        await until(lambda: not served.ui.readers)
        async with session.get("/ui/events") as answer:
            return statuses, again, answer.status

    statuses, again, after = served.asked(crowd)
    assert statuses == [200] * MOST_STREAMS + [503] * 2
    assert (again, after) == ("5", 200)


@contextmanager
def a_silent_reader(session: aiohttp.ClientSession) -> Iterator[None]:
    """One who asks for the events, and reads none of them."""
    url = session._base_url
    assert url
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect((url.host, url.port))
        silent.sendall(b"GET /ui/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield


def much() -> list[dict[str, object]]:
    """More than what the sockets hold between a program and a reader."""
    return [{"pod": f"ml/{number}", "message": "x" * 20_000} for number in range(500)]


def test_a_reader_who_does_not_read_keeps_nobody_waiting() -> None:
    served = Served()
    served.program.waiting = much()

    async def both(session: aiohttp.ClientSession) -> int:
        with a_silent_reader(session):
            await until(lambda: served.ui.readers == 1)
            async with session.get("/ui/events") as answer:
                state: State = {}
                while len(rows_of(state, "queue")) < 500:
                    state = await until_now(answer, state)
            await until(lambda: served.ui.readers == 1)
            return len(rows_of(state, "queue"))

    assert served.asked(both) == 500


def test_a_reader_who_does_not_read_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui_server, "WRITE_S", 0.05)
    served = Served()
    served.program.waiting = much()

    async def wait(session: aiohttp.ClientSession) -> None:
        with a_silent_reader(session):
            await until(lambda: served.ui.readers == 1)
            await until(lambda: served.ui.readers == 0)

    served.asked(wait)


def test_a_stream_ends_in_time_so_that_its_reader_is_authorized_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui_server, "STREAM_S", 0.05)
    served = Served()

    async def follow(session: aiohttp.ClientSession) -> None:
        async with session.get("/ui/events") as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        await until(lambda: not served.ui.readers)

    served.asked(follow)


def test_an_open_page_does_not_keep_the_program_from_ending() -> None:
    served = Served()

    async def within() -> None:
        async with aiohttp.ClientSession() as session:
            async with served.open() as url:
                answer = await session.get(f"{url}/ui/events")
                await until_now(answer, {})
            assert not served.ui.readers
            answer.close()

    asyncio.run(within())


def test_an_error_is_logged_and_the_page_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live_view, "FAILED_S", 0.01)
    served = Served()
    served.program.waiting = [None]  # type: ignore[list-item]  # such an error that nobody has thought of

    async def follow(session: aiohttp.ClientSession) -> State:
        async with session.get("/ui/events") as answer:
            await until(lambda: bool(caplog.records))
            served.program.waiting = [{"pod": "ml/a"}]
            state: State = {}
            while not rows_of(state, "queue"):
                state = await until_now(answer, state)
            return state

    assert rows_of(served.asked(follow), "queue")[0][0] == "ml/a"
    assert "the page cannot be brought up to date" in caplog.text


def test_documentation_has_the_limits_as_they_are() -> None:
    text = " ".join((Path(__file__).parents[4] / "docs" / "ui.md").read_text().split())
    for words in (
        f"the last {MOST} decisions",
        f"up to {live_view.MOST_WAITING:,} pods that wait",
        f"takes nothing for {ui_server.WRITE_S:.0f} seconds",
        f"at most {MOST_SAMPLES} times",
        f"at most {WORK_S * 1000:.0f} ms",
    ):
        assert words in text
    assert (MOST_STREAMS, ui_server.STREAM_S, EVERY_S) == (8, 600, 10)
    assert "every ten seconds" in text
    assert "At most eight pages" in text
    assert "Every ten minutes" in text

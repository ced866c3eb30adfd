"""How a connection finds its way to the server."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import ClientTimeout, StreamReader

from scheduler.client import connection
from scheduler.client.connection import ANSWER_BYTES, TimeLimit, connect
from scheduler.client.credentials import Credentials
from scheduler.client.errors import ApiError, ApiErrorKind, TooLarge, Unanswered
from scheduler.client.exchanges import HttpRequest
from tests.unit.scheduler.client.answering import answer, connected

SERVER = "https://api.example:6443"


def proxy_to(server: str, folder: Path, **cluster: str) -> str | None:
    """The proxy that calls of the server go through."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "config"
    path.write_text(json.dumps(config))

    async def found() -> str | None:
        async with connect(kubeconfig=path) as connection:
            return connection._exchanges.route.proxy

    return asyncio.run(found())


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_server_is_called_directly_where_nobody_names_a_proxy(tmp_path: Path) -> None:
    assert proxy_to(SERVER, tmp_path) is None


def test_proxy_of_the_environment_is_used_unless_it_leaves_the_server_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert proxy_to(SERVER, tmp_path) == "http://proxy.example:3128"
    monkeypatch.setenv("NO_PROXY", "localhost,.example")
    assert proxy_to(SERVER, tmp_path) is None


def test_proxy_of_the_kubeconfig_goes_before_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert proxy_to(SERVER, tmp_path, **{"proxy-url": "http://own.example:1"}) == "http://own.example:1"


@pytest.mark.parametrize(("status", "asked"), [(401, ["Bearer t"]), (403, [])])
def test_other_credentials_are_asked_for_where_these_were_not_let_in_and_for_no_other_answer(
    status: int, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def renewed(_: Credentials, refused: str) -> bool:
        seen.append(refused)
        return False

    async def called() -> None:
        async with connected(tmp_path, token="t") as (connection, requests):  # noqa: S106 - of no server
            call = asyncio.create_task(connection.request("GET", "/api"))
            answer(await requests.next(), status, {"reason": "No"})
            with pytest.raises(ApiError) as error:
                await call
            assert error.value.status == status

    monkeypatch.setattr(Credentials, "renewed", renewed)
    asyncio.run(called())
    assert seen == asked


@pytest.mark.parametrize(("each_s", "turns"), [(0.001, 0), (0.02, 3)])
def test_lines_that_take_long_to_work_on_leave_others_their_turn_between_them(
    each_s: float, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small they are, and though all of them are here already."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    chunks = [b"a\nb\nc\n", b""]

    async def readany() -> bytes:
        return chunks.pop(0)

    async def lines() -> tuple[list[bytes], int]:
        nonlocal now
        had, found = list[int](), list[bytes]()
        call, content = cast(HttpRequest, SimpleNamespace()), cast(StreamReader, SimpleNamespace(readany=readany))

        def turn() -> None:
            had.append(1)
            loop.call_soon(turn)

        loop = asyncio.get_running_loop()
        loop.call_soon(turn)
        async for line in connection._lines(call, content, TimeLimit(1.0, 1.0)):
            found.append(line)
            now += each_s
        return found, len(had)

    assert asyncio.run(lines()) == ([b"a", b"b", b"c"], turns)


ENDLESS = b"X\r\nContent-Length: 9999999999999\r\n\r\n" + b" " * (ANSWER_BYTES + 1)


@pytest.mark.parametrize(("method", "is_ambiguous"), [("GET", False), ("PUT", True), ("DELETE", True)])
def test_answer_that_is_no_list_is_read_up_to_a_size_that_no_object_has(
    method: str, tmp_path: Path, *, is_ambiguous: bool
) -> None:
    """As of every write without an answer, it is unknown whether it was stored."""

    async def called() -> None:
        async with connected(tmp_path) as (api, requests):
            call = asyncio.create_task(api.request(method, "/a/b"))
            (await requests.next()).write(b"HTTP/1.1 200 " + ENDLESS)
            with pytest.raises(TooLarge, match=f"^{method} /a/b: the answer is larger than 16777216 bytes$") as error:
                await call
            assert error.value.is_ambiguous == is_ambiguous
            again = asyncio.create_task(api.request(method, "/a/b"))
            answer(await requests.next(), body={"a": 1})
            assert await again == {"a": 1}

    asyncio.run(called())


@pytest.mark.parametrize("value", ["x", 5, True, [], [{}], 1.5])
@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
def test_answer_that_is_no_object_of_the_api_has_not_come(part: str, value: object, tmp_path: Path) -> None:
    """Whoever reads it reads fields of its parts."""

    async def called() -> None:
        async with connected(tmp_path) as (api, requests):
            call = asyncio.create_task(api.request("PUT", "/a/b"))
            answer(await requests.next(), body={"kind": "ResourceClaim", "metadata": {}, part: value})
            with pytest.raises(Unanswered, match=f"^PUT /a/b: .*: {part} must be an object \\(got ") as error:
                await call
            assert error.value.is_ambiguous
            done = asyncio.create_task(api.request("POST", "/a/b/binding"))
            answer(await requests.next(), body={"kind": "Status", "metadata": {}, "status": "Success"})
            assert (await done)["status"] == "Success"

    asyncio.run(called())


def test_error_without_an_end_is_what_its_status_says(tmp_path: Path) -> None:
    async def called() -> None:
        async with connected(tmp_path) as (api, requests):
            call = asyncio.create_task(api.request("PUT", "/a/b"))
            (await requests.next()).write(b"HTTP/1.1 409 " + ENDLESS)
            with pytest.raises(ApiError) as error:
                await call
            assert error.value.kind is ApiErrorKind.CONFLICT

    asyncio.run(called())


def test_list_is_read_as_it_is(tmp_path: Path) -> None:
    async def called() -> bytes:
        async with connected(tmp_path) as (api, requests):
            call = asyncio.create_task(api.text("/a", {}, 60.0))
            length = ANSWER_BYTES + 1
            (await requests.next()).write(b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n" % length + b" " * length)
            return await call

    assert len(asyncio.run(called())) == ANSWER_BYTES + 1


def test_line_of_a_watch_ends_at_a_size_that_no_object_has() -> None:
    chunk, read = b"x" * 2**20, list[int]()

    async def readany() -> bytes:
        read.append(1)
        return b"a\n" + chunk if len(read) == 1 else chunk if len(read) < 99 else b""

    async def lines() -> None:
        call = HttpRequest("GET", "/a", None, None, "", ClientTimeout())
        content = cast(StreamReader, SimpleNamespace(readany=readany))
        found = connection._lines(call, content, TimeLimit(1.0, 1.0))
        assert await anext(found) == b"a"
        with pytest.raises(TooLarge, match=rf"^GET /a: a line of the watch is larger than {ANSWER_BYTES} bytes$"):
            await anext(found)

    asyncio.run(lines())
    assert len(read) == ANSWER_BYTES // 2**20 + 1


def test_text_of_the_http_library_is_one_line(tmp_path: Path) -> None:
    async def called() -> None:
        async with connected(tmp_path) as (api, requests):
            call = asyncio.create_task(api.request("PUT", "/a/b"))
            (await requests.next()).write(b"HTTP/1.1 200 X\r\n" + b"A: b\r\n" * 200 + b"\r\n")
            with pytest.raises(Unanswered, match="Too many headers") as error:
                await call
            assert str(error.value).isprintable()

    asyncio.run(called())

"""How a connection finds its way to the server."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import StreamReader

from scheduler.client import connection
from scheduler.client.connection import TimeLimit, connect
from scheduler.client.credentials import Credentials
from scheduler.client.errors import ApiError
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

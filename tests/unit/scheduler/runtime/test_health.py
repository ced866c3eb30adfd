"""Probes name what fails, and what is served is what the scheduler says of itself."""

import asyncio
import gc
import json
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from scheduler import runtime
from scheduler.runtime.health import Check, Endpoints, probe_answer, serving
from scheduler.runtime.listening import CannotServe

Answer = tuple[int, str, str]
"""Status, content type, text."""


def holds() -> str:
    return ""


def fails() -> str:
    return "pods: not heard for 130 s"


def served(
    live: Mapping[str, Check] | None = None,
    ready: Mapping[str, Check] | None = None,
    warnings: Mapping[str, Check] | None = None,
) -> Endpoints:
    return Endpoints(
        live={"loop": holds} if live is None else live,
        ready={"caches": holds} if ready is None else ready,
        warnings=warnings or {},
        metrics=lambda accept: (b"# EOF\n", accept or "text/plain"),
        queue=lambda: [{"pod": "a/b", "queue": "gated"}],
    )


def asked(what: Endpoints, *paths: str, accept: str = "text/plain") -> list[Answer]:
    """The answers to GETs of the paths."""

    async def ask(url: str) -> list[Answer]:
        async with aiohttp.ClientSession(url, headers={"Accept": accept}) as session:
            return [await get(session, path) for path in paths]

    return run(what, ask)


async def get(session: aiohttp.ClientSession, path: str) -> Answer:
    async with session.get(path) as answer:
        return answer.status, answer.content_type, await answer.text()


def run(what: Endpoints, use: Callable[[str], Awaitable[list[Answer]]]) -> list[Answer]:
    async def within() -> list[Answer]:
        async with serving("127.0.0.1:0", what) as url:
            return await use(url)

    return asyncio.run(within())


def test_probes_are_ok_while_every_check_holds() -> None:
    paths = ("/healthz", "/livez", "/readyz")
    assert asked(served(), *paths) == [(200, "text/plain", "ok")] * 3


def test_what_fails_is_named_with_its_reason() -> None:
    ((status, _, text),) = asked(served(ready={"caches": holds, "watches": fails}), "/readyz")
    assert status == 503
    assert text == ("[+]loop ok\n[+]caches ok\n[-]watches failed: pods: not heard for 130 s\nreadyz check failed\n")


def test_being_alive_does_not_take_being_ready_but_being_ready_takes_being_alive() -> None:
    answers = asked(served(ready={"caches": fails}), "/livez", "/readyz")
    assert [status for status, _, _ in answers] == [200, 503]
    answers = asked(served(live={"loop": fails}), "/livez", "/readyz")
    assert [status for status, _, _ in answers] == [503, 503]


def test_verbose_lists_the_checks_that_hold() -> None:
    ((_, _, text),) = asked(served(), "/readyz?verbose")
    assert text == "[+]loop ok\n[+]caches ok\nreadyz check passed\n"


def test_warning_is_reported_to_who_asks_and_fails_nothing() -> None:
    what = served(warnings={"devices": fails, "others": holds})
    (plain, verbose, alive) = asked(what, "/readyz", "/readyz?verbose", "/livez?verbose")
    assert plain == (200, "text/plain", "ok")
    assert verbose[0] == 200
    assert verbose[2] == "[+]loop ok\n[+]caches ok\nwarn: devices: pods: not heard for 130 s\nreadyz check passed\n"
    assert "warn" not in alive[2]


def test_excluded_check_does_not_count_and_a_misspelled_one_is_reported() -> None:
    what = served(ready={"caches": fails})
    assert [status for status, _, _ in asked(what, "/readyz?exclude=caches", "/readyz?exclude=cache")] == [200, 503]
    found = probe_answer("readyz", {"caches": fails}, {}, ["caches", "cahces"])
    assert found.is_good
    assert found.text == "[+]caches excluded: ok\nwarn: no check is named cahces\nreadyz check passed\n"
    forged = probe_answer("readyz", {}, {}, ["x\r\n[+]ok\x1b[31m\u202e"])
    assert forged.text == "warn: no check is named x\\r\\n[+]ok\\x1b[31m\\u202e\nreadyz check passed\n"


def test_checks_are_asked_at_each_probe() -> None:
    reasons = ["not yet"]
    what = served(ready={"caches": lambda: reasons[-1]})

    async def use(url: str) -> list[Answer]:
        async with aiohttp.ClientSession(url) as session:
            before = await get(session, "/readyz")
            reasons.append("")
            return [before, await get(session, "/readyz")]

    assert [status for status, _, _ in run(what, use)] == [503, 200]


def test_metrics_are_given_as_the_reader_asks() -> None:
    (answer,) = asked(served(), "/metrics", accept="application/openmetrics-text")
    assert answer == (200, "application/openmetrics-text", "# EOF\n")


@pytest.mark.parametrize("path", ["/", "/metrics", "/debug/queue", "/healthz", "/livez", "/readyz"])
def test_answer_to_head_has_no_body_and_the_next_one_is_that_of_the_next_request(path: str) -> None:
    async def heads() -> list[bytes]:
        async with serving("127.0.0.1:0", served()) as url:
            reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
            found = []
            for method, close in (("HEAD", ""), ("HEAD", "Connection: close\r\n")):
                writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{close}\r\n".encode())
                found.append(await reader.readuntil(b"\r\n\r\n"))
            found.append(await reader.read())
            writer.close()
            return found

    first, second, rest = asyncio.run(heads())
    assert (first[:15], second[:15], rest) == (b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", b"")


@pytest.mark.parametrize("number", [0, 1, 2, 99, 100, 101, 1000])
def test_queue_is_json_of_a_pod_a_line(number: int) -> None:
    pods = [{"pod": f"a/{name}", "queue": "gated"} for name in range(number)]
    ((_, content_type, text),) = asked(replace(served(), queue=lambda: pods), "/debug/queue")
    assert content_type == "application/json"
    assert json.loads(text) == pods
    assert len(text.splitlines()) == max(number, 1)


def test_queue_shows_what_users_wrote_without_what_steers_a_terminal() -> None:
    pods = [{"pod": "a/b", "reason": "\x1b[31m \x9b31m \N{RIGHT-TO-LEFT OVERRIDE}"}]
    ((_, _, text),) = asked(replace(served(), queue=lambda: pods), "/debug/queue")
    assert text.rstrip("\n").isprintable()
    assert json.loads(text) == pods


def test_queue_that_is_long_holds_nobody_up() -> None:
    made = 0

    def pods() -> Iterator[Mapping[str, object]]:
        nonlocal made
        while made < 10_000:
            made += 1
            yield {"pod": "a/b"}

    async def use(url: str) -> list[Answer]:
        most, before = 0, 0
        async with aiohttp.ClientSession(url) as session:
            asking = asyncio.create_task(get(session, "/debug/queue"))
            while not asking.done():
                await asyncio.sleep(0)
                most, before = max(most, made - before), made
            assert most <= 200  # of one turn of the loop, or of two
            return [await asking]

    ((status, _, text),) = run(replace(served(), queue=pods), use)
    assert (status, len(json.loads(text))) == (200, 10_000)


def asking(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def noted(rendered: list[str], size: int) -> Callable[[str], tuple[bytes, str]]:
    """Metrics of so many bytes. rendered: what was accepted, each time that they are."""

    def metrics(accept: str) -> tuple[bytes, str]:
        rendered.append(accept)
        return bytes(size), "text/plain"

    return metrics


def test_nothing_is_rendered_for_a_client_that_has_not_taken_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for who sends all of its requests at once, however much of the answers the kernel would hold."""
    monkeypatch.setattr(runtime.health, "REST_S", 0.001)
    rendered = list[str]()

    async def use(url: str) -> list[Answer]:
        loop, port = asyncio.get_running_loop(), int(url.rpartition(":")[2])
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, asking("/metrics") * 5)
            async with aiohttp.ClientSession(url) as session:
                while not rendered:
                    await get(session, "/livez")
                for _ in range(50):
                    await get(session, "/livez")
            unread = len(rendered)
            left = 5 * 100_000
            while left > 0:
                left -= (await loop.sock_recv(client, 65536)).count(0)
        assert (unread, len(rendered)) == (1, 5)
        return []

    run(replace(served(), metrics=noted(rendered, 100_000)), use)


def test_connection_of_a_client_that_goes_without_reading_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read from it while its answers wait, which is how others are known to have gone."""
    monkeypatch.setattr(runtime.health, "REST_S", 0.001)
    rendered = list[str]()

    async def use(url: str) -> list[Answer]:
        loop, port = asyncio.get_running_loop(), int(url.rpartition(":")[2])
        async with aiohttp.ClientSession(url) as session:
            await get(session, "/livez")
            before = descriptors()
            with socket.socket() as client:
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", port))
                await loop.sock_sendall(client, asking("/metrics") * 50)
                while not rendered:
                    await get(session, "/livez")
            for _ in range(200):
                await get(session, "/livez")
            assert descriptors() <= before
        return []

    run(replace(served(), metrics=noted(rendered, 1_000_000)), use)
    assert len(rendered) < 50


def test_nothing_of_clients_that_go_is_left_to_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes late, and what they have asked for may be a hundred megabytes by then."""
    for module in (runtime.health, runtime.listening):
        monkeypatch.setattr(module, "REST_S", 0.001)

    async def use(url: str) -> list[Answer]:
        port = int(url.rpartition(":")[2])
        async with aiohttp.ClientSession(url) as session:
            await get(session, "/livez")
            before = requests()
            for _ in range(30):
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.sendall(asking("/metrics") * 50)
            for _ in range(100):
                await get(session, "/livez")
            assert requests() < before + 5
        return []

    gc.collect()
    gc.disable()
    try:
        run(replace(served(), metrics=lambda accept: (bytes(10_000), accept)), use)
    finally:
        gc.enable()


def requests() -> int:
    """How many are in memory."""
    return sum(isinstance(one, web.Request) for one in gc.get_objects())


def descriptors() -> set[Path]:
    """Those of this process that are open, but for the one of the list itself."""
    return {one for one in Path("/proc/self/fd").iterdir() if one.exists()}


def test_probe_waits_for_none_of_many_who_ask_for_more() -> None:
    """Whatever has come before it, there is a turn of the event loop between any two answers."""
    rendered, before = list[str](), list[int]()

    def live() -> str:
        before.append(len(rendered))
        return ""

    async def use(url: str) -> list[Answer]:
        port = int(url.rpartition(":")[2])
        streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        for reader, writer in streams:
            writer.write(asking("/livez"))
            await reader.readuntil(b"ok")
        for _, writer in streams[1:]:
            writer.write(asking("/metrics"))
        streams[0][1].write(asking("/livez"))
        await streams[0][0].readuntil(b"ok")
        for reader, writer in streams[1:]:
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
        streams[0][1].close()
        return []

    run(replace(served(live={"loop": live}), metrics=noted(rendered, 0)), use)
    assert (len(rendered), before[-1] < 10) == (49, True)


def test_root_lists_what_is_served_and_the_rest_is_not_found() -> None:
    (_, _, index), *others = asked(served(), "/", "/configz")
    answers = asked(served(), *index.split())
    assert {status for status, _, _ in answers} == {200}
    assert [status for status, _, _ in others] == [404]


def test_taken_address_is_reported() -> None:
    async def twice() -> None:
        async with serving("127.0.0.1:0", served()) as url:
            address = url.removeprefix("http://")
            with pytest.raises(CannotServe, match=f"healthAddress {address}: .*in use"):
                async with serving(address, served()):
                    pass

    asyncio.run(twice())

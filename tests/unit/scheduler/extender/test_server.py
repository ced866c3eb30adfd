"""A call is answered, or refused with a status that kube-scheduler takes for an error; nothing ends in a traceback."""

import asyncio
import gc
import http.client
import json
import logging
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from unittest.mock import Mock
from urllib.parse import urlsplit

import aiohttp
import pytest

from scheduler.attempt.attempts import INTERNAL
from scheduler.runtime.listening import LARGEST_HEAD, CannotServe, Head, Limits, RefusedCall
from scheduler.runtime.server import LARGEST_BODY, AdmittedCall, CallConnection, Malformed, Verb, serving
from scheduler.runtime.tls import self_signed
from tests.unit.scheduler.extender.serving import TIMEOUT_S, ask, echo, run, served
from tests.unit.scheduler.loops import LOOPS, Loop


@asynccontextmanager
async def opened(url: str, text: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection over which no more than this text of a call was sent."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(text)
    await writer.drain()
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


async def raw(url: str, text: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to this text."""
    async with opened(url, text) as (reader, _):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        body = await reader.readexactly(length)
    return int(head.split()[1]), body


def a_call(body: bytes, *headers: bytes, length: int | None = None) -> bytes:
    """The text of a call. length: that is announced; of the body where it is not said."""
    announced = b"Content-Length: %d" % (len(body) if length is None else length)
    lines = (b"POST /v1/filter HTTP/1.1", b"Host: localhost", *(headers or (announced,)))
    return b"\r\n".join((*lines, b"", body))


def raising(error: Exception) -> Verb:
    def verb(_: bytes) -> bytes:
        raise error

    return verb


# -- answers


@LOOPS
def test_call_is_answered_with_json(loop: Loop) -> None:
    async def use(url: str) -> None:
        assert url.startswith("http://127.0.0.1:")
        async with aiohttp.ClientSession() as session, session.post(f"{url}/filter", data=b"{}") as answer:
            assert (answer.status, answer.content_type) == (200, "application/json")
            assert await answer.read() == b'{"length": 2}'

    run(loop, served(), use)


@LOOPS
def test_verb_may_take_its_time(loop: Loop) -> None:
    async def verb(body: bytes) -> bytes:
        await asyncio.sleep(0)
        return echo(body)

    async def use(url: str) -> None:
        assert await ask(url, b"[]") == (200, {"length": 2})

    run(loop, served(verb=verb), use)


@LOOPS
def test_next_call_is_read_after_one_that_took_its_time(loop: Loop) -> None:
    async def verb(body: bytes) -> bytes:
        await asyncio.sleep(0)
        return echo(body)

    async def use(url: str) -> None:
        async with opened(url, b"") as (reader, writer):
            for _ in range(3):
                writer.write(a_call(b"{}"))
                assert await answers(reader, 1) == [(200, b'{"length": 2}')]

    run(loop, served(verb=verb), use)


@LOOPS
def test_calls_follow_each_other_over_one_connection(loop: Loop) -> None:
    async def use(url: str) -> None:
        where = urlsplit(url)
        async with opened(url, a_call(b"1") + a_call(b"22")) as (reader, _):
            for length in (1, 2):
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                assert await reader.readexactly(13) == b'{"length": %d}' % length
        assert where.path == "/v1"

    run(loop, served(), use)


async def answers(reader: asyncio.StreamReader, number: int) -> list[tuple[int, bytes]]:
    """Status and body of the next answers."""
    found = []
    for _ in range(number):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        found.append((int(head.split()[1]), await reader.readexactly(length)))
    return found


@LOOPS
def test_answers_come_in_the_order_of_calls_however_long_they_take(loop: Loop) -> None:
    arrived, may_end = asyncio.Semaphore(0), asyncio.Event()

    async def slow(body: bytes) -> bytes:
        arrived.release()
        await may_end.wait()
        return echo(body)

    def verb(body: bytes) -> bytes | Awaitable[bytes]:
        return slow(body) if len(body) == 1 else echo(body)

    async def use(url: str) -> None:
        async with opened(url, a_call(b"1") + a_call(b"22")) as (reader, writer):
            await arrived.acquire()
            writer.write(a_call(b"333") + a_call(b"1"))
            await writer.drain()
            await asyncio.to_thread(ask_now, url)  # what was written has come by then
            may_end.set()
            lengths = [(200, b'{"length": %d}' % length) for length in (1, 2, 3, 1)]
            assert await answers(reader, 4) == lengths

    def ask_now(url: str) -> None:
        assert asyncio.run(ask(url, b"22"))[0] == 200

    run(loop, served(verb=verb), use)


@LOOPS
def test_call_may_come_byte_by_byte(loop: Loop) -> None:
    async def use(url: str) -> None:
        async with opened(url, b"") as (reader, writer):
            for byte in a_call(b"[1]") * 2:
                writer.write(bytes([byte]))
                await writer.drain()
            assert await answers(reader, 2) == [(200, b'{"length": 3}')] * 2

    run(loop, served(), use)


@LOOPS
def test_client_that_asks_first_may_send_its_body(loop: Loop) -> None:
    async def use(url: str) -> None:
        expecting = b"Expect: 100-continue"
        async with opened(url, a_call(b"", expecting, b"Content-Length: 2")) as (reader, writer):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"{}")
            assert await answers(reader, 1) == [(200, b'{"length": 2}')]
            too_long = b"Content-Length: %d" % (LARGEST_BODY + 1)
            writer.write(a_call(b"", expecting, too_long))
            assert [status for status, _ in await answers(reader, 1)] == [413]

    run(loop, served(), use)


@LOOPS
def test_client_of_http_1_0_is_told_nothing_before_its_answer(loop: Loop) -> None:
    """It knows no such answer (RFC 9110, 10.1.1)."""

    async def use(url: str) -> None:
        head = b"POST /v1/filter HTTP/1.0\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        async with opened(url, head + b"{") as (reader, writer):
            waiting = asyncio.create_task(reader.read(1))
            assert await ask(url, b"22") == (200, {"length": 2})
            assert not waiting.done()
            writer.write(b"}")
            assert await waiting == b"H"
            assert (await reader.readline()).startswith(b"TTP/1.1 200 ")

    run(loop, served(), use)


@LOOPS
def test_body_of_a_refused_call_is_passed_over(loop: Loop) -> None:
    async def use(url: str) -> None:
        refused = a_call(bytes(100), b"Origin: http://a", b"Content-Length: 100")
        async with opened(url, refused[:-50]) as (reader, writer):
            assert [status for status, _ in await answers(reader, 1)] == [403]
            writer.write(refused[-50:] + a_call(b"{}"))
            assert await answers(reader, 1) == [(200, b'{"length": 2}')]

    run(loop, served(), use)


@LOOPS
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["endless", "complete"])
def test_head_may_not_be_larger_than_it_may(loop: Loop, end: bytes) -> None:
    async def use(url: str) -> None:
        status, _ = await raw(url, b"POST /v1/filter HTTP/1.1\r\nA: " + bytes(LARGEST_HEAD) + end)
        assert status == 431

    run(loop, served(), use)


@LOOPS
def test_client_that_reads_no_answers_is_not_read_either(loop: Loop) -> None:
    called = 0

    def verb(_: bytes) -> bytes:
        nonlocal called
        called += 1
        return bytes(1 << 20)

    async def use(url: str) -> None:
        async with opened(url, a_call(b"{}") * 100) as (reader, _):
            assert (await raw(url, a_call(b"{}")))[0] == 200
            assert called < 100
            assert len(await answers(reader, 100)) == 100

    run(loop, served(verb=verb), use)


@LOOPS
def test_calls_are_reported_with_their_status(loop: Loop) -> None:
    reported: list[tuple[str, int, bool]] = []

    def called(verb: str, status: int, duration_s: float) -> None:
        reported.append((verb, status, duration_s >= 0))

    async def use(url: str) -> None:
        await ask(url)
        await ask(url, b"x")

    def verb(body: bytes) -> bytes:
        if body == b"x":
            raise Malformed("no")
        return echo(body)

    run(loop, served(verb=verb, called=called), use)
    assert reported == [("filter", 200, True), ("filter", 400, True)]


# -- what cannot be answered


@LOOPS
def test_malformed_call_is_shown_what_is_wrong_with_it(loop: Loop) -> None:
    async def use(url: str) -> None:
        assert await ask(url) == (400, {"Error": "Pod: is required"})

    run(loop, served(verb=raising(Malformed("Pod: is required"))), use)


@LOOPS
def test_defect_is_logged_and_not_shown(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    async def use(url: str) -> None:
        assert await ask(url) == (500, {"Error": INTERNAL})

    with caplog.at_level(logging.ERROR):
        run(loop, served(verb=raising(ZeroDivisionError("of ours"))), use)
    (record,) = caplog.records
    assert record.exc_info
    assert record.exc_info[0] is ZeroDivisionError


@LOOPS
def test_other_paths_and_methods_are_not_served(loop: Loop) -> None:
    async def use(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            for method, path, status in (
                ("POST", f"{url}/bind", 404),
                ("POST", url, 404),
                ("POST", url.replace("/v1", "/v2/filter"), 404),
                ("GET", f"{url}/filter", 405),
                ("PUT", f"{url}/filter", 405),
                ("HEAD", f"{url}/filter", 405),
            ):
                async with session.request(method, path) as answer:
                    assert answer.status == status

    run(loop, served(), use)


@LOOPS
def test_answer_to_head_has_no_body(loop: Loop) -> None:
    """A client, or a proxy, would take it for the beginning of the next answer. RFC 9110, 9.3.2."""

    async def use(url: str) -> None:
        head = b"HEAD /v1/filter HTTP/1.1\r\nHost: localhost\r\n\r\n"
        async with opened(url, head + a_call(b"{}")) as (reader, _):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
            assert await answers(reader, 1) == [(200, b'{"length": 2}')]

    run(loop, served(), use)


# -- paths that only some know

SEGMENT = "0123456789abcdef"


def a_call_of(path: str, body: bytes = b"{}", *, length: int | None = None) -> bytes:
    announced = len(body) if length is None else length
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), announced, body)


@LOOPS
def test_verb_is_called_by_its_secret_path(loop: Loop) -> None:
    async def use(url: str) -> None:
        assert await ask(url, b"[]", verb=f"filter/{SEGMENT}") == (200, {"length": 2})

    run(loop, served(secret={SEGMENT}), use)


@LOOPS
@pytest.mark.parametrize(
    "path",
    [
        *("/v1/filter", "/v1/filter/", "/v1/filter/x", f"/v1/{SEGMENT}", f"/v1/{SEGMENT}/filter", f"/{SEGMENT}", "/"),
        *(f"/v1/filter/{SEGMENT}/", f"/v1/filter/x/{SEGMENT}", f"/v1//{SEGMENT}", f"//v1/filter/{SEGMENT}"),
    ],
)
def test_stranger_is_answered_before_his_body_and_sent_away(loop: Loop, path: str) -> None:
    def verb(_: bytes) -> bytes:
        raise AssertionError("it was called")

    async def use(url: str) -> None:
        async with opened(url, a_call_of(path, b"{", length=LARGEST_BODY)) as (reader, _):
            answer = await reader.read()  # to the end: the server has closed the connection
            assert answer.startswith(b"HTTP/1.1 404 ")
            assert b"\r\nConnection: close\r\n" in answer
            assert answer.endswith(b'{"Error":"there is nothing at this path"}')

    run(loop, served(verb=verb, secret={SEGMENT}, called=lambda *_: pytest.fail("it was counted")), use)


@LOOPS
def test_who_was_sent_away_is_not_read_any_more(loop: Loop) -> None:
    """To decipher what he sends would take as much time as to read a call."""
    context, _ = self_signed()

    async def use() -> None:
        async with serving("127.0.0.1:0", context, served(secret={SEGMENT})) as url:
            sent = await asyncio.to_thread(sent_by_one_who_goes_on, url, a_call_of("/v1/filter", length=MUCH))
            assert sent < MUCH

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(use())


@LOOPS
@pytest.mark.parametrize("text", [b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /nothing", b""])
def test_nothing_is_kept_of_a_connection_that_is_lost(loop: Loop, text: bytes) -> None:
    """Whether its client was sent away, is not done, or has said nothing: a thousand of them may come each second."""

    class Server:
        read_s = idle_s = 3600.0

        def __init__(self) -> None:
            self.connections: dict[CallConnection, None] = {}
            self.unfinished: dict[CallConnection, None] = {}

        def admit(self, _: Head, __: CallConnection) -> AdmittedCall:
            raise RefusedCall(404, "no such path", is_last=True)

        def error(self, reason: str) -> bytes:
            return reason.encode()

    async def lost() -> None:
        connection = CallConnection(Server())
        kept = weakref.ref(connection)
        transport = Mock(is_closing=lambda: False, protocol=connection)  # each keeps the other
        connection.connection_made(transport)
        connection.data_received(text)
        connection.connection_lost(None)
        del connection, transport
        gc.collect()
        assert kept() is None

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(lost())


MUCH = 64 << 20
"""Bytes: more than two kernels hold of one connection."""


def sent_by_one_who_goes_on(url: str, head: bytes) -> int:
    """How many bytes a client could send, who goes on whatever is answered."""
    where = urlsplit(url)
    sent = 0
    with socket.create_connection((where.hostname, where.port), TIMEOUT_S) as plain:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        secured = context.wrap_socket(plain)
        with secured, suppress(OSError):  # it is cut off
            secured.sendall(head)
            assert secured.recv(12) == b"HTTP/1.1 404"
            while sent < MUCH:
                secured.sendall(bytes(1 << 16))
                sent += 1 << 16
    return sent


# -- bodies


@LOOPS
def test_program_says_how_large_a_body_may_be(loop: Loop) -> None:
    async def use(url: str) -> None:
        assert await ask(url, bytes(20)) == (200, {"length": 20})
        assert await ask(url, bytes(21)) == (413, {"Error": "the body is larger than 20 bytes"})

    run(loop, replace(served(), largest_body=20), use)


@LOOPS
def test_body_may_be_large_but_not_larger(loop: Loop) -> None:
    async def use(url: str) -> None:
        assert await ask(url, bytes(LARGEST_BODY)) == (200, {"length": LARGEST_BODY})
        reported = f"the body is larger than {LARGEST_BODY} bytes"
        assert await ask(url, bytes(LARGEST_BODY + 1)) == (413, {"Error": reported})

    run(loop, served(), use)


@LOOPS
def test_body_that_does_not_come_is_not_waited_for(loop: Loop) -> None:
    async def use(url: str) -> None:
        status, body = await raw(url, a_call(b"{", length=2))
        assert (status, json.loads(body)) == (408, {"Error": "the body did not arrive within 0 s"})

    run(loop, served(read_s=0), use)


@LOOPS
@pytest.mark.parametrize(
    "text", [b"", b"POST /v1/fil", a_call(b"{}") + b"POST"], ids=["nothing", "half", "one and half"]
)
def test_connection_that_brings_no_call_is_closed(loop: Loop, text: bytes) -> None:
    # The connection has to be waited on, and what is sent has to come, before the time is up: on a busy machine too.
    idle_s = 1.0

    async def use(url: str) -> None:
        async with opened(url, text) as (reader, _):
            rest = await reader.read()
            assert rest.startswith(b"HTTP/1.1 200") is text.startswith(b"POST /v1/filter")

    run(loop, served(idle_s=idle_s), use)


@LOOPS
@pytest.mark.parametrize(
    "call",
    [
        a_call(b"{}", b"Content-Length: two"),
        b"HELLO\r\n\r\n",
    ],
    ids=["no length", "no HTTP"],
)
def test_body_that_is_not_what_it_says_is_the_callers_fault(
    loop: Loop, call: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(url: str) -> None:
        status, body = await raw(url, call)
        assert status == 400
        assert b"Traceback" not in body

    run(loop, served(), use)
    assert is_no_defect(caplog)


@LOOPS
def test_caller_that_goes_in_the_middle_of_its_call_is_no_defect(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    reported: list[int] = []
    is_told = asyncio.Event()

    def called(_verb: str, status: int, _duration_s: float) -> None:
        reported.append(status)
        is_told.set()

    async def use(url: str) -> None:
        async with opened(url, a_call(b"{", length=2)) as (_, writer):
            writer.transport.abort()
            await is_told.wait()

    run(loop, served(called=called), use)
    assert reported == [400]
    assert is_no_defect(caplog)


def is_no_defect(caplog: pytest.LogCaptureFixture) -> bool:
    """Nothing is told of as if it were ours to mend."""
    return not [one for one in caplog.records if one.name.startswith("scheduler") and one.levelno >= logging.WARNING]


@LOOPS
def test_body_that_says_it_is_too_large_is_not_waited_for(loop: Loop) -> None:
    async def use(url: str) -> None:
        status, body = await raw(url, a_call(b"", length=LARGEST_BODY + 1))
        assert (status, json.loads(body)) == (413, {"Error": f"the body is larger than {LARGEST_BODY} bytes"})

    run(loop, served(), use)


@LOOPS
def test_bodies_take_up_no_more_memory_than_they_may(loop: Loop) -> None:
    async def within() -> None:
        may_end, arrived = asyncio.Event(), asyncio.Event()

        async def verb(body: bytes) -> bytes:
            arrived.set()
            await may_end.wait()
            return echo(body)

        async with serving("127.0.0.1:0", None, served(verb=verb, most_bytes=100)) as url:
            first = asyncio.create_task(ask(url, bytes(60)))
            await arrived.wait()
            refused = {"Error": "the calls in progress already use the limit of 100 bytes"}
            assert await ask(url, bytes(41)) == (503, refused)
            fits = asyncio.create_task(ask(url, bytes(40)))
            may_end.set()
            assert await first == (200, {"length": 60})
            assert await fits == (200, {"length": 40})
            assert await ask(url, bytes(100)) == (200, {"length": 100})

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(within())


@LOOPS
@pytest.mark.parametrize(
    ("status", "call"),
    [
        (411, a_call(b"2\r\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked")),
        (411, a_call(b"2\r\n{}\r\n0\r\n\r\n", b"Content-Length: 2", b"Transfer-Encoding: chunked")),
        (415, a_call(b"{}", b"Content-Encoding: gzip", b"Content-Length: 2")),
    ],
    ids=["chunked", "chunked, too", "compressed"],
)
def test_body_that_does_not_say_how_large_it_is_is_refused(loop: Loop, status: int, call: bytes) -> None:
    async def use(url: str) -> None:
        assert (await raw(url, call))[0] == status

    run(loop, served(), use)


@LOOPS
def test_body_that_stops_coming_gives_its_room_back(loop: Loop) -> None:
    async def use(url: str) -> None:
        for _ in range(2):
            assert (await raw(url, a_call(b"{", length=100)))[0] == 408

    run(loop, served(read_s=0, most_bytes=100), use)


@LOOPS
def test_announced_bodies_take_no_room(loop: Loop) -> None:
    async def use(url: str) -> None:
        async with AsyncExitStack() as open_:
            for _ in range(5):
                await open_.enter_async_context(opened(url, a_call(b"{", length=LARGEST_BODY)))
            assert await ask(url, bytes(90)) == (200, {"length": 90})

    run(loop, served(most_bytes=100, most_calls=1, limits=Limits(3)), use)


@LOOPS
def test_oldest_body_that_has_not_all_come_makes_room_for_others(loop: Loop) -> None:
    async def use(url: str) -> None:
        oldest, newer = opened(url, a_call(bytes(60), length=90)), opened(url, a_call(bytes(30), length=90))
        async with oldest as (reader, _), newer as (other, writer):
            assert await ask(url, bytes(10)) == (200, {"length": 10})
            assert await ask(url, bytes(40)) == (200, {"length": 40})
            assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
            writer.write(bytes(60))
            assert await answers(other, 1) == [(200, b'{"length": 90}')]

    run(loop, served(most_bytes=100), use)


# -- how many at once


@LOOPS
@pytest.mark.parametrize("text", [b"", b"POST", a_call(b"{", length=2)], ids=["nothing", "half a head", "no body"])
def test_calls_that_do_not_go_on_keep_nobody_out(loop: Loop, text: bytes) -> None:
    async def use(url: str) -> None:
        async with opened(url, b"") as known, AsyncExitStack() as open_:
            for _ in range(2):
                known[1].write(a_call(b"{}"))
                assert await answers(known[0], 1) == [(200, b'{"length": 2}')]
                for _ in range(10):
                    await open_.enter_async_context(opened(url, text))
                assert (await ask(url))[0] == 200

    run(loop, served(most_calls=2, limits=Limits(4)), use)


@LOOPS
def test_too_many_calls_are_reported_to_come_again(loop: Loop) -> None:
    async def within() -> None:
        may_end, arrived = asyncio.Event(), asyncio.Semaphore(0)

        async def verb(body: bytes) -> bytes:
            arrived.release()
            await may_end.wait()
            return echo(body)

        async def use(url: str) -> None:
            first = [asyncio.create_task(ask(url)) for _ in range(2)]
            for _ in first:
                await arrived.acquire()
            assert await ask(url) == (503, {"Error": "2 calls of this verb are already in progress"})
            may_end.set()
            assert [status for status, _ in await asyncio.gather(*first)] == [200, 200]
            assert (await ask(url))[0] == 200

        async with serving("127.0.0.1:0", None, served(verb=verb, most_calls=2)) as url:
            await use(url)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(within())


def test_each_verb_has_room_of_its_own() -> None:
    async def within() -> None:
        may_end, arrived = asyncio.Event(), asyncio.Event()

        async def bind(body: bytes) -> bytes:
            arrived.set()
            await may_end.wait()
            return echo(body)

        what = served(most_calls=1)
        async with serving("127.0.0.1:0", None, replace(what, verbs={"bind": bind, "filter": echo})) as url:
            slow = asyncio.create_task(ask(url, verb="bind"))
            await arrived.wait()
            assert (await ask(url))[0] == 200
            assert (await ask(url, verb="bind"))[0] == 503
            may_end.set()
            assert (await slow)[0] == 200

    asyncio.run(within())


# -- the address


def test_taken_address_is_reported() -> None:
    async def use(url: str) -> None:
        address = f"127.0.0.1:{urlsplit(url).port}"
        with pytest.raises(CannotServe, match=f"address {address}: .*in use"):
            async with serving(address, None, served()):
                pass

    run(asyncio.new_event_loop, served(), use)


def test_nothing_is_served_any_more_once_the_context_is_left() -> None:
    urls: list[str] = []

    async def use(url: str) -> None:
        urls.append(url)
        assert (await ask(url))[0] == 200

    run(asyncio.new_event_loop, served(), use)
    where = urlsplit(urls[0])
    connection = http.client.HTTPConnection("127.0.0.1", where.port)
    with pytest.raises(ConnectionRefusedError):
        connection.request("POST", "/v1/filter", b"{}")
    connection.close()

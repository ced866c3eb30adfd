"""Who only opens connections takes nothing from who has something to ask."""

import asyncio
import gc
import logging
import re
import select
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.compression_utils import ZLibDecompressor

from scheduler import runtime
from scheduler.runtime.listening import CannotServe, Limits, Refusal, Service, _Acceptor, _Handler, has_event, listening
from scheduler.runtime.tls import self_signed
from tests.unit.scheduler.loops import LOOPS, Loop, left_open

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Use = Callable[["Server"], Awaitable[None]]

NEVER_S = 3600.0


class Server:
    """One that answers a GET of / with `ok`, one of /later not before `answer`, and those who come to it.

    called: counts the calls of /later.
    """

    def __init__(
        self, port: int, called: asyncio.Semaphore, answer: asyncio.Event, *, is_secure: bool, refused: list[Refusal]
    ) -> None:
        self.answer = answer
        self.refused = refused
        self._called = called
        self._port = port
        self._is_secure = is_secure
        self._open: list[asyncio.StreamWriter] = []

    async def idle(self) -> Stream:
        """A connection that says nothing, not even hello."""
        return self._kept(await asyncio.open_connection("127.0.0.1", self._port))

    async def begun(self) -> Stream:
        """A connection whose handshake has begun, and does not go on."""
        stream = await self.idle()
        stream[1].write(b"\x16\x03\x01")
        return stream

    def greeting(self) -> "Greeting":
        """A client that has said hello, whatever the loop does."""
        return Greeting(socket.create_connection(("127.0.0.1", self._port)))

    def open_silently(self, number: int) -> None:
        """So many connections that say nothing, and are gone when this ends."""
        sockets = [socket.create_connection(("127.0.0.1", self._port)) for _ in range(number)]
        for one in sockets:
            one.close()

    def leave_early(self, request: bytes) -> None:
        """Ask, and reset the connection."""
        with socket.create_connection(("127.0.0.1", self._port)) as one:
            one.sendall(request)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def ready(self) -> Stream:
        """A connection after its handshake."""
        tls = anybodys() if self._is_secure else None
        return self._kept(await asyncio.open_connection("127.0.0.1", self._port, ssl=tls))

    async def calling(self) -> Stream:
        """A connection with a call in progress."""
        stream = await self.ready()
        stream[1].write(b"GET /later HTTP/1.1\r\nHost: a\r\n\r\n")
        await self._called.acquire()
        return stream

    async def close(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._open), return_exceptions=True)

    def _kept(self, stream: Stream) -> Stream:
        self._open.append(stream[1])
        return stream


class Greeting:
    """The client's side of a handshake that has begun."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = anybodys().wrap_bio(self._came, self._goes)
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        connection.sendall(self._goes.read())

    def hang_up(self) -> None:
        self._connection.close()

    async def is_answered(self) -> bool:
        """Whether the server answers the hello; False where it has closed the connection."""
        reader, writer = await asyncio.open_connection(sock=self._connection)
        try:
            return await reader.read(1) != b""
        except ConnectionError:
            return False
        finally:
            writer.transport.abort()


PROBE = "/probe"
"""What everybody may read."""


def anybodys() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def says_ok(stream: Stream, path: str = "/") -> bool:
    stream[1].write(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
    return await is_answered(stream)


async def is_answered(stream: Stream) -> bool:
    return (await stream[0].readuntil(b"ok")).startswith(b"HTTP/1.1 200")


async def is_closed(stream: Stream) -> bool:
    """Returns when the server has closed it."""
    try:
        return await stream[0].read() == b""
    except ConnectionError:
        return True


@asynccontextmanager
async def serving(limits: Limits, *, is_secure: bool) -> AsyncIterator[Server]:
    called, answer = asyncio.Semaphore(0), asyncio.Event()

    async def handle(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def handle_later(request: web.Request) -> web.Response:
        called.release()
        await answer.wait()
        return await handle(request)

    async def handle_stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(bytes(10_000))
            await asyncio.sleep(0)
        return response

    application = web.Application()
    application.router.add_get("/stream", handle_stream)
    application.router.add_get("/", handle)
    application.router.add_get("/later", handle_later)
    application.router.add_get(PROBE, handle)
    refused: list[Refusal] = []
    reported = replace(limits, refused=refused.append, is_for_all=PROBE.__eq__)
    context = self_signed()[0] if is_secure else None
    async with listening("address", "127.0.0.1:0", application, context, reported) as address:
        server = Server(int(address.rpartition(":")[2]), called, answer, is_secure=is_secure, refused=refused)
        try:
            yield server
        finally:
            await server.close()


def run(loop: Loop, use: Use, limits: Limits, *, is_secure: bool = True) -> None:
    async def within() -> None:
        async with serving(limits, is_secure=is_secure) as server:
            await use(server)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(within())


@LOOPS
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
def test_connection_more_than_may_be_open_is_closed_while_all_others_have_a_call(
    loop: Loop, *, is_secure: bool
) -> None:
    async def use(server: Server) -> None:
        kept = [await server.calling() for _ in range(3)]
        assert await is_closed(await server.begun())
        server.answer.set()
        assert all([await is_answered(one) for one in kept])
        assert server.refused == ["connections"]

    run(loop, use, Limits(connections=3), is_secure=is_secure)


@LOOPS
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
def test_connections_without_a_call_keep_nobody_out_and_those_with_one_go_on(loop: Loop, *, is_secure: bool) -> None:
    async def use(server: Server) -> None:
        waiting = await server.calling()
        silent = [await server.ready() for _ in range(20)]
        silent[-1][1].write(b"GET / HTTP/1.1\r\nHost: a\r\n")  # no whole head
        assert await says_ok(await server.ready())
        assert all([await is_closed(one) for one in silent[:18]])
        server.answer.set()
        assert await is_answered(waiting)
        assert server.refused == ["connections"] * 18

    run(loop, use, Limits(connections=4), is_secure=is_secure)


@LOOPS
def test_connection_that_ends_makes_room_for_another(loop: Loop) -> None:
    async def use(server: Server) -> None:
        for _ in range(10):
            reader, writer = await server.ready()
            assert await says_ok((reader, writer))
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            await reader.read()  # closed there: it counts no more
            writer.close()
        assert server.refused == []

    run(loop, use, Limits(connections=2), is_secure=False)


@LOOPS
def test_half_open_handshakes_keep_nobody_out(loop: Loop) -> None:
    async def use(server: Server) -> None:
        silent = [await server.idle() for _ in range(20)]
        assert await says_ok(await server.ready())
        closed = [await is_closed(one) for one in silent[:15]]  # the oldest have made room
        assert all(closed)
        assert set(server.refused) == {"handshakes"}

    run(loop, use, Limits(connections=100, silent=4, handshake_s=NEVER_S))


@LOOPS
def test_many_who_go_on_with_their_handshake_all_get_in(loop: Loop) -> None:
    async def use(server: Server) -> None:
        all_at_once = await asyncio.gather(*(server.ready() for _ in range(60)))
        assert all(await asyncio.gather(*map(says_ok, all_at_once)))
        assert server.refused == []

    run(loop, use, Limits(connections=60, handshake_s=NEVER_S))


@LOOPS
def test_client_that_has_spoken_is_not_silent_even_if_nobody_has_looked_yet(loop: Loop) -> None:
    async def use(server: Server) -> None:
        greetings = [server.greeting() for _ in range(20)]
        server.open_silently(60)  # the loop has had no turn, and finds all that has come at once
        assert all([await one.is_answered() for one in greetings])
        assert await says_ok(await server.ready()), "and those that came after"

    run(loop, use, Limits(connections=100, silent=30, handshake_s=NEVER_S))


@LOOPS
def test_clients_that_hang_up_after_a_hello_take_nobodys_place(loop: Loop) -> None:
    async def use(server: Server) -> None:
        known = await server.ready()
        for _ in range(20):
            server.greeting().hang_up()
        assert await says_ok(known)
        assert await says_ok(await server.ready()), "those before it have been accepted"
        assert server.refused == []

    run(loop, use, Limits(connections=2, handshake_s=NEVER_S))


@LOOPS
def test_nothing_is_kept_of_those_who_were_cut_off_before_they_were_heard(loop: Loop) -> None:
    """Their connections were being made, which uvloop tells a protocol of that hears of no end."""

    def kept() -> int:
        gc.collect()
        return sum(isinstance(one, _Handler) for one in gc.get_objects())

    async def use(server: Server) -> None:
        before = kept()
        for _ in range(5):
            server.open_silently(60)
            assert await says_ok(await server.ready())
        assert kept() < before + 20

    run(loop, use, Limits(connections=2), is_secure=False)


def test_nothing_more_is_waited_for_of_a_connection_that_is_closed() -> None:
    """It is closed a turn of the event loop before it is forgotten, while others come."""
    one = socket.socket()
    one.close()
    assert has_event(one, select.POLLIN)


@LOOPS
def test_handshakes_that_do_not_go_on_make_room_at_the_limit_of_connections(loop: Loop) -> None:
    async def use(server: Server) -> None:
        known = await server.ready()
        assert await says_ok(known)
        begun = [await server.begun() for _ in range(20)]
        assert await says_ok(await server.ready())
        assert all([await is_closed(one) for one in begun[:17]])
        assert await says_ok(known)
        assert set(server.refused) == {"connections"}

    run(loop, use, Limits(connections=4, silent=20, handshake_s=NEVER_S))


@LOOPS
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
def test_those_who_have_called_before_keep_their_places(loop: Loop, *, is_secure: bool) -> None:
    async def use(server: Server) -> None:
        known = [await server.ready() for _ in range(3)]
        assert all([await says_ok(one) for one in known])
        strangers = [await server.ready() for _ in range(20)]
        for stranger in strangers:
            stranger[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n")  # no whole head
        assert all([await is_closed(one) for one in strangers[:-1]])
        assert all([await says_ok(one) for one in known])

    run(loop, use, Limits(connections=4), is_secure=is_secure)


@LOOPS
def test_those_who_read_what_is_for_all_again_and_again_keep_nobody_out(loop: Loop) -> None:
    async def use(server: Server) -> None:
        known = await server.ready()
        assert await says_ok(known)
        probing = [await server.ready() for _ in range(3)]
        assert all([await says_ok(one, PROBE) for _ in range(3) for one in probing])
        arriving = [await server.ready() for _ in range(3)]
        assert all([await says_ok(one, PROBE) for one in arriving])
        assert all([await is_closed(one) for one in probing])
        assert await says_ok(known)

    run(loop, use, Limits(connections=4))


@LOOPS
def test_connection_whose_client_does_not_let_it_be_closed_makes_room_first(loop: Loop) -> None:
    async def use(server: Server) -> None:
        lingering = [await server.ready() for _ in range(3)]
        for _, writer in lingering:
            transport = cast(asyncio.Transport, writer.transport)
            transport.pause_reading()  # and so never learns that the server wants to end the connection
            transport.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        idle = await server.ready()
        for _ in range(3):
            assert await says_ok(await server.ready())
        assert await says_ok(idle)

    run(loop, use, Limits(connections=4))


@LOOPS
def test_handshake_that_does_not_end_is_ended(loop: Loop) -> None:
    async def use(server: Server) -> None:
        assert await is_closed(await server.idle())
        assert server.refused == []

    run(loop, use, Limits(handshake_s=0.01))


@LOOPS
def test_what_is_no_handshake_is_closed_and_nothing_else_happens(loop: Loop) -> None:
    async def use(server: Server) -> None:
        stream = await server.idle()
        stream[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await stream[0].read()  # an alert, or nothing
        assert await says_ok(await server.ready())

    run(loop, use, Limits())


@LOOPS
def test_nothing_is_left_open_at_the_end_whatever_clients_do(loop: Loop) -> None:
    async def work() -> None:
        async with AsyncExitStack() as clients:
            async with serving(Limits(handshake_s=NEVER_S), is_secure=True) as server:
                clients.push_async_callback(server.close)
                streams = [await server.idle(), await server.ready()]
                await says_ok(streams[1])
            for stream in streams:
                await is_closed(stream)

    assert left_open(loop, work()) == []


def test_host_without_an_address_is_reported() -> None:
    async def work() -> None:
        with pytest.raises(CannotServe, match=r"^address no-such-host\.invalid:1: "):
            async with listening("address", "no-such-host.invalid:1", web.Application()):
                pass

    asyncio.run(work())


def test_every_address_of_a_name_is_served() -> None:
    async def work() -> None:
        async with listening("address", "localhost:0", web.Application()) as address:
            assert address.startswith("localhost:")
            _, writer = await asyncio.open_connection(*address.split(":"))
            writer.close()
            await writer.wait_closed()

    asyncio.run(work())


def test_log_says_once_in_a_while_that_connections_are_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[Refusal] = []

    async def refuse(times: int) -> None:
        acceptor = _Acceptor(cast(Service, None), None, Limits(refused=refused.append, is_for_all=PROBE.__eq__))
        for _ in range(times):
            acceptor._refuse("connections")

    with caplog.at_level(logging.WARNING):
        asyncio.run(refuse(3))
        assert len(caplog.records) == 1
        monkeypatch.setattr("scheduler.runtime.listening.WARN_EVERY_S", 0.0)
        asyncio.run(refuse(3))
    assert len(caplog.records) == 4
    assert refused == ["connections"] * 6


REQUESTS = {
    200: [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"],
    400: [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"HELLO\r\n\r\n",
        b"\x16\x03\x01\x00\xf4\x01\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    ],
    404: [b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"],
    505: [b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"],
    405: [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nx"],
}


@LOOPS
@pytest.mark.parametrize(("status", "request_"), [(status, one) for status, some in REQUESTS.items() for one in some])
def test_answer_says_nothing_of_the_program(
    loop: Loop, status: int, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(server: Server) -> None:
        reader, writer = await server.ready()
        writer.write(request_)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 %d " % status, b"HTTP/1.0 %d " % status))
        assert b"server:" not in head.lower()
        assert b"aiohttp" not in head.lower()
        (length,) = re.findall(rb"content-length: (\d+)", head.lower())
        body = await reader.readexactly(int(length))
        assert b"b'" not in body, "no text of the parser, which shows where it stumbled"

    with caplog.at_level(logging.INFO):
        run(loop, use, Limits(), is_secure=False)
    assert [one for one in caplog.records if one.name != "asyncio"] == []


@LOOPS
@pytest.mark.parametrize("is_secure", [False, True])
def test_of_a_body_in_the_smallest_chunks_hardly_anything_is_read(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, *, is_secure: bool
) -> None:
    """Each of them takes as long as a chunk of any size."""
    parsed = 0
    data_received = web.RequestHandler.data_received

    def counted(handler: web.RequestHandler, data: bytes) -> None:
        nonlocal parsed
        parsed += len(data)
        data_received(handler, data)

    monkeypatch.setattr(web.RequestHandler, "data_received", counted)

    async def use(server: Server) -> None:
        reader, writer = await server.ready()
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 20_000)
        assert (await reader.readline()).startswith(b"HTTP/1.1 405 ")
        assert await says_ok(await server.ready())

    run(loop, use, Limits(), is_secure=is_secure)
    assert parsed < 5000


@LOOPS
@pytest.mark.parametrize("encoding", ["deflate", "gzip"])
def test_body_is_not_decompressed(loop: Loop, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 kB may become 2 MB."""
    made: list[str] = []
    decompressor = ZLibDecompressor.__init__

    def noted(self: ZLibDecompressor, *args: Any, **options: Any) -> None:
        made.append(encoding)
        decompressor(self, *args, **options)

    monkeypatch.setattr(ZLibDecompressor, "__init__", noted)

    async def use(server: Server) -> None:
        reader, writer = await server.ready()
        head = f"GET / HTTP/1.1\r\nHost: a\r\nContent-Encoding: {encoding}\r\nContent-Length: 9\r\n\r\n"
        writer.write(head.encode() + b"not so...")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")

    run(loop, use, Limits(), is_secure=False)
    assert made == []


@LOOPS
@pytest.mark.parametrize("is_secure", [False, True])
def test_stranger_who_asks_without_a_pause_waits_and_nobody_else(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, *, is_secure: bool
) -> None:
    monkeypatch.setattr(runtime.listening, "REST_S", NEVER_S)

    async def use(server: Server) -> None:
        eager = await server.ready()
        assert await says_ok(eager, PROBE)
        second = asyncio.create_task(says_ok(eager, PROBE))
        for _ in range(10):
            assert await says_ok(await server.ready(), PROBE)
        known = await server.ready()
        for _ in range(10):
            assert await says_ok(known)
        assert not second.done()
        second.cancel()

    run(loop, use, Limits(), is_secure=is_secure)


AGAIN = {
    "the same": b"GET /probe HTTP/1.1\r\nHost: a\r\n\r\n",
    "nothing there": b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n",
    "another method": b"POST /probe HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown expectation": b"GET /probe HTTP/1.1\r\nHost: a\r\nExpect: anything\r\n\r\n",
    "a body to come": b"POST /probe HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
}


@LOOPS
@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN)
def test_whatever_a_stranger_asks_without_a_pause_he_waits(
    loop: Loop, again: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime.listening, "REST_S", NEVER_S)

    async def use(server: Server) -> None:
        eager = await server.ready()
        assert await says_ok(eager, PROBE)
        eager[1].write(again)
        answer = asyncio.create_task(eager[0].read(1))
        for _ in range(10):
            assert await says_ok(await server.ready())
        assert not answer.done()
        answer.cancel()

    run(loop, use, Limits(), is_secure=False)


@LOOPS
@pytest.mark.parametrize(
    ("request_line", "status"), [(b"GET /", 200), (b"POST /", 405), (b"GET /nothing", 404)], ids=str
)
def test_nobody_is_told_to_send_a_body_that_is_not_read(loop: Loop, request_line: bytes, status: int) -> None:
    async def use(server: Server) -> None:
        reader, writer = await server.ready()
        expecting = b" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        writer.write(request_line + expecting)
        assert (await reader.readline()).startswith(b"HTTP/1.1 %d " % status)

    run(loop, use, Limits(), is_secure=False)


@LOOPS
def test_all_of_many_requests_that_are_sent_at_once_are_answered(loop: Loop) -> None:
    """More than aiohttp has waiting at a time."""

    async def use(server: Server) -> None:
        stream = await server.ready()
        stream[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 500)
        for _ in range(500):
            assert await is_answered(stream)

    run(loop, use, Limits(), is_secure=False)


@LOOPS
def test_clients_that_leave_early_are_no_errors(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    async def use(server: Server) -> None:
        for path in (b"/", b"/later", b"/stream"):
            for _ in range(10):
                await asyncio.to_thread(server.leave_early, b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
        server.answer.set()
        assert await says_ok(await server.ready())

    with caplog.at_level(logging.INFO):
        run(loop, use, Limits(), is_secure=False)
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []

"""An HTTP server at a configured address, for as long as a context is open.

Clients that open connections and do not go on keep out nobody else, since each of them is the next to go:

- A connection over TLS that has not sent a byte takes none of the places. At a limit of its own, the oldest goes.
- At the limit of open connections, one makes room for the new one: the oldest whose client has not sent a whole call
  yet, or is in the middle of its handshake; if there are none, the oldest of the others without a call in progress. If
  all have one, the new connection is closed at once.
- What a client does not go on with, be it a handshake or a head, is closed after some time in any case.

Nothing waits for a client here: connections are accepted at once, and where one makes room, it is cut off.

A call says how long its body is, as Go's client does; a body in chunks, or a compressed one, is refused. So is a head
that two readers could understand differently, and one that does not say once which host it is for.
Source: RFC 9112, 2.2 to 6.3; RFC 9110, 5 and 15.5.
"""

import asyncio
import logging
import re
import select
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import count
from typing import Any, Literal, Protocol, cast
from urllib.parse import urlsplit

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from scheduler.runtime.configuration import host_and_port, is_loopback_host

LARGEST_HEAD = 1 << 14
"""Bytes of a head."""

_REMEMBERED = 1 << 8
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110, 5.6.2
_REQUEST_LINE = re.compile(rf"({_TOKEN}) (/[\x21-\x7e]*) HTTP/1\.([01])")
_FIELD = re.compile(rf"({_TOKEN}):[ \t]*([^\r\n\0]*)")
_LENGTH = re.compile("[0-9]{1,18}")
_HOST = re.compile(r"(?:[!$&'()*+,;=%\w.~-]*|\[[\w:.%-]*\])(?::[0-9]*)?", re.ASCII)
_USUAL = 1 << 10
"""Bytes of a head that may be remembered."""


class RefusedCall(Exception):
    """A call is not answered, but gets this status and reason. is_last: nothing more is read of the connection."""

    def __init__(self, status: int, reason: str, *, is_last: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.is_last = is_last


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of a request says."""

    method: str
    path: str
    """The path without the query."""
    fields: Mapping[str, str]
    """The header fields by name, in lower case."""
    length: int
    """How many bytes the body has."""
    stays_open: bool
    """Whether the client may send another call over the connection."""
    waits_to_go_on: bool
    """Whether the client sends the body only when it is told to, or after a while."""


def head_of(text: bytes) -> Head:
    """The head, of which `text` is all before the empty line. Raises RefusedCall."""
    return _remembered(text) if len(text) <= _USUAL else _head_of(text)


def _head_of(text: bytes) -> Head:
    first, *lines = text.decode("latin-1").split("\r\n")
    request = _REQUEST_LINE.fullmatch(first)
    if request is None:
        raise RefusedCall(400, "the request line is not that of HTTP/1.1")
    method, target, minor = request.groups()
    fields: dict[str, str] = {}
    hosts = 0
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise RefusedCall(400, "a header field is invalid")
        name, value = field[1].lower(), field[2].rstrip(" \t")
        hosts += name == "host"
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    if problem := host_problem(hosts, fields.get("host", ""), is_required=minor == "1"):
        raise RefusedCall(400, problem)
    options = [option.strip().lower() for option in fields.get("connection", "").split(",")]
    stays_open = minor == "1" and "close" not in options
    waits_to_go_on = minor == "1" and fields.get("expect", "").lower() == "100-continue"
    return Head(method, target.partition("?")[0], fields, _length(fields), stays_open, waits_to_go_on)


_remembered = lru_cache(maxsize=_REMEMBERED)(_head_of)  # a client sends the same again and again


def host_problem(number: int, host: str, *, is_required: bool) -> str:
    """What is wrong with the Host fields of a request, of which the last has that value; empty where nothing is."""
    if number > 1 or (is_required and not number):
        return "there must be one Host header"
    return "" if _HOST.fullmatch(host) else "the Host header is invalid"


def _length(fields: Mapping[str, str]) -> int:
    if "transfer-encoding" in fields:
        raise RefusedCall(411, "the body must have a Content-Length")
    if fields.get("content-encoding", "identity").lower() != "identity":
        raise RefusedCall(415, "the body must not be compressed")
    length = fields.get("content-length", "0")
    if not _LENGTH.fullmatch(length):
        raise RefusedCall(400, "Content-Length must be a number")
    return int(length)


# Over plain HTTP, requests are answered that name this machine, and no others.
#
# Plain HTTP is served on loopback, where a browser of the machine reaches it. A web page whose name is resolved to a
# loopback address after it was loaded (DNS rebinding) counts as of the same origin, and could read everything. Its
# requests have its own name in the Host header. Source: RFC 9110, 7.2 (Host) and 15.5.20 (421 Misdirected Request).


MISDIRECTED = 421


def misdirection(header: str | None, allowed: Collection[str]) -> str:
    """Why a request over plain HTTP is not answered; empty where it is. header: its Host.

    allowed: names beside those of loopback, in lower case. A request of HTTP/1.0 needs no such header, and is answered:
    no browser sends one.
    """
    if header is None or _is_own(header, allowed):
        return ""
    return (
        f"host {ascii(header)[1:-1]} is not served over plain HTTP: use localhost or a loopback address, "
        "or add the name to secureServing.allowedHosts"
    )


def _is_own(header: str, allowed: Collection[str]) -> bool:
    try:
        host = (urlsplit(f"//{header}").hostname or "").removesuffix(".")
    except ValueError:  # such as an IPv6 address that is none
        return False
    return is_loopback_host(host) or host in allowed


class _AnswerInOurVersion(web.Response):
    """An answer to a request of a version that is not ours; aiohttp would answer in that version."""

    async def _write_headers(self) -> None:
        assert self._payload_writer is not None
        await self._payload_writer.write_headers(f"HTTP/1.1 {self.status} {self.reason}", self.headers)


@web.middleware
async def requiring_http_1(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers in the place of what is served, where the request is of another version, which the parser takes."""
    if request.version in (HttpVersion10, HttpVersion11):
        return await handler(request)
    refusal = _AnswerInOurVersion(status=505, text="only HTTP/1.1 and HTTP/1.0 are served\n")
    refusal.force_close()
    return refusal


@web.middleware
async def requiring_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers in the place of what is served, where the request does not say once which host it is for."""
    hosts = request.headers.getall("Host", ())
    is_required = request.version >= HttpVersion11
    if problem := host_problem(len(hosts), hosts[-1] if hosts else "", is_required=is_required):
        return web.Response(status=400, text=f"{problem}\n")
    return await handler(request)


STOPPED_S = 1.0
"""Seconds that calls in progress have to end when the server stops."""

MOST_CONNECTIONS = 64
"""Open connections to the health address, whose clients are probes and Prometheus."""

SILENT = 64
"""Connections over TLS that have not sent a byte: a client that wants something says so within a millisecond."""

WARN_EVERY_S = 60.0
"""Minimum time between log lines about connections closed because the limit is reached."""

_BACKLOG = 1024
"""Connections that the kernel holds until they are accepted."""

_RECEIVED = 1 << 16
"""Bytes of a connection that the kernel holds, twice over, until they are read: they count among a container's memory.

Left to itself, it holds megabytes; and what has come is deciphered in one go, while all others wait.
"""

_PART = 1 << 11
"""Bytes that are parsed before it is seen whether the rest of them is a body."""

_EXHAUSTED_S = 1.0
"""Pause after a failed accept, such as when the process has no file descriptor left."""

IDLE_S = 120.0
"""For so long a connection to an application may bring no request, or no whole head of one."""

ACCEPTED = 4
"""Connections accepted in a turn of the event loop: all at once would cut each other off before any is heard."""

REST_S = 0.1
"""Between two answers to a stranger over one connection: else he decides how much of the processor they take."""

_CLOSE_S = 1.0
"""For so long a connection over TLS may take to be closed; whatever its client sends meanwhile is deciphered."""

_LOG = logging.getLogger(__name__)

Refusal = Literal["connections", "handshakes"]
"""The limit that was reached: that of open connections, or that of those which have not begun their handshake."""


class Standing(IntEnum):
    """What is known of a connection; where one has to make room, that with the lowest goes."""

    CLOSING = 0
    """It is being closed, but its client may take its time."""

    STRANGER = 1
    """Its client has sent no whole call, or none that not everybody may make."""

    KNOWN = 2
    """Its client has, and may do so again."""

    CALLING = 3
    """A call is in progress."""


class CannotServe(Exception):
    """Nothing can be served at the address; the message names the field that holds it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for all clients of a server together."""

    connections: int = MOST_CONNECTIONS
    """Open at the same time."""
    silent: int = SILENT
    """Connections over TLS that have not begun their handshake."""
    handshake_s: float = 10.0
    """After so many seconds, it is given up."""
    refused: Callable[[Refusal], None] = lambda _: None
    """Called for each connection that a limit has closed."""
    is_for_all: Callable[[str], bool] = lambda _: False
    """Whether strangers may read a path of an application; that somebody does makes him no better known."""


class OpenConnection(Protocol):
    """An open connection."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None after it was lost."""
        ...


class Service(Protocol):
    """What answers clients: each call makes the protocol of a connection."""

    @property
    def connections(self) -> Collection[OpenConnection]:
        """Those that are open, after their handshake."""
        ...

    def __call__(self) -> asyncio.BaseProtocol:
        """For a new one."""
        ...

    def standing(self, connection: OpenConnection) -> Standing:
        """Of one that is open."""
        ...


@asynccontextmanager
async def listening(
    field: str,
    address: str,
    application: web.Application,
    context: ssl.SSLContext | None = None,
    limits: Limits = Limits(),
) -> AsyncIterator[str]:
    """Serves the application, as `accepting` does. No answer says by which program, and which version of it."""
    service = _ApplicationService(limits.is_for_all)
    application.middlewares[:0] = (service.resting, requiring_http_1, requiring_host)
    application.middlewares.append(service.noted)
    application.on_response_prepare.append(_without_server)
    runner = web.AppRunner(application, shutdown_timeout=STOPPED_S)
    await runner.setup()
    service.server = runner.server
    assert service.server is not None
    service.server.request_factory = partial(_that_expects_nothing, service.server.request_factory)
    try:
        async with accepting(field, address, service, context, limits) as where:
            yield where
    finally:
        await runner.cleanup()


@asynccontextmanager
async def accepting(
    field: str, address: str, service: Service, context: ssl.SSLContext | None, limits: Limits
) -> AsyncIterator[str]:
    """Accepts connections, and gives the address, in which port 0 has become the one that was free.

    field: where the configuration holds the address, HOST:PORT. context: None for plain HTTP. Raises CannotServe.
    """
    acceptor = _Acceptor(service, context, limits)
    sockets: list[socket.socket] = []
    tasks: list[asyncio.Task[None]] = []
    try:
        try:
            sockets = await _bound(address)
        except OSError as error:
            raise CannotServe(f"{field} {address}: {error.strerror or error}") from error
        tasks = [asyncio.create_task(acceptor.accept(one)) for one in sockets]
        yield f"{address.rpartition(':')[0]}:{sockets[0].getsockname()[1]}"
    finally:
        await _ended([*tasks, *acceptor.opening])
        for socket_ in sockets:
            socket_.close()


async def _bound(address: str) -> list[socket.socket]:
    """A socket for each address that the host has. Raises OSError."""
    host, port = host_and_port(address)
    addresses = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, where in dict.fromkeys(addresses):
            listener = socket.create_server(where, family=family, backlog=_BACKLOG)
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED)  # of all connections to come
            sockets.append(listener)
    except OSError:
        for socket_ in sockets:
            socket_.close()
        raise
    return sockets


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _that_expects_nothing(make: Callable[..., web.BaseRequest], message: Any, *others: Any) -> web.BaseRequest:
    """A request without the header Expect: no body is read, so that nobody need wait to send one.

    aiohttp would answer it before the middlewares are called, among them the one by which strangers wait. message:
    aiohttp's of the head, others: further arguments of `make`, of their own types. Source: RFC 9110, 10.1.1.
    """
    if "Expect" in message.headers:
        fields = message.headers.copy()
        del fields["Expect"]
        message = message._replace(headers=type(message.headers)(fields))
    return make(message, *others)


async def _without_server(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.pop("Server", None)


class _Handler(web.RequestHandler):
    """aiohttp's, which reads no bodies, and reports no errors of clients that leave early or speak another protocol.

    Of a body in chunks of a byte, 100 kB would take as long as many answers, before anybody has asked for it.

    rested_at: when a stranger may have the next answer over the connection, by the clock of the loop.
    """

    __slots__ = ("_has_body", "rested_at")

    def __init__(self, server: web.Server, **options: Any) -> None:
        """options: of aiohttp's, of their own types."""
        super().__init__(server, **options)
        self._has_body = False
        self.rested_at = 0.0

    def data_received(self, data: bytes) -> None:
        """Take the heads of requests. A body that does not end with its head is the last that the client sends."""
        for start in range(0, max(len(data), 1), _PART):  # no data: what came before more requests than may wait
            if self._has_body:
                return
            super().data_received(data[start : start + _PART])
            self._has_body = any(not body.is_eof() for _, body in self._messages)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The answer to a call that failed, after which the connection ends. Raises ConnectionError for no answer."""
        if isinstance(exc, ConnectionError):
            raise exc
        if isinstance(exc, UnicodeEncodeError) and not _is_utf_8(request):
            status, message = HTTPStatus.BAD_REQUEST, "the head of the request is not UTF-8"
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return _ErrorResponse.of(super().handle_error(request, status, exc, message))
        _LOG.debug("refused a request: %s", exc)
        if isinstance(exc, HttpProcessingError):  # whose message tells which parser this is
            message = "the head of the request is not as HTTP/1.1 has it"
        return _ErrorResponse.of(web.Response(status=status, text=f"{message or HTTPStatus(status).phrase}\n"))


def _is_utf_8(request: web.BaseRequest) -> bool:
    """Whether all of the head can be written again; aiohttp keeps what is no UTF-8 as surrogates."""
    try:
        "\n".join([request.raw_path, *request.headers.values()]).encode()
    except UnicodeEncodeError:
        return False
    return True


class _ErrorResponse(web.Response):
    """An answer that no application prepares."""

    @classmethod
    def of(cls, response: web.StreamResponse) -> "_ErrorResponse":
        """The same, and the last of its connection."""
        assert isinstance(response, web.Response)
        last_response = cls(status=response.status, text=response.text)
        last_response.force_close()
        return last_response

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.pop("Server", None)


class _ApplicationService:
    """The connections of an application. server: aiohttp's."""

    server: web.Server | None = None

    def __init__(self, is_for_all: Callable[[str], bool]) -> None:
        self._is_for_all = is_for_all
        self._calling: set[OpenConnection] = set()
        self._known: set[OpenConnection] = set()

    @property
    def connections(self) -> Collection[OpenConnection]:
        assert self.server is not None
        return self.server.connections

    def __call__(self) -> asyncio.BaseProtocol:
        assert self.server is not None
        # No access log, as the documentation of aiohttp has it.
        return _Handler(
            self.server,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=IDLE_S,
            lingering_time=0.0,  # no body is read that nobody asks for
            auto_decompress=False,  # nor what has come of one, 2 kB of which may be 2 MB
        )

    def standing(self, connection: OpenConnection) -> Standing:
        if connection in self._calling:
            return Standing.CALLING
        return Standing.KNOWN if connection in self._known else Standing.STRANGER

    @web.middleware
    async def resting(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The outermost: strangers who ask without a pause wait, and what they have sent is not read meanwhile."""
        connection = request.protocol
        assert isinstance(connection, _Handler)
        if connection not in self._known:
            now = asyncio.get_running_loop().time()
            wait_s = max(connection.rested_at - now, 0.0)
            connection.rested_at = now + wait_s + REST_S
            await asyncio.sleep(wait_s)
        return await handler(request)

    @web.middleware
    async def noted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The innermost: it is not called for those who may not read what is served."""
        self._calling.add(request.protocol)
        if request.protocol not in self._known and not self._is_for_all(request.path):
            self._known = {request.protocol, *(one for one in self._known if one.transport)}
        try:
            return await handler(request)
        finally:
            self._calling.discard(request.protocol)


class _Acceptor:
    """Accepts connections. opening: the tasks that lead from there to a finished handshake."""

    def __init__(self, service: Service, context: ssl.SSLContext | None, limits: Limits) -> None:
        self.opening: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], socket.socket] = {}
        self._open: dict[asyncio.BaseProtocol, asyncio.Task[None]] = {}  # since their first byte, the oldest first
        self._service = service
        self._context = context
        self._limits = limits
        self._warned_at = -WARN_EVERY_S

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        for number in count(1):
            if number % ACCEPTED == 0:
                await asyncio.sleep(0)
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:  # there are no more descriptors, or the client has gone already
                _LOG.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(_EXHAUSTED_S)
                continue
            connection.setblocking(False)
            task = asyncio.create_task(self._opened(connection))
            self.opening.add(task)
            task.add_done_callback(partial(self._is_opened, connection))
            if self._context is not None:
                self._silent[task] = connection
                await self._keep_few_silent()

    def _is_opened(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self.opening.discard(task)
        self._silent.pop(task, None)
        if task.cancelled():  # perhaps before it began
            connection.close()

    async def _keep_few_silent(self) -> None:
        if len(self._silent) <= self._limits.silent:
            return
        for task, connection in self._silent.items():
            if not has_event(connection, select.POLLIN):
                self._refuse("handshakes")
                del self._silent[task]
                task.cancel()
                return
        await asyncio.sleep(0)  # each of them goes on now

    async def _opened(self, connection: socket.socket) -> None:
        """Returns when the connection is ready for calls, or closed."""
        task = asyncio.current_task()
        assert task is not None
        protocol: asyncio.BaseProtocol | None = None
        try:
            if self._context is not None:
                async with asyncio.timeout(self._limits.handshake_s):
                    await _first_byte(connection)
                self._silent.pop(task, None)
            if has_event(connection, _HUNG_UP if self._context else 0) or not self._make_place():
                connection.close()
                return
            protocol = self._service()
            self._open[protocol] = task
            transport = await self._shake_hands(connection, protocol)
            if protocol not in self._open:  # it was cut off meanwhile
                transport.abort()
        except (OSError, TimeoutError) as error:  # ssl's are among them
            _LOG.debug("a connection failed: %s", error)
            connection.close()
            if protocol is not None:
                self._open.pop(protocol, None)

    async def _shake_hands(self, connection: socket.socket, protocol: asyncio.BaseProtocol) -> asyncio.WriteTransport:
        handshake_s, close_s = (self._limits.handshake_s, _CLOSE_S) if self._context else (None, None)
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: protocol,
            connection,
            ssl=self._context,
            ssl_handshake_timeout=handshake_s,
            ssl_shutdown_timeout=close_s,
        )
        return cast(asyncio.WriteTransport, transport)

    def _make_place(self) -> bool:
        """Whether there is a place for one more; those that others have to leave for it are cut off."""
        established: frozenset[object] = frozenset(self._service.connections)
        self._open = {one: task for one, task in self._open.items() if not task.done() or one in established}
        while len(self._open) >= self._limits.connections:
            self._refuse("connections")
            least = min(self._open, key=self._standing)  # of several, the oldest
            if self._standing(least) is Standing.CALLING:
                return False
            self._cut_off(least)
        return True

    def _standing(self, protocol: asyncio.BaseProtocol) -> Standing:
        if not self._open[protocol].done():
            return Standing.STRANGER
        connection = cast(OpenConnection, protocol)
        is_closing = connection.transport is None or connection.transport.is_closing()
        return Standing.CLOSING if is_closing else self._service.standing(connection)

    def _cut_off(self, protocol: asyncio.BaseProtocol) -> None:
        task = self._open.pop(protocol)
        transport = cast(OpenConnection, protocol).transport if task.done() else None
        if transport is not None:
            transport.abort()  # to be closed in order, it would have to wait for its client
        elif self._context is not None:
            task.cancel()
        # Else it is made in a moment. A protocol that uvloop has told of its connection would never hear of the end.

    def _refuse(self, what: Refusal) -> None:
        self._limits.refused(what)
        now = asyncio.get_running_loop().time()
        if now >= self._warned_at + WARN_EVERY_S:
            self._warned_at = now
            _LOG.warning("too many %s: closing some", what)


_HUNG_UP: int = getattr(select, "POLLRDHUP", 0)  # of a TLS client in a handshake; others may have sent all they have to


async def _first_byte(connection: socket.socket) -> None:
    """Returns when there is something to read, or will never be."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_reader(connection, came.set)
    try:
        await came.wait()
    finally:
        loop.remove_reader(connection)


def has_event(connection: socket.socket, events: int = 0) -> bool:
    """Whether one of these events of `poll` has come, or an error; of one that is closed they have."""
    if connection.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), events)
    return bool(poll.poll(0))

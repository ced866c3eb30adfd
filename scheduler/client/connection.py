"""A connection to the API server: calls with JSON bodies, and streams of lines for watches, as `raw_json`.

kubernetes-asyncio provides address, credentials, TLS, proxy and aiohttp's pool. Bodies bypass its generated models,
which are ten times slower. A write is sent once: if the server has too much to do (429) it is repeated as the server
asks, but nothing else is, because only the caller knows what a second write would do.
"""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.client.rest import RESTClientObject

from allocator.api.findings import shown
from allocator.api.versions import Json
from scheduler import VERSION
from scheduler.client.credentials import Credentials, load
from scheduler.client.errors import (
    READS,
    ApiError,
    ApiErrorKind,
    NotConfigured,
    TooLarge,
    Unanswered,
    Withheld,
    api_error,
)
from scheduler.client.exchanges import ERRORS, Exchanges, HttpRequest, HttpResponse, Route
from scheduler.client.raw_json import RawJson, dumps, loads_leniently

# The time limit of a call, counted only while the event loop is free.
#
# A decision may block the loop for seconds, while an answer already waits in the socket. A limit that counted those
# seconds would end the call, and a write that was stored would have an unknown outcome.


TICKS = 8
"""Parts of a limit. However late one is counted, it counts once: so many turns the loop has, at least."""


class TimeLimit:
    """Raises TimeoutError in the context that it is where it lasts longer than it may, an eighth more at most.

    send_s: until the call is sent. answer_s: from then on. Time in which the loop was held up is not counted. is_sent:
    whether the server may have heard of the call.
    """

    def __init__(self, send_s: float, answer_s: float) -> None:
        self.is_sent = False
        self._send_s = send_s
        self._answer_s = answer_s
        self._tick_s = send_s / TICKS
        self._left = TICKS
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle | None = None
        self._task = asyncio.current_task(self._loop)
        self._cancelled = 0

    def sent(self) -> None:
        """From here on the server may act; the time begins again: what was waited for before was none of its doing."""
        self.is_sent = True
        self._begin(self._answer_s)

    def unsent(self) -> None:
        """The server has said that it did nothing; the time begins again."""
        self.is_sent = False
        self._begin(self._send_s)

    def _begin(self, seconds: float) -> None:
        if seconds == self._tick_s * TICKS:
            self._left = TICKS + 1  # the tick that runs is not a whole one
            return
        self._tick_s, self._left = seconds / TICKS, TICKS
        if self._handle is not None:
            self._handle.cancel()
            self._count()

    def __enter__(self) -> Self:
        assert self._task is not None, "there is no task to cancel"
        self._cancelled = self._task.cancelling()
        self._count()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._handle is not None
        assert self._task is not None
        self._handle.cancel()
        # As asyncio.timeout, which needs two coroutines for it: whoever else has cancelled the task goes first.
        if self._is_over and self._task.uncancel() <= self._cancelled and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _count(self) -> None:
        self._handle = self._loop.call_later(self._tick_s, self._tick)

    def _tick(self) -> None:
        self._left -= 1
        if self._left > 0:
            self._count()
        else:
            self._handle = self._loop.call_soon(self._end)  # an answer that is here by now comes first

    def _end(self) -> None:
        assert self._task is not None
        self._is_over = True
        self._task.cancel()


# Limits what goes on at the same time, as long as it is short.
#
# A call may take as long as the API server and its webhooks, which is more than a minute. What takes longer than
# `SLOW_S` does not count any more, so that it delays no other. Who makes such calls limits them by namespace.


SLOW_S = 1.0
"""A call that takes longer is not counted, and an attempt that does holds no slot any more."""


class ConcurrencyLimit:
    """So many calls at the same time; the next one begins when one of them has ended, or takes long."""

    def __init__(self, number: int) -> None:
        self._places = asyncio.Semaphore(number)

    def call(self) -> "LimitedCall":
        """The context of one call."""
        return LimitedCall(self._places)


class LimitedCall:
    """One call. Entering waits until it may begin."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._places.acquire()
        self._timer = asyncio.get_running_loop().call_later(SLOW_S, self._end)

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._end()

    def _end(self) -> None:
        """Let the next one begin."""
        self._timer = None
        self._places.release()


JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"  # any JSON is YAML

CALL_TIMEOUT_S = 4.0
"""How long a call may wait until it is sent, and a read for its answer from then on."""

WRITE_TIMEOUT_S = 65.0
"""How long a write waits for its answer. The API server ends it after 60 s at the latest, with all of its webhooks."""

CALLS = 100
"""Under way at the same time, at most, each with a connection of its own; watches and slow calls have theirs beside."""

ANSWER_BYTES = 16 << 20
"""Of an answer that is no list, and of a line of a watch: what holds one object, which etcd ends at 1.5 MiB.

JSON escapes make it six times as long at most. Read without an end, it would take all memory.
"""

_NO_LIMIT = 0  # of aiohttp's pool: our own is counted before, by what waits for its turn
_BY_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=None)
_CONNECT_S = 4.0
_PUT_OFF_TRIES = 5
_PUT_OFF_S = 1.0
_PUT_OFF_MAX_S = 5.0
_FAIR_BYTES = 2**16
_FAIR_S = 0.01
"""So much, and so long, is worked on of what is here already before others have their turn: what an event costs depends
on the objects that it is about."""

_HEADERS = {
    "Accept": JSON,
    "Accept-Encoding": "identity",  # compressing costs both sides more than a local network does
    "User-Agent": f"dra-scheduler/{VERSION}",
}

_NOT_DONE = 300


class Connection:
    """Calls of one API server as one identity; for one event loop.

    limit: of calls at the same time; others wait for one of them to end. may_send: whether a call may be sent
    now.
    """

    def __init__(
        self,
        credentials: Credentials,
        exchanges: Exchanges,
        limit: ConcurrencyLimit,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        self._credentials = credentials
        self._exchanges = exchanges
        self._limit = limit
        self._may_send = may_send
        self.server = str(credentials.configuration.host).rstrip("/")
        self.context = credentials.context

    def only_while(self, may_send: Callable[[], bool]) -> "Connection":
        """The same connection, whose calls raise Withheld while they may not be sent.

        Asked a moment before the first byte: whatever a call waited for before does not count.
        """
        return Connection(self._credentials, self._exchanges, self._limit, may_send)

    def apart(self, calls: int) -> "Connection":
        """The same server for so many calls at the same time that wait for no others; withheld as these are."""
        return Connection(self._credentials, self._exchanges, ConcurrencyLimit(calls), self._may_send)

    @property
    def refused(self) -> str:
        """Why the API server does not let us in; empty while it does."""
        reason = self._credentials.trouble or "the API server does not accept them"
        return reason if self._credentials.is_refused else ""

    @property
    def trouble(self) -> str:
        """Why credentials could not be renewed; empty where they could. Those from before may still hold."""
        return self._credentials.trouble

    async def request(  # noqa: PLR0913 - the parts of a call
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
        most_bytes: int | None = ANSWER_BYTES,
    ) -> Json:
        """The answer's object. Raises ApiError where the server refuses, Unanswered where none came in time.

        path: such as `Resource.path` gives. body: any JSON value. timeout_s: until the call is sent, and again from
        then on; None for the usual times, in which a write waits for as long as the API server may take. Time in which
        the event loop was held up is not counted. A call for which the server is too busy (429) is sent again as it
        asks, up to five times, with the same timeout. most_bytes: of the answer, None for a list; raises TooLarge where
        there are more.
        """
        content = None if body is None else dumps(body)
        call = HttpRequest(method, path, query, content, content_type, _BY_LIMIT)
        usual_s = CALL_TIMEOUT_S if method in READS else WRITE_TIMEOUT_S
        timeouts = (timeout_s, timeout_s) if timeout_s is not None else (CALL_TIMEOUT_S, usual_s)
        return _object(str(call), await self._until_taken(call, *timeouts, most_bytes))

    async def text(self, path: str, query: Mapping[str, str], timeout_s: float, most_bytes: int | None = None) -> bytes:
        """The answer to a GET as it came. Raises, and is sent again, as `request`.

        most_bytes: of the answer; raises TooLarge where there are more. None for any number.
        """
        # For lists, of which tenants decide how many objects there are, and how large: who cannot do with a part of one
        # takes it as it is.
        call = HttpRequest("GET", path, query, None, JSON, _BY_LIMIT)
        return await self._until_taken(call, timeout_s, timeout_s, most_bytes)

    async def _until_taken(self, call: HttpRequest, send_s: float, answer_s: float, most_bytes: int | None) -> bytes:
        """The answer's body; a call for which the server is too busy is sent again."""
        for _ in range(_PUT_OFF_TRIES - 1):
            try:
                return await self._body(call, send_s, answer_s, most_bytes)
            except ApiError as error:
                if error.kind is not ApiErrorKind.BUSY:
                    raise
                asked = error.retry_after_s
                await asyncio.sleep(_PUT_OFF_S if asked is None else min(asked, _PUT_OFF_MAX_S))
        return await self._body(call, send_s, answer_s, most_bytes)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], idle_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer as they come, without their ends, while the context is open.

        They end when the server ends them; a last line that is cut off is left out. Opening raises as `request` does.
        Reading raises Unanswered when the connection breaks or nothing at all came for idle_s, and TooLarge where a
        line has more than ANSWER_BYTES.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=idle_s)
        call = HttpRequest("GET", path, query, None, JSON, timeout)
        limit = TimeLimit(idle_s, idle_s)
        with _OurErrors(call, limit), limit:
            answer = await self._answer(call, limit)
        async with answer:
            yield _lines(call, answer.content, limit)

    async def _body(self, call: HttpRequest, send_s: float, answer_s: float, most_bytes: int | None) -> bytes:
        limit = TimeLimit(send_s, answer_s)
        with _OurErrors(call, limit), limit:
            async with self._limit.call(), await self._answer(call, limit) as answer:
                if most_bytes is None:
                    return await answer.content.read()
                text, is_whole = await _at_most(answer.content, most_bytes)
                if not is_whole:
                    raise TooLarge(str(call), most_bytes)
                return text

    async def _answer(self, call: HttpRequest, limit: TimeLimit) -> HttpResponse:
        """The server's answer once it says yes, its body still to be read.

        If it does not know us, that to other credentials, if there are any: what was not let in was not done.
        """
        credentials = self._credentials.authorization()
        try:
            return await self._send(call, credentials, limit)
        except ApiError as error:
            if error.kind is not ApiErrorKind.UNAUTHENTICATED:
                raise
            limit.unsent()
            if not await self._credentials.renewed(credentials):
                raise
        return await self._send(call, self._credentials.authorization(), limit)

    async def _send(self, call: HttpRequest, credentials: str, limit: TimeLimit) -> HttpResponse:
        def begin() -> None:
            self._check(call)
            limit.sent()

        self._check(call)
        answer = await self._exchanges.send(call, credentials, begin)
        if answer.status < _NOT_DONE:
            self._credentials.accepted()
            return answer
        async with answer:
            retry_after = answer.headers.get("Retry-After", "")
            said, _ = await _at_most(answer.content, ANSWER_BYTES)  # of a longer one, its status says enough
            error = api_error(str(call), answer.status, said, retry_after)
        if error.kind is ApiErrorKind.UNAUTHENTICATED:
            self._credentials.refused()
        else:
            self._credentials.accepted()
        raise error

    def _check(self, call: HttpRequest) -> None:
        if not self._may_send():
            raise Withheld(str(call))


@dataclass(frozen=True, slots=True)
class _OurErrors:
    """ConcurrencyLimit what aiohttp raises in the context into our errors."""

    call: HttpRequest
    limit: TimeLimit

    def __enter__(self) -> None:
        return

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if error is not None and (text := self._text(error)):
            raise Unanswered(str(self.call), text, is_ambiguous=self.limit.is_sent) from error

    def _text(self, error: BaseException) -> str:
        """What went wrong; empty where it is none of aiohttp's errors."""
        match error:
            case TimeoutError():
                return "no answer in time" if self.limit.is_sent else _NOT_SENT
            case aiohttp.ClientConnectorError():
                return _in_one_line(str(error))
        return _in_one_line(f"{type(error).__name__}: {error}") if isinstance(error, ERRORS) else ""


_NOT_SENT = "not sent: no connection, or no credentials, in time"


def _in_one_line(text: str) -> str:
    """The text of aiohttp's error, which has several lines where the answer could not be parsed."""
    return " ".join(text.split())


async def _at_most(content: aiohttp.StreamReader, most_bytes: int) -> tuple[bytes, bool]:
    """The content, or the beginning of one that has more bytes; whether it is whole."""
    chunks: list[bytes] = []
    left = most_bytes
    while chunk := await content.readany():
        chunks.append(chunk[:left])
        left -= len(chunk)
        if left < 0:
            return b"".join(chunks), False
    return b"".join(chunks), True


async def _lines(call: HttpRequest, content: aiohttp.StreamReader, limit: TimeLimit) -> AsyncIterator[bytes]:
    started: list[bytes] = []
    passed, held, began = 0, 0, time.monotonic()
    while True:
        with _OurErrors(call, limit):
            chunk = await content.readany()
        if not chunk:
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*started, line))
            started.clear()
            held = 0
            passed += len(line)
            if passed > _FAIR_BYTES or time.monotonic() - began > _FAIR_S:
                await asyncio.sleep(0)
                passed, began = 0, time.monotonic()
        started.append(rest)
        held += len(rest)
        if held > ANSWER_BYTES:
            raise TooLarge(str(call), ANSWER_BYTES, "a line of the watch")


_PARTS = ("metadata", "spec", "status")
"""Of what the API server stores, whatever the kind: what stands between it and us may answer anything."""


def _object(call: str, body: bytes) -> Json:
    decoded = loads_leniently(body)
    if isinstance(decoded, RawJson):
        raise Unanswered(call, "the response is not JSON", is_ambiguous=True)
    if not isinstance(decoded, dict):
        raise Unanswered(call, f"the response is not an object but {type(decoded).__name__}", is_ambiguous=True)
    parts = {} if decoded.get("kind") == "Status" else {name: decoded.get(name) for name in _PARTS}
    if wrong := [name for name, value in parts.items() if not isinstance(value, dict | None)]:
        text = f"the response is no object: {wrong[0]} must be an object (got {shown(decoded[wrong[0]])})"
        raise Unanswered(call, text, is_ambiguous=True)
    return decoded


@asynccontextmanager
async def connect(
    *, kubeconfig: Path | None = None, context: str | None = None, calls: int = CALLS
) -> AsyncIterator[Connection]:
    """A connection while its context is open. Raises NotConfigured; no call is made yet.

    kubeconfig, context: by default as kubectl finds them, else the service account of the pod we run in. calls: so
    many may be under way at the same time.
    """
    credentials = await load(kubeconfig, context, os.environ, Path.home())
    try:
        pool = RESTClientObject(credentials.configuration, maxsize=_NO_LIMIT)
    except OSError as error:  # ssl's are among them
        problem = _certificate_problem(credentials.configuration, error)
        credentials.close()
        raise NotConfigured(problem) from error
    try:
        connector = pool.pool_manager.connector
        assert connector is not None
        exchanges = Exchanges(connector, _route(credentials, pool), _HEADERS)
        yield Connection(credentials, exchanges, ConcurrencyLimit(calls))
    finally:
        credentials.close()
        await pool.close()


def _certificate_problem(configuration: Configuration, error: OSError) -> str:
    """Which file of a kubeconfig does not hold what it should; the error names none."""
    try:
        ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    except OSError:
        return f"certificate-authority of the kubeconfig holds no certificates in PEM: {error}"
    fields = "client-certificate and client-key of the kubeconfig hold no certificate in PEM with its key"
    return f"{fields}: {error}"


def _route(credentials: Credentials, pool: RESTClientObject) -> Route:
    """The API server's address, the proxy on the way to it, if there is one, and the name that its certificate has."""
    url = str(credentials.configuration.host)
    server = urlsplit(url)
    proxy = pool.proxy or _proxy_of_environment(server.scheme, server.netloc)
    return Route(url, proxy, pool.proxy_headers, pool.server_hostname)


def _proxy_of_environment(scheme: str, netloc: str) -> str | None:
    """HTTPS_PROXY and the like, unless NO_PROXY names the server."""
    return None if proxy_bypass(netloc) else getproxies().get(scheme)


# The interface that most of the program needs of a connection: one call of the API server.
#
# It is a protocol although the product has one implementation, `Connection`: in tests, in-memory servers and wrappers
# that fail or stop at a given write take its place, and none of them has streams, credentials or a pool.


class Api(Protocol):
    """One call of the API server."""

    async def request(  # noqa: PLR0913 - the parts of a call
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
    ) -> Json:
        """The answer's object. Raises CallFailed."""
        ...

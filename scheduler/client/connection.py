"""A connection to the API server: calls with JSON bodies, and streams of lines for watches, as `raw_json`.

kubernetes-asyncio provides address, credentials, TLS, proxy and aiohttp's pool. Bodies bypass its generated models,
which are ten times slower. A call is sent once: after a 429 it is repeated as the server asks, but nothing else is,
because only the caller knows what a second write would do.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload
from kubernetes_asyncio.client.rest import RESTClientObject

from scheduler.client.call_time_limit import TimeLimit
from scheduler.client.credentials import Credentials, load
from scheduler.client.errors import ApiError, NotConfigured, Unanswered, Withheld, api_error
from scheduler.client.raw_json import RawJson, dumps, loads_leniently
from scheduler.version import VERSION

Json = dict[str, Any]  # Any: what an object holds depends on its kind

JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"  # any JSON is YAML

WRITE_TIMEOUT_S = 4.0
"""How long an answer is waited for: after that, and one second more, no write of ours can be under way."""

CALLS = 100
"""Under way at the same time, at most, each with a connection of its own; watches have theirs beside them."""

_NO_LIMIT = 0  # of aiohttp's pool: our own is counted before, by what waits for its turn
_BY_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=None)
_CONNECT_S = 4.0
_PUT_OFF_TRIES = 5
_PUT_OFF_S = 1.0
_PUT_OFF_MAX_S = 5.0
_FAIR_BYTES = 2**16
_READ_BYTES = 2**18

_PUT_OFF = 429
_UNAUTHORIZED = 401
_NOT_DONE = 300


class _SentOnce(BytesPayload):
    """A body that aiohttp does not send again by itself when an idle connection turns out to be cut.

    It would for PUT. The first one may have been carried out, and the second's conflict would be reported instead.
    begin: is called a moment before the first byte, of the head too, which aiohttp keeps back until there is a body.
    """

    def __init__(self, content: bytes, content_type: str, begin: Callable[[], None]) -> None:
        super().__init__(content, content_type=content_type)
        self._begin = begin

    @property
    def consumed(self) -> bool:
        return True

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write head and body."""
        self._begin()
        await super().write_with_length(writer, content_length)


class PromptResponse(aiohttp.ClientResponse):
    """A response whose connection is closed at once, however it ends: given up, in trouble, by the server, idle.

    TLS would wait until the server has said goodbye as well, and the event loop may end before that.
    """

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Wait for the head of the answer."""
        if connection.transport and (tls := connection.transport.get_extra_info("ssl_object")):
            tls.__class__ = _LastWord
        return await super().start(connection)

    def close(self) -> None:
        """Drop the connection, and what was not sent yet."""
        if self.connection and self.connection.transport:
            self.connection.transport.abort()
        super().close()


class _LastWord(ssl.SSLObject):
    """Closes the connection without waiting for the server's reply."""

    def unwrap(self) -> None:
        """Say goodbye, of which the event loop believes that it was answered."""
        with suppress(ssl.SSLWantReadError):
            super().unwrap()


class Connection:
    """Calls of one API server as one identity; for one event loop. options: of aiohttp, for every call.

    slots: so many calls may be under way at the same time; others wait for one. may_send: whether a call may be sent
    now.
    """

    def __init__(
        self,
        credentials: Credentials,
        sessions: "_Sessions",
        options: Json,
        slots: asyncio.Semaphore,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        self._credentials = credentials
        self._sessions = sessions
        self._options = options
        self._slots = slots
        self._may_send = may_send
        self.server = str(credentials.configuration.host).rstrip("/")

    def only_while(self, may_send: Callable[[], bool]) -> "Connection":
        """The same connection, whose calls raise Withheld while they may not be sent.

        Asked a moment before the first byte of a call that has a body: whatever it waited for before does not count.
        """
        return Connection(self._credentials, self._sessions, self._options, self._slots, may_send)

    def apart(self, calls: int) -> "Connection":
        """The same server for so many calls at the same time that wait for no others; withheld as these are."""
        return Connection(self._credentials, self._sessions, self._options, asyncio.Semaphore(calls), self._may_send)

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
        timeout_s: float = WRITE_TIMEOUT_S,
    ) -> Json:
        """The answer's object. Raises ApiError where the server refuses, Unanswered where none came within timeout_s.

        path: such as `Resource.path` gives. body: any JSON value. The timeout holds until the call is sent, and again
        from then on; time in which the event loop was held up is not counted. A call that the server puts off (429) is
        sent again as it asks, up to five times, with the same timeout.
        """
        content = None if body is None else dumps(body)
        call = _ApiCall(method, path, query, content, content_type, _BY_LIMIT)
        return _object(str(call), await self._until_taken(call, timeout_s))

    async def text(self, path: str, query: Mapping[str, str], timeout_s: float) -> bytes:
        """The answer to a GET as it came. Raises, and is sent again, as `request`."""
        return await self._until_taken(_ApiCall("GET", path, query, None, JSON, _BY_LIMIT), timeout_s)

    async def _until_taken(self, call: "_ApiCall", timeout_s: float) -> bytes:
        """The answer's body; a call that the server puts off is sent again."""
        for _ in range(_PUT_OFF_TRIES - 1):
            try:
                return await self._body(call, timeout_s)
            except ApiError as error:
                if error.status != _PUT_OFF:
                    raise
                asked = error.retry_after_s
                await asyncio.sleep(_PUT_OFF_S if asked is None else min(asked, _PUT_OFF_MAX_S))
        return await self._body(call, timeout_s)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], idle_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer as they come, without their ends, while the context is open.

        They end when the server ends them; a last line that is cut off is left out. Opening raises as `request` does,
        and reading raises Unanswered when the connection breaks or nothing at all came for idle_s.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=idle_s)
        call = _ApiCall("GET", path, query, None, JSON, timeout)
        limit = TimeLimit(idle_s)
        with _OurErrors(call, limit), limit:
            answer = await self._answer(call, limit)
        async with answer:
            try:
                yield _lines(call, answer.content, limit)
            finally:
                answer.close()

    async def _body(self, call: "_ApiCall", timeout_s: float) -> bytes:
        limit = TimeLimit(timeout_s)
        with _OurErrors(call, limit), limit:
            async with self._slots, await self._answer(call, limit) as answer:
                return await answer.read()

    async def _answer(self, call: "_ApiCall", limit: TimeLimit) -> aiohttp.ClientResponse:
        """The server's answer once it says yes, its body still to be read.

        After 401 that to other credentials, if there are any: what was not let in was not done.
        """
        credentials = self._credentials.authorization()
        try:
            return await self._send(call, credentials, limit)
        except ApiError as error:
            if error.status != _UNAUTHORIZED:
                raise
            limit.unsent()
            if not await self._credentials.renewed(credentials):
                raise
        return await self._send(call, self._credentials.authorization(), limit)

    async def _send(self, call: "_ApiCall", credentials: str, limit: TimeLimit) -> aiohttp.ClientResponse:
        def begin() -> None:
            self._check(call)
            limit.sent()

        self._check(call)
        url = f"{self.server}{call.path}?{urlencode(call.query)}" if call.query else self.server + call.path
        session, content = self._sessions.without_body, None
        if call.content is not None:
            session, content = self._sessions.with_body, _SentOnce(call.content, call.content_type, begin)
        answer = await session.request(
            call.method,
            url,
            data=content,
            headers={"Authorization": credentials} if credentials else None,
            timeout=call.timeout,
            trace_request_ctx=limit,
            **self._options,
        )
        self._credentials.is_refused = answer.status == _UNAUTHORIZED
        if answer.status < _NOT_DONE:
            return answer
        async with answer:
            retry_after = answer.headers.get("Retry-After", "")
            raise api_error(str(call), answer.status, await answer.read(), retry_after)

    def _check(self, call: "_ApiCall") -> None:
        if not self._may_send():
            raise Withheld(str(call))


@dataclass(frozen=True, slots=True)
class _ApiCall:
    """One call in its parts. content: of the body, in `content_type`."""

    method: str
    path: str
    query: Mapping[str, str] | None
    content: bytes | None
    content_type: str
    timeout: aiohttp.ClientTimeout

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class _OurErrors:
    """Turns what aiohttp raises in the context into our errors."""

    call: _ApiCall
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
                return str(error)
            case aiohttp.ClientError() | OSError():
                return f"{type(error).__name__}: {error}"
        return ""


_NOT_SENT = "not sent: no connection, or no credentials, in time"


async def _lines(call: _ApiCall, content: aiohttp.StreamReader, limit: TimeLimit) -> AsyncIterator[bytes]:
    started: list[bytes] = []
    passed = 0
    while True:
        with _OurErrors(call, limit):
            chunk = await content.readany()
        if not chunk:
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*started, line))
            started.clear()
            passed += len(line)
            if passed > _FAIR_BYTES:
                passed = 0
                await asyncio.sleep(0)  # a flood of lines that are here already leaves others their turn
        started.append(rest)


def _object(call: str, body: bytes) -> Json:
    found = loads_leniently(body)
    if isinstance(found, RawJson):
        raise Unanswered(call, "the response is not JSON", is_ambiguous=True)
    if not isinstance(found, dict):
        raise Unanswered(call, f"the response is not an object but {type(found).__name__}", is_ambiguous=True)
    return found


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
        fields = "certificate-authority, client-certificate or client-key"
        raise NotConfigured(f"{fields} of the kubeconfig are invalid: {error}") from error
    try:
        async with _session(pool, []) as with_body, _session(pool, [_tracing()]) as without_body:
            sessions = _Sessions(with_body, without_body)
            yield Connection(credentials, sessions, _options(credentials, pool), asyncio.Semaphore(calls))
    finally:
        credentials.close()
        await pool.close()


class _Sessions(NamedTuple):
    """The sessions for calls with a body, which says itself that it is being sent, and for those without one.

    Tracing costs a tenth of what a call does.
    """

    with_body: aiohttp.ClientSession
    without_body: aiohttp.ClientSession


def _session(pool: RESTClientObject, tracing: list[aiohttp.TraceConfig]) -> aiohttp.ClientSession:
    """A session on the library's pool of connections.

    The library's own asks for the environment's proxy and for netrc in a thread, twice in each call, which takes longer
    than all the rest of it.
    """
    return aiohttp.ClientSession(
        connector=pool.pool_manager.connector,
        connector_owner=False,
        response_class=PromptResponse,
        cookie_jar=aiohttp.DummyCookieJar(),
        # Compressing costs both sides more than a local network does.
        headers={"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": f"dra-scheduler/{VERSION}"},
        read_bufsize=_READ_BYTES,
        trace_configs=tracing,
    )


def _tracing() -> aiohttp.TraceConfig:
    """Notifies a call's limit that it is being sent: a moment before its first byte."""

    async def sent(
        _: aiohttp.ClientSession, context: SimpleNamespace, __: aiohttp.TraceRequestHeadersSentParams
    ) -> None:
        context.trace_request_ctx.sent()

    tracing = aiohttp.TraceConfig()
    tracing.on_request_headers_sent.append(sent)
    return tracing


def _options(credentials: Credentials, pool: RESTClientObject) -> Json:
    """The options of every aiohttp call: the proxy, if there is one, and the expected name of the certificate."""
    server = urlsplit(str(credentials.configuration.host))
    proxy = pool.proxy or _proxy_of_environment(server.scheme, server.netloc)
    options: Json = {"allow_redirects": False, "proxy": proxy, "proxy_headers": pool.proxy_headers}
    return {**options, "server_hostname": pool.server_hostname} if pool.server_hostname else options


def _proxy_of_environment(scheme: str, netloc: str) -> str | None:
    """HTTPS_PROXY and the like, unless NO_PROXY names the server."""
    return None if proxy_bypass(netloc) else getproxies().get(scheme)

"""Exchanges of HTTP/1.1 with one server: a request, and its response, over aiohttp's connections but not its sessions.

aiohttp connects (pool, names, TLS, proxies) and parses responses. Its sessions take longer for a call than TLS and JSON
together. They would also send a PUT again by themselves where a kept connection turns out to be cut, and do not tell
when the first byte leaves.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlencode

import aiohttp
from aiohttp.connector import Connection as TcpConnection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from yarl import URL

ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What an exchange raises."""

_CUT = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_READ_BYTES = 2**18
_SENDABLE = re.compile(r"/[!$&'()*+,;=:@/%\w.~-]*", re.ASCII)
_FINAL = 200  # a lower status announces the response
_ANNOUNCED_MAX = 32  # a server sends one or two; each takes as long as a response


@dataclass(frozen=True, slots=True)
class Route:
    """Where a server is, and how it is reached. The names are aiohttp's."""

    url: str
    proxy: str | None = None
    proxy_headers: Mapping[str, str] | None = None
    server_hostname: str | None = None


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request."""

    method: str
    path: str
    """As it is sent, see `Resource.path`."""
    query: Mapping[str, str] | None
    content: bytes | None
    """The body, in `content_type`."""
    content_type: str
    limits: aiohttp.ClientTimeout
    """How long connecting may take, and waiting while nothing comes."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class HttpResponse:
    """A response whose head has come. headers: by name in any case; content: its body, as it comes.

    When its context ends, the connection is kept if the body was read, and closed at once otherwise.
    """

    def __init__(
        self, status: int, headers: Mapping[str, str], content: aiohttp.StreamReader, connection: TcpConnection
    ) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        self._connection = connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if error is None and self.content.is_eof():
            self._connection.release()
        else:
            drop(self._connection)


class Exchanges:
    """Exchanges with one server. headers: of all requests."""

    def __init__(self, connector: aiohttp.BaseConnector, route: Route, headers: Mapping[str, str]) -> None:
        self.route = route
        self._connector = connector
        url, proxy = URL(route.url), URL(route.proxy) if route.proxy else None
        # aiohttp connects by it, and adds a proxy's Authorization to its headers.
        self._model = aiohttp.ClientRequest(
            "GET",
            url,
            headers=headers,
            proxy=proxy,
            proxy_headers=route.proxy_headers,
            server_hostname=route.server_hostname,
        )
        is_forwarded = proxy is not None and not self._model.is_ssl()
        self._prefix = (str(url.origin()) if is_forwarded else "") + url.raw_path.rstrip("/")

    async def send(self, request: HttpRequest, authorization: str, begin: Callable[[], None]) -> HttpResponse:
        """The response to a request that is sent once. Raises ERRORS, and what `begin` raises.

        begin: is called a moment before the first byte. A GET is sent again, once, if its connection is cut: one that
        was kept may have been before.
        """
        if "\r" in authorization or "\n" in authorization:  # it could add headers, and requests
            raise aiohttp.ClientError("the value of the header Authorization has more than one line")
        if not _SENDABLE.fullmatch(request.path):  # the same: a name that nobody has quoted
            raise aiohttp.ClientError(f"the path {request.path!a} is not one")
        try:
            return await self._exchange(request, authorization, begin)
        except _CUT as error:
            if request.method != "GET" or isinstance(error, aiohttp.ClientConnectorError):
                raise
        return await self._exchange(request, authorization, begin)

    async def _exchange(self, request: HttpRequest, authorization: str, begin: Callable[[], None]) -> HttpResponse:
        connection = await self._connected(request.limits)
        try:
            sent = self._bytes_of(request, authorization)
            message, content = await _answered(connection, sent, request.limits.sock_read, begin)
        except BaseException:
            drop(connection)
            raise
        return HttpResponse(message.code, message.headers, content, connection)

    async def _connected(self, limits: aiohttp.ClientTimeout) -> TcpConnection:
        """A connection, kept or new. Nothing has come on it that belongs to no request."""
        while True:
            connection = await self._connector.connect(self._model, [], limits)
            transport, protocol = connection.transport, connection.protocol
            if transport is not None and protocol is not None and not protocol.should_close:
                if tls := transport.get_extra_info("ssl_object"):
                    tls.__class__ = LastWord
                return connection
            drop(connection)

    def _bytes_of(self, request: HttpRequest, authorization: str) -> bytes:
        target = self._prefix + request.path
        if request.query:
            target += "?" + urlencode(request.query)
        fields = dict(self._model.headers)
        if authorization:
            fields["Authorization"] = authorization
        content = request.content or b""
        if request.content is not None:
            fields["Content-Type"] = request.content_type
        if request.method != "GET":
            fields["Content-Length"] = str(len(content))
        lines = [f"{name}: {value}" for name, value in fields.items()]
        return "\r\n".join([f"{request.method} {target} HTTP/1.1", *lines, "", ""]).encode() + content


async def _answered(
    connection: TcpConnection, sent: bytes, read_s: float | None, begin: Callable[[], None]
) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
    transport, protocol = connection.transport, connection.protocol
    assert transport is not None
    assert protocol is not None
    protocol.set_response_params(read_until_eof=True, read_timeout=read_s, read_bufsize=_READ_BYTES)
    begin()
    transport.write(sent)
    protocol.start_timeout()
    for _ in range(_ANNOUNCED_MAX + 1):
        message, content = await protocol.read()
        if message.code >= _FINAL:
            return message, content
    raise aiohttp.ClientError(f"more than {_ANNOUNCED_MAX} interim responses came instead of one that is final")


def drop(connection: TcpConnection) -> None:
    """Close the connection at once, with whatever was not sent yet."""
    if connection.transport is not None:
        connection.transport.abort()
    connection.close()


class LastWord(ssl.SSLObject):
    """Closes the connection without waiting for the server's reply.

    TLS would wait until the server has said goodbye as well, and the event loop may end before that.
    """

    def unwrap(self) -> None:
        """Say goodbye, of which the event loop believes that it was answered."""
        with suppress(ssl.SSLWantReadError):
            super().unwrap()

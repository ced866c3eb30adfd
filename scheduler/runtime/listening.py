"""An HTTP server at a configured address, for as long as a context is open.

Clients that open connections and send nothing cannot block it:

- At the limit of open connections, a new one takes the place of the oldest that has no call in progress: it is closed.
  If all have one, the new one is closed at once.
- At the limit of TLS handshakes in progress, no connection is accepted until a handshake ends. If none does, the oldest
  is closed once it has lasted a second: a handshake that makes progress takes milliseconds.
- A handshake that lasts ten seconds is closed in any case.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.runtime.configuration import host_and_port

STOPPED_S = 1.0
"""Seconds that calls in progress have to end when the server stops."""

MOST_CONNECTIONS = 64
"""Open connections to the health address, whose clients are probes and Prometheus."""

GRACE_S = 1.0
"""Seconds that a handshake is kept while others wait: it takes some milliseconds."""

WARN_EVERY_S = 60.0
"""Minimum time between log lines about connections closed because the limit is reached."""

_BACKLOG = 128
"""Connections that the kernel holds until they are accepted."""

_EXHAUSTED_S = 1.0
"""Pause after a failed accept, such as when the process has no file descriptor left."""

_LOG = logging.getLogger(__name__)

Refusal = Literal["connections", "handshakes"]
"""The limit that was reached."""


class CannotServe(Exception):
    """Nothing can be served at the address; the message names the field that holds it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for all clients of a server together.

    connections: open at the same time. handshakes: TLS handshakes in progress. handshake_s: after so many seconds, a
    handshake is given up. grace_s: for so many seconds, it is kept even while others wait. refused: called for each
    connection that is closed because a limit was reached.
    """

    connections: int = MOST_CONNECTIONS
    handshakes: int = 32
    handshake_s: float = 10.0
    grace_s: float = GRACE_S
    refused: Callable[[Refusal], None] = lambda _: None


class OpenConnection(Protocol):
    """An open connection."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None after it was lost."""
        ...


class Service(Protocol):
    """What answers clients: each call makes the protocol of a connection. connections: those open, the oldest first."""

    @property
    def connections(self) -> Iterable[OpenConnection]:
        """After their handshake."""
        ...

    def __call__(self) -> asyncio.BaseProtocol:
        """For a new one."""
        ...

    def is_calling(self, connection: OpenConnection) -> bool:
        """Whether a call is in progress over it."""
        ...


@asynccontextmanager
async def listening(
    field: str,
    address: str,
    application: web.Application,
    context: ssl.SSLContext | None = None,
    limits: Limits = Limits(),
) -> AsyncIterator[str]:
    """Serves the application, as `accepting` does."""
    service = _ApplicationService()
    application.middlewares.append(service.noted)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOPPED_S)
    await runner.setup()
    service.server = runner.server
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
        await _ended([*tasks, *acceptor.handshakes])
        for one in sockets:
            one.close()


async def _bound(address: str) -> list[socket.socket]:
    """A socket for each address that the host has. Raises OSError."""
    host, port = host_and_port(address)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, where in dict.fromkeys(found):
            listener = socket.create_server(where, family=family, backlog=_BACKLOG)
            listener.setblocking(False)
            sockets.append(listener)
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _ApplicationService:
    """The connections of an application. server: aiohttp's."""

    server: web.Server | None = None

    def __init__(self) -> None:
        self._calling: set[OpenConnection] = set()

    @property
    def connections(self) -> Iterable[OpenConnection]:
        assert self.server is not None
        return self.server.connections

    def __call__(self) -> asyncio.BaseProtocol:
        assert self.server is not None
        return self.server()

    def is_calling(self, connection: OpenConnection) -> bool:
        return connection in self._calling

    @web.middleware
    async def noted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._calling.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._calling.discard(request.protocol)


class _Handshake(NamedTuple):
    """A handshake in progress. began: by the loop's clock."""

    protocol: asyncio.BaseProtocol
    began: float


class _Acceptor:
    """Accepts connections. handshakes: those in progress, the oldest first."""

    def __init__(self, service: Service, context: ssl.SSLContext | None, limits: Limits) -> None:
        self.handshakes: dict[asyncio.Task[None], _Handshake] = {}
        self._service = service
        self._context = context
        self._limits = limits
        self._warned_at = -WARN_EVERY_S

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:  # there are no more descriptors, or the client has gone already
                _LOG.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(_EXHAUSTED_S)
                continue
            await self._admit(connection)

    async def _admit(self, connection: socket.socket) -> None:
        if self._open >= self._limits.connections:
            self._refuse("connections")
            if (idle := self._oldest_idle()) is None:
                connection.close()
                return
            idle.abort()  # to be closed in order, it would have to wait for its client
        protocol = self._service()
        task = asyncio.create_task(self._shake_hands(connection, protocol))
        self.handshakes[task] = _Handshake(protocol, asyncio.get_running_loop().time())
        task.add_done_callback(self.handshakes.pop)
        while len(self.handshakes) >= self._limits.handshakes:
            await self._make_room()

    @property
    def _open(self) -> int:
        """How many connections are open; one that has just come in is still among the handshakes."""
        return len({*self._established(), *(one.protocol for one in self.handshakes.values())})

    def _established(self) -> list[OpenConnection]:
        """The connections after their handshake, the oldest first; without those that are being closed."""
        return [one for one in self._service.connections if one.transport and not one.transport.is_closing()]

    def _oldest_idle(self) -> asyncio.Transport | None:
        """The oldest connection that has no call in progress, or no whole head of one."""
        return next((one.transport for one in self._established() if not self._service.is_calling(one)), None)

    async def _make_room(self) -> None:
        """Wait until a handshake has ended; the oldest, if it has to, now that others wait."""
        oldest, handshake = next(iter(self.handshakes.items()))
        wait_s = handshake.began + self._limits.grace_s - asyncio.get_running_loop().time()
        await asyncio.wait(self.handshakes, timeout=max(wait_s, 0.0), return_when=asyncio.FIRST_COMPLETED)
        if len(self.handshakes) >= self._limits.handshakes:
            self._refuse("handshakes")
            oldest.cancel()
            await asyncio.wait([oldest])

    async def _shake_hands(self, connection: socket.socket, protocol: asyncio.BaseProtocol) -> None:
        connection.setblocking(False)
        timeout_s = self._limits.handshake_s if self._context else None
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=timeout_s
            )
        except (OSError, TimeoutError) as error:  # ssl's are among them
            _LOG.debug("a connection failed: %s", error)
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise

    def _refuse(self, what: Refusal) -> None:
        self._limits.refused(what)
        now = asyncio.get_running_loop().time()
        if now >= self._warned_at + WARN_EVERY_S:
            self._warned_at = now
            _LOG.warning("too many %s: closing some", what)

"""Runs a program for a cluster until it is stopped: its connection, signals and exit code.

SIGTERM and SIGINT end it in order. An unrecoverable error ends it with a message and status 1; it is meant to be
restarted.
"""

import asyncio
import ctypes
import logging
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from allocator.gates import Features, UnknownGate
from scheduler.client.connection import connect
from scheduler.client.discovery import NotServed, Served, ServedSince, discover
from scheduler.client.errors import CallFailed, NotConfigured
from scheduler.client.watch_states import HistoryLost
from scheduler.runtime.configuration import Allocating, Common
from scheduler.runtime.core import Site
from scheduler.runtime.leader_election import LeadershipLost
from scheduler.runtime.listening import CannotServe

# Returns unused memory to the system, as far as the C library keeps it.
#
# Only glibc does so; elsewhere this does nothing. Source: mallopt(3), malloc_trim(3).

LARGE_BLOCK = 1 << 19
"""Bytes of memory from which on a block is one of its own, and goes back to the system with what was in it.

More than the 256 KiB that the event loop reads TLS into: mapping memory for each read costs as much as the read.
"""

KEPT = 1 << 22
"""Bytes at the end of the heap that stay until memory is trimmed.

By default 128 KiB do: what TLS is read into would be given back to the system and taken again with each read.
"""

TRIMMED_EVERY_S = 60.0
"""How often smaller blocks go back, of which whole pages are free. It takes some milliseconds."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""glibc's numbers of these parameters."""


def give_back_large_blocks() -> None:
    """Keep the C library from raising the limit itself: one list of objects, or one huge object, would do for good."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(_M_TRIM_THRESHOLD, KEPT)


def trim() -> None:
    """Give back the pages that are free now, wherever they are: between blocks in use, the C library keeps them."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


async def keep_trimmed() -> None:
    """Trim now and then, until cancelled."""
    while True:
        await asyncio.sleep(TRIMMED_EVERY_S)
        trim()


# The event loop of all programs: uvloop, or asyncio's own where there is no uvloop.
#
# When a connection is lost while it is being made, uvloop closes the file descriptor of its socket, but the socket does
# not know, and closes that number again. Another connection may have it by then, and libuv ends the program (SIGABRT)
# when it is to wait for a number that is closed. An API server that restarts under load is enough.


try:
    import uvloop
except ImportError:  # there is none for some platforms
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:

    class _SocketOwningLoop(uvloop.Loop):
        async def create_connection(self, *args: Any, sock: socket.socket | None = None, **options: Any) -> Any:
            """As uvloop's, but a socket whose connection is lost meanwhile does not close its number once more."""
            made: tuple[Any, Any] | None = None
            try:
                made = await super().create_connection(*args, sock=sock, **options)
                return made
            finally:
                if sock is not None and (made is None or made[0].is_closing()):
                    sock.detach()

        async def sock_accept(self, sock: socket.socket) -> Any:
            """As asyncio's own, which takes what has come at once; uvloop takes one in each turn."""
            try:
                connection, address = sock.accept()
            except BlockingIOError:
                return await super().sock_accept(sock)
            connection.setblocking(False)
            return connection, address

    new_event_loop = _SocketOwningLoop


BESIDE_BINDINGS = 36
"""Calls that may be under way beside those that bind pods: lists, events, conditions, what is swept and taken back."""

_EXPECTED = (HistoryLost, LeadershipLost)
"""What ends a program in the middle of its work, and is no fault of its own."""

_LOG = logging.getLogger(__name__)


def run(work: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Work until SIGTERM or SIGINT sets the event; the exit status. Logging has to be set up."""
    give_back_large_blocks()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            runner.run(_until_stopped(work))
        except (NotConfigured, NotServed, CannotServe, UnknownGate, CallFailed, HistoryLost) as error:
            _LOG.error("%s", error)
            return 1
        except ExceptionGroup as broken:
            for leaf in _leaves(broken):
                _LOG.error("%s", leaf, exc_info=None if isinstance(leaf, _EXPECTED) else leaf)
            return 1
    return 0


async def _until_stopped(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    trimming = asyncio.create_task(keep_trimmed())
    try:
        await work(stop)
    finally:
        trimming.cancel()
    _LOG.info("stopped")


@asynccontextmanager
async def connected(configuration: Common) -> AsyncIterator[Site]:
    """The cluster, connected while the context is open. Raises NotConfigured, NotServed, UnknownGate, CallFailed."""
    client = configuration.client_connection
    kubeconfig = Path(client.kubeconfig) if client.kubeconfig else None
    bindings = configuration.binding_concurrency if isinstance(configuration, Allocating) else 0
    calls = bindings + BESIDE_BINDINGS
    async with connect(kubeconfig=kubeconfig, context=client.context or None, calls=calls) as connection:
        served = await discover(connection)
        features = _features(configuration, served)
        _LOG.info("connected to %s: %s", connection.server, served)
        _LOG.info("features: %s", features)
        since = ServedSince(connection, served)
        name = f"context {connection.context}" if connection.context else f"cluster {connection.server}"
        looking = asyncio.create_task(since.run())
        try:
            yield Site(connection, served, features, name, lambda: since.trouble)
        finally:
            looking.cancel()


def _features(configuration: Common, served: Served) -> Features:
    """The gates in force: what the server serves, unless the configuration knows better. Raises UnknownGate."""
    is_strict = isinstance(configuration, Allocating) and configuration.strict
    if configuration.kubernetes:
        return Features.of(configuration.kubernetes, configuration.feature_gates, is_strict=is_strict)
    features = served.features(configuration.feature_gates)
    return features.strictly() if is_strict else features


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error

"""The server on loopback, under the event loops that it has to work with, and clients that block in a thread."""

import asyncio
import http.client
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from scheduler.extender import wire
from scheduler.runtime.server import ServedVerbs, Verb, serving
from scheduler.runtime.tls import Certificates
from tests.unit.scheduler.loops import Loop

TIMEOUT_S = 30.0

Use = Callable[[str], Awaitable[None]]
"""What to do with the URL up to the verb."""

Answer = tuple[int, Any]
"""Status, and what the JSON of the body says."""


def echo(body: bytes) -> bytes:
    return b'{"length": %d}' % len(body)


def served(*names: str, verb: Verb = echo, most_calls: int = 5, **more: Any) -> ServedVerbs:
    """One verb for those of these names; for all where there are none."""
    called = more.pop("called", lambda *_: None)
    return ServedVerbs("/v1", {"filter": verb}, wire.error_result, names, most_calls, called, **more)


def run(
    loop: Loop, what: ServedVerbs, use: Callable[[str], Awaitable[None]], certificates: Certificates | None = None
) -> None:
    """Use what is served. use: gets the URL up to the verb."""

    async def within() -> None:
        async with serving("127.0.0.1:0", certificates.context if certificates else None, what) as url:
            await use(url)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(within())


async def ask(url: str, body: bytes = b"{}", *, context: ssl.SSLContext | None = None, verb: str = "filter") -> Answer:
    """The answer to one call over a connection of its own. Raises OSError where there is none."""
    return await asyncio.to_thread(_ask, url, body, context, verb)


def _ask(url: str, body: bytes, context: ssl.SSLContext | None, verb: str) -> Answer:
    where = urlsplit(url)
    with connected(url, context) as connection:
        client = http.client.HTTPConnection(str(where.hostname), where.port)
        client.sock = connection
        client.request("POST", f"{where.path}/{verb}", body)
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())


@contextmanager
def connected(
    url: str, context: ssl.SSLContext | None, session: ssl.SSLSession | None = None
) -> Iterator[socket.socket]:
    """A connection to the server, which has closed it as well when the context ends: no event loop ends before that.

    Raises OSError where there is none.
    """
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port), TIMEOUT_S) as plain:
        if context is None:
            yield plain
            return
        name = where.hostname
        with context.wrap_socket(
            plain, server_hostname=name, session=session, do_handshake_on_connect=False
        ) as secured:
            try:
                secured.do_handshake()
                yield secured
            finally:
                _await_end(secured)


def _await_end(connection: socket.socket) -> None:
    with suppress(OSError):  # it may be gone already
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1024):
            pass

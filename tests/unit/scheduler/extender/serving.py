"""The server on loopback, under the event loops that it has to work with, and clients that block in a thread."""

import asyncio
import http.client
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

from scheduler.extender.server import Served, Verb, serving
from scheduler.extender.tls import Certificates

PATIENCE_S = 30.0

Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])

Use = Callable[[str], Awaitable[None]]
"""What to do with the URL up to the verb."""

Answer = tuple[int, Any]
"""Status, and what the JSON of the body says."""


def echo(body: bytes) -> bytes:
    return b'{"length": %d}' % len(body)


def served(*names: str, verb: Verb = echo, most_calls: int = 5, **more: Any) -> Served:
    """One verb for those of these names; for all where there are none."""
    return Served("/v1", {"filter": verb}, names, most_calls, more.pop("called", lambda *_: None), **more)


def run(
    loop: Loop, what: Served, use: Callable[[str], Awaitable[None]], certificates: Certificates | None = None
) -> None:
    """Use what is served. use: gets the URL up to the verb."""

    async def within() -> None:
        async with serving("127.0.0.1:0", certificates, what) as url:
            await use(url)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(within())


async def ask(url: str, body: bytes = b"{}", *, context: ssl.SSLContext | None = None, verb: str = "filter") -> Answer:
    """The answer to one call over a connection of its own. Raises OSError where there is none."""
    return await asyncio.to_thread(_ask, url, body, context, verb)


def _ask(url: str, body: bytes, context: ssl.SSLContext | None, verb: str) -> Answer:
    where = urlsplit(url)
    assert where.hostname is not None
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=PATIENCE_S)
    if context is not None:
        connection = http.client.HTTPSConnection(where.hostname, where.port, timeout=PATIENCE_S, context=context)
    try:
        connection.request("POST", f"{where.path}/{verb}", body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()

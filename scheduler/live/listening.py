"""An HTTP server at an address of the configuration, for as long as a context is open."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from scheduler.live.configuration import host_and_port

STOPPED_S = 1.0
"""For so long calls under way may end when the server stops."""


class CannotServe(Exception):
    """Nothing can be served at the address; the message names the field that holds it."""


@asynccontextmanager
async def listening(
    field: str, address: str, application: web.Application, context: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serves the application, and gives its address, in which port 0 has become the one that was free.

    field: where the configuration holds the address, HOST:PORT. context: None for plain HTTP. Raises CannotServe.
    """
    host, port = host_and_port(address)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOPPED_S)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, ssl_context=context).start()
        except OSError as error:
            raise CannotServe(f"{field} {address}: {error.strerror or error}") from error
        yield f"{address.rpartition(':')[0]}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()

"""The sockets of aiohttp's connections, so that none outlives its event loop.

A call that is given up closes its connection as TLS has it: the connection waits until the server has said goodbye as
well, and aiohttp waits for neither. A loop that ends right after its session leaves such sockets open.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any
from weakref import WeakSet

_CLOSED_S = 5.0
_LOOK_EVERY_S = 0.001


class Sockets:
    """Those of one pool of connections, which is told to make them by `new`."""

    def __init__(self) -> None:
        self._open: WeakSet[socket.socket] = WeakSet()

    def new(self, address: tuple[Any, Any, int, str, Any]) -> socket.socket:
        """A socket for an address as `getaddrinfo` gives it: a `socket_factory` of aiohttp."""
        family, kind, protocol, _, _ = address
        found = socket.socket(family, kind, protocol)
        self._open.add(found)
        return found

    async def end(self) -> None:
        """Cut what is still open, and wait until the loop has closed it."""
        for found in self._still_open():
            with suppress(OSError):  # it was never connected, or the server was faster
                found.shutdown(socket.SHUT_RDWR)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _CLOSED_S
        while self._still_open() and loop.time() < deadline:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(_LOOK_EVERY_S)

    def _still_open(self) -> list[socket.socket]:
        return [found for found in self._open if found.fileno() >= 0]

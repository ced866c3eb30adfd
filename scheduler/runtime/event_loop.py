"""The event loop of all programs: uvloop, or asyncio's own where there is no uvloop.

When a connection is lost while it is being made, uvloop closes the file descriptor of its socket, but the socket does
not know, and closes that number again. Another connection may have it by then, and libuv ends the program (SIGABRT)
when it is to wait for a number that is closed. An API server that restarts under load is enough.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

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

    new_event_loop = _SocketOwningLoop

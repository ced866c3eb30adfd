"""A socket that the event loop was given is closed once: its number is soon another's."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import cast

from scheduler.runtime.running import new_event_loop


class Lost(asyncio.Protocol):
    """As if the server had ended the connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


def test_number_of_a_socket_whose_connection_is_lost_at_once_is_not_closed_again() -> None:
    async def lost(listening: socket.socket) -> None:
        mine = socket.create_connection(listening.getsockname())
        number = mine.fileno()
        transport, _ = await asyncio.get_running_loop().create_connection(Lost, sock=mine)
        assert transport.is_closing()
        os.dup2(listening.fileno(), number)  # in place of what is closed
        mine.close()
        os.fstat(number)
        os.close(number)

    _run(lost)


def test_socket_that_is_given_carries_the_connection() -> None:
    async def used(listening: socket.socket) -> None:
        mine = socket.create_connection(listening.getsockname())
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=mine)
        transport.write(b"hello")
        theirs, _ = listening.accept()
        with theirs:
            assert theirs.recv(5) == b"hello"
        transport.close()
        await asyncio.sleep(0)

    _run(used)


def _run(work: Callable[[socket.socket], Awaitable[None]]) -> None:
    async def worked() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await work(listening)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(worked())

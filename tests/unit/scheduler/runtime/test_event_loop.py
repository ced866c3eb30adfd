"""A socket that the event loop was given is closed once: its number is soon another's."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import cast

from scheduler.runtime.running import ACCEPTED, new_event_loop


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


def test_connections_that_have_come_are_accepted_together_and_leave_others_their_turn() -> None:
    async def accepted(listening: socket.socket) -> None:
        loop, turns = asyncio.get_running_loop(), list[int]()
        listening.setblocking(False)

        def turn() -> None:
            turns.append(1)
            loop.call_soon(turn)

        loop.call_soon(turn)
        with ExitStack() as opened:
            for _ in range(3 * ACCEPTED):
                opened.enter_context(socket.create_connection(listening.getsockname()))
                connection, _ = await loop.sock_accept(listening)
                assert opened.enter_context(connection).gettimeout() == 0
        assert len(turns) == 3

    _run(accepted)


def _run(work: Callable[[socket.socket], Awaitable[None]]) -> None:
    async def worked() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await work(listening)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(worked())

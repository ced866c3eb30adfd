"""A socket that the event loop was given is closed once: its number is soon another's."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import cast

import pytest

from scheduler.runtime import listening
from scheduler.runtime.listening import ACCEPTED
from scheduler.runtime.running import new_event_loop

Loop = Callable[[], asyncio.AbstractEventLoop]


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


class Counting(listening._Acceptor):
    """Counts the connections that are accepted in each turn of the event loop."""

    def __init__(self, number: int) -> None:
        super().__init__(cast(listening.Service, None), None, listening.Limits())
        self.in_turn = [0]
        self.are_all_there = asyncio.Event()
        self._number = number

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()

        def turn() -> None:
            self.in_turn.append(0)
            loop.call_soon(turn)

        loop.call_soon(turn)
        await super().accept(listener)

    async def _opened(self, connection: socket.socket) -> None:
        self.in_turn[-1] += 1
        if sum(self.in_turn) == self._number:
            self.are_all_there.set()
        connection.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])
def test_some_of_the_connections_that_have_come_are_accepted_in_a_turn(loop: Loop) -> None:
    async def accepted(listener: socket.socket) -> None:
        listener.setblocking(False)
        acceptor = Counting(5 * ACCEPTED)
        with ExitStack() as opened:
            for _ in range(5 * ACCEPTED):
                opened.enter_context(socket.create_connection(listener.getsockname()))
            accepting = asyncio.create_task(acceptor.accept(listener))
            await acceptor.are_all_there.wait()
            accepting.cancel()
        assert 1 < max(acceptor.in_turn) <= ACCEPTED

    _run(accepted, loop)


def _run(work: Callable[[socket.socket], Awaitable[None]], loop: Loop = new_event_loop) -> None:
    async def worked() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await work(listening)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(worked())

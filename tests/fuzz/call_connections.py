"""What clients write over a connection of calls, broken: each call is answered or refused, however it arrives."""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import cast

from scheduler.runtime.listening import LARGEST_HEAD
from scheduler.runtime.server import _VerbServer
from tests.fuzz.mutation import changed_text
from tests.fuzz.target import FuzzTarget
from tests.unit.scheduler.extender.serving import served

STEP = 7
"""Bytes that arrive at a time."""

_TOKENS = (
    *("\r\n\r\n", "\r\n", "\n", "\r", ":", " ", "\0", "HTTP/1.0", "HTTP/2.0", "GET", "/v1/bind", "?timeout=5s", "/"),
    *("Content-Length: 3\r\n", "Content-Length: 99999999999\r\n", "Content-Length: -1\r\n", "Connection: close\r\n"),
    *("Transfer-Encoding: chunked\r\n", "Content-Encoding: gzip\r\n", "Expect: 100-continue\r\n", "Origin: null\r\n"),
    *("Host: evil.example\r\n", "A: " + "a" * LARGEST_HEAD + "\r\n"),
)


class Client(asyncio.Transport):
    """A client that reads all answers."""

    def __init__(self) -> None:
        super().__init__()
        self.read = b""
        self._is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take an answer."""
        assert not self._is_closed, "nobody would read it"
        self.read += data

    def close(self) -> None:
        """Be sent away."""
        self._is_closed = True

    def is_closing(self) -> bool:
        """Whether it was."""
        return self._is_closed

    def pause_reading(self) -> None:
        """Be sent away, for each answer is ready at once, and read."""
        self._is_closed = True

    def abort(self) -> None:
        """Be cut off, later."""


def broken(rng: Random) -> str:
    """Some calls."""
    text = "".join(_call(rng) for _ in range(rng.randrange(1, 4)))
    return changed_text(rng, text, _TOKENS, _call(rng)) if rng.random() < 0.8 else text


def _call(rng: Random) -> str:
    body = "{}" * rng.randrange(3)
    more = "".join(rng.choice(_TOKENS[13:]) for _ in range(rng.randrange(2)))
    return f"POST /v1/filter HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {len(body)}\r\n\r\n{body}"


def is_answered(text: str) -> bool:
    """Whether any call was."""
    data = text.encode(errors="surrogatepass")
    answers = asyncio.run(_answers([data]))
    assert asyncio.run(_answers(data[at : at + STEP] for at in range(0, len(data), STEP))) == answers
    assert not answers or answers.startswith(b"HTTP/1.1 ")
    return b"HTTP/1.1 200 OK" in answers


async def _answers(pieces: Iterable[bytes]) -> bytes:
    client, connection = Client(), _VerbServer(served())()
    connection.connection_made(cast(asyncio.BaseTransport, client))
    for piece in pieces:
        if not client.is_closing():
            connection.data_received(piece)
    connection.connection_lost(None)
    return client.read.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")  # a body that has come was not waited for


TARGET = FuzzTarget(broken, is_answered, longest_s=20)

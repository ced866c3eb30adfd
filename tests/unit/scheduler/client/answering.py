"""A server on loopback for connections: it reads requests, and answers when it is told to."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from socket import create_server, socket

from scheduler.client.connection import Connection, connect


class Requests:
    """Requests as they come; each waits for its answer."""

    def __init__(self) -> None:
        self._came: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self._open: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                if "content-length: " in head:
                    await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
                self._came.put_nowait(writer)

    async def close(self) -> None:
        """Leave no connection open."""
        for writer in self._open:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def next(self) -> asyncio.StreamWriter:
        """The next request that has come, to be answered."""
        return await self._came.get()

    @property
    def waiting(self) -> int:
        """Requests that have come and were not looked at."""
        return self._came.qsize()


def answer(to: asyncio.StreamWriter, status: int = 200, body: object = None) -> None:
    """Answer a request."""
    to.write(an_answer(status, {} if body is None else body))


def an_answer(status: int, body: object) -> bytes:
    content = json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


@asynccontextmanager
async def connected(folder: Path, calls: int = 8, **user: object) -> AsyncIterator[tuple[Connection, Requests]]:
    """A connection to such a server."""
    requests = Requests()
    server = await asyncio.start_server(requests.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        async with connect(kubeconfig=kubeconfig(folder, port, user=user), calls=calls) as connection:
            yield connection, requests
        await requests.close()


class Beside:
    """What a server in a thread has done: it answers whatever the loop does meanwhile."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.has_come = threading.Event()
        self._may_answer = threading.Event()
        self._has_answered = threading.Event()

    def answer(self) -> None:
        """Let it answer, and wait until the answer lies in the socket."""
        self._may_answer.set()
        self._has_answered.wait()

    def serve(self, listening: socket) -> None:
        client, _ = listening.accept()
        with client:
            while not client.recv(65536).endswith(b"}"):  # the end of a body
                pass
            self.has_come.set()
            self._may_answer.wait()
            client.sendall(an_answer(200, {"kind": "Pod"}))
            self._has_answered.set()
            client.recv(1)  # until the client goes


@contextmanager
def beside() -> Iterator[Beside]:
    """A server of one request in a thread of its own."""
    with create_server(("127.0.0.1", 0)) as listening:
        server = Beside(listening.getsockname()[1])
        thread = threading.Thread(target=server.serve, args=[listening])
        thread.start()
        yield server
        thread.join()


def kubeconfig(folder: Path, port: int, scheme: str = "http", user: Mapping[str, object] | None = None) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"{scheme}://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return path

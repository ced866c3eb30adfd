"""Calls of the API server with bodies that no JSON library has to write, and watches whose lines none has to read."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple, Self

import aiohttp
import orjson

from tests.controlplane.identities import Identity
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import Json

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

_CALL = aiohttp.ClientTimeout(total=60)
_WATCH = aiohttp.ClientTimeout(total=None, sock_read=300)
_READ_BYTES = 1 << 22


class Call(NamedTuple):
    """One call. path: with its query."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON


class Answer(NamedTuple):
    """status: 0 where none came."""

    status: int
    body: bytes

    @property
    def is_yes(self) -> bool:
        return 200 <= self.status < 300


class Client:
    """One identity at the API server while the context is open."""

    def __init__(self, plane: ControlPlane, identity: Identity) -> None:
        self._server = plane.server
        self._tls = ssl.create_default_context(cafile=plane.ca_file)
        self._token = _token(plane, identity)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
            headers={"Authorization": f"Bearer {self._token}"},
            read_bufsize=_READ_BYTES,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(self, call: Call) -> Answer:
        """What comes of the call; what breaks on the way is an answer too."""
        headers = {"Content-Type": call.content_type}
        url = self._server + call.path
        try:
            async with self._session.request(
                call.method, url, data=call.body or None, headers=headers, timeout=_CALL
            ) as answer:
                return Answer(answer.status, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Answer(0, f"{type(error).__name__}: {error}".encode())

    async def ask(self, path: str) -> Json:
        """The object at the path. Raises ConnectionError where there is none."""
        answer = await self.send(Call("GET", path))
        if not answer.is_yes:
            raise ConnectionError(f"GET {path}: {answer.status} {answer.body[:200]!r}")
        found: Json = orjson.loads(answer.body)
        return found

    async def watch(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a watch until the server ends it."""
        async with self._session.get(self._server + path, timeout=_WATCH) as answer:
            answer.raise_for_status()
            started: list[bytes] = []
            async for chunk in answer.content.iter_any():
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    yield b"".join((*started, line))
                    started.clear()
                started.append(rest)


def _token(plane: ControlPlane, identity: Identity) -> str:
    path: Path = plane.token_file(identity)
    return path.read_text()


def collection(resource: str, namespace: str = "") -> str:
    """The path of all pods, claims or templates (of a namespace)."""
    root = "/api/v1" if resource == "pods" else "/apis/resource.k8s.io/v1"
    return f"{root}/namespaces/{namespace}/{resource}" if namespace else f"{root}/{resource}"

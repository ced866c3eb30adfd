"""Whom a connection trusts, as whom it speaks, and that it leaves no socket behind."""

import asyncio
import base64
import gc
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from scheduler.client.connection import connect
from scheduler.client.errors import NotConfigured, Unanswered

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def server(authority: trustme.CA, serve: Serve, *, name: str = "127.0.0.1") -> AsyncIterator[str]:
    """A server with a certificate of that name; asks each client for one of the same authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_OPTIONAL
    authority.issue_cert(name).configure_cert(context)
    authority.configure_trust(context)
    running = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    finally:
        running.close()
        await running.wait_closed()


def kubeconfig(folder: Path, url: str, *, user: dict[str, str] | None = None, **cluster: object) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return path


def data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def trusted(authority: trustme.CA) -> dict[str, Any]:
    return {"certificate-authority-data": data(authority.cert_pem.bytes())}


class Served:
    """What a server was told: the certificates' names of its clients."""

    def __init__(self) -> None:
        self.clients: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown: dict[str, Any] | None = writer.get_extra_info("peercert")
        self.clients += [value for kind, value in (shown or {}).get("subjectAltName", ()) if kind == "DNS"]
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        await reader.read()
        writer.close()


def call(authority: trustme.CA, folder: Path, name: str = "127.0.0.1", **config: Any) -> Served:
    """One call of a server of that name, with such a kubeconfig."""
    served = Served()

    async def calling() -> None:
        async with (
            server(authority, served, name=name) as url,
            connect(kubeconfig=kubeconfig(folder, url, **config)) as connection,
        ):
            assert await connection.request("GET", "/version") == {}

    asyncio.run(calling())
    return served


def test_server_of_the_named_authority_is_trusted(authority: trustme.CA, tmp_path: Path) -> None:
    assert call(authority, tmp_path, **trusted(authority)).clients == []


def test_server_of_another_authority_is_refused(authority: trustme.CA, tmp_path: Path) -> None:
    with pytest.raises(Unanswered, match="CERTIFICATE_VERIFY_FAILED") as refused:
        call(authority, tmp_path, **trusted(trustme.CA()))
    assert not refused.value.is_ambiguous


def test_server_of_another_name_is_refused_unless_that_is_expected(authority: trustme.CA, tmp_path: Path) -> None:
    with pytest.raises(Unanswered, match="CERTIFICATE_VERIFY_FAILED"):
        call(authority, tmp_path, "kubernetes.default", **trusted(authority))
    call(authority, tmp_path, "kubernetes.default", **trusted(authority), **{"tls-server-name": "kubernetes.default"})


def test_any_server_will_do_where_the_kubeconfig_says_so(authority: trustme.CA, tmp_path: Path) -> None:
    call(authority, tmp_path, "elsewhere", **{"insecure-skip-tls-verify": True})


def test_client_shows_its_certificate(authority: trustme.CA, tmp_path: Path) -> None:
    own = authority.issue_cert("me.example")
    shown = {
        "client-certificate-data": data(b"".join(pem.bytes() for pem in own.cert_chain_pems)),
        "client-key-data": data(own.private_key_pem.bytes()),
    }
    assert call(authority, tmp_path, user=shown, **trusted(authority)).clients == ["me.example"]


def test_authority_that_is_none_is_refused_by_its_field(authority: trustme.CA, tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match=r"certificate-authority.* cannot be used: .*no certificate"):
        call(authority, tmp_path, **{"certificate-authority-data": data(b"none")})


def test_key_of_another_certificate_is_refused_by_its_field(authority: trustme.CA, tmp_path: Path) -> None:
    own, other = authority.issue_cert("me.example"), authority.issue_cert("other.example")
    shown = {
        "client-certificate-data": data(own.cert_chain_pems[0].bytes()),
        "client-key-data": data(other.private_key_pem.bytes()),
    }
    with pytest.raises(
        NotConfigured, match=r"client-certificate or client-key.* cannot be used: .*KEY_VALUES_MISMATCH"
    ):
        call(authority, tmp_path, user=shown, **trusted(authority))


def open_sockets(port: int) -> list[int]:
    """The local ports of this process's connections, but for the server's own at that port."""
    sockets = [one for one in gc.get_objects() if isinstance(one, socket.socket) and one.fileno() >= 0]
    ports = [one.getsockname()[1] for one in sockets if one.family == socket.AF_INET]
    return sorted(own for own in ports if own != port)


def test_call_that_is_given_up_leaves_no_socket_though_the_server_never_says_goodbye(
    authority: trustme.CA, tmp_path: Path
) -> None:
    async def giving_up() -> None:
        asked, ended = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.transport.pause_reading()  # type: ignore[attr-defined] # streams have a transport for both ways
            asked.set()
            await ended.wait()
            writer.transport.abort()

        async with server(authority, silent) as url:
            port = int(url.rpartition(":")[2])
            before = open_sockets(port)
            async with connect(kubeconfig=kubeconfig(tmp_path, url, **trusted(authority))) as connection:
                task = asyncio.create_task(connection.request("GET", "/version"))
                await asked.wait()
                assert len(open_sockets(port)) == len(before) + 1
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert open_sockets(port) == before
            ended.set()

    asyncio.run(giving_up())

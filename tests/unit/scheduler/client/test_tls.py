"""Whom a connection trusts, as whom it speaks, and that it leaves no socket behind."""

import asyncio
import base64
import json
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from scheduler.client.connection import Connection, connect
from scheduler.client.errors import NotConfigured, Unanswered
from tests.unit.scheduler.loops import LOOPS, Loop, left_open

TIMEOUT_S = 30.0
MORE_THAN_THE_NETWORK_TAKES = 2**23
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
LAST_ANSWER = ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

Serve = Callable[[ssl.SSLSocket], None]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@contextmanager
def server(authority: trustme.CA, serve: Serve, *, name: str = "127.0.0.1") -> Iterator[str]:
    """The address of a server for one connection, with a certificate of that name; asks its client for one as well.

    It is on a thread of its own, so that all sockets of an event loop are the client's.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_OPTIONAL
    authority.issue_cert(name).configure_cert(context)
    authority.configure_trust(context)

    def run() -> None:
        # A client that breaks off has its reasons, which it tells itself.
        with listening.accept()[0] as plain, suppress(OSError), context.wrap_socket(plain, server_side=True) as secured:
            serve(secured)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as thread:
        listening.settimeout(TIMEOUT_S)
        running = thread.submit(run)
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        running.result(TIMEOUT_S)


def read_head(connection: ssl.SSLSocket) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        came = connection.recv(1024)
        if not came:
            raise ConnectionResetError("in the middle of a call")
        head += came


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


class TlsServed:
    """The names in the certificates of a server's clients."""

    def __init__(self) -> None:
        self.clients: list[str] = []

    def __call__(self, connection: ssl.SSLSocket) -> None:
        shown: dict[str, Any] | None = connection.getpeercert()
        self.clients += [value for kind, value in (shown or {}).get("subjectAltName", ()) if kind == "DNS"]
        read_head(connection)
        connection.sendall(ANSWER)
        connection.recv(1)


def call(authority: trustme.CA, folder: Path, name: str = "127.0.0.1", **config: Any) -> TlsServed:
    """One call of a server of that name, with such a kubeconfig."""
    served = TlsServed()
    with server(authority, served, name=name) as url:
        asyncio.run(calling(kubeconfig(folder, url, **config)))
    return served


async def calling(path: Path) -> None:
    async with connect(kubeconfig=path) as connection:
        assert await connection.request("GET", "/version") == {}


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


def refused(folder: Path, **config: Any) -> str:
    """Why nobody is called with such a kubeconfig."""
    path = kubeconfig(folder, "https://127.0.0.1:1", **config)
    with pytest.raises(NotConfigured) as reported:
        asyncio.run(calling(path))
    return str(reported.value)


def test_authority_that_is_none_is_refused_by_its_field(tmp_path: Path) -> None:
    reported = refused(tmp_path, **{"certificate-authority-data": data(b"none")})
    assert re.search(
        r"certificate-authority of the kubeconfig holds no certificates in PEM: .*no certificate", reported
    )


def test_key_of_another_certificate_is_refused_by_its_field(authority: trustme.CA, tmp_path: Path) -> None:
    own, other = authority.issue_cert("me.example"), authority.issue_cert("other.example")
    shown = {
        "client-certificate-data": data(own.cert_chain_pems[0].bytes()),
        "client-key-data": data(other.private_key_pem.bytes()),
    }
    reported = refused(tmp_path, user=shown, **trusted(authority))
    assert re.search(r"client-certificate and client-key .* with its key: .*KEY_VALUES_MISMATCH", reported)


class TlsSilent:
    """A server that gives an answer, and then reads and says nothing more until the test has ended."""

    def __init__(self, answer: bytes) -> None:
        self.answered, self.ended = threading.Event(), threading.Event()
        self._answer = answer

    def __call__(self, connection: ssl.SSLSocket) -> None:
        read_head(connection)
        connection.sendall(self._answer)
        self.answered.set()
        self.ended.wait(TIMEOUT_S)


Use = Callable[[Connection, TlsSilent], Awaitable[None]]


async def ask(connection: Connection, _: TlsSilent) -> None:
    assert await connection.request("GET", "/version") == {}


async def give_up(connection: Connection, silent: TlsSilent, method: str = "GET", body: object = None) -> None:
    task = asyncio.create_task(connection.request(method, "/version", body=body))
    assert await asyncio.to_thread(silent.answered.wait, TIMEOUT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def give_up_sending(connection: Connection, silent: TlsSilent) -> None:
    await give_up(connection, silent, "POST", "x" * MORE_THAN_THE_NETWORK_TAKES)


async def ask_and_be_idle(connection: Connection, silent: TlsSilent) -> None:
    pool: Any = connection._exchanges._connector
    pool._keepalive_timeout = 0.001
    await ask(connection, silent)
    while pool._conns:  # noqa: ASYNC110 - the pool tells nobody
        await asyncio.sleep(0)


ENDS: Mapping[str, tuple[bytes, Use]] = {
    "answered": (ANSWER, ask),
    "answered for the last time": (LAST_ANSWER, ask),
    "idle for too long": (ANSWER, ask_and_be_idle),
    "given up": (b"", give_up),
    "given up in the middle of the answer": (ANSWER[:-1], give_up),
    "given up while sending": (b"", give_up_sending),
}


@LOOPS
@pytest.mark.parametrize("end", ENDS)
def test_no_connection_is_left_open_though_the_server_never_says_goodbye(
    authority: trustme.CA, tmp_path: Path, loop: Loop, end: str
) -> None:
    answer, use = ENDS[end]
    silent = TlsSilent(answer)

    async def using(path: Path) -> None:
        async with connect(kubeconfig=path) as connection:
            await use(connection, silent)

    with server(authority, silent) as url:
        left = left_open(loop, using(kubeconfig(tmp_path, url, **trusted(authority))))
        silent.ended.set()
    assert left == []

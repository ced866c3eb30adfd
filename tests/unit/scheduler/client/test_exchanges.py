"""What is sent to a server, byte by byte, directly and through a proxy, and over a connection that was kept."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme

from scheduler.client.api_resources import PODS
from scheduler.client.connection import Connection, connect
from scheduler.client.errors import Unanswered
from tests.unit.scheduler.client.answering import an_answer, kubeconfig

OK = an_answer(200, {})
TUNNELLED = b"HTTP/1.1 200 Connection established\r\n\r\n"
CUT = b""


class Peer:
    """A server of requests, or a proxy in front of one. answers: the next ones; CUT closes instead of answering.

    requests: each request's lines and body.
    """

    def __init__(self, *answers: bytes) -> None:
        self.requests: list[tuple[list[str], bytes]] = []
        self.connections = 0
        self._answers = list(answers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._one(reader, writer):
                pass
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        length = next((int(line.split(": ")[1]) for line in lines if line.startswith("Content-Length: ")), 0)
        self.requests.append((lines, await reader.readexactly(length)))
        answer = self._answers.pop(0) if self._answers else OK
        writer.write(answer)
        if answer == TUNNELLED:
            await writer.start_tls(self.tls)
        return answer != CUT

    tls: ssl.SSLContext

    def fields(self, number: int = 0) -> dict[str, str]:
        return dict(line.split(": ", 1) for line in self.requests[number][0][1:])


@asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[int]:
    """The port of the peer, which ends when its clients have gone."""
    serving: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        await peer.serve(reader, writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*filter(None, serving))


def sent(peer: Peer, folder: Path, use: Callable[[Connection], Awaitable[object]], **user: object) -> int:
    """What the peer gets of what is done with a connection to it; its port."""

    async def using() -> int:
        async with (
            listening(peer) as port,
            connect(kubeconfig=kubeconfig(folder, port, user=user)) as connection,
        ):
            await use(connection)
        return port

    return asyncio.run(using())


async def put(connection: Connection) -> object:
    return await connection.request("PUT", "/a", body={"a": 1}, content_type="application/json")


async def get(connection: Connection) -> object:
    return await connection.request("GET", "/a")


def test_write_has_its_body_and_says_what_it_is_and_who_sends_it(tmp_path: Path) -> None:
    peer = Peer()
    port = sent(peer, tmp_path, put, token="secret")  # noqa: S106 - of no server
    ((lines, body),) = peer.requests
    assert (lines[0], body) == ("PUT /a HTTP/1.1", b'{"a":1}')
    fields = peer.fields()
    assert fields.pop("User-Agent").startswith("dra-scheduler/")
    assert fields == {
        "Host": f"127.0.0.1:{port}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": "Bearer secret",
        "Content-Type": "application/json",
        "Content-Length": "7",
    }


def test_read_has_no_body_and_does_not_speak_of_one(tmp_path: Path) -> None:
    peer = Peer()
    sent(peer, tmp_path, lambda connection: connection.request("GET", "/a", query={"labelSelector": "a=b c,d&e"}))
    assert peer.requests[0][0][0] == "GET /a?labelSelector=a%3Db+c%2Cd%26e HTTP/1.1"
    assert not {"Content-Type", "Content-Length", "Authorization"} & set(peer.fields())


@pytest.mark.parametrize(
    ("name", "as_sent"),
    [
        ("gpu-1.example", "gpu-1.example"),
        ("system:node", "system:node"),
        ("a b", "a%20b"),
        ("a?dryRun=All", "a%3FdryRun=All"),
        ("a#b", "a%23b"),
        ("a%2e", "a%252e"),
        ("ü", "%C3%BC"),
        ("a HTTP/1.1\r\nX: y", "a%20HTTP%2F1.1%0D%0AX:%20y"),
        ("../../secrets", "..%2F..%2Fsecrets"),
    ],
)
def test_name_is_one_segment_of_the_path_whatever_it_holds(name: str, as_sent: str, tmp_path: Path) -> None:
    peer = Peer()
    sent(peer, tmp_path, lambda connection: connection.request("GET", PODS.path("ns", name)))
    assert peer.requests[0][0][0] == f"GET /api/v1/namespaces/ns/pods/{as_sent} HTTP/1.1"


@pytest.mark.parametrize("path", ["/a b", "/a?b", "/a#b", "/a\r\nX: y", "/\u00fc", "a", ""])
def test_path_that_nobody_has_quoted_is_sent_to_nobody(path: str, tmp_path: Path) -> None:
    peer = Peer()
    with pytest.raises(Unanswered, match=r"is not one$") as refused:
        sent(peer, tmp_path, lambda connection: connection.request("GET", path))
    assert not refused.value.is_ambiguous
    assert peer.connections == 0


def test_token_of_several_lines_is_sent_to_nobody(tmp_path: Path) -> None:
    peer = Peer()
    with pytest.raises(Unanswered, match="the header Authorization has more than one line") as refused:
        sent(peer, tmp_path, put, token="a\r\nX-Remote-User: admin")  # noqa: S106 - of no server
    assert not refused.value.is_ambiguous
    assert peer.connections == 0


@pytest.mark.parametrize("status", [100, 102, 103])
def test_response_is_the_final_one(status: int, tmp_path: Path) -> None:
    peer = Peer(b"HTTP/1.1 %d X\r\n\r\n" % status + an_answer(200, {"kind": "Pod"}))
    found: list[object] = []

    async def use(connection: Connection) -> None:
        found.append(await put(connection))

    sent(peer, tmp_path, use)
    assert found == [{"kind": "Pod"}]


def test_response_that_is_announced_again_and_again_has_not_come(tmp_path: Path) -> None:
    peer = Peer(b"HTTP/1.1 100 Continue\r\n\r\n" * 33 + an_answer(200, {"kind": "Pod"}), OK)

    async def use(connection: Connection) -> None:
        with pytest.raises(Unanswered, match="more than 32 interim responses") as failed:
            await put(connection)
        assert failed.value.is_ambiguous
        assert await put(connection) == {}

    sent(peer, tmp_path, use)
    assert peer.connections == 2


def test_response_in_chunks_is_put_together(tmp_path: Path) -> None:
    peer = Peer(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{"a": \r\n2\r\n1}\r\n0\r\n\r\n')
    found: list[object] = []

    async def use(connection: Connection) -> None:
        found.extend([await put(connection), await put(connection)])

    sent(peer, tmp_path, use)
    assert (found, peer.connections) == ([{"a": 1}, {}], 1)


def test_response_that_is_no_http_leaves_the_outcome_of_a_write_open(tmp_path: Path) -> None:
    with pytest.raises(Unanswered) as failed:
        sent(Peer(b"SSH-2.0-OpenSSH_9.2\r\n"), tmp_path, put)
    assert failed.value.is_ambiguous


def test_read_over_a_kept_connection_that_was_cut_is_sent_again(tmp_path: Path) -> None:
    peer = Peer(OK, CUT, OK)

    async def use(connection: Connection) -> None:
        await put(connection)
        assert await get(connection) == {}

    sent(peer, tmp_path, use)
    assert [lines[0].split()[0] for lines, _ in peer.requests] == ["PUT", "GET", "GET"]
    assert peer.connections == 2


def test_read_is_sent_twice_at_most(tmp_path: Path) -> None:
    peer = Peer(CUT, CUT, OK)
    with pytest.raises(Unanswered, match="ServerDisconnectedError"):
        sent(peer, tmp_path, get)
    assert len(peer.requests) == 2


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
def test_write_over_a_kept_connection_that_was_cut_is_not_sent_again(method: str, tmp_path: Path) -> None:
    peer = Peer(OK, CUT, OK)

    async def use(connection: Connection) -> None:
        await get(connection)
        with pytest.raises(Unanswered) as failed:
            await connection.request(method, "/a")
        assert failed.value.is_ambiguous

    sent(peer, tmp_path, use)
    assert [lines[0].split()[0] for lines, _ in peer.requests] == ["GET", method]


def test_response_that_nobody_has_asked_for_answers_no_later_call(tmp_path: Path) -> None:
    peer = Peer(OK + an_answer(200, {"kind": "Stray"}), an_answer(200, {"kind": "Own"}))

    async def use(connection: Connection) -> None:
        assert await put(connection) == {}
        assert await put(connection) == {"kind": "Own"}

    sent(peer, tmp_path, use)
    assert peer.connections == 2


# -- proxies


def of(proxy: int, *, folder: Path, server: str, authority: trustme.CA | None = None) -> Path:
    path = kubeconfig(folder, 1)
    given = f'"proxy-url": "http://user:word@127.0.0.1:{proxy}"'
    if authority is not None:
        given += f', "certificate-authority-data": "{base64.b64encode(authority.cert_pem.bytes()).decode()}"'
    path.write_text(path.read_text().replace('"server": "http://127.0.0.1:1"', f'"server": "{server}", {given}'))
    return path


BASIC = "Basic " + base64.b64encode(b"user:word").decode()


def test_proxy_tunnels_calls_of_a_server_with_tls(tmp_path: Path) -> None:
    authority, peer = trustme.CA(), Peer(TUNNELLED)
    peer.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("api.example").configure_cert(peer.tls)

    async def using() -> None:
        async with listening(peer) as port:
            path = of(port, folder=tmp_path, server="https://api.example:6443/k8s", authority=authority)
            async with connect(kubeconfig=path) as connection:
                assert await put(connection) == {}
                assert await put(connection) == {}

    asyncio.run(using())
    assert [lines[0] for lines, _ in peer.requests] == [
        "CONNECT api.example:6443 HTTP/1.1",
        "PUT /k8s/a HTTP/1.1",
        "PUT /k8s/a HTTP/1.1",
    ]
    assert peer.fields(0)["Proxy-Authorization"] == BASIC
    assert peer.fields(1)["Host"] == "api.example:6443"
    assert "Proxy-Authorization" not in peer.fields(1)


def test_proxy_passes_on_calls_of_a_server_without_tls(tmp_path: Path) -> None:
    peer = Peer()

    async def using() -> None:
        async with (
            listening(peer) as port,
            connect(kubeconfig=of(port, folder=tmp_path, server="http://api.example:8080/k8s")) as connection,
        ):
            assert await put(connection) == {}

    asyncio.run(using())
    assert peer.requests[0][0][0] == "PUT http://api.example:8080/k8s/a HTTP/1.1"
    assert (peer.fields()["Host"], peer.fields()["Proxy-Authorization"]) == ("api.example:8080", BASIC)

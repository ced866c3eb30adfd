"""Over plain HTTP, only requests that name this machine are answered, so that no web page reads what is served."""

import asyncio
from collections.abc import Collection, Mapping

import aiohttp
import pytest

from scheduler.runtime import health, server
from scheduler.runtime.configuration import Configuration, InvalidConfiguration, load
from scheduler.runtime.health import Access, Secure
from scheduler.runtime.tls import self_signed
from tests.unit.scheduler.extender.serving import served as served_verbs
from tests.unit.scheduler.runtime.test_access import Reviews
from tests.unit.scheduler.runtime.test_health import served

PATHS = ("/", "/livez", "/metrics", "/debug/queue", "/nothing")
OURS = ("localhost", "localhost:10260", "LOCALHOST:1", "localhost.", "127.0.0.1:8", "127.1.2.3", "[::1]:10260", "[::1]")
OTHERS = (
    *("evil.example", "evil.example:10260", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"),
    *("0.0.0.0:1", "[::]:1", ""),
)
INVALID = ("[::1", "user@evil.example", "evil.example#localhost", "caf\u00e9.example")


def answers(host: str, allowed: Collection[str] = (), secured: Secure | None = None) -> Mapping[str, tuple[int, str]]:
    """Status and text of each path under that name."""

    async def ask() -> Mapping[str, tuple[int, str]]:
        connector = aiohttp.TCPConnector(ssl=False)
        async with (
            health.serving("127.0.0.1:0", served(), secured, allowed) as url,
            aiohttp.ClientSession(url, headers={"Host": host}, connector=connector) as session,
        ):
            found = {}
            for path in PATHS:
                async with session.get(path) as answer:
                    found[path] = answer.status, await answer.text()
            return found

    return asyncio.run(ask())


@pytest.mark.parametrize("host", OURS)
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert [status for status, _ in answers(host).values()] == [200, 200, 200, 200, 404]


@pytest.mark.parametrize("host", OTHERS)
def test_every_other_name_is_refused_on_every_path(host: str) -> None:
    found = answers(host)
    assert {status for status, _ in found.values()} == {421}
    assert all("is not served over plain HTTP: use localhost" in text for _, text in found.values())
    assert found["/metrics"][1].isascii()


@pytest.mark.parametrize("host", INVALID)
def test_what_is_no_name_is_refused_on_every_path(host: str) -> None:
    assert {status for status, _ in answers(host).values()} == {400}


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://evil.example/metrics", "localhost", 421),
        ("http://evil.example:80/metrics", "127.0.0.1", 421),
        ("http://localhost@evil.example/metrics", "localhost", 421),
        ("http://localhost:10260/metrics", "evil.example", 200),
    ],
)
def test_host_of_a_target_that_is_a_url_counts_for_that_of_the_header(target: str, host: str, status: int) -> None:
    async def ask() -> bytes:
        async with health.serving("127.0.0.1:0", served()) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            line = await reader.readline()
            writer.close()
            return line

    assert asyncio.run(ask()).startswith(b"HTTP/1.1 %d " % status)


def test_names_that_are_configured_are_answered_with_any_port() -> None:
    for host in ("proxy.example", "Proxy.Example:443", "proxy.example."):
        assert answers(host, ["proxy.example"])["/metrics"][0] == 200
    assert answers("other.example", ["proxy.example"])["/metrics"][0] == 421


def test_over_https_the_certificate_says_who_is_asked() -> None:
    secured = Secure(self_signed()[0], Access(Reviews(), lambda: 0.0), ("/livez",))
    found = answers("node.example:10260", secured=secured)
    assert {path: status for path, (status, _) in found.items()} == {**dict.fromkeys(PATHS, 401), "/livez": 200}


def called(headers: Mapping[str, str], hosts: Collection[str] = ()) -> tuple[int, str]:
    """The answer to a call of the extender."""

    async def ask() -> tuple[int, str]:
        async with (
            server.serving("127.0.0.1:0", None, served_verbs(hosts=hosts)) as url,
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"{url}/filter", data=b"{}") as answer,
        ):
            return answer.status, await answer.text()

    return asyncio.run(ask())


def test_the_extender_answers_no_web_page() -> None:
    assert called({})[0] == 200
    status, text = called({"Host": "evil.example"})
    assert (status, "evil.example is not served over plain HTTP" in text) == (421, True)
    assert called({"Host": "near.example"}, hosts=["near.example"])[0] == 200
    assert called({"Origin": "http://127.0.0.1:1"}) == (403, '{"Error":"calls of web pages are not answered"}')


@pytest.mark.parametrize(
    "host", ["", "a b", "a/b", "proxy.example:443", "Proxy.example", "[::1]", "http://proxy.example"]
)
def test_a_host_that_is_none_is_refused_by_the_configuration(host: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"secureServing.allowedHosts\[0\]"):
        load(Configuration, None, {"secureServing": {"allowedHosts": [host]}})


def test_hosts_of_the_configuration() -> None:
    found = load(Configuration, None, {"secureServing": {"allowedHosts": ["proxy.example", "10.0.0.1"]}})
    assert found.secure_serving.allowed_hosts == ["proxy.example", "10.0.0.1"]

"""What is served over HTTPS is for those that may read it, and probes are for everybody."""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
import trustme

from scheduler.runtime.configuration import Configuration, InvalidConfiguration, load
from scheduler.runtime.health import Access, Secure, secure, serving
from scheduler.runtime.tls import self_signed
from tests.unit.scheduler.loops import LOOPS, Loop
from tests.unit.scheduler.runtime.test_access import Reviews
from tests.unit.scheduler.runtime.test_health import served

PATHS = ("/healthz", "/livez", "/readyz", "/metrics", "/debug/queue", "/", "/nothing")
OPEN = ("/healthz", "/livez", "/readyz")

UNCHECKED = ssl.create_default_context()
UNCHECKED.check_hostname = False
UNCHECKED.verify_mode = ssl.CERT_NONE


def a_configuration(**fields: object) -> Configuration:
    return load(Configuration, None, fields)


async def statuses(secured: Secure | None, authorization: str = "", trusted: Path | None = None) -> dict[str, int]:
    """What each path answers with."""
    tls = ssl.create_default_context(cafile=trusted) if trusted else False
    headers = {"Authorization": authorization} if authorization else {}
    async with (
        serving("127.0.0.1:0", served(), secured) as url,
        aiohttp.ClientSession(url, headers=headers, connector=aiohttp.TCPConnector(ssl=tls)) as session,
    ):
        found = {}
        for path in PATHS:
            async with session.get(path) as answer:
                found[path] = answer.status
        return found


def test_probes_are_open_and_all_else_needs_a_token_and_a_right() -> None:
    async def found(authorization: str) -> Mapping[str, int]:
        secured = secure(a_configuration(healthAddress="0.0.0.0:0"), Reviews())
        return await statuses(secured, authorization)

    def expected(rest: int, **others: int) -> Mapping[str, int]:
        return {**dict.fromkeys(PATHS, rest), **dict.fromkeys(OPEN, 200), **{f"/{k}": v for k, v in others.items()}}

    assert asyncio.run(found("")) == expected(401)
    assert asyncio.run(found("Bearer nobody")) == expected(401)
    assert asyncio.run(found("Bearer t")) == expected(403, metrics=200)


NAMING = "claims a/b and c/d hold device gpu-0"
VERBOSE = "/readyz?verbose"


def test_why_a_probe_fails_is_for_those_who_may_read_the_queue() -> None:
    """Such texts name claims and pods of all namespaces, and what the API server has answered."""
    what = served(ready={"writes": lambda: NAMING}, warnings={"devices": lambda: NAMING, "others": lambda: ""})

    async def text(path: str, authorization: str, *open_paths: str) -> str:
        reviews = Reviews()
        reviews.known["tenant"] = {"username": "tenant"}
        reviews.allowed = {("alice", "/debug/queue"), ("tenant", "/readyz")}
        secured = Secure(self_signed()[0], Access(reviews, lambda: 0.0), (*OPEN, *open_paths))
        headers = {"Authorization": authorization} if authorization else {}
        async with (
            serving("127.0.0.1:0", what, secured) as url,
            aiohttp.ClientSession(url, headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session,
            session.get(path) as answer,
        ):
            assert answer.status == 503
            return await answer.text()

    for authorization in ("", "Bearer nobody", "Bearer tenant"):
        for path in ("/readyz", VERBOSE):
            found = asyncio.run(text(path, authorization))
            assert NAMING not in found
            assert "[-]writes failed: reason withheld: it is for those who may get /debug/queue\n" in found
            assert "warn: devices: reason withheld" in found
            assert "others" not in found
    assert f"[-]writes failed: {NAMING}\nwarn: devices: {NAMING}\n" in asyncio.run(text(VERBOSE, "Bearer t"))
    assert NAMING in asyncio.run(text(VERBOSE, "", "/debug/queue"))


def test_api_server_that_is_away_closes_no_probe() -> None:
    async def found() -> Mapping[str, int]:
        reviews = Reviews()
        reviews.is_up = False
        return await statuses(secure(a_configuration(healthAddress="0.0.0.0:0"), reviews), "Bearer t")

    assert asyncio.run(found()) == {**dict.fromkeys(PATHS, 503), **dict.fromkeys(OPEN, 200)}


@LOOPS
def test_certificate_that_is_made_at_the_start_is_served(loop: Loop) -> None:
    async def found() -> Mapping[str, int]:
        return await statuses(Secure(self_signed()[0], Access(Reviews(), lambda: 0.0), OPEN))

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(found())["/livez"] == 200


def test_certificate_that_is_given_is_shown_on_loopback_too(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    files = {"tlsCertFile": str(tmp_path / "both.pem"), "tlsPrivateKeyFile": str(tmp_path / "both.pem")}

    async def found() -> Mapping[str, int]:
        secured = secure(a_configuration(secureServing=files), Reviews())
        return await statuses(secured, "Bearer t", tmp_path / "ca.crt")

    assert asyncio.run(found())["/metrics"] == 200


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "localhost:0"])
def test_loopback_without_a_certificate_is_plain_and_open(address: str) -> None:
    async def found() -> Secure | None:
        return secure(a_configuration(healthAddress=address), Reviews())

    assert asyncio.run(found()) is None


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "10.0.0.1:0", "node.example:0"])
def test_any_other_address_is_never_plain(address: str) -> None:
    async def found() -> Secure | None:
        return secure(a_configuration(healthAddress=address), Reviews())

    assert asyncio.run(found()) is not None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tlsCertFile": "c"}, "secureServing.tlsPrivateKeyFile: is required, since secureServing.tlsCertFile is set"),
        ({"tlsPrivateKeyFile": "k"}, "secureServing.tlsCertFile: is required, since secureServing.tlsPrivateKeyFile"),
        ({"authorizationAlwaysAllowPaths": ["livez"]}, "must begin with /"),
    ],
)
def test_half_of_a_certificate_and_a_path_that_is_none_are_refused(fields: Mapping[str, object], problem: str) -> None:
    with pytest.raises(InvalidConfiguration, match=problem):
        a_configuration(secureServing=fields)


HEADERS = (
    *(b"Accept", b"Accept-Encoding", b"Authorization", b"Connection", b"Content-Encoding", b"Content-Length"),
    *(b"Content-Type", b"Cookie", b"Expect", b"Host", b"If-Modified-Since", b"If-None-Match", b"Last-Event-ID"),
    *(b"Origin", b"Range", b"Transfer-Encoding", b"Upgrade", b"X-Forwarded-For"),
)
VALUES = (
    *(
        b"",
        b"\xff\xfe",
        b"\xc3\x28",
        b"Bearer \xff",
        b"Bearer \xed\xa0\x80",
        b"t\xc3\xa9",
        b"\t",
        b'"',
        b"%ff",
        b"[::1%25]",
    ),
    *(b"9" * 5000, b"-1", b"bytes=9-1", b"gzip;q=nan", b"charset=\xff", b"text/plain; charset=x", b"100-continue"),
)
TARGETS = (
    *(
        b"/metrics",
        b"/metrics%ff",
        b"/metrics?\xff",
        b"/%ed%a0%80",
        b"/\xff",
        b"//",
        b"/readyz?verbose&exclude=%ff&exclude",
    ),
    *(b"/readyz?verbose=%ed%a0%80", b"*", b"http://[::1/metrics", b"http://a:99999999/metrics", b"/readyz?\xc3\x28;#%"),
)


def test_no_head_that_a_stranger_sends_is_an_error_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    heads = [(b"/metrics", name, value) for name in HEADERS for value in VALUES]
    heads += [(target, b"Authorization", token) for target in TARGETS for token in (b"Bearer t", b"Bearer no", b"")]

    async def status(port: int, target: bytes, name: bytes, value: bytes) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=UNCHECKED)
        host = b"" if name == b"Host" else b"Host: localhost\r\n"
        close = b"" if name == b"Connection" else b"Connection: close\r\n"
        writer.write(b"GET %b HTTP/1.1\r\n%b%b%b: %b\r\n\r\n" % (target, host, close, name, value))
        line = await reader.readline()
        if b" 100 " in line:
            await reader.readline()
            line = await reader.readline()
        writer.close()
        return int(line.split()[1])

    async def answered() -> dict[tuple[bytes, bytes, bytes], int]:
        reviews = Reviews()
        secured = Secure(self_signed()[0], Access(reviews, lambda: 0.0), OPEN)
        async with serving("127.0.0.1:0", served(), secured) as url:
            port = int(url.rpartition(":")[2])
            return {head: await status(port, *head) for head in heads}

    found = asyncio.run(answered())
    assert {status for status in found.values() if status >= 500} <= {503}  # too many tokens that nobody knows
    assert found[b"/metrics", b"Authorization", b"Bearer \xff"] == 401
    assert found[b"/metrics", b"Authorization", b"Bearer t"] == 200
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []

"""What is served over HTTPS is for those that may read it, and probes are for everybody."""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
import trustme

from scheduler.runtime.access import Access, Secure, secure
from scheduler.runtime.configuration import Configuration, InvalidConfiguration, load
from scheduler.runtime.health import serving
from scheduler.runtime.tls import self_signed
from tests.unit.scheduler.loops import LOOPS, Loop
from tests.unit.scheduler.runtime.test_access import Reviews
from tests.unit.scheduler.runtime.test_health import served

PATHS = ("/healthz", "/livez", "/readyz", "/metrics", "/debug/queue", "/", "/nothing")
OPEN = ("/healthz", "/livez", "/readyz")


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

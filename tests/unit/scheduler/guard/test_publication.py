"""The leader is found under a path that nobody can guess, and that is not the same for ever."""

import asyncio
import base64
import re
from typing import Any

import pytest

from scheduler.client.connection import JSON
from scheduler.client.errors import CallFailed, Unanswered
from scheduler.guard.program import RENEW_AFTER, Publication, SecretPath

Json = dict[str, Any]  # Any: objects of the API

BASE = "/v1/resourceclaims-status"
SERVICE = {"namespace": "kube-system", "name": "dra-guard", "port": 443}


class Stored:
    """A ValidatingWebhookConfiguration of one webhook as the API server has it. is_refusing: it takes no change."""

    def __init__(self, config: Json) -> None:
        self.config = config
        self.is_refusing = False
        self.writes = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: object = None,
        body: Any = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
    ) -> Json:
        if method == "GET":
            return {"webhooks": [{"name": "guard.dra-scheduler.dev", "clientConfig": self.config}]}
        if self.is_refusing:
            raise Unanswered(f"PATCH {path}", "no", is_ambiguous=False)
        self.writes += 1
        ((_, wanted),) = ((one["name"], one["clientConfig"]) for one in body["webhooks"])
        merged = {"service": {**self.config["service"], **wanted["service"]}} if "service" in wanted else {}
        self.config = {**self.config, **wanted, **merged}
        return {}

    @property
    def segment(self) -> str:
        path = self.config["service"]["path"] if "service" in self.config else self.config["url"]
        return str(path).rpartition("/")[2]


def a_publication(stored: Stored, path: SecretPath, certificate: bytes = b"own") -> Publication:
    return Publication(
        stored,
        webhook_configuration="dra-guard",
        path=path,
        certificate=certificate,
        endpoint_slice="",
        namespace="kube-system",
        address="",
        port=9444,
    )


def look(publication: Publication, times: int = 1) -> None:
    async def looked() -> None:
        for _ in range(times):
            await publication._publish()

    asyncio.run(looked())


def test_path_is_one_that_the_api_server_takes_and_nobody_guesses() -> None:
    path, other = SecretPath(BASE), SecretPath(BASE)
    base, _, segment = path.newest.rpartition("/")
    assert base == BASE
    assert re.fullmatch("[0-9a-f]{64}", segment)  # a DNS subdomain, as all segments have to be
    assert segment in path
    assert segment not in other
    assert not [one for one in ("", segment[:-1], segment + "0", segment.upper(), "\u00e9" * 64) if one in path]


def test_path_and_certificate_are_written_where_the_service_is_named() -> None:
    stored, path = Stored({"service": SERVICE}), SecretPath(BASE)
    look(a_publication(stored, path), 3)
    bundle = base64.b64encode(b"own").decode()
    assert stored.config == {"service": {**SERVICE, "path": path.newest}, "caBundle": bundle}
    assert stored.writes == 1


def test_path_is_written_into_a_url() -> None:
    stored, path = Stored({"url": "https://guard.example.com:9444/old"}), SecretPath(BASE)
    look(a_publication(stored, path))
    assert stored.config["url"] == f"https://guard.example.com:9444{path.newest}"


def test_bundle_of_somebody_else_stays() -> None:
    stored, path = Stored({"service": SERVICE, "caBundle": "theirs"}), SecretPath(BASE)
    look(a_publication(stored, path, certificate=b""))
    assert stored.config == {"service": {**SERVICE, "path": path.newest}, "caBundle": "theirs"}


@pytest.mark.parametrize("lost", ["path", "caBundle"])
def test_what_somebody_takes_away_is_written_again_and_told_once_a_minute(
    lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    stored, path = Stored({"service": SERVICE}), SecretPath(BASE)
    publication = a_publication(stored, path)
    look(publication)
    before = stored.config
    assert not caplog.messages
    for _ in range(3):
        stored.config = {**before, "service": SERVICE} if lost == "path" else {"service": before["service"]}
        look(publication)
        assert stored.config == before
    field = {"path": "service", "caBundle": "caBundle"}[lost]
    (told,) = caplog.messages
    assert told.startswith(
        f"ValidatingWebhookConfiguration dra-guard: somebody else has changed clientConfig.{field}, which"
    )
    assert stored.segment not in told


def test_path_is_renewed_and_the_one_before_stays_valid_until_the_next_time(caplog: pytest.LogCaptureFixture) -> None:
    stored, path = Stored({"service": SERVICE}), SecretPath(BASE)
    publication = a_publication(stored, path)
    look(publication)
    seen = [stored.segment]
    for _ in range(2):
        look(publication, RENEW_AFTER)
        seen.append(stored.segment)
    assert len(set(seen)) == 3
    assert [segment in path for segment in seen] == [False, True, True]
    assert stored.writes == 3
    assert not caplog.messages


def test_published_path_stays_valid_for_as_long_as_no_other_can_be_published() -> None:
    stored, path = Stored({"service": SERVICE}), SecretPath(BASE)
    publication = a_publication(stored, path)
    look(publication, RENEW_AFTER)
    stored.is_refusing = True
    for _ in range(3 * RENEW_AFTER):
        with pytest.raises(CallFailed):
            look(publication)
    assert stored.segment in path

"""What `kubectl apply` does with manifests as people write them is as recorded, and so is what the server drops."""

import pytest

from tests.controlplane.contents import ensure_namespace
from tests.controlplane.profiles import ALL
from tests.controlplane.rest import ApiError, RestClient
from tests.integration.conftest import Planes
from tests.unit.scheduler.manifest_cases import MANIFEST_CASES, NAMESPACE
from tests.unit.scheduler.manifests import Json


@pytest.fixture(scope="module")
def server(planes: Planes) -> RestClient:
    """A server that is only asked what it would say: nothing is stored."""
    client = planes.of(ALL).client()
    ensure_namespace(client, NAMESPACE)
    return client


def accepts(server: RestClient, raw: Json, *, is_strict: bool) -> bool:
    try:
        server.create(raw, is_dry=True, is_strict=is_strict)
    except (ApiError, LookupError):  # a kind that the version does not have
        return False
    return True


@pytest.mark.parametrize("name", MANIFEST_CASES)
def test_the_server_says_what_is_recorded(server: RestClient, name: str) -> None:
    case = MANIFEST_CASES[name]
    said = accepts(server, case.raw, is_strict=True), accepts(server, case.raw, is_strict=False)
    assert said == (case.is_applied, case.is_stored)

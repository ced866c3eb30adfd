"""Pods whose status loses the names of their claims, as the controller that made these goes on to do once it began."""

from collections.abc import Iterator

import pytest

from tests.controlplane.ours import scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import RestClient
from tests.integration.live.crowd import GPU, NET, a_pod, await_placed, empty, furnish, listed, lose_names, send, wrongs

DRIVERS = (GPU, NET, "disk.example.com")
ENTRIES = {f"c{number}" for number, _ in enumerate(DRIVERS)}


@pytest.fixture(scope="module")
def fleet(plane: ControlPlane) -> RestClient:
    api = plane.client()
    furnish(api, nodes=1, devices=1, drivers=DRIVERS)
    return api


@pytest.fixture
def api(plane: ControlPlane, fleet: RestClient) -> Iterator[RestClient]:
    yield fleet
    empty(plane)


@pytest.mark.parametrize("entry", sorted(ENTRIES))
def test_pod_that_names_its_claims_by_turns_is_placed_and_names_them_all(
    plane: ControlPlane, api: RestClient, entry: str
) -> None:
    send(plane, [a_pod("pod", *DRIVERS)])
    claims = lose_names(api, entry)
    with scheduler(plane, name="mends"):
        (pod,) = await_placed(api, 1)
    assert listed(pod) == claims
    assert wrongs(api) == []
    assert {
        field["manager"] for field in pod["metadata"]["managedFields"] if "resourceClaimStatuses" in str(field)
    } == {
        "ResourceClaimController",
        "dra-scheduler",
    }

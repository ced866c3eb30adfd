"""Limits of tenants: what they refuse, what wakes a pod at its limit, and a soft one, which refuses nothing."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.controlplane.contents import ensure_namespace
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, POD
from tests.integration.live.world import NAMESPACE, SCHEDULER, World, a_request, an_object, is_free

OTHER = "neighbour"
SETTINGS = {
    "limits": [
        {"name": "own", "namespaces": {"names": [NAMESPACE]}, "most": 1},
        {"name": "told", "namespaces": {"names": [OTHER]}, "most": 0, "soft": True},
    ]
}


@pytest.fixture
def neighbour(world: World) -> Iterator[World]:
    """Three devices, of which a pod of another tenant has one."""
    ensure_namespace(world.api, OTHER)
    world.a_cluster(devices=3)
    claim = {"devices": {"requests": [a_request()]}}
    world.api.create(an_object(CLAIM, "theirs", claim, OTHER))
    world.await_seen()
    container = {"name": "c", "image": "none"}
    claims = [{"name": "theirs", "resourceClaimName": "theirs"}]
    spec = {"schedulerName": SCHEDULER, "containers": [container], "resourceClaims": claims}
    world.api.create(an_object(POD, "theirs", spec, OTHER))
    world.api.await_all(POD, lambda found: all("nodeName" in pod["spec"] for pod in found), OTHER)
    yield world
    world.api.delete(CLAIM, "theirs", OTHER)


def test_pod_at_its_limit_wakes_when_its_own_tenant_gives_something_back(neighbour: World) -> None:
    told = "soft limit told is exceeded: 1 of 0 in use"
    poll_until(lambda text: told in text, partial(neighbour.program.reported, "/readyz?verbose"), "it is exceeded")
    for name in ("first", "second"):
        neighbour.a_claim(name)
    neighbour.a_pod("first", "first")
    neighbour.bound("first")
    neighbour.a_pod("second", "second")
    refused = neighbour.refused("second", "limit own: 1 of 1 in use, 1 more requested")
    assert "told" not in refused["message"]
    neighbour.await_queue("second", queue="unschedulable")
    before = neighbour.attempts("unschedulable")
    neighbour.api.delete(POD, "theirs", OTHER)
    neighbour.api.await_all(CLAIM, lambda found: all(map(is_free, found)), OTHER)
    poll_until(lambda text: told not in text, partial(neighbour.program.reported, "/readyz?verbose"), "it was seen")
    neighbour.await_queue("second", queue="unschedulable")
    assert neighbour.attempts("unschedulable") == before
    neighbour.delete_pod("first")
    assert neighbour.node_of("second") == "node-0"

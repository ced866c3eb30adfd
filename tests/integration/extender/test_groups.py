"""kube-scheduler's own groups where the extender says which nodes have devices."""

from collections.abc import Iterator

import pytest

from tests.controlplane.contents import clear, manifests, restore
from tests.controlplane.identities import EXTENDER
from tests.controlplane.plane import ControlPlane
from tests.controlplane.profiles import ALL, RELEASE
from tests.controlplane.rest import CLAIM, POD, SLICE, Json
from tests.integration.attempt.conftest import await_right
from tests.integration.conftest import Planes
from tests.integration.extender.beside import Beside
from tests.integration.extender.conftest import RIGHTS
from tests.integration.live.test_groups import GROUP, unprotected
from tests.integration.live.world import DRIVER, NAMESPACE, a_request, is_allocated, some_devices

pytestmark = pytest.mark.skipif(RELEASE < "1.37", reason="in 1.36 kube-scheduler places groups pod by pod")


@pytest.fixture(scope="module")
def plane(planes: Planes) -> Iterator[ControlPlane]:
    """With the gates of groups."""
    running = planes.of(ALL)
    restore(running.client(), manifests(RIGHTS))
    await_right(running.client(EXTENDER), resource="resourceclaims", subresource="binding", is_given=True)
    yield running
    running.stop("kube-scheduler")
    clear(running)


@pytest.fixture
def groups(world: Beside) -> Iterator[Beside]:
    yield world
    for pod in world.api.list(POD, NAMESPACE):
        world.delete_pod(pod["metadata"]["name"])
    for name in [one["metadata"]["name"] for one in world.api.list(GROUP, NAMESPACE)]:
        world.api.change(GROUP, name, NAMESPACE, unprotected)
        world.api.delete(GROUP, name, NAMESPACE)


def a_gang(world: Beside, minimum: int) -> None:
    fields: Json = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    metadata = {"name": "gang", "namespace": NAMESPACE}
    world.api.create({"apiVersion": GROUP.api_version, "kind": GROUP.kind, "metadata": metadata, "spec": fields})


def members(world: Beside, *names: str, devices: int = 1) -> None:
    for name in names:
        world.a_claim(f"of-{name}", a_request(count=devices))
        world.a_pod(name, f"of-{name}", schedulingGroup={"podGroupName": "gang"})


def test_gang_waits_for_its_members_and_gets_a_device_for_each(groups: Beside) -> None:
    groups.a_cluster(nodes=2, devices=2)
    a_gang(groups, 3)
    members(groups, "a", "b")
    groups.a_claim()
    groups.a_pod("single", "claim")  # of its own: it is bound after the members were seen
    groups.bound("single")
    assert nodes(groups) == {"single"}
    members(groups, "c")
    devices = [device for name in ("a", "b", "c") for device in groups.devices_of(name)]
    assert len(set(devices)) == 3


def test_gang_of_which_one_fits_on_no_node_gets_nothing(groups: Beside) -> None:
    groups.a_cluster(nodes=2, devices=2)
    a_gang(groups, 2)
    members(groups, "a")
    members(groups, "b", devices=3)
    groups.refused("b")
    assert not any(map(is_allocated, groups.api.list(CLAIM, NAMESPACE)))
    assert nodes(groups) == set()
    groups.api.delete(SLICE, f"node-1.{DRIVER}")
    groups.a_slice("node-1", *some_devices(4))
    for name in ("a", "b"):
        groups.bound(name)


def nodes(world: Beside) -> set[str]:
    """The pods that have one."""
    return {pod["metadata"]["name"] for pod in world.api.list(POD, NAMESPACE) if "nodeName" in pod["spec"]}

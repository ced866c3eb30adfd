"""How many volumes of a driver a node takes, and what makes room for a pod that waits."""

import pytest

from tests.controlplane.rest import ATTACHMENT, CSI_NODE, Json
from tests.integration.live.storage import PROVISIONER, Storage
from tests.integration.live.world import World

FULL = "1 node(s) exceed max volume count"


@pytest.fixture
def storage(world: World) -> Storage:
    """A node that takes one volume, and two volumes that are bound to claims."""
    world.a_node()
    limit(world, 1)
    found = Storage(world)
    for name in ("first", "second"):
        found.a_bound_volume(name, "node-0")
    return found


def limit(world: World, count: int, *, is_there: bool = False) -> None:
    """What the driver registers at the kubelet."""
    driver = {"name": PROVISIONER, "nodeID": "node-0", "allocatable": {"count": count}}
    kind = {"apiVersion": CSI_NODE.api_version, "kind": CSI_NODE.kind}
    if is_there:
        found = world.api.get(CSI_NODE, "node-0")
        world.api.replace({**kind, **found, "spec": {"drivers": [driver]}})
    else:
        world.api.create({**kind, "metadata": {"name": "node-0"}, "spec": {"drivers": [driver]}})


def attach(world: World, volume: str) -> Json:
    """As the attach-detach controller does."""
    spec = {"attacher": PROVISIONER, "nodeName": "node-0", "source": {"persistentVolumeName": volume}}
    kind = {"apiVersion": ATTACHMENT.api_version, "kind": ATTACHMENT.kind, "metadata": {"name": f"of-{volume}"}}
    return world.api.create({**kind, "spec": spec})


def a_refused_pod(world: World, storage: Storage) -> None:
    storage.a_pod("waiting", "second")
    world.refused("waiting", FULL)
    world.await_queue("waiting", queue="unschedulable")


def test_pod_that_goes_leaves_room_for_the_volume_of_another(world: World, storage: Storage) -> None:
    storage.a_pod("pod", "first")
    world.bound()
    a_refused_pod(world, storage)
    world.delete_pod()
    assert world.node_of("waiting") == "node-0"


def test_limit_that_is_raised_makes_room(world: World, storage: Storage) -> None:
    storage.a_pod("pod", "first")
    world.bound()
    a_refused_pod(world, storage)
    limit(world, 2, is_there=True)
    assert world.node_of("waiting") == "node-0"


def test_volume_that_is_attached_counts_until_it_is_detached(world: World, storage: Storage) -> None:
    attach(world, "volume-of-first")
    a_refused_pod(world, storage)
    world.api.delete(ATTACHMENT, "of-volume-of-first")
    assert world.node_of("waiting") == "node-0"


def test_own_volume_that_is_still_attached_takes_no_further_room(world: World, storage: Storage) -> None:
    attach(world, "volume-of-second")
    storage.a_pod("pod", "second")
    assert world.node_of() == "node-0"

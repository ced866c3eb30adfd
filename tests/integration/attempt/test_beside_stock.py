"""A claim that our pods and those of the real kube-scheduler share: whoever comes second adds its pod and no more."""

import pytest

from scheduler.attempt.claim_objects import consumers_of
from scheduler.attempt.decision import Bound
from tests.controlplane.contents import READY
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import CLASS, NODE, POD, SLICE, Json
from tests.integration.attempt.scene import DRIVER, POOL, Scene, devices_of, gets, keeps
from tests.integration.attempt.scene import NODE as NODE_NAME

STOCK = "default-scheduler"


@pytest.fixture
def fleet(scene: Scene, plane: ControlPlane) -> Scene:
    """One node with one device, and kube-scheduler."""
    api = scene.api
    node = api.create({"apiVersion": NODE.api_version, "kind": NODE.kind, "metadata": {"name": NODE_NAME}})
    api.replace_status({**node, "status": {**node.get("status", {}), **READY}})
    api.create({"apiVersion": CLASS.api_version, "kind": CLASS.kind, "metadata": {"name": "gpu"}, "spec": {}})
    pool = {"name": POOL, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": NODE_NAME, "devices": [{"name": "gpu-0"}]}
    api.create({"apiVersion": SLICE.api_version, "kind": SLICE.kind, "metadata": {"name": "slice-0"}, "spec": spec})
    plane.start_scheduler({})
    return scene


def bound_by_stock(scene: Scene, name: str) -> Json:
    scene.a_pod("claim", name=name, schedulerName=STOCK)

    def is_bound(pod: Json) -> bool:
        return bool(pod["metadata"]["name"] == name and pod["spec"].get("nodeName"))

    pods = scene.api.await_all(POD, lambda pods: any(map(is_bound, pods)))
    return next(pod for pod in pods if is_bound(pod))


def test_claim_that_stock_has_allocated_is_shared_by_our_pod(fleet: Scene) -> None:
    fleet.a_claim()
    theirs = bound_by_stock(fleet, "theirs")
    ours = fleet.a_pod("claim", name="ours")
    assert fleet.bind(fleet.a_decision(ours, keeps(fleet.claim()))) == Bound(NODE_NAME)
    assert consumers_of(fleet.claim()) == (theirs["metadata"]["uid"], ours["metadata"]["uid"])


def test_claim_that_we_have_allocated_is_shared_by_the_pod_of_stock(fleet: Scene) -> None:
    ours = fleet.a_pod("claim", name="ours")
    assert fleet.bind(fleet.a_decision(ours, gets(fleet.a_claim(), "gpu-0"))) == Bound(NODE_NAME)
    theirs = bound_by_stock(fleet, "theirs")
    assert consumers_of(fleet.claim()) == (ours["metadata"]["uid"], theirs["metadata"]["uid"])
    assert devices_of(fleet.claim()) == {f"{DRIVER}/gpu-0"}

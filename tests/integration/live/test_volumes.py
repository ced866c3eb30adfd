"""Pods with volumes: what the scheduler chooses is bound by a controller, what it asks for is made by a provisioner."""

import subprocess
from pathlib import Path

import pytest

from scheduler.input.yaml_1_1 import dump
from tests.controlplane.faults import cut_before, lose_answer, meanwhile
from tests.controlplane.ours import PROGRAM
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import CLAIM, CLASS, CSI_CAPACITY, NODE, POD, SLICE, STORAGE_CLASS, VOLUME, VOLUME_CLAIM
from tests.integration.live.storage import LOCAL, MADE, PROVISIONER, Storage, phase_of, selected_node
from tests.integration.live.world import NAMESPACE, World, a_device

UNAVAILABLE = "didn't find available persistent volumes to bind"


@pytest.fixture
def storage(world: World) -> Storage:
    """Two nodes, and the classes."""
    for name in ("node-0", "node-1"):
        world.a_node(name)
    return Storage(world)


def test_pod_goes_where_its_bound_volume_is(world: World, storage: Storage) -> None:
    storage.a_volume("mine", "node-1", claimRef={"namespace": NAMESPACE, "name": "v"})
    storage.a_claim(volumeName="mine")
    storage.bound()
    storage.a_pod("pod", "v")
    assert world.node_of() == "node-1"
    assert world.proxy.writes(r"/persistentvolume") == []


def test_volume_that_is_chosen_is_bound_and_then_the_pod_is(world: World, storage: Storage) -> None:
    storage.a_free_volume("large", "node-1", size="9Gi")
    storage.a_free_volume("small", "node-1", size="2Gi")
    storage.a_claim()
    storage.a_pod("pod", "v")
    assert world.node_of() == "node-1"
    assert storage.bound() == "small"
    assert phase_of(world.api.get(VOLUME, "large")) == "Available"
    (write,) = world.proxy.writes(r"/persistentvolume")
    assert write.path.endswith("/persistentvolumes/small")
    assert world.api.get(VOLUME, "small")["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"


@pytest.mark.needs("ClearingNominatedNodeNameAfterBinding")
def test_volume_is_made_for_the_node_and_the_pod_says_meanwhile_where_it_goes(world: World, storage: Storage) -> None:
    storage.a_claim("v", MADE)
    storage.a_pod("pod", "v")
    node = storage.asked_for()
    assert world.pod_when("pod", lambda pod: pod["status"].get("nominatedNodeName") == node)
    assert "nodeName" not in world.pod()["spec"]
    assert storage.make() == node
    assert world.node_of() == node
    assert storage.bound() == "made-for-v"
    assert "nominatedNodeName" not in world.pod()["status"]


def test_pod_with_an_ephemeral_volume_waits_for_its_claim_and_gets_a_volume(world: World, storage: Storage) -> None:
    asked = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    template = {"spec": {"storageClassName": MADE, **asked}}
    world.a_pod("pod", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
    node = storage.make("pod-scratch")
    assert world.node_of() == node


@pytest.mark.needs("DRADeviceBindingConditions")
def test_volumes_and_devices_are_awaited_beside_each_other(world: World, storage: Storage) -> None:
    world.a_class()
    world.a_slice("node-1", a_device(bindsToNode=True, bindingConditions=["ready"], bindingFailureConditions=["bad"]))
    world.a_claim()
    storage.a_claim("v", MADE)
    storage.a_pod("pod", "v", claims=["claim"])
    assert storage.asked_for() == "node-1"
    storage.make()
    storage.bound()
    assert "nodeName" not in world.pod()["spec"]
    world.report("claim", "ready")
    assert world.node_of() == "node-1"


def test_node_needs_space_for_the_volume_and_a_pod_that_waits_is_placed_once_there_is(
    world: World, storage: Storage
) -> None:
    storage.publishes_capacity()
    storage.a_capacity("node-0", "1Gi")
    capacity = storage.a_capacity("node-1", "2Gi")
    storage.a_claim("v", MADE, size="4Gi")
    storage.a_pod("pod", "v")
    world.refused("pod", "2 node(s) did not have enough free storage")
    named = {"apiVersion": CSI_CAPACITY.api_version, "kind": CSI_CAPACITY.kind}
    world.api.replace({**named, **capacity, "capacity": "5Gi"})
    assert storage.asked_for() == "node-1"
    storage.make()
    assert world.node_of() == "node-1"


def test_volume_for_one_pod_alone_is_used_by_one_pod_at_a_time(world: World, storage: Storage) -> None:
    modes = ["ReadWriteOncePod"]
    storage.a_volume("mine", "node-0", "node-1", accessModes=modes, claimRef={"namespace": NAMESPACE, "name": "v"})
    storage.a_claim(modes=modes, volumeName="mine")
    storage.bound()
    storage.a_pod("first", "v")
    world.bound("first")
    storage.a_pod("second", "v")
    world.refused("second", "ReadWriteOncePod access mode already in-use by another pod")
    world.delete_pod("first")
    world.bound("second")


def test_provisioner_that_asks_for_another_node_gets_one(world: World, storage: Storage) -> None:
    storage.a_claim("v", MADE)
    storage.a_pod("pod", "v")
    first = storage.ask_for_another_node()
    second = storage.asked_for("v", first)
    storage.make()
    assert world.node_of() == second != first
    assert world.attempts("error") > 0


def test_volume_is_given_to_one_of_two_pods(world: World, storage: Storage) -> None:
    storage.a_free_volume("only", "node-0")
    for name in ("v", "w"):
        storage.a_claim(name)
    storage.a_pod("first", "v")
    storage.a_pod("second", "w")
    assert world.node_of("first") == "node-0"
    world.refused("second", UNAVAILABLE)
    storage.a_free_volume("another", "node-1")
    assert world.node_of("second") == "node-1"


def test_pod_whose_volume_kube_scheduler_takes_first_goes_elsewhere(
    world: World, storage: Storage, plane: ControlPlane
) -> None:
    storage.a_free_volume("pv-0", "node-0")
    storage.a_free_volume("pv-1", "node-1", size="2Gi")
    storage.a_claim("theirs")
    storage.a_claim()
    plane.start_scheduler({})

    def take() -> None:
        here = {"kubernetes.io/hostname": "node-0"}
        storage.a_pod("theirs", "theirs", schedulerName="default-scheduler", nodeSelector=here)
        assert storage.bound("theirs") == "pv-0"

    rule = world.proxy.on("PATCH", r"/persistentvolumes/pv-0$", meanwhile(take))
    storage.a_pod("pod", "v")
    rule.met.wait()
    assert (world.node_of(), storage.bound()) == ("node-1", "pv-1")
    assert world.node_of("theirs") == "node-0"
    assert [one.status for one in world.proxy.writes(r"/persistentvolumes/pv-0")] == [409]
    plane.stop("kube-scheduler")


@pytest.mark.parametrize("fault", [cut_before, lose_answer])
@pytest.mark.parametrize("storage_class", [LOCAL, MADE])
def test_write_whose_answer_is_lost_costs_nothing(
    world: World, storage: Storage, fault: object, storage_class: str
) -> None:
    storage.a_free_volume("pv-0", "node-0")
    storage.a_claim("v", storage_class)
    world.proxy.on("PATCH", r"/persistentvolumes/pv-0$|/persistentvolumeclaims/v$", fault)  # type: ignore[arg-type]
    storage.a_pod("pod", "v")
    if storage_class == MADE:
        storage.make()
    world.bound()
    storage.bound()


def test_nothing_is_written_where_devices_and_volume_are_on_different_nodes(world: World, storage: Storage) -> None:
    world.a_class()
    world.a_slice("node-0", a_device())
    storage.a_free_volume("pv-1", "node-1")
    world.a_claim()
    storage.a_claim()
    storage.a_pod("pod", "v", claims=["claim"])
    reported = world.refused("pod", UNAVAILABLE)
    assert "cannot allocate all claims" in reported["message"]
    assert world.proxy.writes(r"/(persistentvolume|resourceclaims)") == []
    storage.a_free_volume("pv-0", "node-0")
    assert world.node_of() == "node-0"


def explained(world: World, folder: Path, *options: str) -> str:
    """What `dra explain` says of the pod, by a dump of the cluster."""
    kinds = (NODE, POD, SLICE, CLASS, CLAIM, VOLUME, VOLUME_CLAIM, STORAGE_CLASS)
    path = folder / "cluster.yaml"
    items = [one for kind in kinds for one in world.api.list(kind)]
    path.write_text(dump({"apiVersion": "v1", "kind": "List", "items": items}))
    command = [str(PROGRAM), "explain", f"{NAMESPACE}/pod", str(path), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.needs("DRADeviceBindingConditions")
def test_pod_that_a_left_annotation_keeps_on_a_node_is_shown_so(world: World, storage: Storage, tmp_path: Path) -> None:
    world.a_class()
    world.a_slice("node-1", a_device(bindsToNode=True, bindingConditions=["ready"], bindingFailureConditions=["bad"]))
    world.a_claim()
    storage.a_claim("v", MADE)
    storage.a_pod("pod", "v", claims=["claim"])
    assert storage.asked_for() == "node-1"
    world.a_slice("node-0", a_device())
    world.report("claim", "bad")
    reported = world.refused("pod", "PersistentVolumeClaim live/v keeps the pod on node node-1")
    assert "volume.kubernetes.io/selected-node" in reported["message"]
    assert "nominatedNodeName" not in world.pod()["status"]
    for options in ((), ("--node=node-0",)):
        assert "PersistentVolumeClaim live/v keeps the pod on node node-1" in explained(world, tmp_path, *options)
    storage.ask_for_another_node()
    assert storage.asked_for("v", "node-1") == "node-0"
    storage.make()
    assert world.node_of() == "node-0"


def test_pod_that_is_deleted_while_its_volume_is_made_is_forgotten(world: World, storage: Storage) -> None:
    world.a_class()
    world.a_slice("node-0", a_device())
    world.a_claim()
    storage.a_claim("v", MADE)
    storage.a_pod("pod", "v", claims=["claim"])
    storage.asked_for()
    world.delete_pod()
    world.gone(POD, "pod")
    world.await_metric("dra_scheduler_bindings_in_flight", 0)
    assert "pod" not in world.queue()
    world.claim_when("claim", lambda claim: not claim.get("status", {}).get("allocation"))


def test_node_that_goes_while_a_volume_is_made_for_it_ends_the_wait(world: World, storage: Storage) -> None:
    storage.a_claim("v", MADE)
    storage.a_pod("pod", "v")
    node = storage.asked_for()
    world.api.delete(NODE, node)
    world.refused("pod", f"keeps the pod on node {node}")
    assert storage.ask_for_another_node() == node
    other = storage.asked_for("v", node)
    storage.make()
    assert world.node_of() == other


def test_volume_that_is_added_brings_a_pod_back_that_waits_for_one(world: World, storage: Storage) -> None:
    storage.a_claim()
    storage.a_pod("pod", "v")
    world.refused("pod", UNAVAILABLE)
    storage.a_volume("pv-1", "node-1")
    assert world.node_of() == "node-1"


def test_claim_that_comes_brings_its_pod_back(world: World, storage: Storage) -> None:
    storage.a_free_volume("pv-1", "node-1")
    storage.a_pod("pod", "v")
    world.refused("pod", 'persistentvolumeclaim "v" not found')
    claim = storage.a_claim()
    assert not selected_node(claim)
    assert world.node_of() == "node-1"


def test_class_that_comes_late_brings_back_the_pod_whose_claim_names_it(world: World, storage: Storage) -> None:
    world.api.delete(STORAGE_CLASS, MADE)
    world.await_seen()
    storage.a_claim("v", MADE)
    storage.a_pod("pod", "v")
    world.refused("pod", "pod has unbound immediate PersistentVolumeClaims")
    world.await_queue("pod", queue="unschedulable")
    storage.a_class(MADE, PROVISIONER)
    assert storage.make() == world.node_of()

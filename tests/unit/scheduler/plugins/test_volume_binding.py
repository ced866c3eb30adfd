from dataclasses import replace
from typing import Any

import pytest

from allocator.model import Requirement
from cel.values.quantity import Quantity
from scheduler.core_v1.label_selectors import equal_labels
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import ZONE
from scheduler.core_v1.storage_objects import CSIDriver, CSINode, PersistentVolumeClaim
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.plugins.plugin import Refusal, RefusedPod
from scheduler.plugins.volume_binding import MISSING, NO_SPACE, UNAVAILABLE, UNREACHED, VOLUME_BINDING, pinned, plan
from scheduler.state.cluster_changes import (
    CSIDriverChanged,
    CSINodeChanged,
    CSIStorageCapacityChanged,
    Event,
    GivenBack,
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    StorageClassChanged,
)
from scheduler.state.pods import pod_requests
from scheduler.state.volumes import CLAIMS, CLASSES, VOLUMES
from tests.builders import a_pod, amounts
from tests.storage import (
    DRIVER,
    NO_PROVISIONER,
    a_bound_pvc,
    a_capacity,
    a_pod_with,
    a_pv,
    a_pvc,
    a_storage_class,
    meant_for,
    where_label,
)
from tests.unit.scheduler.plugins.world import HOST, a_world, before, cycle_of, in_zone, left, said

EVERYWHERE = ["a1", "a2", "b1"]
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


def a_world_with(*objects: Any, provisioner: str = DRIVER, **more: Any) -> Cluster:
    """Volumes and claims, of a class of that provisioner."""
    world = a_world()
    world.volumes.set_class(a_storage_class(provisioner=provisioner, **more))
    for one in objects:
        (world.volumes.set_claim if isinstance(one, PersistentVolumeClaim) else world.volumes.set_volume)(one)
    return world


def nodes_for(world: Cluster, *claims: str) -> list[str]:
    return left(VOLUME_BINDING, world, a_pod_with(*(claims or ("v",))))


def reasons(world: Cluster, *claims: str) -> dict[str, list[str]]:
    found = said(VOLUME_BINDING, world, a_pod_with(*(claims or ("v",))))
    assert not any(resolvable for _, resolvable in found.values()), "no other pod's end brings a volume"
    return {node: reported for node, (reported, _) in found.items()}


def planned(world: Cluster, node: str, *claims: str) -> tuple[dict[str, str], list[str]]:
    """The claims that are matched, each with its volume, and those whose volumes are provisioned."""
    found = plan(cycle_of(world, a_pod_with(*(claims or ("v",)))), world.number_of(node) or 0)
    return {one.claim.name: one.volume.name for one in found.matches}, [one.name for one in found.provisioned]


# Before any node is looked at


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (a_pvc("v", is_deleting=True), 'persistentvolumeclaim "v" is being deleted'),
        (a_bound_pvc("v", phase="Lost"), 'persistentvolumeclaim "v" bound to non-existent persistentvolume "pv1"'),
        (a_pvc("v", volume="pv1"), UNBOUND),
        (a_pvc("v", storage_class=""), UNBOUND),
        (a_pvc("v", storage_class="gone"), UNBOUND),
        (a_pvc("v", storage_class="now"), UNBOUND),
        (a_pvc("v"), ""),
        (a_pvc("u"), 'persistentvolumeclaim "v" not found'),
    ],
)
def test_a_claim_that_no_node_can_help_refuses_them_all(claim: PersistentVolumeClaim, text: str) -> None:
    world = a_world_with(claim)
    world.volumes.set_class(a_storage_class("now", binding_mode="Immediate"))
    assert before(VOLUME_BINDING, world, a_pod_with("v")) == text


def test_an_ephemeral_volume_needs_the_claim_that_is_made_for_it() -> None:
    pod, world = a_pod_with(ephemeral="s"), a_world_with()
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-s"'
    assert before(VOLUME_BINDING, world, pod) == waiting
    world.volumes.set_claim(a_pvc("p-s"))
    foreign = "PVC default/p-s was not created for pod default/p (pod is not owner)"
    assert before(VOLUME_BINDING, world, pod) == foreign
    world.volumes.set_claim(a_pvc("p-s", owner=pod.uid))
    assert left(VOLUME_BINDING, world, pod) == EVERYWHERE


def test_pods_without_claims_can_be_anywhere() -> None:
    assert left(VOLUME_BINDING, a_world(), a_pod()) == EVERYWHERE


# Bound claims


def test_a_bound_volume_has_to_be_reached() -> None:
    world = a_world_with(a_bound_pvc(), a_pv(affinity=where_label(HOST, "b1"), phase="Bound"))
    assert reasons(world) == {"a1": [UNREACHED], "a2": [UNREACHED]}


def test_a_bound_volume_that_is_gone_is_reached_from_nowhere() -> None:
    assert reasons(a_world_with(a_bound_pvc())) == {node: [MISSING] for node in EVERYWHERE}


def test_volumes_are_reached_as_labels_of_nodes_are_now() -> None:
    world = a_world_with(a_bound_pvc(), a_pv(affinity=where_label(ZONE, "C")))
    assert nodes_for(world) == []
    world.set_node(in_zone("a1", "C"))
    assert nodes_for(world) == ["a1"]


def test_a_node_that_sees_a_volume_as_its_drivers_reaches_it_by_the_drivers_labels() -> None:
    volume = a_pv(plugin="in-tree", affinity=where_label(ZONE, "A"), migrated_affinity=where_label("driver/zone", "A"))
    world = a_world_with(a_bound_pvc(), volume)
    assert nodes_for(world) == ["a1", "a2"]
    world.volumes.set_csi_node(CSINode("a1", migrated=frozenset({"in-tree"})))
    assert nodes_for(world) == ["a2"]
    world.set_node(in_zone("a1", "A", **{"driver/zone": "A"}))
    assert nodes_for(world) == ["a1", "a2"]


# Claims that wait, and volumes that are there


def test_the_smallest_volume_that_is_large_enough_is_matched() -> None:
    def on_a1(name: str, size: str) -> Any:
        return a_pv(name, size=size, affinity=where_label(HOST, "a1"))

    tiny = a_pv("tiny", size="1Mi", affinity=where_label(HOST, "b1"))
    world = a_world_with(a_pvc(), on_a1("big", "9Gi"), on_a1("small", "2Gi"), tiny, provisioner=NO_PROVISIONER)
    assert reasons(world) == {"a2": [UNAVAILABLE], "b1": [UNAVAILABLE]}
    assert planned(world, "a1") == ({"v": "small"}, [])


@pytest.mark.parametrize(
    "unlike",
    [
        {"phase": "Released"},
        {"is_deleting": True},
        {"volume_mode": "Block"},
        {"attributes_class": "fast"},
        {"access_modes": frozenset({"ReadOnlyMany"})},
        {"storage_class": "x"},
        {"capacity": Quantity.parse("1Mi")},
        {"claim": meant_for(a_pvc("other"))},
    ],
)
def test_a_volume_that_is_not_as_asked_is_not_matched(unlike: dict[str, Any]) -> None:
    world = a_world_with(a_pvc(), a_pv(), provisioner=NO_PROVISIONER)
    assert nodes_for(world) == EVERYWHERE
    world.volumes.set_volume(replace(a_pv(resource_version="2"), **unlike))
    assert nodes_for(world) == []


def test_a_claims_selector_chooses_among_volumes() -> None:
    claim = a_pvc(selector=equal_labels({"kind": "ssd"}))
    world = a_world_with(claim, a_pv("first"), a_pv("second", labels={"kind": "ssd"}), provisioner=NO_PROVISIONER)
    assert planned(world, "a1") == ({"v": "second"}, [])


def test_a_volume_that_is_meant_for_the_claim_is_the_only_one_that_it_gets() -> None:
    own = a_pv("own", size="9Gi", claim=meant_for(a_pvc()), phase="Bound", affinity=where_label(HOST, "b1"))
    world = a_world_with(a_pvc(), a_pv("free"), own, provisioner=NO_PROVISIONER)
    assert nodes_for(world) == ["b1"]
    assert planned(world, "b1") == ({"v": "own"}, [])


@pytest.mark.parametrize(("uid", "matched"), [("", "own"), ("uid-v", "own"), ("uid-of-an-older-one", "free")])
def test_a_volume_is_meant_for_the_claim_of_that_uid_where_it_says_one(uid: str, matched: str) -> None:
    own = a_pv("own", claim=meant_for(a_pvc(), uid=uid))
    assert planned(a_world_with(a_pvc(), a_pv("free"), own), "a1") == ({"v": matched}, [])


def test_a_volume_that_is_meant_for_the_claim_and_too_small_is_none() -> None:
    own = a_pv("own", size="1Mi", claim=meant_for(a_pvc()))
    assert planned(a_world_with(a_pvc(), a_pv("free"), own), "a1") == ({"v": "free"}, [])


def test_no_volume_is_matched_with_two_claims() -> None:
    large, small = a_pvc("large", size="2Gi"), a_pvc("small")
    world = a_world_with(large, small, a_pv("one", size="3Gi"), provisioner=NO_PROVISIONER)
    assert nodes_for(world, "large", "small") == []
    world.volumes.set_volume(a_pv("two", size="2Gi", affinity=where_label(ZONE, "A")))
    assert nodes_for(world, "large", "small") == ["a1", "a2"]
    assert planned(world, "a1", "large", "small") == ({"small": "two", "large": "one"}, [])


def test_volumes_that_are_alike_serve_as_many_claims_as_there_are() -> None:
    claims = [a_pvc(name) for name in ("c1", "c2", "c3")]
    world = a_world_with(*claims, a_pv("x"), a_pv("y"), provisioner=NO_PROVISIONER)
    assert planned(world, "a1", "c1", "c2") == ({"c1": "x", "c2": "y"}, [])
    assert nodes_for(world, "c1", "c2", "c3") == []


@pytest.mark.parametrize(("is_strict", "nodes"), [(False, EVERYWHERE), (True, [])])
def test_a_claim_that_two_volumes_of_a_pod_name_is_one_claim(*, is_strict: bool, nodes: list[str]) -> None:
    world = a_world(is_strict=is_strict)
    world.volumes.set_class(a_storage_class(provisioner=NO_PROVISIONER))
    world.volumes.set_claim(a_pvc())
    world.volumes.set_volume(a_pv())
    assert nodes_for(world, "v", "v") == nodes


# Claims that wait, and volumes that are to be made


def test_a_volume_is_made_where_none_is_matched() -> None:
    world = a_world_with(a_pvc(), a_pv(affinity=where_label(HOST, "a1")))
    assert planned(world, "a1") == ({"v": "pv1"}, [])
    assert planned(world, "b1") == ({}, ["v"])


def test_volumes_are_made_where_the_class_allows_it() -> None:
    world = a_world_with(a_pvc(), topologies=where_label(ZONE, "B"))
    assert reasons(world) == {"a1": [UNAVAILABLE], "a2": [UNAVAILABLE]}


def test_a_claim_is_provisioned_on_the_node_that_somebody_has_selected() -> None:
    world = a_world_with(a_pvc(selected_node="a2"), a_pv())
    assert reasons(world) == {"a1": [UNAVAILABLE], "b1": [UNAVAILABLE]}
    assert planned(world, "a2") == ({}, ["v"])
    world.volumes.set_claim(a_pvc(selected_node="gone"))
    assert nodes_for(world) == []


def a_world_with_capacities(*, tells: bool = True) -> Cluster:
    world = a_world_with(a_pvc(size="5Gi"))
    world.volumes.set_driver(CSIDriver(DRIVER, tells))
    world.volumes.set_capacity(a_capacity("a", "4Gi", Requirement(ZONE, "In", ("A",))))
    world.volumes.set_capacity(a_capacity("b", "5Gi", Requirement(ZONE, "In", ("B",))))
    return world


def test_a_volume_is_made_where_there_is_room_for_it() -> None:
    world = a_world_with_capacities()
    assert reasons(world) == {"a1": [NO_SPACE], "a2": [NO_SPACE]}
    world.volumes.set_capacity(a_capacity("a", "9Gi", Requirement(ZONE, "In", ("A",))))
    assert nodes_for(world) == EVERYWHERE
    world.volumes.remove_capacity(("default", "b"))
    assert nodes_for(world) == ["a1", "a2"]


def test_room_follows_the_labels_of_nodes() -> None:
    world = a_world_with_capacities()
    assert nodes_for(world) == ["b1"]
    world.set_node(in_zone("a1", "B"))
    assert nodes_for(world) == ["a1", "b1"]


def test_room_is_not_looked_at_where_the_driver_does_not_report_it() -> None:
    world = a_world_with_capacities(tells=False)
    assert nodes_for(world) == EVERYWHERE
    world.volumes.remove_driver(DRIVER)
    assert nodes_for(world) == EVERYWHERE


def test_a_claim_that_requests_nothing_needs_no_room() -> None:
    world = a_world_with_capacities()
    world.volumes.set_claim(a_pvc(request=None))
    assert nodes_for(world) == EVERYWHERE


def test_a_node_that_lacks_two_things_has_both_reasons() -> None:
    bound = a_bound_pvc("u"), a_pv(affinity=where_label(HOST, "b1"), phase="Bound")
    world = a_world_with(*bound, a_pvc(), topologies=where_label(HOST, "a1"))
    assert reasons(world, "u", "v") == {"a1": [UNREACHED], "a2": [UNREACHED, UNAVAILABLE], "b1": [UNAVAILABLE]}


# What decisions have taken


def test_a_matched_volume_is_taken_until_it_is_given_back() -> None:
    world = a_world_with(a_pvc(), a_pvc("u"), a_pv(), provisioner=NO_PROVISIONER)
    pod = a_pod_with("v")
    world.volumes.assume(pod.uid, "a1", plan(cycle_of(world, pod), 0))
    assert nodes_for(world, "u") == []
    assert planned(world, "b1") == ({"v": "pv1"}, []), "it is meant for this claim now"
    world.volumes.forget(pod.uid)
    assert nodes_for(world, "u") == EVERYWHERE


def test_a_claim_that_is_to_be_provisioned_pins_all_its_pods() -> None:
    world, pod = a_world_with(a_pvc()), a_pod_with("v")
    world.volumes.assume(pod.uid, "a2", plan(cycle_of(world, pod), 1))
    assert nodes_for(world) == ["a2"]
    world.volumes.forget(pod.uid)
    assert nodes_for(world) == EVERYWHERE


def test_what_the_watch_shows_goes_before_what_a_decision_assumed() -> None:
    world, pod = a_world_with(a_pvc(), a_pvc("u"), a_pv(), provisioner=NO_PROVISIONER), a_pod_with("v")
    world.volumes.assume(pod.uid, "a1", plan(cycle_of(world, pod), 0))
    world.volumes.set_volume(a_pv())
    assert nodes_for(world, "u") == [], "the version that it was assumed of"
    world.volumes.set_volume(a_pv(resource_version="2"))
    assert nodes_for(world, "u") == EVERYWHERE


def test_what_is_written_is_not_given_back() -> None:
    world, pod = a_world_with(a_pvc(), a_pvc("u"), a_pv(), provisioner=NO_PROVISIONER), a_pod_with("v")
    world.volumes.assume(pod.uid, "a1", plan(cycle_of(world, pod), 0))
    world.volumes.written(pod.uid, "pv1")
    world.volumes.forget(pod.uid)
    assert nodes_for(world, "u") == []


def test_a_volume_that_has_changed_since_the_decision_is_not_assumed() -> None:
    world, pod = a_world_with(a_pvc(), a_pvc("u"), a_pv(), provisioner=NO_PROVISIONER), a_pod_with("v")
    late = plan(cycle_of(world, pod), 0)
    world.volumes.set_volume(a_pv(resource_version="2"))
    world.volumes.assume(pod.uid, "a1", late)
    assert nodes_for(world, "u") == EVERYWHERE


# What the input does not hold


@pytest.mark.parametrize(
    ("unseen", "objects"),
    [
        ({CLAIMS}, ()),
        ({VOLUMES}, (a_bound_pvc(),)),
        ({CLASSES}, (a_pvc(),)),
    ],
)
def test_what_hangs_on_kinds_that_nobody_has_seen_is_not_looked_at(unseen: set[str], objects: tuple[Any, ...]) -> None:
    world = a_world(unseen=unseen)
    for claim in objects:
        world.volumes.set_claim(claim)
    assert nodes_for(world) == EVERYWHERE
    assert planned(world, "a1") == ({}, [])


def test_a_claim_that_is_still_to_be_made_is_not_looked_at() -> None:
    pod = a_pod_with("data", ephemeral="scratch")
    assert left(VOLUME_BINDING, a_world(unmade={("default", "data"), ("default", "p-scratch")}), pod) == EVERYWHERE


# What may help


def is_helped(event: Event, pod: Pod) -> bool:
    hint = VOLUME_BINDING.reason.hints.get(type(event))
    refusal = Refusal(frozenset({VOLUME_BINDING.reason}), pod_requests(pod))
    return bool(hint and hint(RefusedPod(pod, refusal), event))


@pytest.mark.parametrize(
    ("event", "helps"),
    [
        (StorageClassChanged(None, a_storage_class()), True),
        (StorageClassChanged(a_storage_class(), a_storage_class(topologies=where_label(ZONE, "A"))), True),
        (StorageClassChanged(a_storage_class(), a_storage_class()), False),
        (StorageClassChanged(a_storage_class(), None), False),
        (PersistentVolumeClaimChanged(None, a_pvc("v")), True),
        (PersistentVolumeClaimChanged(a_pvc("v"), a_bound_pvc("v")), True),
        (PersistentVolumeClaimChanged(a_pvc("u"), a_bound_pvc("u")), False),
        (PersistentVolumeClaimChanged(a_pvc("v"), None), False),
        (PersistentVolumeChanged(None, a_pv()), True),
        (PersistentVolumeChanged(a_pv(), a_pv(phase="Bound")), True),
        (PersistentVolumeChanged(a_pv(), None), False),
        (NodeChanged(None, in_zone("n")), True),
        (NodeChanged(in_zone("n"), in_zone("n", "A")), True),
        (NodeChanged(in_zone("n"), in_zone("n")), False),
        (CSINodeChanged(None, CSINode("n", {DRIVER: 1})), False),
        (CSINodeChanged(CSINode("n"), CSINode("n", migrated=frozenset({"x"}))), True),
        (CSIDriverChanged(CSIDriver(DRIVER, publishes_capacity=True), CSIDriver(DRIVER)), True),
        (CSIDriverChanged(CSIDriver(DRIVER, publishes_capacity=True), None), True),
        (CSIDriverChanged(CSIDriver(DRIVER), CSIDriver(DRIVER, publishes_capacity=True)), False),
        (CSIStorageCapacityChanged(None, a_capacity()), True),
        (CSIStorageCapacityChanged(a_capacity(), a_capacity(largest="2Gi")), True),
        (CSIStorageCapacityChanged(a_capacity(), a_capacity(largest="1Mi")), False),
        (CSIStorageCapacityChanged(a_capacity(), None), False),
        (GivenBack(a_pod_with("u")), True),
        (GivenBack(a_pod()), False),
    ],
)
def test_what_may_bring_a_volume_helps(event: Event, *, helps: bool) -> None:
    assert is_helped(event, a_pod_with("v")) is helps


# What keeps the pod where it is


def test_annotation_that_keeps_the_pod_on_a_node_is_said() -> None:
    world = a_world_with(a_pvc("v", selected_node="a2"))
    text = pinned(cycle_of(world, a_pod_with("v")))
    assert "PersistentVolumeClaim default/v" in text
    assert "node a2" in text
    assert "volume.kubernetes.io/selected-node" in text


def test_nothing_keeps_a_pod_whose_claims_name_no_node_or_are_bound() -> None:
    world = a_world_with(a_pvc("v"), a_bound_pvc("u", selected_node="a2"), a_pv())
    assert pinned(cycle_of(world, a_pod_with("v", "u"))) == ""


def test_pod_that_is_kept_on_a_node_that_refuses_it_is_reported_by_what() -> None:
    world = with_room(a_world_with(a_pvc("v", selected_node="gone")))
    result = decide(world, a_pod_with("v"), ())
    assert isinstance(result, NotPlaced)
    assert UNAVAILABLE in result.refusal.message
    assert "default/v keeps the pod on node gone" in result.refusal.message


def test_node_where_no_volume_could_be_made_is_taken_only_if_there_is_no_other() -> None:
    world = with_room(a_world_with(a_pvc("v")))
    nodes = []
    for _ in range(4):
        result = decide(world, a_pod_with("v", nominated_node="a1"), ())
        assert isinstance(result, Placed)
        nodes.append(result.node)
        world.volumes.decline(("default", "v"), result.node)
    assert (nodes[0], sorted(nodes[:3]), nodes[3]) == ("a1", EVERYWHERE, "a1")


def with_room(world: Cluster) -> Cluster:
    """The nodes have room for pods."""
    for name in EVERYWHERE:
        node = world.node(name)
        assert node is not None
        world.set_node(replace(node, allocatable=amounts(pods="10")))
    return world

import pytest

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import Handle, PodVolumes
from scheduler.core_v1.storage_objects import CSIDriver, CSINode, VolumeAttachment
from scheduler.decision.cluster import Cluster
from scheduler.plugins.node_volume_limits import EXCEEDED, NODE_VOLUME_LIMITS, UNINSTALLED
from scheduler.plugins.plugin import Refusal, RefusedPod
from scheduler.state.cluster_changes import (
    CSIDriverChanged,
    CSINodeChanged,
    Event,
    GivenBack,
    NodeChanged,
    PersistentVolumeClaimChanged,
    PodChanged,
    VolumeAttachmentChanged,
)
from scheduler.state.pods import pod_requests
from tests.builders import a_node, a_pod
from tests.storage import DRIVER, a_bound_pvc, a_pod_with, a_pv, a_pvc, a_storage_class
from tests.unit.scheduler.plugins.world import a_world, in_zone, said

FULL = ([EXCEEDED], True)


def a_limited_world(*, is_strict: bool = False) -> Cluster:
    """A node of zone A takes one volume of the driver; v has pv1, and u has pv2."""
    world = a_world(is_strict=is_strict)
    for name in ("a1", "a2"):
        world.volumes.set_csi_node(CSINode(name, {DRIVER: 1}))
    for claim, volume in (("v", "pv1"), ("u", "pv2")):
        world.volumes.set_claim(a_bound_pvc(claim, volume))
        world.volumes.set_volume(a_pv(volume))
    return world


def refused(world: Cluster, pod: Pod | None = None) -> list[str]:
    found = said(NODE_VOLUME_LIMITS, world, pod or a_pod_with("v"))
    assert all(one == FULL for one in found.values())
    return sorted(found)


def test_a_node_takes_as_many_volumes_of_a_driver_as_it_says() -> None:
    world = a_limited_world()
    assert refused(world) == []
    assert refused(world, a_pod_with("v", "u")) == ["a1", "a2"]
    world.set_pod(a_pod_with("u", name="q", node_name="a1"))
    assert refused(world) == ["a1"]


def test_a_volume_that_another_pod_has_there_is_no_further_one() -> None:
    world = a_limited_world()
    world.set_pod(a_pod_with("v", name="q", node_name="a1"))
    assert refused(world) == []
    world.set_pod(a_pod_with("v", name="r", node_name="a1"))
    assert refused(world, a_pod_with("u")) == ["a1"]


def test_volumes_with_one_handle_are_one() -> None:
    world = a_limited_world()
    world.volumes.set_volume(a_pv("pv2", handle=Handle(DRIVER, "pv1")))
    assert refused(world, a_pod_with("v", "u")) == []


@pytest.mark.parametrize(("is_strict", "nodes"), [(False, []), (True, ["a1"])])
def test_its_own_volume_that_is_still_attached_takes_no_second_place(*, is_strict: bool, nodes: list[str]) -> None:
    world = a_limited_world(is_strict=is_strict)
    world.volumes.set_attachment(VolumeAttachment("va", DRIVER, "a1", "pv1"))
    assert refused(world) == nodes
    assert refused(world, a_pod_with("u")) == ["a1"]
    world.volumes.remove_attachment("va")
    assert refused(world, a_pod_with("u")) == []


def test_a_volume_that_is_attached_and_used_counts_once() -> None:
    world = a_limited_world()
    world.volumes.set_csi_node(CSINode("a1", {DRIVER: 2}))
    world.volumes.set_attachment(VolumeAttachment("va", DRIVER, "a1", "pv2"))
    world.set_pod(a_pod_with("u", name="q", node_name="a1"))
    assert refused(world) == []


def test_attachments_count_once_their_volume_and_their_node_are_known() -> None:
    world = a_limited_world()
    world.volumes.set_csi_node(CSINode("late", {DRIVER: 1}))
    world.volumes.set_attachment(VolumeAttachment("va", DRIVER, "late", "pv9"))
    world.set_node(in_zone("late"))
    assert refused(world) == []
    world.volumes.set_volume(a_pv("pv9"))
    assert refused(world) == ["late"]
    world.remove_node("late")
    world.set_node(in_zone("late"))
    assert refused(world) == ["late"]
    world.volumes.remove_volume("pv9")
    assert refused(world) == []


def test_a_claim_without_a_volume_counts_as_one_of_its_class() -> None:
    world = a_limited_world()
    world.volumes.set_claim(a_pvc("new"))
    world.set_pod(a_pod_with("u", name="q", node_name="a1"))
    assert refused(world, a_pod_with("new")) == []
    world.volumes.set_class(a_storage_class())
    assert refused(world, a_pod_with("new")) == ["a1"]


def test_claims_of_pods_count_as_what_is_known_of_them_now() -> None:
    world = a_limited_world()
    world.set_pod(a_pod_with("late", name="q", node_name="a1"))
    assert refused(world) == []
    world.volumes.set_claim(a_bound_pvc("late", "pv3"))
    assert refused(world) == []
    world.volumes.set_volume(a_pv("pv3"))
    assert refused(world) == ["a1"]
    world.volumes.set_claim(a_bound_pvc("late", "pv1"))
    assert refused(world) == []
    world.volumes.remove_claim(("default", "late"))
    assert refused(world, a_pod_with("u")) == []


def test_an_ephemeral_volume_counts_by_the_claim_that_was_made_for_it() -> None:
    world = a_limited_world()
    world.volumes.set_claim(a_bound_pvc("q-scratch", "pv3"))
    world.volumes.set_volume(a_pv("pv3"))
    world.set_pod(a_pod_with(ephemeral="scratch", name="q", node_name="a1"))
    assert refused(world) == ["a1"]


def test_disks_of_pods_count_as_their_drivers_volumes() -> None:
    world = a_limited_world()
    world.set_pod(a_pod(name="q", node_name="a1", volumes=PodVolumes(handles=(Handle(DRIVER, "disk"),))))
    assert refused(world) == ["a1"]


def test_limits_follow_the_csi_node() -> None:
    world = a_limited_world()
    world.set_pod(a_pod_with("u", name="q", node_name="a1"))
    world.volumes.set_csi_node(CSINode("a1", {DRIVER: 2}))
    assert refused(world) == []
    world.volumes.set_csi_node(CSINode("a1", {DRIVER: 0, "e.io": 0}))
    assert refused(world) == ["a1"]
    world.volumes.remove_csi_node("a1")
    assert refused(world) == []


def test_a_missing_claim_is_named_where_no_other_plugin_did() -> None:
    said_of = said(NODE_VOLUME_LIMITS, a_world(), a_pod_with("gone"))
    assert said_of["a1"] == (['looking up PVC default/gone: persistentvolumeclaim "gone" not found'], False)


def is_helped(event: Event, pod: Pod) -> bool:
    hint = NODE_VOLUME_LIMITS.reason.hints.get(type(event))
    refusal = Refusal(frozenset({NODE_VOLUME_LIMITS.reason}), pod_requests(pod))
    return bool(hint and hint(RefusedPod(pod, refusal), event))


@pytest.mark.parametrize(
    ("event", "helps"),
    [
        (CSINodeChanged(None, CSINode("n")), True),
        (CSINodeChanged(CSINode("n", {DRIVER: 1}), CSINode("n", {DRIVER: 2})), True),
        (CSINodeChanged(CSINode("n", {DRIVER: 1}), CSINode("n")), True),
        (CSINodeChanged(CSINode("n", {DRIVER: 1}), None), True),
        (CSINodeChanged(CSINode("n", {DRIVER: 2}), CSINode("n", {DRIVER: 1, "e.io": 9})), False),
        (PodChanged(a_pod_with("u", node_name="n"), None), True),
        (PodChanged(a_pod(node_name="n"), None), False),
        (PodChanged(a_pod_with("u"), None), False),
        (GivenBack(a_pod_with("u")), True),
        (GivenBack(a_pod()), False),
        (PersistentVolumeClaimChanged(None, a_pvc("v")), True),
        (PersistentVolumeClaimChanged(a_pvc("v"), a_bound_pvc("v")), False),
        (PersistentVolumeClaimChanged(None, a_pvc("u")), False),
        (VolumeAttachmentChanged(VolumeAttachment("va", DRIVER, "n"), None), True),
        (VolumeAttachmentChanged(None, VolumeAttachment("va", DRIVER, "n")), False),
        (NodeChanged(None, a_node()), True),
        (NodeChanged(a_node(), a_node()), False),
    ],
)
def test_what_may_leave_room_for_a_volume_helps(event: Event, *, helps: bool) -> None:
    assert is_helped(event, a_pod_with("v")) is helps


def a_world_that_needs_its_driver(release: str = "1.37") -> Cluster:
    """a1 has the driver, a2 another one, b1 has no CSINode; v has pv1 of the driver."""
    world = a_world(release=release)
    world.volumes.set_driver(CSIDriver(DRIVER, is_required=True))
    world.volumes.set_csi_node(CSINode("a1", drivers=frozenset({DRIVER})))
    world.volumes.set_csi_node(CSINode("a2", drivers=frozenset({"other.io"})))
    world.volumes.set_claim(a_bound_pvc("v", "pv1"))
    world.volumes.set_volume(a_pv("pv1"))
    return world


MISSING = ([f"{DRIVER} {UNINSTALLED}"], True)


def test_a_node_without_the_driver_is_refused_where_the_driver_asks_for_that_from_1_37_on() -> None:
    pod = a_pod_with("v")
    assert said(NODE_VOLUME_LIMITS, a_world_that_needs_its_driver("1.36"), pod) == {}
    world = a_world_that_needs_its_driver()
    assert said(NODE_VOLUME_LIMITS, world, pod) == {"a2": MISSING, "b1": MISSING}
    world.volumes.set_csi_node(CSINode("b1", drivers=frozenset({DRIVER})))
    assert said(NODE_VOLUME_LIMITS, world, pod) == {"a2": MISSING}
    world.volumes.set_driver(CSIDriver(DRIVER))
    assert said(NODE_VOLUME_LIMITS, world, pod) == {}


def test_a_volume_that_is_not_there_yet_needs_the_driver_of_its_class() -> None:
    world = a_world_that_needs_its_driver()
    world.volumes.set_class(a_storage_class())
    world.volumes.set_claim(a_pvc("new"))
    assert said(NODE_VOLUME_LIMITS, world, a_pod_with("new")) == {"a2": MISSING, "b1": MISSING}


def test_a_former_in_tree_volume_needs_no_driver_where_there_is_no_csi_node() -> None:
    world = a_world_that_needs_its_driver()
    world.volumes.set_volume(a_pv("pv1", is_csi=False))
    assert said(NODE_VOLUME_LIMITS, world, a_pod_with("v")) == {"a2": MISSING}


def test_the_missing_driver_is_named_before_any_limit() -> None:
    world = a_world_that_needs_its_driver()
    world.volumes.set_csi_node(CSINode("a1", {DRIVER: 0}, drivers=frozenset({DRIVER})))
    world.volumes.set_csi_node(CSINode("a2", {DRIVER: 0}))
    assert said(NODE_VOLUME_LIMITS, world, a_pod_with("v")) == {"a1": FULL, "a2": MISSING, "b1": MISSING}


@pytest.mark.parametrize(
    ("event", "helps"),
    [
        (CSINodeChanged(CSINode("n"), CSINode("n", drivers=frozenset({DRIVER}))), True),
        (CSINodeChanged(CSINode("n", drivers=frozenset({DRIVER})), CSINode("n")), False),
        (CSIDriverChanged(CSIDriver(DRIVER, is_required=True), CSIDriver(DRIVER)), True),
        (CSIDriverChanged(CSIDriver(DRIVER, is_required=True), None), True),
        (CSIDriverChanged(CSIDriver(DRIVER), CSIDriver(DRIVER, is_required=True)), False),
        (CSIDriverChanged(None, CSIDriver(DRIVER, is_required=True)), False),
    ],
)
def test_a_driver_that_comes_to_a_node_or_is_no_longer_needed_may_help(event: Event, *, helps: bool) -> None:
    assert is_helped(event, a_pod_with("v")) is helps

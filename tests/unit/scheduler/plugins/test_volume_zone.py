import pytest

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import BETA_ZONE, REGION, ZONE
from scheduler.core_v1.storage_objects import PersistentVolumeClaim
from scheduler.decision.cluster import Cluster
from scheduler.plugins.plugin import Refusal, RefusedPod
from scheduler.plugins.volume_zone import ELSEWHERE, VOLUME_ZONE
from scheduler.state.cluster_changes import (
    Event,
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    StorageClassChanged,
)
from scheduler.state.pods import pod_requests
from tests.storage import a_bound_pvc, a_pod_with, a_pv, a_pvc, a_storage_class
from tests.unit.scheduler.plugins.world import a_world, before, in_zone, left, said


def a_world_with(**labels: str) -> Cluster:
    """The claim v has a volume with these labels; the node n is in no zone."""
    world = a_world(in_zone("n"))
    world.volumes.set_claim(a_bound_pvc())
    world.volumes.set_volume(a_pv(labels=labels))
    return world


@pytest.mark.parametrize(
    ("labels", "nodes"),
    [
        ({}, ["a1", "a2", "b1", "n"]),
        ({ZONE: "B"}, ["b1", "n"]),
        ({ZONE: "B__C"}, ["b1", "n"]),
        ({ZONE: " A __ B "}, ["a1", "a2", "b1", "n"]),
        ({ZONE: "A__"}, ["a1", "a2", "b1", "n"]),
        ({BETA_ZONE: "B"}, ["b1", "n"]),
        ({ZONE: "A", BETA_ZONE: "B"}, ["n"]),
        ({REGION: "r"}, ["n"]),
    ],
)
def test_a_volume_is_used_in_its_zone_and_where_nobody_names_zones(labels: dict[str, str], nodes: list[str]) -> None:
    assert left(VOLUME_ZONE, a_world_with(**labels), a_pod_with("v")) == nodes


def test_no_other_pods_end_brings_the_zone_nearer() -> None:
    assert said(VOLUME_ZONE, a_world_with(**{ZONE: "B"}), a_pod_with("v"))["a1"] == ([ELSEWHERE], False)


def test_the_older_label_of_a_node_goes_before_the_one_that_stands_in_for_it() -> None:
    world = a_world_with(**{BETA_ZONE: "B"})
    world.set_node(in_zone("b1", "B", **{BETA_ZONE: "X"}))
    assert left(VOLUME_ZONE, world, a_pod_with("v")) == ["n"]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (a_bound_pvc("v", "gone"), 'persistentvolume "gone" not found'),
        (a_pvc("v", storage_class=""), "PersistentVolumeClaim had no pv name and storageClass name"),
        (a_pvc("v", storage_class="gone"), 'storageclass.storage.k8s.io "gone" not found'),
        (a_pvc("v", storage_class="now"), "PersistentVolume had no name"),
        (a_pvc("v"), ""),
    ],
)
def test_a_volume_that_should_be_there_and_is_not_refuses_every_node(claim: PersistentVolumeClaim, text: str) -> None:
    world = a_world()
    world.volumes.set_class(a_storage_class())
    world.volumes.set_class(a_storage_class("now", binding_mode="Immediate"))
    world.volumes.set_claim(claim)
    assert before(VOLUME_ZONE, world, a_pod_with("v")) == text


def test_ephemeral_volumes_are_not_looked_at() -> None:
    world = a_world_with(**{ZONE: "B"})
    world.volumes.set_claim(a_bound_pvc("p-scratch"))
    assert left(VOLUME_ZONE, world, a_pod_with(ephemeral="scratch")) == ["a1", "a2", "b1", "n"]


def is_helped(event: Event, pod: Pod) -> bool:
    hint = VOLUME_ZONE.reason.hints.get(type(event))
    refusal = Refusal(frozenset({VOLUME_ZONE.reason}), pod_requests(pod))
    return bool(hint and hint(RefusedPod(pod, refusal), event))


@pytest.mark.parametrize(
    ("event", "helps"),
    [
        (StorageClassChanged(None, a_storage_class()), True),
        (StorageClassChanged(None, a_storage_class(binding_mode="Immediate")), False),
        (StorageClassChanged(a_storage_class(provisioner="x"), a_storage_class()), False),
        (PersistentVolumeClaimChanged(a_pvc("v"), a_bound_pvc("v")), True),
        (PersistentVolumeClaimChanged(a_pvc("u"), a_bound_pvc("u")), False),
        (PersistentVolumeChanged(None, a_pv()), True),
        (PersistentVolumeChanged(a_pv(labels={ZONE: "A"}), a_pv(labels={ZONE: "B"})), True),
        (PersistentVolumeChanged(a_pv(phase="Available"), a_pv(phase="Bound")), False),
        (PersistentVolumeChanged(a_pv(), None), False),
        (NodeChanged(None, in_zone("n")), True),
        (NodeChanged(in_zone("n", "A"), in_zone("n", "B")), True),
        (NodeChanged(in_zone("n"), None), False),
    ],
)
def test_what_may_bring_volume_and_node_together_helps(event: Event, *, helps: bool) -> None:
    assert is_helped(event, a_pod_with("v")) is helps

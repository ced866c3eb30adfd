"""Storage objects as the API writes them, to the values that placement looks at."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from allocator.api.findings import FieldError
from allocator.model import Requirement, Term
from cel.values.quantity import Quantity
from scheduler.core_v1.pod_volumes import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ClaimVolume,
    Disk,
    Handle,
    PodVolumes,
    pod_volumes,
)
from scheduler.core_v1.storage_objects import (
    ClaimReference,
    CSIDriver,
    CSINode,
    PersistentVolume,
    VolumeAttachment,
    decode_csi_driver,
    decode_csi_node,
    decode_csi_storage_capacity,
    decode_persistent_volume,
    decode_persistent_volume_claim,
    decode_storage_class,
    decode_volume_attachment,
)
from tests.unit.scheduler.manifests import Json, an_object

Decoded = TypeVar("Decoded")
Decoder = Callable[[Mapping[str, object]], tuple[Decoded | None, tuple[FieldError, ...]]]


def read(decoder: Decoder[Decoded], raw: Json) -> Decoded:
    found, errors = decoder(raw)
    assert found is not None, [str(error) for error in errors]
    return found


def errors_of(decoder: Decoder[Any], raw: Json) -> list[str]:
    found, errors = decoder(raw)
    assert found is None
    return [str(error) for error in errors]


def a_volume(*, metadata: Json | None = None, status: Json | None = None, **spec: Any) -> Json:
    usual = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "w"}
    found = {**an_object("v1", "PersistentVolume", "pv", metadata=metadata), "spec": {**usual, **spec}}
    return {**found, "status": status or {"phase": "Available"}}


def a_claim(*, metadata: Json | None = None, status: Json | None = None, **spec: Any) -> Json:
    usual = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "w"}
    found = {**an_object("v1", "PersistentVolumeClaim", "c", "ns", metadata), "spec": {**usual, **spec}}
    return {**found, "status": status or {"phase": "Pending"}}


def required(*terms: Json) -> Json:
    return {"required": {"nodeSelectorTerms": list(terms)}}


def an_expression(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def in_zone(*zones: str, key: str = ZONE) -> Json:
    return {"matchExpressions": [an_expression(key, *zones)]}


# PersistentVolumes


def test_a_volume_is_read() -> None:
    raw = a_volume(
        metadata={"resourceVersion": "7", "labels": {"a": "b"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        volumeMode="Block",
        volumeAttributesClassName="fast",
        nodeAffinity=required(in_zone("A")),
        claimRef={"namespace": "ns", "name": "c", "uid": "u"},
        csi={"driver": "d.io", "volumeHandle": "h"},
        status={"phase": "Bound"},
    )
    assert read(decode_persistent_volume, raw) == PersistentVolume(
        name="pv",
        resource_version="7",
        labels={"a": "b"},
        storage_class="w",
        capacity=Quantity.parse("1Gi"),
        access_modes=frozenset({"ReadWriteOnce"}),
        volume_mode="Block",
        attributes_class="fast",
        affinity=(Term((Requirement(ZONE, "In", ("A",)),)),),
        claim=ClaimReference("ns", "c", "u"),
        phase="Bound",
        is_deleting=True,
        handle=Handle("d.io", "h"),
        is_csi=True,
    )


def test_an_old_volume_reports_its_class_by_annotation() -> None:
    annotations = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert read(decode_persistent_volume, a_volume(metadata={"annotations": annotations})).storage_class == "old"
    assert read(decode_persistent_volume_claim, a_claim(metadata={"annotations": annotations})).storage_class == "old"


@pytest.mark.parametrize(
    ("source", "plugin", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "kubernetes.io/aws-ebs", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, "kubernetes.io/aws-ebs", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/odd"}}, "kubernetes.io/aws-ebs", None),
        ({"awsElasticBlockStore": {"volumeID": "aws://["}}, "kubernetes.io/aws-ebs", None),
        ({"awsElasticBlockStore": {"volumeID": "aws://[z]/vol-1"}}, "kubernetes.io/aws-ebs", None),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            "kubernetes.io/gce-pd",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        ({"azureDisk": {"diskURI": "/d", "kind": "Managed"}}, "kubernetes.io/azure-disk", "/d"),
        ({"azureDisk": {"diskURI": "/d", "kind": "Dedicated"}}, "kubernetes.io/azure-disk", None),
        ({"cinder": {"volumeID": "c"}}, "kubernetes.io/cinder", "c"),
        ({"portworxVolume": {"volumeID": "p"}}, "kubernetes.io/portworx-volume", "p"),
        ({"nfs": {"server": "s"}}, "", None),
        ({"cinder": 5}, "", None),
    ],
)
def test_a_volume_that_a_driver_has_taken_over_has_the_drivers_name(
    source: Json, plugin: str, handle: str | None
) -> None:
    found = read(decode_persistent_volume, a_volume(**source))
    assert found.plugin == plugin
    assert (found.handle.volume if found.handle else None) == handle
    assert not found.is_csi


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        ({ZONE: "us-east1-b"}, "projects/UNSPECIFIED/zones/us-east1-b/disks/d"),
        ({BETA_ZONE: "us-east1-b__us-east1-c"}, "projects/UNSPECIFIED/regions/us-east1/disks/d"),
        ({ZONE: "us-east1-b__eu-west1-c"}, None),
        ({ZONE: "odd__zones"}, None),
    ],
)
def test_googles_disks_are_named_by_their_zones(labels: Json, handle: str | None) -> None:
    raw = a_volume(metadata={"labels": labels}, gcePersistentDisk={"pdName": "d"})
    found = read(decode_persistent_volume, raw).handle
    assert (found.volume if found else None) == handle


GOOGLE = "topology.gke.io/zone"


@pytest.mark.parametrize(
    ("labels", "affinity", "migrated"),
    [
        ({}, None, None),
        ({}, required(in_zone("A")), (Term((Requirement(GOOGLE, "In", ("A",)),)),)),
        ({ZONE: "B"}, required(in_zone("A")), (Term((Requirement(GOOGLE, "In", ("A",)),)),)),
        ({ZONE: "b-1-x__b-1-y"}, None, (Term((Requirement(GOOGLE, "In", ("b-1-x", "b-1-y")),)),)),
        (
            {ZONE: "A"},
            required(in_zone("1", key="rack")),
            (Term((Requirement("rack", "In", ("1",)), Requirement(GOOGLE, "In", ("A",)))),),
        ),
        (
            {},
            required({"matchExpressions": [an_expression(BETA_ZONE, "A"), an_expression(BETA_REGION, "r")]}),
            (Term((Requirement(GOOGLE, "In", ("A",)), Requirement(REGION, "In", ("r",)))),),
        ),
    ],
)
def test_a_volume_that_a_driver_has_taken_over_is_reached_by_the_drivers_labels(
    labels: Json, affinity: Json | None, migrated: object
) -> None:
    raw = a_volume(metadata={"labels": labels}, gcePersistentDisk={"pdName": "d"}, nodeAffinity=affinity)
    assert read(decode_persistent_volume, raw).migrated_affinity == migrated


def test_what_is_wrong_with_a_volume_is_reported_with_its_field_and_value() -> None:
    assert errors_of(decode_persistent_volume, a_volume(capacity={"storage": "much"})) == [
        'spec.capacity[storage]: must be a quantity such as 80Gi, 500m or 4 (got "much")'
    ]
    assert errors_of(decode_persistent_volume, a_volume(capacity={"storage": "-1"})) == [
        'spec.capacity[storage]: must not be negative (got "-1")'
    ]
    assert errors_of(decode_persistent_volume, a_volume(accessModes="ReadWriteOnce")) == [
        'spec.accessModes: must be a list (got "ReadWriteOnce")'
    ]


# PersistentVolumeClaims


def test_a_claim_is_read() -> None:
    raw = a_claim(
        metadata={
            "uid": "u",
            "resourceVersion": "3",
            "annotations": {"volume.kubernetes.io/selected-node": "n"},
            "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "owner", "controller": True}],
        },
        selector={"matchLabels": {"kind": "ssd"}},
    )
    found = read(decode_persistent_volume_claim, raw)
    assert (found.key, found.uid, found.resource_version, found.owner) == (("ns", "c"), "u", "3", "owner")
    assert (found.selected_node, found.volume, found.is_bound) == ("n", "", False)
    assert found.selector == (Requirement("kind", "In", ("ssd",)),)
    assert found.request == Quantity.parse("1Gi")


@pytest.mark.parametrize(
    ("volume", "annotations", "is_bound"),
    [
        ("pv", {"pv.kubernetes.io/bind-completed": "yes"}, True),
        ("pv", {}, False),
        ("", {"pv.kubernetes.io/bind-completed": "yes"}, False),
    ],
)
def test_a_claim_is_bound_once_that_is_completed(volume: str, annotations: Json, *, is_bound: bool) -> None:
    raw = a_claim(metadata={"annotations": annotations}, volumeName=volume)
    assert read(decode_persistent_volume_claim, raw).is_bound is is_bound


def test_a_claim_may_name_a_volume_that_cannot_be() -> None:
    assert read(decode_persistent_volume_claim, a_claim(volumeName="No Name")).volume == "No Name"


def test_what_is_wrong_with_a_claim_is_reported_with_its_field_and_value() -> None:
    (error,) = errors_of(decode_persistent_volume_claim, a_claim(resources={"requests": {"storage": []}}))
    assert error.startswith("spec.resources.requests[storage]: must be a quantity")


# The rest


def test_a_class_is_read_with_the_api_servers_defaults() -> None:
    raw = {**an_object("storage.k8s.io/v1", "StorageClass", "w"), "provisioner": "d.io"}
    found = read(decode_storage_class, raw)
    assert (found.waits, found.provisions, found.topologies) == (False, True, None)
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": ["A", "B"]}]}]
    more = {"volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": terms}
    found = read(decode_storage_class, {**raw, **more, "provisioner": "kubernetes.io/no-provisioner"})
    assert (found.waits, found.provisions) == (True, False)
    assert found.topologies == (Term((Requirement(ZONE, "In", ("A", "B")),)),)


def test_a_csi_node_reports_its_drivers_and_the_limits_that_there_are() -> None:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/cinder,kubernetes.io/aws-ebs"}
    drivers = [{"name": "d.io", "allocatable": {"count": 3}}, {"name": "e.io"}, {"name": "f.io", "allocatable": {}}]
    raw = {**an_object("storage.k8s.io/v1", "CSINode", "n", metadata={"annotations": annotations})}
    migrated = frozenset({"kubernetes.io/cinder", "kubernetes.io/aws-ebs"})
    expected = CSINode("n", {"d.io": 3}, migrated, frozenset({"d.io", "e.io", "f.io"}))
    assert read(decode_csi_node, {**raw, "spec": {"drivers": drivers}}) == expected


def test_a_driver_reports_its_capacity_only_where_it_says_so() -> None:
    raw = an_object("storage.k8s.io/v1", "CSIDriver", "d.io")
    assert read(decode_csi_driver, raw) == CSIDriver("d.io")
    assert read(decode_csi_driver, {**raw, "spec": {"storageCapacity": True}}).publishes_capacity
    assert read(decode_csi_driver, {**raw, "spec": {"preventPodSchedulingIfMissing": True}}).is_required


@pytest.mark.parametrize(
    ("reported", "largest"),
    [
        ({"capacity": "9Gi"}, "9Gi"),
        ({"capacity": "9Gi", "maximumVolumeSize": "4Gi"}, "4Gi"),
        ({"maximumVolumeSize": "4Gi"}, "4Gi"),
        ({}, None),
    ],
)
def test_the_largest_volume_goes_before_all_that_is_left(reported: Json, largest: str | None) -> None:
    raw = {**an_object("storage.k8s.io/v1", "CSIStorageCapacity", "k", "ns"), "storageClassName": "w", **reported}
    found = read(decode_csi_storage_capacity, raw)
    assert found.largest == (Quantity.parse(largest) if largest else None)
    assert found.topology is None


def test_a_capacity_below_zero_is_an_error() -> None:
    raw = {**an_object("storage.k8s.io/v1", "CSIStorageCapacity", "k", "ns"), "storageClassName": "w"}
    assert errors_of(decode_csi_storage_capacity, {**raw, "capacity": "-1"}) == [
        'capacity: must not be negative (got "-1")'
    ]


def test_an_attachment_is_read() -> None:
    source = {"persistentVolumeName": "pv"}
    raw = an_object("storage.k8s.io/v1", "VolumeAttachment", "va")
    spec = {"attacher": "d.io", "nodeName": "n", "source": source}
    assert read(decode_volume_attachment, {**raw, "spec": spec}) == VolumeAttachment("va", "d.io", "n", "pv")
    inline = {"attacher": "d.io", "nodeName": "n", "source": {"inlineVolumeSpec": {}}}
    assert read(decode_volume_attachment, {**raw, "spec": inline}).volume == ""


# Volumes of pods


@pytest.mark.parametrize(
    ("volume", "found"),
    [
        ({"persistentVolumeClaim": {"claimName": "c"}}, PodVolumes((ClaimVolume("c"),))),
        ({"ephemeral": {}}, PodVolumes((ClaimVolume("v", is_ephemeral=True),))),
        ({"csi": {"driver": "d.io"}}, PodVolumes()),
        ({"emptyDir": {}}, PodVolumes()),
        (
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            PodVolumes(
                disks=(Disk("gcePersistentDisk", ("d",), is_shared=True),),
                handles=(Handle("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),),
            ),
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}},
            PodVolumes(
                disks=(Disk("awsElasticBlockStore", ("vol-1",)),), handles=(Handle("ebs.csi.aws.com", "vol-1"),)
            ),
        ),
        ({"iscsi": {"iqn": "q"}}, PodVolumes(disks=(Disk("iscsi", ("q",)),))),
        (
            {"rbd": {"monitors": ["a", "b"], "image": "i", "readOnly": True}},
            PodVolumes(
                disks=(Disk("rbd", ("a", "rbd", "i"), is_shared=True), Disk("rbd", ("b", "rbd", "i"), is_shared=True))
            ),
        ),
        ({"persistentVolumeClaim": "c", "rbd": {"monitors": 5}}, PodVolumes()),
    ],
)
def test_volumes_of_pods_are_those_that_a_node_has_to_do_with(volume: Json, found: PodVolumes) -> None:
    assert pod_volumes({"volumes": [{"name": "v", **volume}]}) == found


def test_the_claim_of_an_ephemeral_volume_is_named_by_pod_and_volume() -> None:
    assert ClaimVolume("scratch", is_ephemeral=True).claim_of("web-0") == "web-0-scratch"
    assert ClaimVolume("data").claim_of("web-0") == "data"


def test_more_volumes_than_the_api_can_say_are_an_error() -> None:
    drivers = [{"name": "d.io", "nodeID": "n", "allocatable": {"count": 2**31}}]
    raw = {**an_object("storage.k8s.io/v1", "CSINode", "n"), "spec": {"drivers": drivers}}
    assert errors_of(decode_csi_node, raw) == [
        f"spec.drivers[0].allocatable[count]: must be at most {2**31 - 1} (got {2**31})"
    ]

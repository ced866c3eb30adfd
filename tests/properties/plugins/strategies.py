"""Small clusters with storage: few names, so that what is drawn has to do with what was drawn before."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from allocator.model import Node, NodeSelector, Requirement, Term
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import BETA_ZONE, ZONE, ClaimVolume, Disk, Handle, PodVolumes
from scheduler.core_v1.storage_objects import (
    AVAILABLE,
    ONE_POD,
    ClaimReference,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

NODES = ("n0", "n1", "n2")
CLAIMS = ("c0", "c1", "c2", "p-e")
VOLUMES = ("v0", "v1", "v2", "v3")
CLASSES = ("w", "x")
DRIVERS = ("d.io", "e.io")
KINDS = ("nodes", "volumes", "claims", "classes", "csi_nodes", "drivers", "capacities", "attachments", "pods")
HOST = "host"

any_of = st.sampled_from
sizes = any_of([Quantity.parse(text) for text in ("1Gi", "2Gi", "3Gi")])
zones = any_of(["A", "B"])


def sometimes(values: st.SearchStrategy[Any], usual: Any = None) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(usual), st.just(usual), values)


def rarely(value: Any, usual: Any = None) -> st.SearchStrategy[Any]:
    return any_of([*[usual] * 7, value])


requirements = st.one_of(
    st.builds(Requirement, st.just(ZONE), any_of(["In", "NotIn"]), st.tuples(zones)),
    st.builds(Requirement, st.just(HOST), st.just("In"), st.lists(any_of(NODES), min_size=1).map(tuple)),
    st.builds(Requirement, any_of([ZONE, BETA_ZONE]), any_of(["Exists", "DoesNotExist"]), st.just(())),
    st.builds(Requirement, st.just("number"), any_of(["Gt", "Lt"]), st.just(("1",))),
)
terms = st.builds(Term, st.lists(requirements, max_size=2).map(tuple))
selectors: st.SearchStrategy[NodeSelector] = st.lists(terms, max_size=2).map(tuple)
some_terms: st.SearchStrategy[NodeSelector] = st.lists(terms, min_size=1, max_size=2).map(tuple)


@st.composite
def nodes(draw: st.DrawFn, names: Sequence[str] = NODES) -> Node:
    name = draw(any_of(names))
    more = {ZONE: zones, BETA_ZONE: zones, "number": any_of(["0", "1", "2", "x"])}
    labels = {key: draw(values) for key, values in more.items() if draw(st.booleans())}
    return Node(name, {HOST: name, **labels})


def handles(*names: str) -> st.SearchStrategy[Handle]:
    return st.tuples(any_of(DRIVERS), any_of(names)).map(lambda found: Handle(*found))


references = st.builds(ClaimReference, st.just("default"), any_of(CLAIMS), any_of(["", "uid-c0", "uid-c1"]))
modes = any_of(
    [frozenset({"ReadWriteOnce"})] * 3 + [frozenset({"ReadWriteOnce", "ReadWriteMany"}), frozenset({ONE_POD})]
)
volume_labels = st.dictionaries(any_of([ZONE, BETA_ZONE, "kind"]), any_of(["A", "B", "A__B", "A__"]), max_size=2)
versions = st.integers(1, 10**6).map(str)


def volumes(names: Sequence[str] = VOLUMES) -> st.SearchStrategy[PersistentVolume]:
    return st.builds(
        PersistentVolume,
        name=any_of(names),
        resource_version=versions,
        labels=volume_labels,
        storage_class=rarely("x", "w"),
        capacity=sizes,
        access_modes=modes,
        volume_mode=rarely("Block", "Filesystem"),
        attributes_class=rarely("fast", ""),
        affinity=sometimes(some_terms),
        claim=rarely(ClaimReference("default", "c0")) | sometimes(references),
        phase=rarely("Released", AVAILABLE),
        is_deleting=rarely(True, False),
        handle=sometimes(st.none(), Handle("d.io", "h")) | handles("h", "i", "j"),
        is_csi=st.booleans(),
        plugin=sometimes(st.just("in-tree"), ""),
        migrated_affinity=sometimes(selectors),
    )


@st.composite
def claims(draw: st.DrawFn, names: Sequence[str] = CLAIMS) -> PersistentVolumeClaim:
    name, volume = draw(any_of(names)), draw(any_of(["", "", "", VOLUMES[0]]))
    return PersistentVolumeClaim(
        "default",
        name,
        f"uid-{name}",
        draw(versions),
        owner="uid-p",
        storage_class=draw(rarely("x", "w")),
        volume=volume,
        is_bound=bool(volume),
        selected_node=draw(rarely("n1")),
        request=draw(sometimes(st.none(), Quantity.parse("1Gi")) | sizes),
        access_modes=draw(modes),
        volume_mode=draw(rarely("Block", "Filesystem")),
        selector=draw(rarely((Requirement("kind", "In", ("A",)),))),
    )


def classes(names: Sequence[str] = CLASSES) -> st.SearchStrategy[StorageClass]:
    return st.builds(
        StorageClass,
        any_of(names),
        any_of([*DRIVERS, "kubernetes.io/no-provisioner", "kubernetes.io/no-provisioner"]),
        rarely("Immediate", "WaitForFirstConsumer"),
        sometimes(some_terms),
    )


csi_nodes = st.builds(
    CSINode,
    any_of(NODES),
    st.dictionaries(any_of(DRIVERS), st.integers(0, 2)),
    sometimes(st.just(frozenset({"in-tree"})), frozenset()),
)
drivers = st.builds(CSIDriver, any_of(DRIVERS), st.booleans())
label_selectors = st.builds(lambda zone: (Requirement(ZONE, "In", (zone,)),), zones)
capacities = st.builds(
    CSIStorageCapacity,
    st.just("default"),
    any_of(["k0", "k1"]),
    any_of(CLASSES),
    sometimes(st.none(), ()) | label_selectors,
    sometimes(sizes),
)
attachments = st.builds(VolumeAttachment, any_of(["a0", "a1"]), any_of(DRIVERS), any_of(NODES), any_of(VOLUMES))
disks = st.builds(Disk, any_of(["gce", "rbd"]), any_of([("d",), ("e",)]), st.booleans())
claim_volumes = any_of(CLAIMS[:3]).map(ClaimVolume) | st.just(ClaimVolume("e", is_ephemeral=True))
pod_volumes = st.builds(
    PodVolumes,
    st.lists(claim_volumes, max_size=3).map(tuple),
    st.lists(disks, max_size=1).map(tuple),
    st.lists(handles("h", "z"), max_size=1).map(tuple),
)


def pods(*names: str) -> st.SearchStrategy[Pod]:
    """Pods of these names, each on a node."""
    return st.builds(
        lambda name, node, volumes: Pod("default", name, f"uid-{name}", node_name=node, volumes=volumes),
        any_of(names),
        any_of(NODES),
        pod_volumes,
    )


extras = st.builds(
    PodVolumes,
    disks=st.lists(disks, max_size=1).map(tuple),
    handles=st.lists(handles("h", "z"), max_size=1).map(tuple),
)
"""Disks of the pod itself."""


def pods_that_ask(extra: PodVolumes) -> list[Pod]:
    """A pod for each claim, for some of them together, and one with an ephemeral volume."""
    found = [[ClaimVolume(name) for name in names] for names in (*zip(CLAIMS[:3], strict=True), CLAIMS[:2], CLAIMS[:3])]
    volumes = [*found, [ClaimVolume("e", is_ephemeral=True)]]
    return [Pod("default", "p", "uid-p", volumes=replace(extra, claims=tuple(one))) for one in volumes]


furniture = st.tuples(
    *(st.tuples(st.just("nodes"), nodes([name])) for name in NODES),
    *(st.tuples(st.just("classes"), classes([name])) for name in CLASSES),
    *(st.tuples(st.just("volumes"), volumes([name])) for name in VOLUMES),
    *(st.tuples(st.just("claims"), claims([name])) for name in CLAIMS),
    *(st.tuples(st.just("pods"), pods(name)) for name in ("q", "r")),
    *(st.tuples(st.just("csi_nodes"), csi_nodes) for _ in range(2)),
    st.tuples(st.just("attachments"), attachments),
    st.tuples(st.just("drivers"), st.just(CSIDriver("d.io", publishes_capacity=True))),
    *(st.tuples(st.just("capacities"), capacities) for _ in range(2)),
).flatmap(st.permutations)
"""One object of each name, in any order."""

steps = st.lists(
    st.one_of(
        *(st.tuples(st.just("nodes"), nodes()) for _ in range(4)),
        *(st.tuples(st.just("volumes"), volumes()) for _ in range(3)),
        *(st.tuples(st.just("claims"), claims()) for _ in range(3)),
        *(st.tuples(st.just("classes"), classes()) for _ in range(2)),
        st.tuples(st.just("csi_nodes"), csi_nodes),
        st.tuples(st.just("drivers"), drivers),
        st.tuples(st.just("capacities"), capacities),
        st.tuples(st.just("attachments"), attachments),
        *(st.tuples(st.just("pods"), pods("q", "r", "s")) for _ in range(2)),
        *(st.tuples(st.just("remove"), any_of(KINDS), st.integers(0, 3)) for _ in range(4)),
        *(st.tuples(st.just("ask"), extras) for _ in range(6)),
    ),
    min_size=4,
    max_size=16,
)
"""An object that comes or changes, one of a kind that goes, or a question."""

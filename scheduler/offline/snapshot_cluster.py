"""Turns an inventory into the cluster that decisions read, as the watches of a live one would.

Missing information does not count as nothing: a node that does not say how much cpu, memory or how many pods it has,
has room for all, and a node that says nothing at all has room for every resource. Checks that depend on a kind of
storage object of which the input has none are skipped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from allocator.allocate import BUDGET_STEPS
from allocator.gates import Features
from allocator.model import Node
from cel.values.quantity import Quantity
from scheduler.core_v1.csi_driver import CSIDriver
from scheduler.core_v1.csi_node import CSINode
from scheduler.core_v1.csi_storage_capacity import CSIStorageCapacity
from scheduler.core_v1.namespace import Namespace
from scheduler.core_v1.persistent_volume import PersistentVolume
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.storage_class import StorageClass
from scheduler.core_v1.storage_object import StorageObject
from scheduler.core_v1.volume_attachment import VolumeAttachment
from scheduler.decision.cluster import Cluster
from scheduler.input.inventory import Inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.volume_claims import NO_VOLUME_CLAIMS, volume_claims_to_be
from scheduler.plugins.profile import Profile
from scheduler.state.extended_resources import ExtendedResources
from scheduler.state.pod_requests import CPU, MEMORY, MOST, OF_NODES, PODS
from scheduler.state.volumes import CAPACITIES, CLAIMS, CLASSES, VOLUMES, Volumes

VERSION = 1
"""Of the claims as they stand in the input; what is written has a later one."""

NEEDED_ALLOCATABLE = (CPU, MEMORY, PODS)
"""What every node of a cluster says that it has."""

_ROOM = Quantity.of(MOST)


def cluster_of(  # noqa: PLR0913 - the last five have defaults
    inventory: Inventory,
    claims: Claims,
    pods: Sequence[Pod],
    features: Features,
    *,
    only_node: str = "",
    assumes_room: bool = True,
    profiles: Sequence[Profile] = (Profile(),),
    budget_steps: int = BUDGET_STEPS,
    places: Mapping[str, int] = MappingProxyType({}),
) -> Cluster:
    """The cluster with the pods that have their node. Nodes have numbers in the order of their names.

    pods: each with a uid of its own (`identified`). only_node: the only one that is looked at, empty for all.
    assumes_room: for all of which nodes do not say how much they have, and that volumes of which the input says nothing
    are no obstacle; where it does not, what the input does not hold is not there. places: by name, of nodes that go
    before, in another order than that of their names.
    """
    volume_claims = volume_claims_to_be(inventory, pods) if assumes_room else NO_VOLUME_CLAIMS
    cluster = Cluster(
        features,
        is_ours=None,
        profiles=profiles,
        budget_steps=budget_steps,
        makes_claims=True,
        refuses_unsupported=False,
        unseen=unseen_storage(inventory) if assumes_room else frozenset(),
        unmade=volume_claims.bound_before,
    )
    for namespace, labels in inventory.namespaces.items():
        cluster.set_namespace(Namespace(namespace, labels))
    for selector in inventory.pod_selectors:
        cluster.selectors.set(selector)
    for device_class in inventory.classes:
        cluster.set_class(device_class)
    for rule in inventory.taint_rules:
        cluster.set_taint_rule(rule)
    for slice_ in inventory.slices:
        cluster.set_slice(slice_)
    for one in (*inventory.storage, *volume_claims.waiting):
        _add(cluster.volumes, one)
    room = room_for(pods, cluster.extended_resources)
    for node in sorted(inventory.nodes, key=lambda node: (places.get(node.name, len(places)), node.name)):
        if only_node in ("", node.name):
            cluster.set_node(with_room(node, room) if assumes_room else node)
    for found in (*claims.objects.values(), *claims.with_errors):
        cluster.set_claim(found, VERSION)
    for pod in pods:
        if (pod.node_name or pod.nominated_node) and not pod.is_finished:
            cluster.set_pod(pod)
    return cluster


def unseen_storage(inventory: Inventory) -> frozenset[str]:
    """The kinds of storage objects of which the input holds none, while every cluster has some that uses volumes."""
    needed = [CLAIMS, VOLUMES, CLASSES]
    if any(isinstance(one, CSIDriver) and one.publishes_capacity for one in inventory.storage):
        needed.append(CAPACITIES)
    return frozenset(needed) - inventory.kinds


def _add(volumes: Volumes, found: StorageObject) -> None:
    match found:
        case PersistentVolume():
            volumes.set_volume(found)
        case PersistentVolumeClaim():
            volumes.set_claim(found)
        case StorageClass():
            volumes.set_class(found)
        case CSINode():
            volumes.set_csi_node(found)
        case CSIDriver():
            volumes.set_driver(found)
        case CSIStorageCapacity():
            volumes.set_capacity(found)
        case VolumeAttachment():
            volumes.set_attachment(found)


def with_room(node: Node, room: Mapping[str, Quantity]) -> Node:
    """The node with room for all of which it does not say how much it has. room: what that is where it says nothing."""
    missing = dict.fromkeys(NEEDED_ALLOCATABLE, _ROOM) if node.allocatable else room
    if missing.keys() <= node.allocatable.keys():
        return node
    return replace(node, allocatable={**missing, **node.allocatable})


def room_for(pods: Iterable[Pod], extended: ExtendedResources) -> Mapping[str, Quantity]:
    """Room for all that the pods ask for, but for what classes stand for: that is given by claim."""
    asked = {name for pod in pods for one in pod.containers for name in one.requests if name not in extended}
    return dict.fromkeys((*NEEDED_ALLOCATABLE, *OF_NODES, *sorted(asked)), _ROOM)

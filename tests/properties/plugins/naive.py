"""What kube-scheduler's volume plugins say of a pod on a node, written to be read: every object is looked at each time.

Source: volumerestrictions, nodevolumelimits, volumebinding and volumezone of kube-scheduler.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from allocator.cluster.node_affinity import all_hold, selects_leniently
from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import BETA_REGION, BETA_ZONE, REGION, ZONE, Disk
from scheduler.core_v1.storage_objects import (
    ONE_POD,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
UNREACHED = "node(s) didn't match PersistentVolume's node affinity"
UNAVAILABLE = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@dataclass
class Storage:
    """All objects, and the pods on each node."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CSINode] = field(default_factory=dict)
    drivers: dict[str, CSIDriver] = field(default_factory=dict)
    capacities: dict[str, CSIStorageCapacity] = field(default_factory=dict)
    attachments: dict[str, VolumeAttachment] = field(default_factory=dict)

    def on(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node_name == node]


def is_ready(storage: Storage, pod: Pod) -> bool:
    """Whether all claims are there, each with its volume or waiting for its pod."""
    claims = [storage.claims.get(name) for name in claim_names(pod)]
    if any(claim is None or claim.phase == "Lost" or claim.is_deleting for claim in claims):
        return False
    found = [claim for claim in claims if claim]
    if any(not claim.is_bound and not waits(storage, claim) for claim in found):
        return False
    named = [storage.claims[name] for name in pod.volumes.named_claims]
    return all(not claim.volume or claim.volume in storage.volumes for claim in named)


# VolumeRestrictions


def restrictions(storage: Storage, pod: Pod, node: Node) -> set[str]:
    if any(clash(one, other) for one in pod.volumes.disks for other in disks(storage.on(node.name))):
        return {"node(s) had no available disk"}
    for name in pod.volumes.named_claims:
        claim = storage.claims.get(name)
        if claim and ONE_POD in claim.access_modes and is_used(storage, name):
            return {IN_USE}
    return set()


def disks(pods: Iterable[Pod]) -> list[Disk]:
    return [disk for pod in pods for disk in pod.volumes.disks]


def clash(one: Disk, other: Disk) -> bool:
    return (one.source, one.name) == (other.source, other.name) and not (one.is_shared and other.is_shared)


def is_used(storage: Storage, claim: str) -> bool:
    there = [pod for pod in storage.pods.values() if pod.node_name in storage.nodes]
    return any(claim in pod.volumes.named_claims for pod in there)


# NodeVolumeLimits


def limits(storage: Storage, pod: Pod, node: Node) -> set[str]:
    csi_node = storage.csi_nodes.get(node.name)
    there = {handle for other in storage.on(node.name) for handle in handles(storage, other)}
    there |= set(attached(storage, node))
    new = set(handles(storage, pod)) - there
    for driver, limit in (csi_node.limits if csi_node else {}).items():
        mine = [one for one in new if one[0] == driver]
        if mine and len(mine) + sum(one[0] == driver for one in there) > limit:
            return {"node(s) exceed max volume count"}
    return set()


def handles(storage: Storage, pod: Pod) -> Iterator[tuple[str, str]]:
    for name in claim_names(pod):
        claim = storage.claims.get(name)
        volume = storage.volumes.get(claim.volume) if claim else None
        storage_class = storage.classes.get(claim.storage_class) if claim else None
        if volume:
            if volume.handle:
                yield volume.handle.driver, volume.handle.volume
        elif storage_class and storage_class.provisioner:
            yield storage_class.provisioner, f"to be made for {name}"
    for handle in pod.volumes.handles:
        yield handle.driver, handle.volume


def attached(storage: Storage, node: Node) -> Iterator[tuple[str, str]]:
    for one in storage.attachments.values():
        volume = storage.volumes.get(one.volume)
        if one.node == node.name and volume and volume.is_csi and volume.handle:
            yield one.attacher, volume.handle.volume


def claim_names(pod: Pod) -> list[str]:
    return list(dict.fromkeys(one.claim_of(pod.name) for one in pod.volumes.claims))


# VolumeBinding


def binding(storage: Storage, pod: Pod, node: Node) -> set[str]:
    claims = [storage.claims[name] for name in claim_names(pod) if name in storage.claims]
    waiting = [claim for claim in claims if not claim.is_bound and waits(storage, claim)]
    return {*bound(storage, [claim for claim in claims if claim.is_bound], node), *unbound(storage, waiting, node)}


def waits(storage: Storage, claim: PersistentVolumeClaim) -> bool:
    found = storage.classes.get(claim.storage_class)
    return found is not None and found.waits and not claim.volume


def bound(storage: Storage, claims: Sequence[PersistentVolumeClaim], node: Node) -> Iterator[str]:
    for claim in claims:
        volume = storage.volumes.get(claim.volume)
        if volume is None:
            yield MISSING
            return
        csi_node = storage.csi_nodes.get(node.name)
        is_migrated = csi_node is not None and volume.plugin in csi_node.migrated
        affinity = volume.migrated_affinity if is_migrated else volume.affinity
        if affinity is not None and not selects_leniently(affinity, Node("", node.labels)):
            yield UNREACHED
            return


def unbound(storage: Storage, claims: Sequence[PersistentVolumeClaim], node: Node) -> Iterator[str]:
    if any(claim.selected_node not in (None, node.name) for claim in claims):
        yield UNAVAILABLE
        return
    to_provision = [claim for claim in claims if claim.selected_node is not None]
    matched = matches(storage, [claim for claim in claims if claim.selected_node is None], node)
    to_provision += [claim for claim, volume in matched if volume is None]
    for claim in to_provision:
        if problem := provisioning(storage, claim, node):
            yield problem
            return


def matches(
    storage: Storage, claims: Sequence[PersistentVolumeClaim], node: Node
) -> list[tuple[PersistentVolumeClaim, PersistentVolume | None]]:
    found: list[tuple[PersistentVolumeClaim, PersistentVolume | None]] = []
    for claim in sorted(claims, key=lambda claim: claim.size):
        taken = {volume.name for _, volume in found if volume}
        left = [volume for volume in storage.volumes.values() if volume.name not in taken]
        found.append((claim, match(claim, left, node)))
    return found


def match(claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume], node: Node) -> PersistentVolume | None:
    alike = [volume for volume in volumes if is_alike(claim, volume)]
    own = [one for one in alike if one.is_for(claim.namespace, claim.name, claim.uid)]
    if own:
        found = min(own, key=lambda volume: volume.name)
        return found if is_reached(found, node) else None
    free = [one for one in alike if one.claim is None and is_free(claim, one) and is_reached(one, node)]
    return min(free, key=lambda volume: volume.capacity, default=None)


def is_alike(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return (
        volume.storage_class == claim.storage_class
        and volume.capacity >= claim.size
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.is_deleting
    )


def is_free(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    is_selected = claim.selector is None or all_hold(claim.selector, volume.labels)
    return volume.phase == "Available" and is_selected and claim.access_modes <= volume.access_modes


def is_reached(volume: PersistentVolume, node: Node) -> bool:
    return volume.affinity is None or selects_leniently(volume.affinity, Node("", node.labels))


def provisioning(storage: Storage, claim: PersistentVolumeClaim, node: Node) -> str:
    found = storage.classes[claim.storage_class]
    topologies = found.topologies
    is_allowed = topologies is None or selects_leniently(topologies, Node("", node.labels))
    if found.provisioner in ("", "kubernetes.io/no-provisioner") or not is_allowed:
        return UNAVAILABLE
    driver = storage.drivers.get(found.provisioner)
    if claim.request is None or driver is None or not driver.publishes_capacity:
        return ""
    rooms = [
        one.largest
        for one in storage.capacities.values()
        if one.storage_class == found.name and one.topology is not None and all_hold(one.topology, node.labels)
    ]
    return "" if any(room is not None and room >= claim.request for room in rooms) else NO_SPACE


# VolumeZone


def zone(storage: Storage, pod: Pod, node: Node) -> set[str]:
    keys = (ZONE, REGION, BETA_ZONE, BETA_REGION)
    if not any(key in node.labels for key in keys):
        return set()
    for name in pod.volumes.named_claims:
        claim = storage.claims.get(name)
        volume = storage.volumes.get(claim.volume) if claim else None
        for key in keys:
            if volume and key in volume.labels and not is_within(volume.labels[key], key, node.labels):
                return {"node(s) had no available volume zone"}
    return set()


def is_within(zones: str, key: str, labels: Mapping[str, str]) -> bool:
    names = [name.strip() for name in zones.split("__")]
    general = {BETA_ZONE: ZONE, BETA_REGION: REGION}.get(key, key)
    return "" in names or labels.get(key, labels.get(general)) in names


PLUGINS = {
    "VolumeRestrictions": restrictions,
    "NodeVolumeLimits": limits,
    "VolumeBinding": binding,
    "VolumeZone": zone,
}

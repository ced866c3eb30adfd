"""Storage as decisions see it: the objects, which nodes reach them, what pods use, and what decisions have reserved.

The watches write to it, and pods on nodes are counted as everywhere else. A decision asks for what its pod's claims
name. What it matched, and what is to be provisioned, counts for later decisions until it is written or released.
Source: kube-scheduler's volume plugins and their binder.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import NamedTuple

from allocator.bits import Mask
from allocator.fleet.nodes import NodeTable
from allocator.gates import Features
from cel.values.quantity import Quantity
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import Handle
from scheduler.core_v1.storage_objects import (
    ClaimReference,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.state.labels import NodeLabels
from scheduler.state.masks import Numbers
from scheduler.state.storage import FreeVolumes, ObjectKey, StorageCapacities, StorageObjects, UsedDisks
from scheduler.state.volume_use import VolumeUse


class Match(NamedTuple):
    """A volume to bind the claim to."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """The writes before a pod is bound. provisioned: claims whose volumes have to be provisioned for the node.

    Both hold the objects as the decision saw them: a write is of their version.
    """

    matches: tuple[Match, ...] = ()
    provisioned: tuple[PersistentVolumeClaim, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.matches or self.provisioned)


NO_PLAN = VolumePlan()

CLAIMS, VOLUMES, CLASSES = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
CAPACITIES = "CSIStorageCapacity"
STORAGE = frozenset({CLAIMS, VOLUMES, CLASSES, CAPACITIES})
"""The kinds on which it depends where a volume can be."""


class Volumes:
    """All of storage. numbers: of the nodes by name, as they are at any time.

    features: strict, where kube-scheduler slips, do as it does.
    unseen: kinds of which nothing is known, not even whether there is any: what hangs on them is not looked at.
    unmade: claims that are made and bound before anybody looks at their pods: nothing is known of them yet.
    """

    def __init__(
        self,
        nodes: NodeTable,
        features: Features,
        *,
        unseen: frozenset[str] = frozenset(),
        unmade: frozenset[NamespacedName] = frozenset(),
    ) -> None:
        self.is_strict = features.is_strict
        self.unseen = unseen
        self._unmade = unmade
        self._unnamed = frozenset[str]()
        self.objects = StorageObjects()
        self.labels = NodeLabels(nodes)
        self.disks = UsedDisks()
        self.free = FreeVolumes(self.labels)
        self._capacities = StorageCapacities(self.labels, is_exact=features.release.exact_volume_sizes)
        self._use = VolumeUse(self.objects, nodes.numbers)
        self._users: Counter[NamespacedName] = Counter()
        self._taken: dict[str, dict[ObjectKey, PersistentVolume | PersistentVolumeClaim]] = {}
        self._declined: dict[NamespacedName, set[str]] = {}

    # -- what the watches show

    def node_comes(self, name: str) -> None:
        """The node has its number from now on."""
        self._use.node_comes(name)

    def node_goes(self, name: str, number: int) -> None:
        """The node had this number, and is gone; its pods are removed one by one."""
        self._use.node_goes(name, number)

    def add_pod(self, number: int, pod: Pod) -> None:
        """The pod is on the node."""
        if pod.volumes:
            self.disks.add(number, pod.volumes.disks)
            self._users.update(_named_claims(pod))
            for claim in claims_of(pod):
                self._use.use(number, claim)
            for handle in pod.volumes.handles:
                self._use.attached.use(number, handle)

    def remove_pod(self, number: int, pod: Pod) -> None:
        """The pod that was added is there no more."""
        if pod.volumes:
            self.disks.remove(number, pod.volumes.disks)
            for claim in _named_claims(pod):
                self._release(claim)
            for claim in claims_of(pod):
                self._use.disuse(number, claim)
            for handle in pod.volumes.handles:
                self._use.attached.disuse(number, handle)

    def take_away(self, number: int, pod: Pod) -> Callable[[], None]:
        """Remove the pod; what is returned adds it again."""
        self.remove_pod(number, pod)
        return partial(self.add_pod, number, pod)

    def change_pod(self, number: int, old: Pod, new: Pod) -> None:
        """The pod that was added is this one by now."""
        if old.volumes != new.volumes:
            self.remove_pod(number, old)
            self.add_pod(number, new)

    def set_volume(self, volume: PersistentVolume) -> None:
        """The volume is there, or has changed."""
        self.objects.volumes.set(volume.name, volume)
        self._volume_changed(volume.name)
        self._use.volume_changed(volume.name)

    def remove_volume(self, name: str) -> None:
        """The volume is gone, if it was there."""
        self.objects.volumes.remove(name)
        self._volume_changed(name)
        self._use.volume_changed(name)

    def set_claim(self, claim: PersistentVolumeClaim) -> None:
        """The claim is there, or has changed."""
        old = self.objects.claims.set(claim.key, claim)
        if claim.is_bound:
            self._declined.pop(claim.key, None)
        self._use.claim_changed(claim.key, [old.volume] if old else [])

    def remove_claim(self, key: NamespacedName) -> None:
        """The claim is gone, if it was there."""
        old = self.objects.claims.remove(key)
        self._declined.pop(key, None)
        self._use.claim_changed(key, [old.volume] if old else [])

    def set_class(self, storage_class: StorageClass) -> None:
        """The class is there, or has changed."""
        self.objects.classes[storage_class.name] = storage_class
        self._use.class_changed()

    def remove_class(self, name: str) -> None:
        """The class is gone, if it was there."""
        self.objects.classes.pop(name, None)
        self._use.class_changed()

    def set_csi_node(self, node: CSINode) -> None:
        """The CSINode is there, or has changed."""
        self._use.set_csi_node(node)

    def remove_csi_node(self, name: str) -> None:
        """The CSINode is gone, if it was there."""
        self._use.remove_csi_node(name)

    def set_driver(self, driver: CSIDriver) -> None:
        """The driver is there, or has changed."""
        self.objects.drivers[driver.name] = driver

    def remove_driver(self, name: str) -> None:
        """The driver is gone, if it was there."""
        self.objects.drivers.pop(name, None)

    def set_capacity(self, capacity: CSIStorageCapacity) -> None:
        """The capacity is there, or has changed."""
        self._capacities.set(capacity)

    def remove_capacity(self, key: NamespacedName) -> None:
        """The capacity is gone, if it was there."""
        self._capacities.remove(key)

    def set_attachment(self, attachment: VolumeAttachment) -> None:
        """The attachment is there, or has changed."""
        self._use.set_attachment(attachment)

    def remove_attachment(self, name: str) -> None:
        """The attachment is gone, if it was there."""
        self._use.remove_attachment(name)

    # -- what decisions look at

    def node(self, name: str) -> Mask:
        """The node of that name, as a set; empty where it is not there."""
        number = self._use.number_of(name)
        return 0 if number is None else 1 << number

    def reached(self, volume: PersistentVolume) -> Mask:
        """The nodes that reach the volume, each as it sees it."""
        nodes = self.selected(volume)
        if not volume.plugin:
            return nodes
        migrated = sum(1 << number for number in self._use.migrated(volume.plugin))
        seen = replace(volume, affinity=volume.migrated_affinity)
        return nodes & ~migrated | self.selected(seen) & migrated

    def selected(self, volume: PersistentVolume) -> Mask:
        """The nodes that its own terms select, whatever has become of its kind."""
        return self.labels.all if volume.affinity is None else self.labels.selected(volume.affinity)

    def provisionable(self, storage_class: StorageClass) -> Mask:
        """The nodes for which volumes of the class can be made."""
        topologies = storage_class.topologies
        return self.labels.all if topologies is None else self.labels.selected(topologies)

    def roomy(self, storage_class: StorageClass, size: Quantity) -> Mask:
        """The nodes with room for a volume of that size; all where the driver does not publish its capacity."""
        if not self._is_published(storage_class):
            return self.labels.all
        return self._capacities.roomy(storage_class.name, size)

    def free_amounts(self, storage_class: StorageClass, size: Quantity) -> Numbers | None:
        """By node number, how many bytes are free for volumes of the class where one of that size can be made.

        NO_AMOUNT where nothing says so; None where that is everywhere.
        """
        if not self._is_published(storage_class):
            return None
        return self._capacities.amounts(storage_class.name, size)

    def _is_published(self, storage_class: StorageClass) -> bool:
        driver = self.objects.drivers.get(storage_class.provisioner)
        return driver is not None and driver.publishes_capacity and CAPACITIES not in self.unseen

    def is_missing(self, claim: NamespacedName) -> bool:
        """Whether the claim is not there, and is known not to be."""
        return not (CLAIMS in self.unseen or claim in self._unmade or claim in self.objects.claims.watched)

    def is_in_use(self, claim: NamespacedName) -> bool:
        """Whether a pod on a node names the claim."""
        return claim in self._users and claim[1] not in self._unnamed

    @contextmanager
    def not_named(self, names: Iterable[str]) -> Iterator[None]:
        """Take no claim of these names for one in use meanwhile, in whichever namespace: kube-scheduler's slip."""
        before, self._unnamed = self._unnamed, self._unnamed.union(names)
        try:
            yield
        finally:
            self._unnamed = before

    def full(self, handles: Iterable[Handle]) -> Mask:
        """The nodes that do not take these volumes beside those that they have."""
        # Differs from kube-scheduler: a volume that is still attached to a node is no further one there; a pod that
        # comes back to where it was would be refused by a node that is full with its own volume.
        return self._use.attached.full(handles, counts_attached=self.is_strict)

    def lacking(self, driver: str, *, is_migrated: bool) -> Mask:
        """The nodes that do not have the CSI driver, if pods with its volumes have to be on one that has it.

        is_migrated: the volume is one of a former in-tree plugin, which a node without CSINode has itself.
        """
        stored = self.objects.drivers.get(driver)
        if stored is None or not stored.is_required:
            return 0
        asked = self._use.having() if is_migrated else self.labels.all
        return asked & ~self._use.having(driver)

    def declined(self, claims: Iterable[NamespacedName]) -> Mask:
        """The nodes for which no volume could be made for one of the claims: others are better, if there are any."""
        nodes = (self.node(node) for claim in claims for node in self._declined.get(claim, ()))
        return reduce(or_, nodes, 0)

    # -- what decisions take

    def assume(self, pod_uid: str, node: str, plan: VolumePlan) -> None:
        """Take what is planned for the pod on the node."""
        taken = self._taken[pod_uid] = {}
        for match in plan.matches:
            taken[match.volume.name] = _bound_to(match.claim, match.volume)
        for claim in plan.provisioned:
            taken[claim.key] = replace(claim, selected_node=node)
        for assumed in taken.values():
            self._assume(assumed)

    def decline(self, claim: NamespacedName, node: str) -> None:
        """The claim's provisioner has made no volume for the node, and asks for another one."""
        if claim in self.objects.claims.watched:
            self._declined.setdefault(claim, set()).add(node)

    def written(self, pod_uid: str, key: ObjectKey) -> None:
        """What was taken for the pod of this volume or claim is stored: it stays so, whatever becomes of the pod."""
        self._taken.get(pod_uid, {}).pop(key, None)

    def bound(self, pod_uid: str) -> None:
        """The pod's attempt has ended well: all that was taken for it is stored."""
        self._taken.pop(pod_uid, None)

    def forget(self, pod_uid: str) -> None:
        """The pod's attempt came to nothing: give back what it took and what is not stored."""
        for assumed in self._taken.pop(pod_uid, {}).values():
            self._forget(assumed)

    @contextmanager
    def without(self, pod_uids: Collection[str]) -> Iterator[None]:
        """As if nothing were taken for these pods, until the end of the context; what is stored of it stays."""
        taken = [found for uid in pod_uids for found in self._taken.get(uid, {}).values()]
        with ExitStack() as undo:
            for assumed in taken:
                if self._forget(assumed):
                    undo.callback(self._assume, assumed)
            yield

    def _assume(self, found: PersistentVolume | PersistentVolumeClaim) -> None:
        if isinstance(found, PersistentVolume):
            self.objects.volumes.assume(found.name, found)
            self._volume_changed(found.name)
        else:
            self.objects.claims.assume(found.key, found)

    def _forget(self, found: PersistentVolume | PersistentVolumeClaim) -> bool:
        """Whether it counted: the watch may know better by now."""
        if not isinstance(found, PersistentVolume):
            return self.objects.claims.forget(found.key, found)
        did_count = self.objects.volumes.forget(found.name, found)
        self._volume_changed(found.name)
        return did_count

    def _volume_changed(self, name: str) -> None:
        self.free.set(name, self.objects.volumes.get(name))

    def _release(self, claim: NamespacedName) -> None:
        self._users[claim] -= 1
        if not self._users[claim]:
            del self._users[claim]


def claims_of(pod: Pod) -> list[NamespacedName]:
    """The claims of the pod's volumes, each once, in their order."""
    return list(dict.fromkeys((pod.namespace, one.claim_of(pod.name)) for one in pod.volumes.claims))


def uses_claim(pod: Pod, claim: NamespacedName) -> bool:
    """Whether the claim is of one of the pod's volumes."""
    namespace, name = claim
    return pod.namespace == namespace and any(one.claim_of(pod.name) == name for one in pod.volumes.claims)


def _named_claims(pod: Pod) -> Iterator[NamespacedName]:
    return ((pod.namespace, name) for name in pod.volumes.named_claims)


def _bound_to(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolume:
    return replace(volume, claim=ClaimReference(claim.namespace, claim.name, claim.uid))

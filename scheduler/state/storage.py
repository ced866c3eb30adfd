"""Storage of a cluster: free volumes, capacities, disks, and what is assumed of them."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter, or_
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from allocator.bits import Mask, bits, union
from allocator.model import NodeSelector
from cel.values.quantity import Quantity
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod_volumes import DRIVERS, UNCOUNTED, Disk, Handle
from scheduler.core_v1.storage_objects import (
    AVAILABLE,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.state.labels import NodeLabels
from scheduler.state.masks import Numbers, numbers_of

# Objects as the watch shows them, and as decisions have changed them before the write.
#
# An assumed change counts while the watch shows the version that it is based on. With the next version the watch knows
# better, whether it contains our write or somebody else's. Source: kube-scheduler's volume binder, its assume cache.


class Versioned(Protocol):
    """An object of the API server."""

    @property
    def resource_version(self) -> str:
        """Its version."""
        ...


Key = TypeVar("Key", bound=Hashable)
Object = TypeVar("Object", bound=Versioned)


class AssumedObjects(Generic[Key, Object]):
    """Objects of a kind by their key. watched: as the watch shows them."""

    def __init__(self) -> None:
        self.watched: dict[Key, Object] = {}
        self._assumed: dict[Key, Object] = {}

    def get(self, key: Key) -> Object | None:
        """The object as it will be, None where there is none."""
        return self._assumed.get(key) or self.watched.get(key)

    def set(self, key: Key, found: Object) -> Object | None:
        """The watch shows the object. Returns what it showed before."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.resource_version != found.resource_version:
            del self._assumed[key]
        old = self.watched.get(key)
        self.watched[key] = found
        return old

    def remove(self, key: Key) -> Object | None:
        """The object is gone. Returns what the watch showed, None where it was not there."""
        self._assumed.pop(key, None)
        return self.watched.pop(key, None)

    def assume(self, key: Key, found: Object) -> None:
        """A decision changes the object, which counts while the watch shows its version."""
        watched = self.watched.get(key)
        if watched is not None and watched.resource_version == found.resource_version:
            self._assumed[key] = found

    def forget(self, key: Key, found: Object) -> bool:
        """The decision came to nothing. Returns whether what it assumed still counted."""
        if self._assumed.get(key) is not found:
            return False
        del self._assumed[key]
        return True


# Claims, volumes, classes and drivers by name, as the watches show them and decisions assume them.
#
# Source: k8s.io/api core/v1 and storage/v1.


ObjectKey = str | NamespacedName
"""A volume by its name, or a claim by its own."""


class StorageObjects:
    """All of them. claims, volumes: with what decisions have changed."""

    def __init__(self) -> None:
        self.claims: AssumedObjects[NamespacedName, PersistentVolumeClaim] = AssumedObjects()
        self.volumes: AssumedObjects[str, PersistentVolume] = AssumedObjects()
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}

    def handle_of(self, claim: NamespacedName) -> Handle | None:
        """What a driver calls the claim's volume; None where it is not counted, or unknown.

        A claim without a volume counts as one that its class will make.
        """
        stored = self.claims.watched.get(claim)
        if stored is None:
            return None
        volume = self.volumes.watched.get(stored.volume)
        return volume.handle if volume is not None else self._handle_to_be(stored)

    def is_migrated(self, claim: NamespacedName) -> bool:
        """Whether the claim's volume is, or would be, one of a former in-tree plugin."""
        watched = self.claims.watched.get(claim)
        if watched is None:
            return False
        if (volume := self.volumes.watched.get(watched.volume)) is not None:
            return not volume.is_csi
        storage_class = self.classes.get(watched.storage_class)
        return storage_class is not None and storage_class.provisioner in DRIVERS

    def _handle_to_be(self, claim: PersistentVolumeClaim) -> Handle | None:
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None or not storage_class.provisioner or storage_class.provisioner in UNCOUNTED:
            return None
        driver = DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
        return Handle(driver, str(claim), is_made_up=True)


# Volumes that claims could get: free ones, grouped by their properties, and those reserved for a claim.
#
# Free volumes with equal properties that the same nodes reach are one group, so the cost grows with the number of
# groups. The nodes that reach a group are computed once, until labels of nodes change. Groups that few nodes reach,
# such as local volumes, are indexed by node.


FEW_NODES = 8
"""A group that at most so many nodes reach lies by node."""


class Likeness(NamedTuple):
    """What a claim looks at. capacity: in billionths."""

    capacity: int
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str


@dataclass(slots=True, eq=False)
class Group:
    """Free volumes by name, and the nodes that reach them. position: among those that are alike, the earlier first."""

    affinity: NodeSelector | None
    position: int
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    nodes: Mask = 0


class AlikeVolumes:
    """Free volumes that are alike. labels: of the nodes."""

    def __init__(self, labels: NodeLabels) -> None:
        self._labels = labels
        self._version = -1
        self._groups: dict[NodeSelector | None, Group] = {}
        self._made = 0
        self._of_many: dict[int, Group] = {}
        self._by_node: dict[int, dict[int, Group]] = {}
        self._near: Mask = 0

    def __bool__(self) -> bool:
        return bool(self._groups)

    def groups(self) -> Iterable[Group]:
        """All groups. Cost: O(groups), where labels of nodes have changed."""
        self._catch_up()
        return self._groups.values()

    def reached(self) -> Mask:
        """The nodes that reach one of the volumes."""
        self._catch_up()
        return self._near | union(group.nodes for group in self._of_many.values())

    def on(self, number: int) -> PersistentVolume | None:
        """The first of the volumes that the node reaches, None where it reaches none."""
        self._catch_up()
        groups = [group for group in self._of_many.values() if group.nodes >> number & 1]
        groups += self._by_node.get(number, {}).values()
        first = min(groups, key=lambda group: group.position, default=None)
        return first.volumes[min(first.volumes)] if first else None

    def put(self, volume: PersistentVolume) -> None:
        """One more."""
        group = self._groups.get(volume.affinity)
        if group is None:
            self._made += 1
            group = self._groups[volume.affinity] = Group(volume.affinity, self._made)
            if self._version == self._labels.version:
                self._place(group)
        group.volumes[volume.name] = volume

    def take(self, volume: PersistentVolume) -> None:
        """The volume, which was put, is not free any more."""
        group = self._groups[volume.affinity]
        del group.volumes[volume.name]
        if not group.volumes:
            del self._groups[volume.affinity]
            self._displace(group)

    def _catch_up(self) -> None:
        if self._version != self._labels.version:
            self._version, self._near = self._labels.version, 0
            self._of_many, self._by_node = {}, {}
            for group in self._groups.values():
                self._place(group)

    def _place(self, group: Group) -> None:
        labels, affinity = self._labels, group.affinity
        group.nodes = labels.all if affinity is None else labels.selected(affinity)
        if group.nodes.bit_count() > FEW_NODES:
            self._of_many[group.position] = group
            return
        self._near |= group.nodes
        for number in bits(group.nodes):
            self._by_node.setdefault(number, {})[group.position] = group

    def _displace(self, group: Group) -> None:
        if self._of_many.pop(group.position, None) is not None:
            return
        for number in bits(group.nodes):
            others = self._by_node[number]
            others.pop(group.position)
            if not others:
                del self._by_node[number]
                self._near &= ~(1 << number)


class FreeVolumes:
    """By storage class. labels: of the nodes."""

    def __init__(self, labels: NodeLabels) -> None:
        self._labels = labels
        self._known: dict[str, PersistentVolume] = {}
        self._alike: dict[str, dict[Likeness, AlikeVolumes]] = {}
        self._meant: dict[NamespacedName, dict[str, PersistentVolume]] = {}

    def set(self, name: str, volume: PersistentVolume | None) -> None:
        """The volume of that name is as it is now, None where it is gone."""
        if (old := self._known.pop(name, None)) is not None:
            self._take(old)
        if volume is not None and not volume.is_deleting:
            self._known[name] = volume
            self._put(volume)

    def meant_for(self, claim: NamespacedName) -> Iterator[PersistentVolume]:
        """The volumes of that claim, or of another one of its name."""
        return iter(self._meant.get(claim, {}).values())

    def by_likeness(self, storage_class: str) -> list[tuple[Likeness, AlikeVolumes]]:
        """The free volumes of the class, the smallest first."""
        return sorted(self._alike.get(storage_class, {}).items(), key=lambda one: one[0].capacity)

    def _put(self, volume: PersistentVolume) -> None:
        if volume.claim is not None:
            self._meant.setdefault((volume.claim.namespace, volume.claim.name), {})[volume.name] = volume
        elif volume.phase == AVAILABLE:
            alike, like = self._alike.setdefault(volume.storage_class, {}), _likeness(volume)
            if like not in alike:
                alike[like] = AlikeVolumes(self._labels)
            alike[like].put(volume)

    def _take(self, volume: PersistentVolume) -> None:
        if volume.claim is not None:
            key = volume.claim.namespace, volume.claim.name
            del self._meant[key][volume.name]
            if not self._meant[key]:
                del self._meant[key]
        elif volume.phase == AVAILABLE:
            self._take_free(volume)

    def _take_free(self, volume: PersistentVolume) -> None:
        alike, like = self._alike[volume.storage_class], _likeness(volume)
        alike[like].take(volume)
        if not alike[like]:
            del alike[like]
        if not alike:
            del self._alike[volume.storage_class]


def _likeness(volume: PersistentVolume) -> Likeness:
    return Likeness(volume.capacity.nanos, volume.access_modes, volume.volume_mode, volume.attributes_class)


# How large a volume of a class can be on which nodes, from CSIStorageCapacities.
#
# Drivers publish one object for each node, and a pod has hundreds of sizes if its user wants. What there is is put in
# order once, until a capacity of the class, or a label of a node, changes.


NO_AMOUNT = -1
"""Of a node for which nothing says how much is free."""

_MOST_AMOUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Ordered:
    """What objects of a class say: once for each node of each object, in the order of namespace and name."""

    sizes: Sequence[int] = ()
    """Those that there are, the smallest first."""
    reached: Sequence[Mask] = ()
    """By size the nodes that have so much or more."""
    numbers: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    """Of the nodes."""
    ranks: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    """The place of the size among the sizes."""
    amounts: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    """How many bytes are free."""

    def roomy(self, size: int) -> Mask:
        """The nodes that have so much."""
        rank = bisect_left(self.sizes, size)
        return self.reached[rank] if rank < len(self.sizes) else 0

    def free(self, size: int, nodes: int) -> Numbers:
        """By node number, of so many, what is free where there is so much, by the first object. NO_AMOUNT elsewhere."""
        amounts = np.full(nodes, NO_AMOUNT, np.int64)
        sufficient = self.ranks >= bisect_left(self.sizes, size)
        numbers, first = np.unique(self.numbers[sufficient], return_index=True)
        amounts[numbers] = self.amounts[sufficient][first]
        return amounts


class _OfObject(NamedTuple):
    """What it says: the largest volume, where (also by the numbers of the nodes), and how many bytes are free."""

    largest: int
    nodes: Mask
    numbers: Numbers
    free: int


@dataclass(slots=True)
class _OfClass:
    """Sizes and nodes by object."""

    objects: dict[NamespacedName, CSIStorageCapacity] = field(default_factory=dict)
    found: dict[NamespacedName, _OfObject] = field(default_factory=dict)
    ordered: _Ordered | None = None
    version: int = -1
    """Of the labels that the nodes were found by."""


class StorageCapacities:
    """By storage class. labels: of the nodes. is_exact: sizes compare as they are; before, rounded up to a byte."""

    def __init__(self, labels: NodeLabels, *, is_exact: bool) -> None:
        self._labels = labels
        self._measure = attrgetter("nanos") if is_exact else Quantity.ceil_int
        self._classes: dict[str, _OfClass] = {}
        self._class_of: dict[NamespacedName, str] = {}

    def set(self, capacity: CSIStorageCapacity) -> None:
        """The capacity is there, or has changed."""
        self.remove(capacity.key)
        if capacity.largest is not None:
            self._class_of[capacity.key] = capacity.storage_class
            of_class = self._classes.setdefault(capacity.storage_class, _OfClass())
            of_class.objects[capacity.key] = capacity
            of_class.ordered = None

    def remove(self, key: NamespacedName) -> None:
        """The capacity is gone, if it was there."""
        name = self._class_of.pop(key, None)
        if name is not None:
            of_class = self._classes[name]
            del of_class.objects[key]
            of_class.found.pop(key, None)
            of_class.ordered = None
            if not of_class.objects:
                del self._classes[name]

    def roomy(self, storage_class: str, size: Quantity) -> Mask:
        """The nodes for which a volume of that size can be made. Cost: O(capacities), where one has changed."""
        return self._current(storage_class).roomy(self._measure(size))

    def amounts(self, storage_class: str, size: Quantity) -> Numbers:
        """By node number, how many bytes are free where a volume of that size can be made; NO_AMOUNT elsewhere.

        Of several objects for a node the first by namespace and name counts. Cost: as of `roomy`, and array operations.
        """
        return self._current(storage_class).free(self._measure(size), self._labels.all.bit_length())

    def _current(self, storage_class: str) -> _Ordered:
        of_class = self._classes.get(storage_class)
        if of_class is None:
            return _Ordered()
        if of_class.version != self._labels.version:
            of_class.found.clear()
            of_class.ordered, of_class.version = None, self._labels.version
        if of_class.ordered is None:
            of_class.ordered = self._in_order(of_class)
        return of_class.ordered

    def _in_order(self, known: _OfClass) -> _Ordered:
        for key in known.objects.keys() - known.found.keys():
            known.found[key] = self._found(known.objects[key])
        by_size: dict[int, Mask] = {}
        for largest, nodes, _, _ in known.found.values():
            by_size[largest] = by_size.get(largest, 0) | nodes
        sizes = sorted(by_size)
        reached = list(accumulate((by_size[size] for size in reversed(sizes)), or_))[::-1]
        rank_of = {size: rank for rank, size in enumerate(sizes)}
        rows = [known.found[key] for key in sorted(known.found)]
        lengths = [len(one.numbers) for one in rows]
        return _Ordered(
            sizes,
            reached,
            np.concatenate([one.numbers for one in rows]),
            np.repeat([rank_of[one.largest] for one in rows], lengths),
            np.repeat([one.free for one in rows], lengths),
        )

    def _found(self, capacity: CSIStorageCapacity) -> _OfObject:
        assert capacity.largest is not None, "others are not kept"
        nodes, amount = self._labels.matching(capacity.topology), capacity.amount
        # Differs from kube-scheduler, which crashes on an object that has a maximumVolumeSize alone.
        free = NO_AMOUNT if amount is None else min(amount.ceil_int(), _MOST_AMOUNT)
        return _OfObject(self._measure(capacity.largest), nodes, numbers_of(nodes), free)


# Disks that pods name directly, and the nodes where a pod would share one that cannot be shared.
#
# Source: kube-scheduler's plugin VolumeRestrictions.


class UsedDisks:
    """Who uses which disk where, and whether it only reads; each pod counts."""

    def __init__(self) -> None:
        self._users: Counter[tuple[Disk, int]] = Counter()
        self._nodes: dict[Disk, Mask] = {}

    def add(self, number: int, disks: Iterable[Disk]) -> None:
        """A pod on the node uses these."""
        for disk in disks:
            self._users[disk, number] += 1
            self._nodes[disk] = self._nodes.get(disk, 0) | 1 << number

    def remove(self, number: int, disks: Iterable[Disk]) -> None:
        """A pod on the node, which was added, uses these no more."""
        for disk in disks:
            self._users[disk, number] -= 1
            if not self._users[disk, number]:
                del self._users[disk, number]
                self._nodes[disk] &= ~(1 << number)
                if not self._nodes[disk]:
                    del self._nodes[disk]

    def clashes(self, disks: Iterable[Disk]) -> Mask:
        """The nodes on which a pod uses one of the disks, unless both only read it."""
        taken = 0
        for disk in disks:
            taken |= self._nodes.get(disk._replace(is_shared=False), 0)
            if not disk.is_shared:
                taken |= self._nodes.get(disk._replace(is_shared=True), 0)
        return taken

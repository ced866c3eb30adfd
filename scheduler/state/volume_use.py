"""Which nodes use which volumes, by the claims of their pods and by attachments.

The volume of a claim may become known, or change, while pods use it: it is resolved again whenever the claim, the
volume or the class changes.
Source: kube-scheduler's plugin NodeVolumeLimits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from allocator.bits import Mask, union
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod_volumes import Handle
from scheduler.core_v1.storage_objects import CSINode, VolumeAttachment
from scheduler.state.masks import Numbers, flags_of, mask_of
from scheduler.state.storage import StorageObjects

# The number of volumes of each CSI driver on a node, each counted once: volumes of its pods, and attached ones.
#
# Source: kube-scheduler's plugin NodeVolumeLimits.


UNLIMITED = 1 << 40

_FEWEST_ROWS = 64


class AttachedVolumes:
    """Volumes by node number, and how many of a driver's a node takes."""

    def __init__(self) -> None:
        self._users: dict[Handle, Counter[int]] = {}
        self._attached: dict[Handle, Counter[int]] = {}
        self._counts: dict[str, Numbers] = {}
        self._limits: dict[str, Numbers] = {}

    def use(self, number: int, handle: Handle) -> None:
        """A pod on the node uses the volume."""
        self._add(self._users, number, handle)

    def disuse(self, number: int, handle: Handle) -> None:
        """A pod on the node, which used the volume, does so no more."""
        self._remove(self._users, number, handle)

    def attach(self, number: int, handle: Handle) -> None:
        """The volume is attached to the node, by one more object."""
        self._add(self._attached, number, handle)

    def detach(self, number: int, handle: Handle) -> None:
        """The volume is attached to the node by one object less."""
        self._remove(self._attached, number, handle)

    def set_limits(self, number: int, limits: Mapping[str, int]) -> None:
        """The node takes so many volumes of these drivers, and any number of all others."""
        for driver in limits.keys() | self._limits.keys():
            column = _grown(self._limits, driver, number, UNLIMITED)
            column[number] = limits.get(driver, UNLIMITED)
            if (column == UNLIMITED).all():
                del self._limits[driver]

    def full(self, handles: Iterable[Handle], *, counts_attached: bool) -> Mask:
        """The nodes that do not take all these volumes beside those that they have.

        counts_attached: a volume that is attached to the node, and no pod there uses, counts twice.
        """
        full, by_driver = 0, _by_driver(handles)
        for driver, of_driver in by_driver.items():
            if driver in self._limits:
                full |= self._full(driver, of_driver, self._users_of if counts_attached else self._holders)
        return full

    def _full(self, driver: str, handles: Iterable[Handle], holders: Callable[[Handle], Mask]) -> Mask:
        limits = self._limits[driver]
        new, counts = np.zeros(len(limits), np.int64), np.zeros(len(limits), np.int64)
        for handle in handles:
            new += ~flags_of(holders(handle) & (1 << len(limits)) - 1, len(limits))
        if (used := self._counts.get(driver)) is not None:
            common = min(len(used), len(limits))
            counts[:common] = used[:common]
        return mask_of((new > 0) & (counts + new > limits))

    def _users_of(self, handle: Handle) -> Mask:
        return sum(1 << number for number in self._users.get(handle, ()))

    def _holders(self, handle: Handle) -> Mask:
        numbers = {*self._users.get(handle, ()), *self._attached.get(handle, ())}
        return sum(1 << number for number in numbers)

    def _has(self, number: int, handle: Handle) -> bool:
        return number in self._users.get(handle, ()) or number in self._attached.get(handle, ())

    def _add(self, holders: dict[Handle, Counter[int]], number: int, handle: Handle) -> None:
        if not self._has(number, handle):
            _grown(self._counts, handle.driver, number, 0)[number] += 1
        holders.setdefault(handle, Counter())[number] += 1

    def _remove(self, holders: dict[Handle, Counter[int]], number: int, handle: Handle) -> None:
        holders[handle][number] -= 1
        if not holders[handle][number]:
            del holders[handle][number]
            if not holders[handle]:
                del holders[handle]
        if not self._has(number, handle):
            counts = self._counts[handle.driver]
            counts[number] -= 1
            if not counts[number] and not counts.any():  # names of drivers come and go, like volumes
                del self._counts[handle.driver]


def _by_driver(handles: Iterable[Handle]) -> Mapping[str, set[Handle]]:
    by_driver: dict[str, set[Handle]] = {}
    for handle in handles:
        by_driver.setdefault(handle.driver, set()).add(handle)
    return by_driver


def _grown(columns: dict[str, Numbers], driver: str, number: int, filler: int) -> Numbers:
    """The driver's column, with room for the node."""
    column = columns.get(driver)
    if column is None:
        column = columns[driver] = np.full(max(_FEWEST_ROWS, number + 1), filler, np.int64)
    elif number >= len(column):
        more = max(number + 1, 2 * len(column)) - len(column)
        column = columns[driver] = np.pad(column, (0, more), constant_values=filler)
    return column


Member = TypeVar("Member")


class VolumeUse:
    """Claims in use by node number, and attachments by the name of their node, which need not be there.

    numbers: of the nodes that are there, at any time.
    """

    def __init__(self, objects: StorageObjects, numbers: Mapping[str, int]) -> None:
        self.attached = AttachedVolumes()
        self._objects = objects
        self._numbers = numbers
        self._users: dict[NamespacedName, Counter[int]] = {}
        self._handles: dict[NamespacedName, Handle] = {}
        self._claims_of: dict[str, set[NamespacedName]] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._on_node: dict[str, set[str]] = {}
        self._of_volume: dict[str, set[str]] = {}
        self._counted: dict[str, tuple[int, Handle]] = {}
        self._nodes: dict[str, CSINode] = {}

    # -- nodes

    def node_comes(self, name: str) -> None:
        """The node has its number from now on."""
        self._limit(name)
        self._count_again(self._on_node.get(name, ()))

    def node_goes(self, name: str, number: int) -> None:
        """The node had this number, and is gone; its pods are removed one by one."""
        self.attached.set_limits(number, {})
        self._count_again(self._on_node.get(name, ()))

    def number_of(self, name: str) -> int | None:
        """The number of the node of that name."""
        return self._numbers.get(name)

    def set_csi_node(self, node: CSINode) -> None:
        """The CSINode is there, or has changed."""
        self._nodes[node.name] = node
        self._limit(node.name)

    def remove_csi_node(self, name: str) -> None:
        """The CSINode is gone, if it was there."""
        self._nodes.pop(name, None)
        self._limit(name)

    def migrated(self, plugin: str) -> Iterator[int]:
        """The nodes that see volumes of the plugin as their CSI driver's."""
        for name, node in self._nodes.items():
            if plugin in node.migrated and name in self._numbers:
                yield self._numbers[name]

    def having(self, driver: str | None = None) -> Mask:
        """The nodes that have the CSI driver; None: a CSINode."""
        listed = ((self._numbers.get(name), node.drivers) for name, node in self._nodes.items())
        numbers = (number for number, drivers in listed if driver is None or driver in drivers)
        return union(1 << number for number in numbers if number is not None)

    def _limit(self, name: str) -> None:
        if name in self._numbers:
            node = self._nodes.get(name)
            self.attached.set_limits(self._numbers[name], node.limits if node else {})

    # -- claims of pods

    def use(self, number: int, claim: NamespacedName) -> None:
        """A pod on the node uses the claim."""
        users = self._users.setdefault(claim, Counter())
        if not users and (handle := self._objects.handle_of(claim)):
            self._handles[claim] = handle
        users[number] += 1
        if users[number] == 1 and claim in self._handles:
            self.attached.use(number, self._handles[claim])

    def disuse(self, number: int, claim: NamespacedName) -> None:
        """A pod on the node, which used the claim, does so no more."""
        users = self._users[claim]
        users[number] -= 1
        if users[number]:
            return
        del users[number]
        if claim in self._handles:
            self.attached.disuse(number, self._handles[claim])
        if not users:
            del self._users[claim]
            self._handles.pop(claim, None)

    def claim_changed(self, claim: NamespacedName, volumes: Iterable[str]) -> None:
        """The claim has come, gone or changed. volumes: what it named before, and names now."""
        for name in filter(None, volumes):
            _discard(self._claims_of, name, claim)
        stored = self._objects.claims.watched.get(claim)
        if stored is not None and stored.volume:
            self._claims_of.setdefault(stored.volume, set()).add(claim)
        self._look_up_again(claim)

    def volume_changed(self, name: str) -> None:
        """The volume has come, gone or changed."""
        for claim in self._claims_of.get(name, ()):
            self._look_up_again(claim)
        self._count_again(self._of_volume.get(name, ()))

    def class_changed(self) -> None:
        """A class has come, gone or changed. Cost: O(claims in use)."""
        for claim in self._users:
            self._look_up_again(claim)

    def _look_up_again(self, claim: NamespacedName) -> None:
        users = self._users.get(claim)
        if not users:
            return
        old, new = self._handles.pop(claim, None), self._objects.handle_of(claim)
        if new is not None:
            self._handles[claim] = new
        if old != new:
            _each(users, old, self.attached.disuse)
            _each(users, new, self.attached.use)

    # -- attachments

    def set_attachment(self, attachment: VolumeAttachment) -> None:
        """The attachment is there, or has changed."""
        self.remove_attachment(attachment.name)
        self._attachments[attachment.name] = attachment
        self._on_node.setdefault(attachment.node, set()).add(attachment.name)
        self._of_volume.setdefault(attachment.volume, set()).add(attachment.name)
        self._count_again([attachment.name])

    def remove_attachment(self, name: str) -> None:
        """The attachment is gone, if it was there."""
        old = self._attachments.pop(name, None)
        if old is not None:
            _discard(self._on_node, old.node, name)
            _discard(self._of_volume, old.volume, name)
            self._count_again([name])

    def _count_again(self, attachments: Iterable[str]) -> None:
        for name in attachments:
            if counted := self._counted.pop(name, None):
                self.attached.detach(*counted)
            if counts := self._counts_as(name):
                self._counted[name] = counts
                self.attached.attach(*counts)

    def _counts_as(self, name: str) -> tuple[int, Handle] | None:
        """The node and the volume; only of a volume that names its driver itself the attachment has the handle."""
        attachment = self._attachments.get(name)
        if attachment is None or attachment.node not in self._numbers or not attachment.attacher:
            return None
        volume = self._objects.volumes.watched.get(attachment.volume)
        if volume is None or not volume.is_csi or volume.handle is None:
            return None
        return self._numbers[attachment.node], Handle(attachment.attacher, volume.handle.volume)


def _discard(sets: dict[str, set[Member]], key: str, member: Member) -> None:
    """Take the member out of the set of that key; no empty set is kept, as most names never come again."""
    members = sets.get(key, set())
    members.discard(member)
    if not members:
        sets.pop(key, None)


def _each(numbers: Iterable[int], handle: Handle | None, change: Callable[[int, Handle], None]) -> None:
    if handle is not None:
        for number in numbers:
            change(number, handle)

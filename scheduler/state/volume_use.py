"""Which nodes use which volumes, by the claims of their pods and by attachments.

The volume of a claim may become known, or change, while pods use it: it is resolved again whenever the claim, the
volume or the class changes.
Source: kube-scheduler's plugin NodeVolumeLimits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from scheduler.core_v1.csi_node import CSINode
from scheduler.core_v1.volume_attachment import VolumeAttachment
from scheduler.core_v1.volume_sources import Handle
from scheduler.state.attached_volumes import AttachedVolumes
from scheduler.state.storage_objects import ClaimKey, StorageObjects

Member = TypeVar("Member")


class VolumeUse:
    """Claims in use by node number, and attachments by the name of their node, which need not be there."""

    def __init__(self, objects: StorageObjects) -> None:
        self.attached = AttachedVolumes()
        self._objects = objects
        self._numbers: dict[str, int] = {}
        self._users: dict[ClaimKey, Counter[int]] = {}
        self._handles: dict[ClaimKey, Handle] = {}
        self._claims_of: dict[str, set[ClaimKey]] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._on_node: dict[str, set[str]] = {}
        self._of_volume: dict[str, set[str]] = {}
        self._counted: dict[str, tuple[int, Handle]] = {}
        self._nodes: dict[str, CSINode] = {}

    # -- nodes

    def set_node(self, name: str, number: int) -> None:
        """The node has this number."""
        if name not in self._numbers:
            self._numbers[name] = number
            self._limit(name)
            self._count_again(self._on_node.get(name, ()))

    def remove_node(self, name: str) -> None:
        """The node is gone; its pods are removed one by one."""
        number = self._numbers.pop(name)
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

    def _limit(self, name: str) -> None:
        if name in self._numbers:
            node = self._nodes.get(name)
            self.attached.set_limits(self._numbers[name], node.limits if node else {})

    # -- claims of pods

    def use(self, number: int, claim: ClaimKey) -> None:
        """A pod on the node uses the claim."""
        users = self._users.setdefault(claim, Counter())
        if not users and (handle := self._objects.handle_of(claim)):
            self._handles[claim] = handle
        users[number] += 1
        if users[number] == 1 and claim in self._handles:
            self.attached.use(number, self._handles[claim])

    def disuse(self, number: int, claim: ClaimKey) -> None:
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

    def claim_changed(self, claim: ClaimKey, volumes: Iterable[str]) -> None:
        """The claim has come, gone or changed. volumes: what it named before, and names now."""
        for name in filter(None, volumes):
            _discard(self._claims_of, name, claim)
        found = self._objects.claims.watched.get(claim)
        if found is not None and found.volume:
            self._claims_of.setdefault(found.volume, set()).add(claim)
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

    def _look_up_again(self, claim: ClaimKey) -> None:
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
    found = sets.get(key, set())
    found.discard(member)
    if not found:
        sets.pop(key, None)


def _each(numbers: Iterable[int], handle: Handle | None, change: Callable[[int, Handle], None]) -> None:
    if handle is not None:
        for number in numbers:
            change(number, handle)

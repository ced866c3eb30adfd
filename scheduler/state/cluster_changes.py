"""Changes of the cluster, typed: the object before and after.

old is None for a new object, new for a deleted one. The end of a reservation in memory is a change, too, because no
watch shows it. The hints of plugins say which pods an event wakes. A new class of events joins `Event`, unless it is a
`Changed`.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from allocator.model import Claim, DeviceClass, Node, Slice
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import AnyPodGroup
from scheduler.core_v1.storage_objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

Object = TypeVar("Object")


@dataclass(frozen=True, slots=True)
class Changed(Generic[Object]):
    """An object of a kind, whose own class of events derives from this one."""

    old: Object | None
    new: Object | None


class NodeChanged(Changed[Node]):
    """A node."""


class PodChanged(Changed[Pod]):
    """A pod, of any scheduler."""

    @property
    def is_gone(self) -> bool:
        """True for a pod that had a node or the promise of one, and has it no more."""
        had = _node_of(self.old)
        return bool(had) and (self.new is None or self.new.is_finished or _node_of(self.new) != had)

    @property
    def is_less(self) -> bool:
        """False for a pod that stays on its node with what it has: most reports say only that a pod runs."""
        if self.is_gone or self.new is None or self.old is None or not self.old.node_name:
            return self.is_gone
        return _resources_of(self.old) != _resources_of(self.new)

    @property
    def is_counted_differently(self) -> bool:
        """True for a pod that comes to a node or leaves it, or has other labels there: others may look at these."""
        return _counted_of(self.old) != _counted_of(self.new)


class ClaimChanged(Changed[Claim]):
    """A ResourceClaim."""

    @property
    def key(self) -> NamespacedName:
        """The claim that has changed."""
        claim = self.new or self.old
        assert claim is not None
        return claim.namespace, claim.name

    @property
    def is_released(self) -> bool:
        """Devices that were allocated may be free now."""
        old = self.old.allocation if self.old else None
        new = self.new.allocation if self.new else None
        return old is not None and old != new


class SliceChanged(Changed[Slice]):
    """A ResourceSlice."""


class ClassChanged(Changed[DeviceClass]):
    """A DeviceClass."""


class NamespaceChanged(Changed[Namespace]):
    """A namespace."""


class PersistentVolumeChanged(Changed[PersistentVolume]):
    """A PersistentVolume."""


class PersistentVolumeClaimChanged(Changed[PersistentVolumeClaim]):
    """A PersistentVolumeClaim."""


class StorageClassChanged(Changed[StorageClass]):
    """A StorageClass."""


class CSINodeChanged(Changed[CSINode]):
    """A CSINode."""


class CSIDriverChanged(Changed[CSIDriver]):
    """A CSIDriver."""


class CSIStorageCapacityChanged(Changed[CSIStorageCapacity]):
    """A CSIStorageCapacity."""


class VolumeAttachmentChanged(Changed[VolumeAttachment]):
    """A VolumeAttachment."""


class PodGroupChanged(Changed[AnyPodGroup]):
    """A PodGroup, or a CompositePodGroup."""


@dataclass(frozen=True, slots=True)
class TaintRulesChanged:
    """The DeviceTaintRules, in whatever way."""


@dataclass(frozen=True, slots=True)
class LimitsChanged:
    """The limits of tenants, in whatever way."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """An attempt came to nothing: its place on a node and the devices reserved for it are free again.

    pod: whose attempt it was. claims: all that it would have had. node: where it would have gone.
    """

    pod: Pod
    claims: tuple[Claim, ...] = ()
    node: str = ""


def _node_of(pod: Pod | None) -> str:
    return (pod.node_name or pod.nominated_node) if pod else ""


def _resources_of(pod: Pod) -> tuple[object, ...]:
    return pod.containers, pod.budget, pod.overhead, pod.by_claims


def _counted_of(pod: Pod | None) -> object:
    return None if pod is None or not pod.node_name or pod.is_finished else (pod.labels, pod.is_deleting)


Event = Changed[Any] | TaintRulesChanged | LimitsChanged | GivenBack  # Any: of whatever kind

"""VolumeRestrictions: disks that cannot be shared keep pods off each other's nodes, and some claims are for one pod.

Source: kube-scheduler's volume_restrictions.go; KEP-2485 for ReadWriteOncePod.
"""

from collections.abc import Iterator

from allocator.bits import Mask
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.storage_objects import ONE_POD
from scheduler.plugins.plugin import (
    Change,
    Cycle,
    Dynamic,
    Plugin,
    Reason,
    RefusedPod,
    RefusingNode,
    Rejected,
    is_added,
)
from scheduler.state.cluster_changes import GivenBack, NodeChanged, PersistentVolumeClaimChanged, PodChanged
from scheduler.state.storage import UsedDisks

NO_DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def _pre_filter(cycle: Cycle) -> str:
    volumes, namespace = cycle.volumes, cycle.pod.namespace
    missing = (name for name in cycle.pod.volumes.named_claims if volumes.is_missing((namespace, name)))
    return next((f'persistentvolumeclaim "{name}" not found' for name in missing), "")


def _is_taken(cycle: Cycle) -> bool:
    """Whether another pod uses a claim that is for one pod only."""
    volumes, namespace = cycle.volumes, cycle.pod.namespace
    keys = [(namespace, name) for name in cycle.pod.volumes.named_claims]
    watched = ((key, volumes.objects.claims.watched.get(key)) for key in keys)
    return any(claim and ONE_POD in claim.access_modes and volumes.is_in_use(key) for key, claim in watched)


def _is_skipped(cycle: Cycle) -> bool:
    return not cycle.pod.volumes.disks and not _is_taken(cycle)


def _asks(cycle: Cycle) -> bool:
    return bool(cycle.pod.volumes.disks or cycle.pod.volumes.named_claims)


def _refused(cycle: Cycle) -> Mask:
    if _is_taken(cycle):
        return cycle.volumes.labels.all
    return cycle.volumes.disks.clashes(cycle.pod.volumes.disks)


def _rejections(cycle: Cycle, asked: Mask) -> Iterator[Rejected]:
    clashing = cycle.volumes.disks.clashes(cycle.pod.volumes.disks) & asked
    if clashing:
        yield Rejected(NO_DISK, clashing, clashing)
    if others := asked & ~clashing if _is_taken(cycle) else 0:
        yield Rejected(IN_USE, others, others)


def _changes(cycle: Cycle, place: RefusingNode) -> Iterator[Change]:
    if users := [(number, other) for number, other in place.others if _shares(other, cycle.pod)]:
        yield Change.without(users)


def _frees(who: RefusedPod, event: PodChanged) -> bool:
    return event.is_gone and event.old is not None and _shares(event.old, who.pod)


def _gives_back(who: RefusedPod, event: GivenBack) -> bool:
    return _shares(event.pod, who.pod)


def _shares(one: Pod, other: Pod) -> bool:
    """Whether both name a claim, or a disk that cannot be shared."""
    # Differs from kube-scheduler: its hint passes over pods of other namespaces, which may have had the disk.
    held = UsedDisks()
    held.add(0, one.volumes.disks)
    is_claimed = one.namespace == other.namespace and not _names(one).isdisjoint(_names(other))
    return is_claimed or bool(held.clashes(other.volumes.disks))


def _names(pod: Pod) -> frozenset[str]:
    return frozenset(pod.volumes.named_claims)


def _is_named(who: RefusedPod, event: PersistentVolumeClaimChanged) -> bool:
    new = event.new
    return event.old is None and new is not None and new.namespace == who.pod.namespace and new.name in _names(who.pod)


VOLUME_RESTRICTIONS = Plugin(
    "VolumeRestrictions",
    (
        Reason(
            "VolumeRestrictions",
            {
                PodChanged: _frees,
                PersistentVolumeClaimChanged: _is_named,
                NodeChanged: is_added,
                GivenBack: _gives_back,
            },
        ),
    ),
    pod_fields=("volumes",),
    pre_filter=_pre_filter,
    dynamic=Dynamic(_refused, _rejections, looks_further=True, is_skipped=_is_skipped, asks=_asks),
    changes=_changes,
)

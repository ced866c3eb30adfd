"""NodeVolumeLimits: a node takes a limited number of volumes of a CSI driver, including those attached to it.

A driver may ask that its volumes are only used where it is installed (preventPodSchedulingIfMissing).
Source: kube-scheduler's nodevolumelimits/csi.go; KEP-554, KEP-5030.
"""

from collections.abc import Iterator

from allocator.bits import Mask, union
from allocator.gates import VOLUME_LIMIT_SCALING
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import Handle
from scheduler.core_v1.storage_objects import CSINode
from scheduler.plugins.plugin import Cycle, Dynamic, Plugin, Reason, RefusedPod, Rejected, is_added
from scheduler.state.cluster_changes import (
    CSIDriverChanged,
    CSINodeChanged,
    GivenBack,
    NodeChanged,
    PersistentVolumeClaimChanged,
    PodChanged,
    VolumeAttachmentChanged,
)
from scheduler.state.volumes import claims_of, uses_claim

EXCEEDED = "node(s) exceed max volume count"
UNINSTALLED = "CSI driver is not installed on the node"
"""Behind the name of the driver."""


def _refused(cycle: Cycle) -> Mask:
    if not _is_counted(cycle.pod):
        return 0
    if _missing(cycle):
        return cycle.volumes.labels.all
    return cycle.volumes.full(_handles(cycle)) | union(nodes for _, nodes in _uninstalled(cycle))


def _rejections(cycle: Cycle, asked: Mask) -> Iterator[Rejected]:
    if not _is_counted(cycle.pod):
        return
    if missing := _missing(cycle):
        yield Rejected(missing, asked)
        return
    for driver, lacking in _uninstalled(cycle):
        if nodes := lacking & asked:
            yield Rejected(f"{driver} {UNINSTALLED}", nodes, nodes)
            asked &= ~nodes
    if nodes := cycle.volumes.full(_handles(cycle)) & asked:
        yield Rejected(EXCEEDED, nodes, nodes)


def _uninstalled(cycle: Cycle) -> Iterator[tuple[str, Mask]]:
    """The drivers that pods may not do without, and the nodes that do not have them; before any limit counts."""
    if not cycle.features.has(VOLUME_LIMIT_SCALING):
        return
    pod, objects = cycle.pod, cycle.volumes.objects
    handles = ((objects.handle_of(claim), objects.is_migrated(claim)) for claim in claims_of(pod))
    used = {(handle.driver, is_migrated) for handle, is_migrated in handles if handle is not None}
    for driver, is_migrated in sorted(used | {(handle.driver, True) for handle in pod.volumes.handles}):
        if nodes := cycle.volumes.lacking(driver, is_migrated=is_migrated):
            yield driver, nodes


def _missing(cycle: Cycle) -> str:
    """Which claim of the pod is not there; VolumeBinding says so before, where it is asked."""
    missing = filter(cycle.volumes.is_missing, claims_of(cycle.pod))
    return next((f'looking up PVC {"/".join(key)}: persistentvolumeclaim "{key[1]}" not found' for key in missing), "")


def _handles(cycle: Cycle) -> list[Handle]:
    """What the pod's volumes count as."""
    # Differs from kube-scheduler: a disk that no driver can have is not counted; there it ends the attempt.
    claimed = map(cycle.volumes.objects.handle_of, claims_of(cycle.pod))
    return [*filter(None, claimed), *cycle.pod.volumes.handles]


def _is_counted(pod: Pod) -> bool:
    return bool(pod.volumes.claims or pod.volumes.handles)


def _takes_more(_who: RefusedPod, event: CSINodeChanged) -> bool:
    """A node comes, or gets a driver, or takes more volumes of a driver than it did, or any number of them."""
    if event.old is None or (event.new is not None and event.new.drivers - event.old.drivers):
        return True
    return any(_limit(event.new, driver) > limit for driver, limit in event.old.limits.items())


def _limit(node: CSINode | None, driver: str) -> float:
    return float("inf") if node is None else node.limits.get(driver, float("inf"))


def _frees(_who: RefusedPod, event: PodChanged) -> bool:
    return event.is_gone and event.old is not None and _is_counted(event.old)


def _gives_back(_who: RefusedPod, event: GivenBack) -> bool:
    return _is_counted(event.pod)


def _is_own_and_new(who: RefusedPod, event: PersistentVolumeClaimChanged) -> bool:
    return event.old is None and event.new is not None and uses_claim(who.pod, event.new.key)


def _can_be_done_without(_who: RefusedPod, event: CSIDriverChanged) -> bool:
    """Pods no longer need a node that has the driver."""
    was_required = event.old is not None and event.old.is_required
    return was_required and (event.new is None or not event.new.is_required)


def _detaches(who: RefusedPod, event: VolumeAttachmentChanged) -> bool:
    return event.old is not None and event.old != event.new and _is_counted(who.pod)


NODE_VOLUME_LIMITS = Plugin(
    "NodeVolumeLimits",
    (
        Reason(
            "NodeVolumeLimits",
            {
                CSINodeChanged: _takes_more,
                CSIDriverChanged: _can_be_done_without,
                PodChanged: _frees,
                PersistentVolumeClaimChanged: _is_own_and_new,
                VolumeAttachmentChanged: _detaches,
                NodeChanged: is_added,
                GivenBack: _gives_back,
            },
        ),
    ),
    pod_fields=("volumes",),
    dynamic=Dynamic(_refused, _rejections),
)

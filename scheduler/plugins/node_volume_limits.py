"""NodeVolumeLimits: a node takes a limited number of volumes of a CSI driver, including those attached to it.

Source: kube-scheduler's nodevolumelimits/csi.go; KEP-554.
"""

from collections.abc import Iterator

from allocator.bits import Mask
from scheduler.core_v1.csi import CSINode
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import Handle
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.plugin import Dynamic, Plugin, Reason, RefusedPod, Rejected, is_added
from scheduler.state.cluster_changes import (
    CSINodeChanged,
    GivenBack,
    NodeChanged,
    PersistentVolumeClaimChanged,
    PodChanged,
    VolumeAttachmentChanged,
)
from scheduler.state.volumes import claims_of

EXCEEDED = "node(s) exceed max volume count"


def _refused(cycle: Cycle) -> Mask:
    if not _is_counted(cycle.pod):
        return 0
    return cycle.volumes.labels.all if _missing(cycle) else cycle.volumes.full(_handles(cycle))


def _rejections(cycle: Cycle, asked: Mask) -> Iterator[Rejected]:
    nodes = _refused(cycle) & asked
    if nodes and (missing := _missing(cycle)):
        yield Rejected(missing, nodes)
    elif nodes:
        yield Rejected(EXCEEDED, nodes, nodes)


def _missing(cycle: Cycle) -> str:
    """Which claim of the pod is not there; VolumeBinding says so before, where it is asked."""
    found = filter(cycle.volumes.is_missing, claims_of(cycle.pod))
    return next((f'looking up PVC {"/".join(key)}: persistentvolumeclaim "{key[1]}" not found' for key in found), "")


def _handles(cycle: Cycle) -> list[Handle]:
    """What the pod's volumes count as."""
    # Differs from kube-scheduler: a disk that no driver can have is not counted; there it ends the attempt.
    found = map(cycle.volumes.objects.handle_of, claims_of(cycle.pod))
    return [*filter(None, found), *cycle.pod.volumes.handles]


def _is_counted(pod: Pod) -> bool:
    return bool(pod.volumes.claims or pod.volumes.handles)


def _takes_more(_who: RefusedPod, event: CSINodeChanged) -> bool:
    """A node comes, or takes more volumes of a driver than it did, or any number of them."""
    if event.old is None:
        return True
    return any(_limit(event.new, driver) > limit for driver, limit in event.old.limits.items())


def _limit(node: CSINode | None, driver: str) -> float:
    return float("inf") if node is None else node.limits.get(driver, float("inf"))


def _frees(_who: RefusedPod, event: PodChanged) -> bool:
    return event.is_gone and event.old is not None and _is_counted(event.old)


def _gives_back(_who: RefusedPod, event: GivenBack) -> bool:
    return _is_counted(event.pod)


def _is_own_and_new(who: RefusedPod, event: PersistentVolumeClaimChanged) -> bool:
    return event.old is None and event.new is not None and event.new.key in claims_of(who.pod)


def _detaches(who: RefusedPod, event: VolumeAttachmentChanged) -> bool:
    return event.old is not None and event.old != event.new and _is_counted(who.pod)


NODE_VOLUME_LIMITS = Plugin(
    "NodeVolumeLimits",
    (
        Reason(
            "NodeVolumeLimits",
            {
                CSINodeChanged: _takes_more,
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

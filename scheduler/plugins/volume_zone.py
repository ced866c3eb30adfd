"""VolumeZone: a volume whose labels name its zone or region can only be used there.

Nodes without both labels count as nodes of a cluster with one zone. Ephemeral volumes are not checked.
Source: kube-scheduler's volume_zone.go.
"""

from collections.abc import Iterator

from allocator.bits import Mask, union
from scheduler.core_v1.pod_volumes import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from scheduler.core_v1.storage_objects import PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.plugin import Cycle, Dynamic, Plugin, Reason, RefusedPod, Rejected
from scheduler.plugins.volume_binding import is_labelled_anew, is_own
from scheduler.state.cluster_changes import (
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    StorageClassChanged,
)
from scheduler.state.volumes import CLASSES, VOLUMES, Volumes

ELSEWHERE = "node(s) had no available volume zone"

_GENERAL = {BETA_ZONE: ZONE, BETA_REGION: REGION}
"""By the older label: the one that stands in for it on nodes."""

_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)


def _claims(cycle: Cycle) -> Iterator[PersistentVolumeClaim]:
    for name in cycle.pod.volumes.named_claims:
        if claim := cycle.volumes.objects.claims.watched.get((cycle.pod.namespace, name)):
            yield claim


def _pre_filter(cycle: Cycle) -> str:
    return next(filter(None, (_problem(cycle.volumes, claim) for claim in _claims(cycle))), "")


def _problem(volumes: Volumes, claim: PersistentVolumeClaim) -> str:
    """Why the zone of the claim's volume is unknown; that is no problem while the volume is still to be selected."""
    if claim.volume:
        is_known = VOLUMES in volumes.unseen or claim.volume in volumes.objects.volumes.watched
        return "" if is_known else f'persistentvolume "{claim.volume}" not found'
    if CLASSES in volumes.unseen:
        return ""
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = volumes.objects.classes.get(claim.storage_class)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    return "" if storage_class.waits else "PersistentVolume had no name"


def _refused(cycle: Cycle) -> Mask:
    volumes, refused = cycle.volumes, 0
    for claim in _claims(cycle):
        volume = volumes.objects.volumes.watched.get(claim.volume)
        for key, zones in _zones(volume) if volume else ():
            refused |= ~_within(volumes, key, zones)
    return refused & union(volumes.labels.having(key) for key in _LABELS) if refused else 0


def _within(volumes: Volumes, key: str, zones: frozenset[str]) -> Mask:
    """The nodes in one of the zones, by the label or the one that stands in for it."""
    labels = volumes.labels
    labelled, general = labels.valued(key, zones), _GENERAL.get(key)
    return labelled | labels.valued(general, zones) & ~labels.having(key) if general else labelled


def _zones(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    """The labels with the volume's zones or regions, and their values; a label with an empty zone is ignored."""
    for key in _LABELS:
        if key in volume.labels:
            zones = frozenset(zone.strip() for zone in volume.labels[key].split(ZONE_DELIMITER))
            if "" not in zones:
                yield key, zones


def _rejections(cycle: Cycle, asked: Mask) -> Iterator[Rejected]:
    if nodes := _refused(cycle) & asked:
        yield Rejected(ELSEWHERE, nodes)


def _waits(_who: RefusedPod, event: StorageClassChanged) -> bool:
    return event.old is None and event.new is not None and event.new.waits


def _is_elsewhere(_who: RefusedPod, event: PersistentVolumeChanged) -> bool:
    old, new = event.old, event.new
    return new is not None and (old is None or [*_zones(old)] != [*_zones(new)])


VOLUME_ZONE = Plugin(
    "VolumeZone",
    (
        Reason(
            "VolumeZone",
            {
                StorageClassChanged: _waits,
                PersistentVolumeClaimChanged: is_own,
                PersistentVolumeChanged: _is_elsewhere,
                NodeChanged: is_labelled_anew,
            },
            node_fields=("labels",),
        ),
    ),
    pod_fields=("volumes",),
    pre_filter=_pre_filter,
    dynamic=Dynamic(_refused, _rejections),
)

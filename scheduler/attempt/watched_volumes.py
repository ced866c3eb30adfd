"""What attempts read about storage from the watches, and how they wait for changes without asking the API server.

Volumes and claims are as the watches show them, without what decisions assume: an attempt waits for what is stored.
"""

import asyncio
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager

from scheduler.attempt.decision import PodKey
from scheduler.core_v1.persistent_volume import PersistentVolume
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.decision.cluster import Cluster
from scheduler.state.cluster_changes import (
    Event,
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    PodChanged,
)
from scheduler.state.storage_objects import ClaimKey, ObjectKey

Subject = tuple[str, Hashable]
"""What may change: a kind, and what an object of it is found by."""


class WatchedVolumes:
    """Volumes, their claims, and what else a wait for them depends on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._following: dict[Subject, set[asyncio.Event]] = {}

    def claim(self, key: ClaimKey) -> PersistentVolumeClaim | None:
        """The claim, None where there is none."""
        return self._cluster.volumes.objects.claims.watched.get(key)

    def volume(self, name: str) -> PersistentVolume | None:
        """The volume, None where there is none."""
        return self._cluster.volumes.objects.volumes.watched.get(name)

    def has_node(self, node: str) -> bool:
        """Whether the node is there."""
        return self._cluster.node(node) is not None

    def is_reached(self, node: str, volume: PersistentVolume) -> bool:
        """Whether the node, which is there, reaches the volume."""
        volumes = self._cluster.volumes
        return bool(volumes.reached(volume) & volumes.node(node))

    def is_active(self, pod: PodKey) -> bool:
        """Whether the pod exists and is not being deleted."""
        found = self._cluster.pods.known(pod.uid)
        return found is not None and not found.is_deleting

    def written(self, pod: PodKey, key: ObjectKey) -> None:
        """What the pod's decision took of this volume or claim is stored."""
        self._cluster.volumes.written(pod.uid, key)

    def declined(self, claim: ClaimKey, node: str) -> None:
        """The claim's provisioner asks for another node."""
        self._cluster.volumes.decline(claim, node)

    def on_event(self, event: Event) -> None:
        """Something has changed: steps that wait for it check again."""
        for changed in self._following.get(_subject(event), ()) if self._following else ():
            changed.set()

    @contextmanager
    def following(self, subjects: Iterable[Subject]) -> Iterator[asyncio.Event]:
        """An event that is set as soon as one of these has changed, while the context is open."""
        changed, followed = asyncio.Event(), list(subjects)
        for one in followed:
            self._following.setdefault(one, set()).add(changed)
        try:
            yield changed
        finally:
            for one in followed:
                self._leave(one, changed)

    def _leave(self, subject: Subject, changed: asyncio.Event) -> None:
        others = self._following.get(subject, set())
        others.discard(changed)
        if not others:
            self._following.pop(subject, None)


def pod_subject(pod: PodKey) -> Subject:
    """The pod."""
    return "Pod", pod.uid


def node_subject(node: str) -> Subject:
    """The node."""
    return "Node", node


def claim_subject(key: ClaimKey) -> Subject:
    """The claim."""
    return "PersistentVolumeClaim", key


def volume_subject(name: str) -> Subject:
    """The volume."""
    return "PersistentVolume", name


def _subject(event: Event) -> Subject:
    match event:
        case PodChanged(old, new) if one := new or old:
            return "Pod", one.uid
        case NodeChanged(old, new) if node := new or old:
            return node_subject(node.name)
        case PersistentVolumeClaimChanged(old, new) if claim := new or old:
            return claim_subject(claim.key)
        case PersistentVolumeChanged(old, new) if volume := new or old:
            return volume_subject(volume.name)
        case _:
            return "", ""

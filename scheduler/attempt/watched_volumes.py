"""What attempts read from the watches about storage, and about their own pods.

Volumes and claims are as the watches show them, without what decisions assume: an attempt waits for what is stored.
"""

from scheduler.attempt.decision import PodKey
from scheduler.core_v1.persistent_volume import PersistentVolume
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.state.storage_objects import ClaimKey, ObjectKey


class WatchedVolumes:
    """Volumes, their claims, and what else a wait for them depends on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

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

    def pod(self, pod: PodKey) -> Pod | None:
        """The pod as the watch shows it; None where it does not, or the pod is over."""
        return self._cluster.pods.shown(pod.uid)

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

"""Storage, nodes and pods kept twice, as a decision sees them and object by object, and what happens to them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from scheduler.decision.cluster import Cluster
from scheduler.state.cluster_changes import (
    CSIDriverChanged,
    CSINodeChanged,
    CSIStorageCapacityChanged,
    Event,
    NodeChanged,
    PersistentVolumeChanged,
    PersistentVolumeClaimChanged,
    PodChanged,
    StorageClassChanged,
    VolumeAttachmentChanged,
)
from tests.builders import kubernetes
from tests.properties.plugins.naive import Storage

Step = tuple[Any, ...]

_SET = {
    "volumes": "set_volume",
    "claims": "set_claim",
    "classes": "set_class",
    "csi_nodes": "set_csi_node",
    "drivers": "set_driver",
    "capacities": "set_capacity",
    "attachments": "set_attachment",
}


_CHANGED: dict[str, Any] = {
    "nodes": NodeChanged,
    "pods": PodChanged,
    "volumes": PersistentVolumeChanged,
    "claims": PersistentVolumeClaimChanged,
    "classes": StorageClassChanged,
    "csi_nodes": CSINodeChanged,
    "drivers": CSIDriverChanged,
    "capacities": CSIStorageCapacityChanged,
    "attachments": VolumeAttachmentChanged,
}


@dataclass
class World:
    """The same objects twice: as decisions see them, and as they are."""

    cluster: Cluster = field(default_factory=lambda: Cluster(kubernetes(), is_ours=lambda _: True))
    storage: Storage = field(default_factory=Storage)

    def do(self, step: Step) -> None:
        match step:
            case ("ask", _):
                pass
            case ("remove", kind, number):
                self.remove(kind, number)
            case ("nodes", node):
                self.storage.nodes[node.name] = node
                self.cluster.set_node(node)
            case ("pods", pod):
                self.storage.pods[pod.name] = pod
                self.cluster.set_pod(pod)
            case (kind, found):
                getattr(self.storage, kind)[found.name] = found
                getattr(self.cluster.volumes, _SET[kind])(found)

    def remove(self, kind: str, number: int) -> None:
        objects = getattr(self.storage, kind)
        if number >= len(objects):
            return
        found = objects.pop(sorted(objects)[number])
        match kind:
            case "nodes":
                self.cluster.remove_node(found.name)
            case "pods":
                self.cluster.remove_pod(found.uid)
            case "claims" | "capacities":
                getattr(self.cluster.volumes, _SET[kind].replace("set", "remove"))(found.key)
            case _:
                getattr(self.cluster.volumes, _SET[kind].replace("set", "remove"))(found.name)

    def told(self, step: Step) -> Iterator[Event]:
        """The same as `do`, and what watches tell of it."""
        before = {kind: dict(getattr(self.storage, kind)) for kind in _CHANGED}
        self.do(step)
        for kind, changed in _CHANGED.items():
            now = getattr(self.storage, kind)
            for name in before[kind].keys() | now.keys():
                old, new = before[kind].get(name), now.get(name)
                if old != new:
                    yield changed(old, new)

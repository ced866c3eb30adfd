"""Requirements of pods that placement does not look at: recognised, so that they can be told.

They are read as they come: a field of a wrong type asks for nothing here.
Source: k8s.io/api core/v1 PodSpec, and the filters of kube-scheduler that this program does not have.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.core_v1.host_ports import objects

VOLUMES = "volumes"
GROUP = "pod groups"

GROUPS_UNSUPPORTED = "PodGroup claims unsupported"
"""Why a pod is refused that has claims of its group."""

_PLACED_VOLUMES = frozenset(
    {
        "persistentVolumeClaim",
        "ephemeral",
        "csi",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "azureDisk",
        "cinder",
        "vsphereVolume",
        "portworxVolume",
        "iscsi",
        "rbd",
    }
)
"""Volumes that a node has to reach, has room for so many of, or can share with some pods only."""


def requirements_of(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What the pod's spec requires of its node that placement does not look at. spec: raw."""
    return tuple(name for name, has in _CHECKS.items() if has(spec))


def _has_placed_volumes(spec: Mapping[str, Any]) -> bool:
    return any(not _PLACED_VOLUMES.isdisjoint(volume) for volume in objects(spec, "volumes"))


def _has_group(spec: Mapping[str, Any]) -> bool:
    return isinstance(spec.get("schedulingGroup"), dict)


def _map(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


_CHECKS = {
    VOLUMES: _has_placed_volumes,
    GROUP: _has_group,
}

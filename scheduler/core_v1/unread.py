"""Requirements of pods that placement does not look at: recognised, so that they can be told.

They are read as they come: a field of a wrong type asks for nothing here.
Source: k8s.io/api core/v1 PodSpec, and the filters of kube-scheduler that this program does not have.
"""

from collections.abc import Mapping
from typing import Any

GROUP = "pod groups"

GROUPS_UNSUPPORTED = "PodGroup claims unsupported"
"""Why a pod is refused that has claims of its group."""


def requirements_of(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What the pod's spec requires of its node that placement does not look at. spec: raw."""
    return tuple(name for name, has in _CHECKS.items() if has(spec))


def _has_group(spec: Mapping[str, Any]) -> bool:
    return isinstance(spec.get("schedulingGroup"), dict)


_CHECKS = {
    GROUP: _has_group,
}

"""What a pod may require that this scheduler does not do: the pod is refused by that name, and nothing is ignored.

Volumes that come with the pod or lie on the node place nothing and are fine (emptyDir, configMap, secret,
projected, downwardAPI, hostPath, image), and so is what a pod only prefers.
"""

from collections.abc import Container, Iterator

from allocator.features.extended_resource import CLASS_PREFIX
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.unread import GROUP, HOST_PORTS

GROUPS_UNSUPPORTED = "PodGroup claims unsupported"


def unsupported(pod: Pod, backed: Container[str] = frozenset()) -> str:
    """Why this scheduler cannot place the pod, empty where it can.

    backed: the extended resources that a device class stands for (`classes_by_resource`).
    """
    return "; ".join((*_requirements(pod), *_extended_resources(pod, backed)))


def _requirements(pod: Pod) -> Iterator[str]:
    if GROUP in pod.unread:
        yield GROUPS_UNSUPPORTED
    if others := [name for name in pod.unread if name not in (HOST_PORTS, GROUP)]:
        yield f"this scheduler does not support {', '.join(others)}, which the pod requires"


def _extended_resources(pod: Pod, backed: Container[str]) -> Iterator[str]:
    asked = sorted({name for one in pod.containers for name, amount in one.requests.items() if amount.sign > 0})
    if names := [name for name in asked if name.startswith(CLASS_PREFIX) or name in backed]:
        yield f"this scheduler does not make claims for extended resources of device classes: {', '.join(names)}"

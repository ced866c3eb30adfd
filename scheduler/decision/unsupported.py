"""What a pod may require that this scheduler does not do: the pod is refused by that name, and nothing is ignored.

What a pod only prefers is fine.
"""

from collections.abc import Iterator

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.unread import GROUP, GROUPS_UNSUPPORTED


def unsupported(pod: Pod) -> str:
    """Why this scheduler cannot place the pod, empty where it can."""
    return "; ".join(_requirements(pod))


def _requirements(pod: Pod) -> Iterator[str]:
    if GROUP in pod.unread:
        yield GROUPS_UNSUPPORTED
    if others := [name for name in pod.unread if name != GROUP]:
        yield f"this scheduler does not support {', '.join(others)}, which the pod requires"

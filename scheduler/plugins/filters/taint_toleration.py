"""TaintToleration: every NoSchedule and NoExecute taint of the node has to be tolerated.

Source: k8s.io/api core/v1 Toleration.ToleratesTaint.
"""

from collections.abc import Sequence

from allocator.model import Node, Taint, Toleration
from scheduler.core_v1.pod import Pod

_BLOCKING = frozenset({"NoSchedule", "NoExecute"})


def taint_toleration(pod: Pod, node: Node) -> str:
    """Refuses a node with a taint that the pod does not tolerate."""
    for taint in node.taints:
        if taint.effect in _BLOCKING and not tolerates(pod.tolerations, taint):
            return f"node has untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """True where one toleration matches the taint."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"

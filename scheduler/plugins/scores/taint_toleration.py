"""TaintToleration: the fewer PreferNoSchedule taints of a node the pod does not tolerate, the better."""

from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.plugins.filters.taint_toleration import tolerates
from scheduler.plugins.scores.normalize import normalized
from scheduler.state.masks import Numbers

WEIGHT = 3

_PREFER_NO_SCHEDULE = "PreferNoSchedule"


def untolerated_taints(pod: Pod, node: Node) -> int:
    """How many there are on one node."""
    soft = [taint for taint in node.taints if taint.effect == _PREFER_NO_SCHEDULE]
    return sum(not tolerates(pod.tolerations, taint) for taint in soft)


def taint_toleration(untolerated: Numbers) -> Numbers:
    """The scores of nodes with so many of them."""
    return normalized(untolerated, is_reversed=True)

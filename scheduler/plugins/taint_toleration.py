"""TaintToleration: NoSchedule and NoExecute taints have to be tolerated; PreferNoSchedule taints make a node worse.

Source: k8s.io/api core/v1 Toleration.ToleratesTaint.
"""

from collections.abc import Iterator
from dataclasses import replace

from allocator.features.device_taints import BLOCKING, tolerates
from allocator.model import Node, Toleration
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import Change, Cycle, Plugin, RefusingNode, Score, Static, normalized
from scheduler.state.masks import Numbers

_PREFER_NO_SCHEDULE = "PreferNoSchedule"


def taint_toleration(pod: Pod, node: Node) -> str:
    """Refuses a node with a taint that the pod does not tolerate."""
    for taint in node.taints:
        if taint.effect in BLOCKING and not tolerates(pod.tolerations, taint):
            return f"node has untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def untolerated_taints(pod: Pod, node: Node) -> int:
    """How many PreferNoSchedule taints of the node the pod does not tolerate."""
    soft = [taint for taint in node.taints if taint.effect == _PREFER_NO_SCHEDULE]
    return sum(not tolerates(pod.tolerations, taint) for taint in soft)


def _changes(cycle: Cycle, place: RefusingNode) -> Iterator[Change]:
    pod = cycle.pod
    taints = [one for one in place.node.taints if one.effect in BLOCKING and not tolerates(pod.tolerations, one)]
    names = ", ".join(map(str, taints))
    added = [Toleration(one.key, "Equal", one.value, one.effect) for one in taints]
    changed = replace(pod, tolerations=(*pod.tolerations, *added))
    yield Change(f"taint{'s' if len(taints) > 1 else ''} {names} tolerated", changed)


def _scores(_cycle: Cycle, _nodes: Numbers, untolerated: Numbers) -> Numbers:
    return normalized(untolerated, is_reversed=True)


TAINT_TOLERATION = Plugin.of_nodes(
    "TaintToleration",
    Static("node(s) had untolerated taint(s)", taint_toleration, _changes),
    pod_fields=("tolerations",),
    node_fields=("taints",),
    score=Score(3, _scores, untolerated_taints),
)

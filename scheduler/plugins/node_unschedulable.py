"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint of cordoned nodes."""

from collections.abc import Iterator
from dataclasses import replace

from allocator.features.device_taints import tolerates
from allocator.model import Node, Taint
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import Change, Cycle, Plugin, RefusingNode, Static

_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def node_unschedulable(pod: Pod, node: Node) -> str:
    """Refuses a node with `spec.unschedulable`."""
    if node.unschedulable and not tolerates(pod.tolerations, _CORDONED):
        return "node is unschedulable"
    return ""


def _changes(_cycle: Cycle, place: RefusingNode) -> Iterator[Change]:
    yield Change(f"node {place.node.name} uncordoned", node=replace(place.node, unschedulable=False))


NODE_UNSCHEDULABLE = Plugin.of_nodes(
    "NodeUnschedulable",
    Static("node(s) were unschedulable", node_unschedulable, _changes),
    pod_fields=("tolerations",),
    node_fields=("unschedulable",),
)

"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint of cordoned nodes."""

from allocator.model import Node, Taint
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import Plugin, Static
from scheduler.plugins.taint_toleration import tolerates

_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def node_unschedulable(pod: Pod, node: Node) -> str:
    """Refuses a node with `spec.unschedulable`."""
    if node.unschedulable and not tolerates(pod.tolerations, _CORDONED):
        return "node is unschedulable"
    return ""


NODE_UNSCHEDULABLE = Plugin.of_nodes(
    "NodeUnschedulable",
    Static("node(s) were unschedulable", node_unschedulable),
    pod_fields=("tolerations",),
    node_fields=("unschedulable",),
)

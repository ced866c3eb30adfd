"""NodeName: a pod that names its node can only go there."""

from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import Plugin, Static


def node_name(pod: Pod, node: Node) -> str:
    """Refuses every node but the one that `spec.nodeName` names."""
    return "node is not the one in spec.nodeName" if pod.node_name and pod.node_name != node.name else ""


NODE_NAME = Plugin.of_nodes(
    "NodeName",
    Static("node(s) didn't match the requested node name", node_name),
    pod_fields=("node_name",),
    node_fields=(),
)

"""NodeName: a pod that names its node can only be there."""

from allocator.model import Node
from scheduler.core_v1.pod import Pod


def node_name(pod: Pod, node: Node) -> str:
    """Refuses every node but the one that `spec.nodeName` names."""
    return "node is not the one in spec.nodeName" if pod.node_name and pod.node_name != node.name else ""

"""NodeDeclaredFeatures: the node has to declare the features of the kubelet that the pod needs.

`scheduler.core_v1.node` determines these features.
Source: KEP-5328.
"""

from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import Plugin, Static


def node_declared_features(pod: Pod, node: Node) -> str:
    """Refuses a node that does not declare all features that the pod needs."""
    missing = pod.required_features - node.declared_features
    return f"node does not declare {', '.join(sorted(missing))}" if missing else ""


NODE_DECLARED_FEATURES = Plugin.of_nodes(
    "NodeDeclaredFeatures",
    Static("node(s) didn't match Pod's required features", node_declared_features),
    pod_fields=("required_features",),
    node_fields=("declared_features",),
)

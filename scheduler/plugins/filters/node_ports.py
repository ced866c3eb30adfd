"""NodePorts: the host ports of a pod have to be free on its node."""

from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.state.nodes import NodeInfos

PLUGIN = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"


def node_ports(pod: Pod, infos: NodeInfos) -> Mask:
    """The nodes that it refuses; the end of other pods may free the ports of each."""
    return infos.ports.clashes(pod.host_ports) if pod.host_ports else 0

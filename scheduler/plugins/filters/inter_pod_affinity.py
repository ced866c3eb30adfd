"""InterPodAffinity: pods that are there already may keep a pod away from their nodes and the domains of these.

What the pod in hand itself requires of other pods is refused by name (`unsupported`) before filters are asked.
"""

from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.state.nodes import NodeInfos

PLUGIN = "InterPodAffinity"
REASON = "node(s) didn't satisfy existing pods anti-affinity rules"


def inter_pod_affinity(pod: Pod, infos: NodeInfos) -> Mask:
    """The nodes that it refuses; the end of other pods may open each."""
    return infos.anti_affinity.kept_from(pod)

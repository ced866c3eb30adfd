"""NodeAffinity: the more a pod's preferred terms weigh that a node matches, the better."""

from allocator.cluster.node_affinity import selects_leniently
from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.plugins.scores.normalize import normalized
from scheduler.state.masks import Numbers

WEIGHT = 2


def preferred_weight(pod: Pod, node: Node) -> int:
    """The sum of the weights of the terms that one node matches.

    Differs from kube-scheduler: a term that makes no sense matches nothing, where there it ends the attempt.
    """
    matching = [one.weight for one in pod.preferences if selects_leniently((one.term,), node)]
    return sum(matching)


def node_affinity(preferred: Numbers) -> Numbers:
    """The scores of nodes with such sums."""
    return normalized(preferred)

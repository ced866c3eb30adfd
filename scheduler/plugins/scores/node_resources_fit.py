"""NodeResourcesFit, LeastAllocated: the more of its cpu and memory a node has left with the pod on it, the better.

Differs from kube-scheduler: 1.36 leaves out what the pod in hand requests as a whole (spec.resources), and counts its
containers alone; of pods that are on a node it counts it, and so does this in both places.
Source: kube-scheduler's least_allocated.go, with its default resources cpu and memory, of equal weight.
"""

import numpy as np

from scheduler.plugins.scores.normalize import MAX_SCORE
from scheduler.state.masks import Numbers
from scheduler.state.nodes import NodeInfos
from scheduler.state.pod_requests import CPU, MEMORY, PodRequests

WEIGHT = 1


def node_resources_fit(requests: PodRequests, infos: NodeInfos, nodes: Numbers) -> Numbers:
    """The scores of these nodes; a resource that a node does not offer is left out of its mean."""
    cpu, memory = infos.columns[CPU].allocatable[nodes], infos.columns[MEMORY].allocatable[nodes]
    total = _left(cpu, infos.scored_cpu[nodes] + requests.scored_cpu)
    total += _left(memory, infos.scored_memory[nodes] + requests.scored_memory)
    offered = (cpu > 0).astype(np.int64) + (memory > 0)
    return total // np.maximum(offered, 1)


def _left(allocatable: Numbers, requested: Numbers) -> Numbers:
    """The hundredths of what is allocatable that are left; 0 where it is nothing, or less than requested."""
    left: Numbers = np.maximum(allocatable - requested, 0) * MAX_SCORE
    return left // np.maximum(allocatable, 1)

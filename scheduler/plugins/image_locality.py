"""ImageLocality: a node that already has the pod's images scores higher, the larger they are.

An image counts by its size and by the share of nodes that have it, so that pods of one image do not crowd on the few
nodes that have it first. The score is 0 below 23 MiB, and does not grow beyond 1,000 MiB for each container; from 1.37
on, for each container and image volume.
Source: kube-scheduler's image_locality.go.
"""

import numpy as np

from allocator.gates import Release
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import MAX_SCORE, Cycle, Plugin, Score
from scheduler.state.masks import Numbers, flags_of
from scheduler.state.node_infos import NodeInfos

_MIB = 2**20
_LEAST = 23 * _MIB
_MOST_OF_CONTAINER = 1000 * _MIB


def image_locality(pod: Pod, infos: NodeInfos, nodes: Numbers, release: Release) -> Numbers:
    """The scores of these nodes. Cost: an array operation for each image of the pod that some node has."""
    spread = [one for name in pod.images if (one := infos.images.spread_size(name))]
    if not spread:
        return np.zeros(len(nodes), np.int64)
    sources = pod.images if release.counts_image_volumes else pod.containers
    most, sizes = _MOST_OF_CONTAINER * len(sources), np.zeros(infos.size, np.int64)
    for size, having in spread:
        sizes[flags_of(having, infos.size)] += min(size, most)
    won: Numbers = np.maximum(np.minimum(sizes[nodes], most), _LEAST) - _LEAST
    return MAX_SCORE * won // (most - _LEAST)


def _scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers:
    return image_locality(cycle.pod, cycle.infos, nodes, cycle.features.release)


IMAGE_LOCALITY = Plugin("ImageLocality", (), score=Score(1, _scores))

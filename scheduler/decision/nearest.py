"""Which node comes nearest to taking a pod, of those that refuse it whatever devices they have."""

from collections.abc import Iterator, Sequence

import numpy as np

from allocator.model import Claim
from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.decision.able import cycle_of, reached_by_all
from scheduler.decision.cluster import Cluster
from scheduler.decision.node_answers import requirements_of
from scheduler.decision.requirements import Requirements
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.node_resources_fit import fraction_missing
from scheduler.state.masks import flags_of, mask_of, numbers_of, union


def nearest_refusing(cluster: Cluster, pod: Pod, claims: Sequence[Claim], nodes: Mask) -> int:
    """The node with the fewest reasons; of these the one that lacks the smallest part of the requests; the first.

    nodes: at least one. A reason is a filter, a resource that is short, a claim that is not reached, or devices.
    Cost: O(nodes) array operations for each reason.
    """
    infos = cluster.infos
    reasons, missing = np.zeros(infos.size, np.int64), np.zeros(infos.size)
    for required in requirements_of(cluster, pod, claims):
        own = required.nodes & nodes
        for refused in _refused(cluster, cycle_of(cluster, pod, required.requests), claims, required):
            reasons += flags_of(refused & own, infos.size)
        numbers = numbers_of(own)
        missing[numbers] = fraction_missing(required.requests, infos, numbers)
    asked = numbers_of(nodes)
    return int(asked[np.lexsort((missing[asked], reasons[asked]))[0]])  # a stable sort: the first of equals


def with_devices(cluster: Cluster, pod: Pod, claims: Sequence[Claim]) -> Mask:
    """The nodes that have the devices that the claims lack, whatever else keeps the pod from them."""
    return union(_giving(cluster, pod, required) for required in requirements_of(cluster, pod, claims))


def _giving(cluster: Cluster, pod: Pod, required: Requirements) -> Mask:
    if required.problem:
        return 0
    return required.nodes & cluster.fleet_of(pod).able(required.pending) if required.pending else required.nodes


def _refused(cluster: Cluster, cycle: Cycle, claims: Sequence[Claim], required: Requirements) -> Iterator[Mask]:
    """For each reason the nodes of `required` that have it, and maybe others."""
    template = cycle.template
    yield from (mask_of(template.refused_by_filter(position)) for position in range(template.filters))
    for plugin in cluster.templates_of(cycle.pod).plugins:
        if plugin.dynamic:
            yield from (one.nodes for one in plugin.dynamic.rejections(cycle, required.nodes))
    yield from (~reached_by_all(cluster, [claim]) for claim in claims)
    yield ~_giving(cluster, cycle.pod, required)

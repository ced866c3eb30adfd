"""The choice of the best node for a pod: the weighted sum of all scores, then what the allocator's policy finds.

Of the nodes with the highest total the policy chooses, and of its equals the lowest number is taken; or, where another
scheduler takes devices at the same time, the first one from a number on that is none of that one's.
Differs from kube-scheduler: it takes any of the best, and has scores that this program does not have
(NodeResourcesBalancedAllocation, ImageLocality, InterPodAffinity, PodTopologySpread).
"""

from collections.abc import Mapping

import numpy as np

from allocator.policy import Score
from allocator.rules import Mask
from scheduler.cycle.masks import Numbers, flags_of, mask_of, numbers_of
from scheduler.cycle.node_info import NodeInfos
from scheduler.cycle.pod_requests import PodRequests
from scheduler.cycle.scores import dynamic_resources, node_affinity, node_resources_fit, taint_toleration
from scheduler.cycle.templates import Template

Groups = Mapping[tuple[int, Score], Mask]
"""The nodes that can give the claims their devices, by (rank, policy's score); no node is in two groups."""


def totals(template: Template, requests: PodRequests, infos: NodeInfos, nodes: Numbers, ranks: Numbers) -> Numbers:
    """The weighted sums of all scores for these nodes. ranks: of `dynamic_resources`, in the order of the nodes."""
    fit = node_resources_fit.node_resources_fit(requests, infos, nodes)
    taints = taint_toleration.taint_toleration(template.untolerated[nodes])
    affinity = node_affinity.node_affinity(template.preferred[nodes])
    devices = dynamic_resources.dynamic_resources(ranks)
    return (
        node_resources_fit.WEIGHT * fit
        + taint_toleration.WEIGHT * taints
        + node_affinity.WEIGHT * affinity
        + dynamic_resources.WEIGHT * devices
    )


def pick(  # noqa: PLR0913, PLR0917 - what decides
    template: Template, requests: PodRequests, infos: NodeInfos, groups: Groups, feasible: Mask, start: float = 0.0
) -> tuple[int, int] | None:
    """The number of the best node that is feasible and in a group, and its total; None where there is none.

    feasible: nodes of the template that filters let pass. start: where equals are looked for first, from the first
    number to the last, in [0, 1). Cost: O(groups) masks and some array operations.
    """
    able = 0
    for mask in groups.values():
        able |= mask
    able &= feasible
    if not able:
        return None
    nodes = numbers_of(able)
    sums = totals(template, requests, infos, nodes, _ranks(groups, nodes, infos.size))
    highest = int(sums.max())
    best = np.zeros(infos.size, np.bool_)
    best[nodes[sums == highest]] = True
    return _first(groups, mask_of(best), start), highest


def _ranks(groups: Groups, nodes: Numbers, size: int) -> Numbers:
    by_rank: dict[int, Mask] = {}
    for (rank, _), mask in groups.items():
        by_rank[rank] = by_rank.get(rank, 0) | mask
    ranks = np.zeros(size, np.int64)
    for rank, mask in by_rank.items():
        if rank:
            ranks[flags_of(mask, size)] = rank
    return ranks[nodes]


def _first(groups: Groups, best: Mask, start: float) -> int:
    """Of the best nodes the first, from there on, of those that the policy finds best."""
    score = max(score for (_, score), mask in groups.items() if mask & best)
    chosen = 0
    for (_, other), mask in groups.items():
        if other == score:
            chosen |= mask & best
    before = int(start * chosen.bit_length())
    chosen = chosen >> before << before or chosen
    return (chosen & -chosen).bit_length() - 1

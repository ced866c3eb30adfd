"""Selects the best node for a pod: the best by the allocator's policy, then by the weighted sum of all scores.

Among equals the first one is taken (`node_order`). To the policy first-fit all nodes are equal, so the scores decide.
Differs from kube-scheduler: it takes any of the best.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from allocator.policies.contract import Score
from allocator.search.rules import Mask
from scheduler.decision.node_order import NodeOrder
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import DYNAMIC_RESOURCES
from scheduler.plugins.plugin import Plugin
from scheduler.plugins.plugin import Score as PluginScore
from scheduler.state.masks import Numbers, flags_of, numbers_of, union

Groups = Mapping[tuple[int, Score], Mask]
"""The nodes that can give the claims their devices, by (rank, policy's score); no node is in two groups."""


def totals(cycle: Cycle, plugins: Iterable[Plugin], nodes: Numbers, ranks: Numbers) -> Numbers:
    """The weighted sums of all scores for these nodes. ranks: of `dynamic_resources`, in the order of the nodes."""
    apart: list[Plugin] = []
    alike: list[Plugin] = []
    for one in plugins:
        if one.score:
            (apart if _distinguishes(one, one.score, cycle) else alike).append(one)
    template = cycle.template
    if template.alike is None:
        # Of these, the score of the first node is that of each, for every pod of the template.
        template.alike = sum(scores.item() for _, scores in weighted(cycle, alike, nodes[:1], ranks[:1]))
    sums = np.full(len(nodes), template.alike, np.int64)
    for _, scores in weighted(cycle, apart, nodes, ranks):
        sums += scores
    return sums


def _distinguishes(plugin: Plugin, score: PluginScore, cycle: Cycle) -> bool:
    """False where the score follows from what the plugin counts on each node, and that is nothing on any."""
    return score.count is None or plugin.name in cycle.template.counting


def weighted(
    cycle: Cycle, plugins: Iterable[Plugin], nodes: Numbers, ranks: Numbers
) -> Iterator[tuple[Plugin, Numbers]]:
    """The same by plugin, without those that score all these nodes alike."""
    for plugin in plugins:
        if plugin.score:
            counts = ranks if plugin.name == DYNAMIC_RESOURCES.name else cycle.template.counts_of(plugin.name, nodes)
            scores = plugin.score.scores(cycle, nodes, counts)
            if scores is not None:
                yield plugin, scores if plugin.score.weight == 1 else plugin.score.weight * scores


def pick(
    cycle: Cycle, plugins: Iterable[Plugin], groups: Groups, feasible: Mask, order: NodeOrder
) -> tuple[int, int] | None:
    """The number of the best node that is feasible and in a group, and its total; None where there is none.

    feasible: nodes that filters let pass. order: which of equals to take. Cost: O(groups) masks and some array
    operations.
    """
    able = union(groups.values()) & feasible
    if not able:
        return None
    nodes, size = numbers_of(able), cycle.infos.size
    if not any([rank for rank, _ in groups]):  # noqa: C419 - faster
        plugins = [one for one in plugins if one.name != DYNAMIC_RESOURCES.name]  # which scores by ranks alone
    sums = totals(cycle, plugins, nodes, ranks_of(groups, nodes, size))
    preferred = preferred_by_policy(groups, feasible)
    if preferred != able:
        is_preferred = flags_of(preferred, size)[nodes]
        nodes, sums = nodes[is_preferred], sums[is_preferred]
    return order.best(nodes, sums)


def preferred_by_policy(groups: Groups, feasible: Mask) -> Mask:
    """The feasible nodes that the policy finds best; some node has to be."""
    score = max(score for (_, score), mask in groups.items() if mask & feasible)
    return union(mask for (_, other), mask in groups.items() if other == score) & feasible


def ranks_of(groups: Groups, nodes: Numbers, size: int) -> Numbers:
    """The ranks of these nodes, in their order. size: more than any number of a node."""
    by_rank: dict[int, Mask] = {}
    for (rank, _), mask in groups.items():
        if rank:
            by_rank[rank] = by_rank.get(rank, 0) | mask
    if not by_rank:
        return np.zeros(len(nodes), np.int64)
    ranks = np.zeros(len(nodes), np.int64)
    for rank, mask in by_rank.items():
        ranks[flags_of(mask, size)[nodes]] = rank
    return ranks

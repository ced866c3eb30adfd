"""What plugins say of nodes: which pass the filters, why the others do not, and which is best by the scores."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile

import numpy as np

from allocator.bits import Mask, bits, union, without
from allocator.model import Claim
from allocator.policies.contract import Score
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import NodeOrder
from scheduler.decision.pod_signatures import PodSignatures
from scheduler.plugins.dynamic_resources import DYNAMIC_RESOURCES
from scheduler.plugins.plugin import Cycle, Dynamic, Plugin, Rejected
from scheduler.plugins.plugin import Score as PluginScore
from scheduler.state.masks import Numbers, flags_of, numbers_of

# Selects the best node for a pod: the best by the allocator's policy, then by the weighted sum of all scores.
#
# Among equals the first one is taken (`NodeOrder`). To the policy first-fit all nodes are equal, so the scores decide.
# Differs from kube-scheduler: it takes any of the best.


Groups = Mapping[tuple[int, Score], Mask]
"""The nodes that can give the claims their devices, by (rank, policy's score); no node is in two groups."""


def totals(cycle: Cycle, plugins: Iterable[Plugin], nodes: Numbers, ranks: Numbers) -> Numbers:
    """The weighted sums of all scores for these nodes. ranks: of `dynamic_resources`, in the order of the nodes."""
    apart: list[Plugin] = []
    alike: list[Plugin] = []
    for plugin in plugins:
        if plugin.score:
            (apart if _distinguishes(plugin, plugin.score, cycle) else alike).append(plugin)
    signature = cycle.signature
    if signature.alike is None:
        # Of these, the score of the first node is that of each, for every pod of the signature.
        signature.alike = sum(scores.item() for _, scores in weighted(cycle, alike, nodes[:1], ranks[:1]))
    sums = np.full(len(nodes), signature.alike, np.int64)
    for _, scores in weighted(cycle, apart, nodes, ranks):
        sums += scores
    return sums


def _distinguishes(plugin: Plugin, score: PluginScore, cycle: Cycle) -> bool:
    """False where the score follows from what the plugin counts on each node, and that is nothing on any."""
    return score.count is None or plugin.name in cycle.signature.counting


def weighted(
    cycle: Cycle, plugins: Iterable[Plugin], nodes: Numbers, ranks: Numbers
) -> Iterator[tuple[Plugin, Numbers]]:
    """The same by plugin, without those that score all these nodes alike."""
    for plugin in plugins:
        if plugin.score:
            counts = ranks if plugin.name == DYNAMIC_RESOURCES.name else cycle.signature.counts_of(plugin.name, nodes)
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


# Which nodes pass the filters for a pod, devices aside, and why the others do not.
#
# The plugins run in kube-scheduler's order, and the first one that refuses a node counts. `feasible` is part of every
# decision; `rejections` is called only if no node is left, or on request.


def refused_by_all(cycle: Cycle, plugins: Iterable[Plugin]) -> tuple[Plugin, str] | None:
    """The first plugin that refuses every node at once, and why."""
    for plugin in plugins:
        if plugin.pre_filter and (problem := plugin.pre_filter(cycle)):
            return plugin, problem
    return None


def feasible(cycle: Cycle, plugins: Sequence[Plugin]) -> Mask:
    """The nodes that every filter lets pass, with the pods that are nominated to the node as well as without them."""
    left = cycle.signature.allowed
    for plugin in plugins:
        if plugin.dynamic and left and (refused := plugin.dynamic.refused(cycle)):
            left = without(left, refused)
    return left & ~_refused_beside_nominated(cycle, plugins, left) if cycle.nominated else left


def _refused_beside_nominated(cycle: Cycle, plugins: Iterable[Plugin], nodes: Mask) -> Mask:
    """Those of the nodes that have no place for the pod once the pods are there that were promised one.

    What is promised on one node does not count for another. Cost: O(nodes with promises) for plugins that look further.
    """
    refused, nominated = 0, {number: pods for number, pods in cycle.nominated.items() if nodes >> number & 1}
    filters = [plugin.dynamic for plugin in plugins if plugin.dynamic]
    # Within the context the cluster counts the nominated pods on their nodes, and filters read it as if they ran.
    with cycle.beside(nominated):
        for dynamic in filters:
            if not dynamic.looks_further:
                refused |= dynamic.refused(cycle)
    further = [one for one in filters if one.looks_further and _sees_nominated(cycle, one)]
    for number, pods in nominated.items():
        with cycle.beside({number: pods}):
            if any(one.refused(cycle) >> number & 1 for one in further if not one.is_skipped(cycle)):
                refused |= 1 << number
    return refused & sum(1 << number for number in nominated)


def _sees_nominated(cycle: Cycle, one: Dynamic) -> bool:
    # Differs from kube-scheduler: a filter that it skips for the pod does not see the promised pods either: neither
    # their anti-affinity, where the pod has no terms of its own, nor that they use a claim that is for one pod.
    return not (cycle.features.is_strict and one.is_skipped(cycle))


def rejections(cycle: Cycle, signatures: PodSignatures, passed: Mask = 0) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for every node that is not feasible; a node that lacks several resources has a reason for each.

    passed: nodes that are known to be feasible, so that they need not be asked again. What is found only without the
    promised pods is late: beside them the node was asked up to its devices.
    """
    by_node = list(signatures.rejections(cycle.signature))
    asked = (cycle.signature.allowed | union(one.nodes for _, one in by_node)) & ~passed
    promised = union(1 << number for number in cycle.nominated)
    beside = list(_rejections_beside_nominated(cycle, signatures.plugins, by_node, asked & promised))
    yield from beside
    asked &= ~union(one.nodes for _, one in beside)
    for plugin, rejected in _rejections(cycle, signatures.plugins, by_node, asked & promised):
        yield plugin, replace(rejected, is_late=True)
    yield from _rejections(cycle, signatures.plugins, by_node, asked & ~promised)


def _rejections_beside_nominated(
    cycle: Cycle, plugins: Iterable[Plugin], by_node: Sequence[tuple[Plugin, Rejected]], left: Mask
) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for nodes with promises, each with the pods that were promised it."""
    nominated = {number: pods for number, pods in cycle.nominated.items() if left >> number & 1}
    seeing = [one for one in plugins if not one.dynamic or _sees_nominated(cycle, one.dynamic)]
    yield from _rejections(cycle, seeing, by_node, left, lambda one, nodes: _beside(cycle, one, nominated, nodes))


def _beside(cycle: Cycle, one: Dynamic, nominated: Mapping[int, Sequence[Pod]], nodes: Mask) -> Iterable[Rejected]:
    """What the filter says of these nodes. Cost: one evaluation; of a filter that looks further, one for each node."""
    if not one.looks_further:
        with cycle.beside(nominated):
            return list(one.rejections(cycle, nodes))
    rejections: list[Rejected] = []
    for number in bits(nodes):
        with cycle.beside({number: nominated[number]}):
            rejections += one.rejections(cycle, 1 << number)
    return rejections


def _rejections(
    cycle: Cycle,
    plugins: Iterable[Plugin],
    by_node: Sequence[tuple[Plugin, Rejected]],
    left: Mask,
    ask: Callable[[Dynamic, Mask], Iterable[Rejected]] | None = None,
) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for these nodes, by the first plugin that refuses each. ask: how a filter is asked instead."""
    for plugin in plugins:
        if not left:
            return
        refused = [one for other, one in by_node if other is plugin]
        if plugin.dynamic:
            refused += ask(plugin.dynamic, left) if ask else plugin.dynamic.rejections(cycle, left)
        for rejected in refused:
            if nodes := rejected.nodes & left:
                yield plugin, replace(rejected, nodes=nodes)
        left &= ~union(one.nodes for one in refused)


def after_devices(plugins: Iterable[Plugin]) -> Sequence[Plugin]:
    """Those that are asked once DynamicResources has let a node pass."""
    return list(dropwhile(lambda plugin: plugin.name != DYNAMIC_RESOURCES.name, plugins))[1:]


def fit_error(nodes: int, reasons: Counter[str], *, before: str = "", explanation: str = "") -> str:
    """The message of a pod that fits nowhere, as kube-scheduler writes it.

    nodes: how many there are. reasons: of `counts`. before: what refuses every node at once, in place of the reasons.
    explanation: more; its first line follows the rest.
    """
    if not nodes:
        return _with("no nodes available to schedule pods", explanation)
    reported = before or ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return _with(
        f"0/{nodes} nodes are available: {reported}." if reported else f"0/{nodes} nodes are available:", explanation
    )


def _with(message: str, explanation: str) -> str:
    lines: Sequence[str] = explanation.strip().splitlines()
    return f"{message} {lines[0]}" if lines else message


# Admin access is allowed only in labelled namespaces: the API server rejects its allocation elsewhere.
#
# Source: KEP-5018; k8s.io/kubernetes pkg/registry/resource, AuthorizedForAdmin.


LABEL = "resource.kubernetes.io/admin-access"


def is_asked_for(claim: Claim) -> bool:
    """True for a claim with a request for admin access."""
    return any(alternative.admin_access for request in claim.requests for alternative in request.alternatives)


def refusal(claim: Claim, labels: Mapping[str, str]) -> str:
    """Why the claim cannot have admin access in its namespace, which has these labels; empty where it can."""
    if labels.get(LABEL) == "true":
        return ""
    return f'claim {claim} requests admin access, but its namespace does not have the label {LABEL}: "true"'

"""Which nodes pass: what the pod asks for, what its devices reach, and each plugin's answer."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import NamedTuple

import numpy as np

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.did_you_mean import did_you_mean
from allocator.explain.cause import with_requests_named
from allocator.gates import ADMIN_ACCESS, NODE_ALLOCATABLE_RESOURCES
from allocator.model import Allocation, Claim
from allocator.outcome import Outcome
from allocator.policies.contract import PolicyOfNode, Score
from allocator.search.rules import Mask, bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster, NodeOrder
from scheduler.decision.templates import Templates
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import ADMIN_ACCESS as NO_ADMIN_ACCESS
from scheduler.plugins.dynamic_resources import CLAIMS, CLASSES, DYNAMIC_RESOURCES
from scheduler.plugins.plugin import UNSUPPORTED, Dynamic, Plugin, Reason, Rejected
from scheduler.plugins.plugin import Score as PluginScore
from scheduler.state.extended_resources import ExtendedClaim
from scheduler.state.masks import Numbers, flags_of, numbers_of, union, without
from scheduler.state.node_allocatable_resources import WithDevices
from scheduler.state.pods import PodRequests, pod_requests

# Selects the best node for a pod: the best by the allocator's policy, then by the weighted sum of all scores.
#
# Among equals the first one is taken (`node_order`). To the policy first-fit all nodes are equal, so the scores decide.
# Differs from kube-scheduler: it takes any of the best.


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
    left = cycle.template.allowed
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
    with cycle.beside(nominated):
        for one in filters:
            if not one.looks_further:
                refused |= one.refused(cycle)
    further = [one for one in filters if one.looks_further and _sees_nominated(cycle, one)]
    for number, pods in nominated.items():
        with cycle.beside({number: pods}):
            if any(one.refused(cycle) >> number & 1 for one in further if not one.is_skipped(cycle)):
                refused |= 1 << number
    return refused & sum(1 << number for number in nominated)


def _sees_nominated(cycle: Cycle, one: Dynamic) -> bool:
    # Differs from kube-scheduler: a filter that it skips for the pod does not see the promised pods either: neither
    # their anti-affinity, where the pod has no terms of its own, nor that they use a claim that is for one pod.
    return not (cycle.is_strict and one.is_skipped(cycle))


def rejections(cycle: Cycle, templates: Templates, passed: Mask = 0) -> Iterator[tuple[Plugin, Rejected]]:
    """Why not, for every node that is not feasible; a node that lacks several resources has a reason for each.

    passed: nodes that are known to be feasible, so that they need not be asked again. What is found only without the
    promised pods is late: beside them the node was asked up to its devices.
    """
    by_node = list(templates.rejections(cycle.template))
    asked = (cycle.template.allowed | union(one.nodes for _, one in by_node)) & ~passed
    promised = union(1 << number for number in cycle.nominated)
    beside = list(_rejections_beside_nominated(cycle, templates.plugins, by_node, asked & promised))
    yield from beside
    asked &= ~union(one.nodes for _, one in beside)
    for plugin, one in _rejections(cycle, templates.plugins, by_node, asked & promised):
        yield plugin, replace(one, is_late=True)
    yield from _rejections(cycle, templates.plugins, by_node, asked & ~promised)


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
    found: list[Rejected] = []
    for number in bits(nodes):
        with cycle.beside({number: nominated[number]}):
            found += one.rejections(cycle, 1 << number)
    return found


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
        for one in refused:
            if nodes := one.nodes & left:
                yield plugin, replace(one, nodes=nodes)
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


# What a pod requires of nodes: equal for all nodes, except for extended resources that some provide by claim.


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a pod asks of some nodes. requests: of what is their own. pending: its claims without devices.

    extended: the last of the claims, where it is to be made for extended resources. problem: why it cannot be, so that
    none of the nodes will do.
    """

    nodes: Mask
    requests: PodRequests
    pending: tuple[Claim, ...]
    extended: ExtendedClaim | None = None
    problem: str = ""

    def named(self, outcome: Outcome) -> Outcome:
        """The outcome for the claims, with extended resources in place of the generated names of requests for them."""
        extended = self.extended
        return with_requests_named(outcome, str(extended.claim), extended.resources) if extended else outcome


def requirements(cluster: Cluster, pod: Pod, requests: PodRequests, pending: Sequence[Claim]) -> Sequence[Requirements]:
    """Each node is in one of them. pending: the pod's own claims without devices."""
    if pod.node_name or not cluster.extended_resources.asked_by(pod):
        return (Requirements(cluster.fleet.all, requests, tuple(pending)),)
    return tuple(_requirements(cluster, pod, requests, tuple(pending)))


def _requirements(
    cluster: Cluster, pod: Pod, requests: PodRequests, pending: tuple[Claim, ...]
) -> Iterator[Requirements]:
    for nodes, backed, extended in cluster.extended_resources.by_nodes(pod, cluster.infos, cluster.fleet.all):
        own = requests.without(backed)
        match extended:
            case ExtendedClaim(claim=claim):
                yield Requirements(nodes, own, (*pending, claim), extended)
            case str(problem):
                yield Requirements(nodes, own, pending, problem=problem)
            case None:
                # Differs from kube-scheduler, which goes on to write a claim without requests beside the pod's own.
                yield Requirements(nodes, own, pending)


# Which nodes can take a pod: they pass every filter, reach its allocated devices, and can provide the others.


NO_POD = Pod("", "")
"""Whose claim no pod uses."""


class EligibleNodes(NamedTuple):
    """What a pod asks of some nodes, and those of them where it can be, devices aside."""

    required: Requirements
    allowed: Mask

    @staticmethod
    def of(cluster: Cluster, cycle: Cycle, required: Requirements) -> "EligibleNodes":
        """As things are."""
        return EligibleNodes(required, allowed(cluster, cycle, required))


def able(cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements, left: Mask) -> Groups:
    """The nodes that can take the pod. left: those allowed that its allocated claims reach. Raises AllocationError."""
    groups: Groups = cluster.fleet_of(pod).scores(required.pending, left) if required.pending else {(0, ()): left}
    if not counts_devices(cluster) or not (claims or required.pending):
        return groups
    return {rank: _with_room(cluster, pod, claims, required, nodes) for rank, nodes in groups.items()}


def allowed(cluster: Cluster, cycle: Cycle, required: Requirements) -> Mask:
    """The nodes where the pod can be, devices aside; a pod that has its node already cannot be anywhere else."""
    pod = cycle.pod
    if required.problem:
        return 0
    if not pod.node_name:
        return feasible(cycle.requesting(required.requests), cluster.templates_of(pod).plugins) & required.nodes
    number = cluster.number_of(pod.node_name)
    return 0 if number is None else 1 << number


def reached_by_all(cluster: Cluster, claims: Iterable[Claim], failed: Container[str] = ()) -> Mask:
    """The nodes that reach what the claims have. failed: uids of claims that can be used on none."""
    reached = cluster.fleet.all
    for claim in claims:
        if claim.uid in failed:
            return 0
        if claim.allocation and claim.allocation.node_selector is not None:
            reached &= cluster.reached(claim.allocation.node_selector)
    return reached


def cycle_of(cluster: Cluster, pod: Pod, requests: PodRequests) -> Cycle:
    """What plugins see of an attempt. requests: what the pod takes of the nodes in question."""
    numbered = ((cluster.number_of(node), pods) for node, pods in cluster.nominations.before(pod))
    nominated = {number: pods for number, pods in numbered if number is not None}
    return Cycle(
        pod,
        requests,
        cluster.infos,
        cluster.templates_of(pod).of(pod),
        cluster.selectors,
        cluster.volumes,
        nominated,
        cluster.fleet.features.is_strict,
        cluster.time_limit.is_over,
    )


def counts_devices(cluster: Cluster) -> bool:
    """Whether devices may take something of their node beside the pod: KEP-5517."""
    return cluster.fleet.features.has(NODE_ALLOCATABLE_RESOURCES)


def beside_devices(cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements, number: int) -> str:
    """Why the pod does not fit the node with the devices that it gets there; empty where it does. Cost: an allocation.

    The node is one that can give the devices.
    """
    found = with_devices(cluster, pod, claims, required, allocated(cluster, pod, number, required.pending))
    return found.refusal(number, cluster.infos, cluster.consumers_of)


def _with_room(cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements, nodes: Mask) -> Mask:
    """Those of the nodes that have room for the pod with its devices. Cost: an allocation for each."""
    fitting = (number for number in bits(nodes) if not beside_devices(cluster, pod, claims, required, number))
    return sum(1 << number for number in fitting)


def with_devices(
    cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements, allocations: Sequence[Allocation]
) -> WithDevices:
    """The pod with its devices, as they count for the node. allocations: of those of its claims that had none."""
    had = [claim for claim in claims if claim.allocation is not None]
    given = [replace(claim, allocation=one) for claim, one in zip(required.pending, allocations, strict=True)]
    fleet = cluster.fleet
    return WithDevices.of(pod, [*had, *given], fleet.slices.by_pool, fleet.features.release)


def allocated(cluster: Cluster, pod: Pod | None, number: int, pending: Sequence[Claim]) -> tuple[Allocation, ...]:
    """What the pod's claims get on a node that is able."""
    if not pending:
        return ()
    fleet, policy = cluster.fleet_of(pod), policy_on(cluster, pod, number, pending)
    if policy is None:
        return fleet.allocated(pending, number).allocations
    return fleet.allocated_by(policy, pending, number)


def policy_on(cluster: Cluster, pod: Pod | None, number: int, pending: Sequence[Claim]) -> PolicyOfNode | None:
    """For policies that look at whole nodes what they say of this one; None for all others."""
    scores = cluster.node_scores_of(pod)
    if scores is None:
        return None
    return scores.on(number, str(pod or pending[0]), pod_requests(pod or NO_POD), pending)


def binds_volumes(cluster: Cluster, pod: Pod) -> bool:
    """Whether unbound PersistentVolumeClaims are bound with the pod: not if the plugin is off."""
    return not pod.node_name and cluster.templates_of(pod).binds_volumes


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


# Reasons for which no node can take a pod, whatever is free: its claims, their classes, or a plugin.


def for_every_node(
    cluster: Cluster, cycle: Cycle, pending: Sequence[Claim], full: Iterable[Claim]
) -> tuple[Reason, str] | None:
    """What keeps the pod from every node, whatever is free. pending, full: as for `refused_everywhere`."""
    if problem := cluster.unsupported(cycle.pod):
        return UNSUPPORTED, problem
    if refused := refused_by_all(cycle, cluster.templates_of(cycle.pod).plugins):
        plugin, problem = refused
        return plugin.reason, problem
    return refused_everywhere(cluster, pending, full)


def refused_everywhere(cluster: Cluster, pending: Sequence[Claim], full: Iterable[Claim]) -> tuple[Reason, str] | None:
    """The problems of the claims that hold on every node, whatever is free. full: those that no further pod can use."""
    for claim in full:
        problem = f"resourceclaim {claim} is reserved for {RESERVED_FOR_MAX} pods already, which is the limit"
        return CLAIMS, problem
    if missing := _missing_class(cluster, pending):
        return CLASSES, missing
    if cluster.fleet.features.has(ADMIN_ACCESS):
        for claim in filter(is_asked_for, pending):
            if problem := refusal(claim, cluster.labels_of(claim.namespace)):
                return NO_ADMIN_ACCESS, problem
    return None


def _missing_class(cluster: Cluster, pending: Iterable[Claim]) -> str:
    known = cluster.fleet.classes
    for claim in pending:
        for request in claim.requests:
            for one in request.alternatives:
                if one.class_name and one.class_name not in known:
                    meant = did_you_mean(one.class_name, known)
                    return f"request {one.name}: device class {one.class_name} does not exist{meant}"
    return ""


def classes_of(claims: Iterable[Claim]) -> frozenset[str]:
    """The names of the device classes that the claims name."""
    return frozenset(one.class_name for claim in claims for request in claim.requests for one in request.alternatives)

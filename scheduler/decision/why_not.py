"""Why a pod is on no node: each node's answer, the nearest node, and what would help."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from allocator.fleet.fleet import Fleet
from allocator.model import Claim, Node
from allocator.outcome import Allocated, AllocationError, Outcome
from allocator.search.rules import Mask, bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.decide import Kept
from scheduler.decision.filters import (
    EligibleNodes,
    Requirements,
    able,
    allowed,
    beside_devices,
    counts_devices,
    cycle_of,
    for_every_node,
    ranks_of,
    reached_by_all,
    rejections,
    requirements,
    weighted,
)
from scheduler.decision.schedule_result import NotPlaced
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import CLAIMS
from scheduler.plugins.node_resources_fit import fraction_missing
from scheduler.plugins.plugin import Change, Plugin, Reason, RefusingNode, Rejected
from scheduler.state.claims import Waiting
from scheduler.state.masks import Numbers, flags_of, mask_of, numbers_of, union
from scheduler.state.pods import PodRequests, pod_requests

# What every plugin says about a pod: which one refuses a node and why, and the scores of the other nodes.
#
# `decide` stops as early as it can; this is for those who want to know why, or to compare. Source: kube-scheduler's
# Diagnosis and NodePluginScores.


Groups = dict[tuple[int, tuple[float, ...]], Mask]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The plugins' answers for a pod.

    everywhere: the first that refuses every node at once, and why; nothing else is asked then. rejected: why not, for
    each node that is refused; one may have several reasons of one plugin. feasible: the other nodes. scores: of these
    in the order of their numbers, by plugin, weighted; without those that have nothing to say of the pod.
    """

    everywhere: tuple[Reason, str] | None = None
    rejected: Sequence[tuple[Reason, Rejected]] = ()
    feasible: Mask = 0
    scores: Mapping[str, Numbers] = field(default_factory=dict)


def diagnosis_of(
    cluster: Cluster, pod: Pod, claims: Sequence[Claim] | Waiting, full: Iterable[Claim] = ()
) -> Diagnosis:
    """What the plugins say of a pod without a node. claims, full: as for `decide`, or why they have to be waited for.

    Raises AllocationError. Cost: as `decide`, for a pod that fits nowhere.
    """
    requests, found = pod_requests(pod), [] if isinstance(claims, Waiting) else claims
    cycle, pending = cycle_of(cluster, pod, requests), [claim for claim in found if claim.allocation is None]
    if everywhere := for_every_node(cluster, cycle, pending, full):
        return Diagnosis(everywhere)
    if isinstance(claims, Waiting):
        return Diagnosis((CLAIMS, claims.reason))
    reached, groups, rejected = reached_by_all(cluster, claims), Groups(), list[tuple[Reason, Rejected]]()
    for required in requirements(cluster, pod, requests, pending):
        asked = EligibleNodes.of(cluster, cycle, required)
        own = able(cluster, pod, claims, required, asked.allowed & reached)
        rejected += Kept.of(cluster, cycle, asked, reached, union(own.values())).found()
        for rank, nodes in own.items():
            groups[rank] = groups.get(rank, 0) | nodes
    feasible = union(groups.values())
    return Diagnosis(None, rejected, feasible, _scores(cluster, cycle, groups, feasible))


def _scores(cluster: Cluster, cycle: Cycle, groups: Groups, feasible: Mask) -> Mapping[str, Numbers]:
    if not feasible:
        return {}
    nodes = numbers_of(feasible)
    ranks = ranks_of(groups, nodes, cluster.infos.size)
    return {plugin.name: own for plugin, own in weighted(cycle, cluster.templates_of(cycle.pod).plugins, nodes, ranks)}


# Why each node can or cannot take a pod, or a claim without a pod; computed on request.
#
# `decide` only returns what becomes of a pod; this module works out the details, for the current state.


Answer = str | Outcome | AllocationError
"""What a node says: why the pod cannot be there at all, or what becomes of the claims.

An `Allocated` here has a score, and no allocations: nodes with the same score share it.
"""


@dataclass(frozen=True, slots=True)
class Unfit:
    """Nodes that say the same. node: the first of them."""

    answer: str | Outcome
    node: str
    nodes: Mask

    @property
    def number(self) -> int:
        """How many they are."""
        return self.nodes.bit_count()


def unfit(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], refused: NotPlaced) -> list[Unfit]:
    """Why no node can take the pod; a node that lacks several resources is in as many groups.

    pod: None for a claim that no pod uses. claims: the pod's own. refused: what was decided; nothing has changed since.
    Cost: O(different reasons), but for what is not known yet of nodes that have changed.
    """
    found: list[tuple[str | Outcome, Mask]] = []
    for required in requirements_of(cluster, pod, claims):
        found += _not_left(cluster, pod, claims, required, refused.filtered)
        if pod is not None:
            found += _crowded(cluster, pod, claims, required).items()
    found += refused.lacking
    return [Unfit(answer, cluster.name_of(next(bits(nodes))), nodes) for answer, nodes in found]


def answers(
    cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], *, names_devices: bool = True
) -> Iterator[tuple[str, Answer]]:
    """What each node says, by name, in the order of their numbers; nodes that say the same share an object.

    names_devices: a refusal has the node's own devices and their holders, so that no other node shares it.
    Cost: O(nodes), and with names_devices O(devices of the nodes that lack some).
    """
    found = dict[int, Answer]()
    for required in requirements_of(cluster, pod, claims):
        texts: dict[int, list[str]] = {}
        for text, nodes in _not_left(cluster, pod, claims, required, _filtered(cluster, pod, required)):
            for number in bits(nodes):
                texts.setdefault(number, []).append(text)
        found |= {number: "; ".join(reported) for number, reported in texts.items()}
        left = _left(cluster, pod, claims, required)
        for answer, nodes in _by_devices(cluster.fleet_of(pod), required, left, names_devices=names_devices):
            found |= dict.fromkeys(bits(nodes), answer)
        if pod is not None and counts_devices(cluster):
            for number in bits(left):
                if isinstance(found[number], Allocated):
                    found[number] = beside_devices(cluster, pod, claims, required, number) or found[number]
    for number in sorted(found):
        yield cluster.name_of(number), found[number]


def _by_devices(
    fleet: Fleet, required: Requirements, nodes: Mask, *, names_devices: bool
) -> Iterator[tuple[Answer, Mask]]:
    """What the nodes say of the devices of claims."""
    pending = required.pending
    if not pending:
        yield Allocated((), 0, fleet.features), nodes
        return
    for outcome, lacking in fleet.unable_by_node(pending, nodes):
        nodes &= ~lacking
        if names_devices:
            yield from ((required.named(fleet.refusal(pending, number)), 1 << number) for number in bits(lacking))
        else:
            yield required.named(outcome), lacking
    able = fleet.able(pending) & nodes
    for (_, score), own in fleet.scores(pending, able).items():
        yield Allocated((), 0, fleet.features, score), own
    for number in bits(nodes & ~able):
        try:
            yield fleet.allocate(number, pending), 1 << number
        except AllocationError as error:
            yield error, 1 << number


def same_answers(answers: Mapping[str, Answer]) -> list[tuple[Answer, list[str]]]:
    """The nodes that share an answer together, in the order of their first nodes."""
    found: dict[int, tuple[Answer, list[str]]] = {}
    for name, answer in answers.items():
        found.setdefault(id(answer), (answer, []))[1].append(name)
    return list(found.values())


def refusal_on(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], number: int) -> Outcome:
    """Why a node that lacks devices does, with devices and holders."""
    required = requirements_on(cluster, pod, claims, number)
    return required.named(cluster.fleet_of(pod).refusal(required.pending, number))


def requirements_on(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], number: int) -> Requirements:
    """What the pod asks of the node."""
    return next(one for one in requirements_of(cluster, pod, claims) if one.nodes >> number & 1)


def requirements_of(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim]) -> Sequence[Requirements]:
    """What the pod asks of the nodes. claims: its own."""
    pending = [claim for claim in claims if claim.allocation is None]
    who = pod or Pod("", "")
    return requirements(cluster, who, pod_requests(who), pending)


def _filtered(cluster: Cluster, pod: Pod | None, required: Requirements) -> Iterator[Rejected]:
    """What filters say of the nodes of `required` that they refuse."""
    if pod is not None:
        cycle = cycle_of(cluster, pod, required.requests)
        yield from (one for _, one in rejections(cycle, cluster.templates_of(pod)))


def _not_left(
    cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], required: Requirements, filtered: Iterable[Rejected]
) -> Iterator[tuple[str, Mask]]:
    """The nodes of `required` that cannot take the pod, whatever devices they have, by reason.

    filtered: what filters say.
    """
    if pod is not None:
        template = cluster.templates_of(pod).of(pod)
        for text, nodes in cluster.templates_of(pod).refused(template).items():
            if own := nodes & required.nodes:
                yield text, own
        for one in filtered:
            if own := one.nodes & required.nodes & template.allowed:
                yield one.reason, own
    if required.problem:
        yield required.problem, required.nodes
    if any(claim.allocation for claim in claims):
        left = _allowed(cluster, pod, required)
        for claim in claims:
            if own := left & ~reached_by_all(cluster, [claim]):
                yield f"claim {claim} is allocated, and not reachable from the node", own
                left &= ~own


def _left(cluster: Cluster, pod: Pod | None, claims: Sequence[Claim], required: Requirements) -> Mask:
    """The nodes of `required` where only devices may be missing."""
    return _allowed(cluster, pod, required) & reached_by_all(cluster, claims)


def _allowed(cluster: Cluster, pod: Pod | None, required: Requirements) -> Mask:
    return required.nodes if pod is None else allowed(cluster, cycle_of(cluster, pod, required.requests), required)


def _crowded(cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements) -> Mapping[str, Mask]:
    """The nodes without room beside the devices, by reason. Cost: an allocation for each."""
    found: dict[str, Mask] = {}
    if not counts_devices(cluster):
        return found
    left = _left(cluster, pod, claims, required)
    for number in bits(left & cluster.fleet_of(pod).able(required.pending) if required.pending else left):
        if text := beside_devices(cluster, pod, claims, required, number):
            found[text] = found.get(text, 0) | 1 << number
    return found


# Which node comes nearest to taking a pod, of those that refuse it whatever devices they have.


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


# Single changes after which a plugin would no longer refuse a pod on a node; each of them was tried.
#
# Changes about devices are the allocator's (`allocator.explain.remedies`).


@dataclass(frozen=True, slots=True)
class PluginRefusal:
    """Which plugin refuses a node. remedies: the changes after which no plugin would, in words; devices aside."""

    plugin: str
    remedies: Sequence[str] = ()


def refusing_plugins(cluster: Cluster, pod: Pod, claims: Sequence[Claim]) -> Mapping[str, str]:
    """The plugin that refuses each node, by the node's name, as far as one does for another reason than devices."""
    found: dict[str, str] = {}
    for required in () if pod.node_name else requirements_of(cluster, pod, claims):
        for plugin, one in rejections(cycle_of(cluster, pod, required.requests), cluster.templates_of(pod)):
            names = map(cluster.name_of, bits(one.nodes & required.nodes))
            found.update(dict.fromkeys(names, plugin.name))
    return found


def plugin_refusal(
    cluster: Cluster, pod: Pod, claims: Sequence[Claim], node: Node, number: int
) -> PluginRefusal | None:
    """The plugin that refuses the node for a reason other than devices, and what would help; None if none does.

    Cost: O(pods on nodes) for each change.
    """
    requests = requirements_on(cluster, pod, claims, number).requests
    plugin = _refusing(cluster, pod, requests, number)
    if plugin is None:
        return None
    place = RefusingNode(number, node, tuple(cluster.pods.on_nodes()))
    changes = plugin.changes(cycle_of(cluster, pod, requests), place) if plugin.changes else ()
    return PluginRefusal(plugin.name, tuple(one.text for one in changes if _helps(cluster, pod, requests, one, place)))


def _refusing(cluster: Cluster, pod: Pod, requests: PodRequests, number: int) -> Plugin | None:
    found = rejections(cycle_of(cluster, pod, requests), cluster.templates_of(pod))
    return None if pod.node_name else next((plugin for plugin, one in found if one.nodes >> number & 1), None)


def _helps(cluster: Cluster, pod: Pod, requests: PodRequests, change: Change, place: RefusingNode) -> bool:
    """Whether every plugin lets the node pass then, with the pods that were promised it as well as without."""
    changed, node = change.pod or pod, change.node or place.node
    cycle = cycle_of(cluster, changed, change.requests or requests)
    promised = {number: pods for number, pods in cycle.nominated.items() if number == place.number}

    def passes(plugin: Plugin) -> bool:
        is_refused = bool(plugin.dynamic and plugin.dynamic.refused(cycle) >> place.number & 1)
        return not is_refused and not (plugin.static and plugin.static.refusal(changed, node))

    with cycle.without(change.gone):
        if not all(map(passes, cluster.templates_of(pod).plugins)):
            return False
        with cycle.beside(promised):
            return all(map(passes, cluster.templates_of(pod).plugins))

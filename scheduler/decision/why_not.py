"""Why a pod is on no node: each node's answer, the nearest node, and what would help.

All of it is worked out on request, for a person or a plan. `PodCycle` itself words the pod's condition.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from allocator.bits import Mask, bits, union
from allocator.fleet.fleet import Fleet
from allocator.model import Claim, Node
from allocator.outcome import Allocated, AllocationError, Outcome
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.filters import ranks_of, weighted
from scheduler.decision.pod_cycle import EligibleNodes, PodCycle, Rejections, Requirements
from scheduler.decision.schedule_result import NotPlaced
from scheduler.plugins.dynamic_resources import CLAIMS
from scheduler.plugins.node_resources_fit import fraction_missing
from scheduler.plugins.plugin import Change, Plugin, Reason, RefusingNode, Rejected
from scheduler.state.claims import Waiting
from scheduler.state.masks import Numbers, flags_of, mask_of, numbers_of
from scheduler.state.pods import PodRequests

# What every plugin says about a pod: which one refuses a node and why, and the scores of the other nodes.
#
# `decide` stops as early as it can; this is for those who want to know why, or to compare. Source: kube-scheduler's
# Diagnosis and NodePluginScores.


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The plugins' answers for a pod."""

    everywhere: tuple[Reason, str] | None = None
    """The first that refuses every node at once, and why; nothing else is asked then."""
    rejected: Sequence[tuple[Reason, Rejected]] = ()
    """Why not, for each node that is refused; one may have several reasons of one plugin."""
    feasible: Mask = 0
    """The other nodes."""
    scores: Mapping[str, Numbers] = field(default_factory=dict)
    """Of these in the order of their numbers, by plugin, weighted; of plugins that distinguish them."""


def diagnosis_of(
    cluster: Cluster, pod: Pod, claims: Sequence[Claim] | Waiting, full: Iterable[Claim] = ()
) -> Diagnosis:
    """What the plugins say of a pod without a node. claims, full: as for `decide`, or why they have to be waited for.

    Raises AllocationError. Cost: as `decide`, for a pod that fits nowhere.
    """
    cycle = PodCycle(cluster, pod, [] if isinstance(claims, Waiting) else claims, full)
    if everywhere := cycle.refused_everywhere():
        return Diagnosis(everywhere)
    if isinstance(claims, Waiting):
        return Diagnosis((CLAIMS, claims.reason))
    rejected = list[tuple[Reason, Rejected]]()
    for asked, able in zip(cycle.eligible, cycle.able_by_ask, strict=True):
        rejected += Rejections.of(cycle, asked, union(able.values())).found()
    feasible = union(cycle.ranked.values())
    return Diagnosis(None, rejected, feasible, _scores(cycle, feasible))


def _scores(cycle: PodCycle, feasible: Mask) -> Mapping[str, Numbers]:
    if not feasible:
        return {}
    nodes = numbers_of(feasible)
    ranks = ranks_of(cycle.ranked, nodes, cycle.cluster.infos.size)
    return {plugin.name: own for plugin, own in weighted(cycle.view, cycle.plugins, nodes, ranks)}


# Why each node can or cannot take a pod, or a claim without a pod; computed on request.
#
# `decide` only returns what becomes of a pod; this module works out the details, for the current state.


NodeAnswer = str | Outcome | AllocationError
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


def unfit(cycle: PodCycle, refused: NotPlaced) -> list[Unfit]:
    """Why no node can take the pod; a node that lacks several resources is in as many groups.

    refused: what was decided; nothing has changed since.
    Cost: O(different reasons), but for what is not known yet of nodes that have changed.
    """
    refusals: list[tuple[str | Outcome, Mask]] = []
    for asked in refused.eligible:
        refusals += _not_left(cycle, asked, refused.filtered)
        refusals += _crowded(cycle, asked).items()
    refusals += refused.lacking
    return [Unfit(answer, cycle.cluster.name_of(next(bits(nodes))), nodes) for answer, nodes in refusals]


def answers_of(cycle: PodCycle, *, names_devices: bool = True) -> Iterator[tuple[str, NodeAnswer]]:
    """What each node says, by name, in the order of their numbers; nodes that say the same share an object.

    names_devices: a refusal has the node's own devices and their holders, so that no other node shares it.
    Cost: O(nodes), and with names_devices O(devices of the nodes that lack some).
    """
    by_number = dict[int, NodeAnswer]()
    for asked in cycle.eligible:
        required, allowed = asked
        texts: dict[int, list[str]] = {}
        for text, nodes in _not_left(cycle, asked, _filtered(cycle, required)):
            for number in bits(nodes):
                texts.setdefault(number, []).append(text)
        by_number |= {number: "; ".join(reported) for number, reported in texts.items()}
        left = allowed & cycle.reached
        for answer, nodes in _by_devices(cycle.fleet, required, left, names_devices=names_devices):
            by_number |= dict.fromkeys(bits(nodes), answer)
        if cycle.pod is not None and cycle.counts_devices:
            for number in bits(left):
                if isinstance(by_number[number], Allocated):
                    by_number[number] = cycle.beside_devices(cycle.pod, required, number) or by_number[number]
    for number in sorted(by_number):
        yield cycle.cluster.name_of(number), by_number[number]


def _by_devices(
    fleet: Fleet, required: Requirements, nodes: Mask, *, names_devices: bool
) -> Iterator[tuple[NodeAnswer, Mask]]:
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
    for (_, score), scored in fleet.scores(pending, able).items():
        yield Allocated((), 0, fleet.features, score), scored
    for number in bits(nodes & ~able):
        try:
            yield fleet.allocate(number, pending), 1 << number
        except AllocationError as error:
            yield error, 1 << number


def same_answers(answers: Mapping[str, NodeAnswer]) -> list[tuple[NodeAnswer, list[str]]]:
    """The nodes that share an answer together, in the order of their first nodes."""
    together: dict[int, tuple[NodeAnswer, list[str]]] = {}
    for name, answer in answers.items():
        # By identity: `answers` keeps them meanwhile, and to compare them would cost as much as they are long.
        together.setdefault(id(answer), (answer, []))[1].append(name)
    return list(together.values())


def refusal_on(cycle: PodCycle, number: int) -> Outcome:
    """Why a node that lacks devices does, with devices and holders."""
    required = cycle.asks_of(number)
    return required.named(cycle.fleet.refusal(required.pending, number))


def _filtered(cycle: PodCycle, required: Requirements) -> Iterator[Rejected]:
    """What filters say of the nodes of `required` that they refuse."""
    return (one for _, one in cycle.refused_by_filters(required, 0))


def _not_left(cycle: PodCycle, asked: EligibleNodes, filtered: Iterable[Rejected]) -> Iterator[tuple[str, Mask]]:
    """The nodes of which this is asked that cannot take the pod, whatever devices they have, by reason.

    filtered: what filters say.
    """
    required, left = asked
    if cycle.pod is not None:
        signature = cycle.view.signature
        for text, nodes in cycle.cluster.signatures_of(cycle.pod).refused(signature).items():
            if refused := nodes & required.nodes:
                yield text, refused
        for rejected in filtered:
            if refused := rejected.nodes & required.nodes & signature.allowed:
                yield rejected.reason, refused
    if required.problem:
        yield required.problem, required.nodes
    if any(claim.allocation for claim in cycle.claims):
        for claim in cycle.claims:
            if refused := left & ~cycle.reached_by(claim):
                yield f"claim {claim} is allocated, and not reachable from the node", refused
                left &= ~refused


def _crowded(cycle: PodCycle, asked: EligibleNodes) -> Mapping[str, Mask]:
    """The nodes without room beside the devices, by reason. Cost: an allocation for each."""
    crowded: dict[str, Mask] = {}
    if cycle.pod is None or not cycle.counts_devices:
        return crowded
    required, allowed = asked
    for number in bits(allowed & cycle.reached & cycle.giving(required)):
        if text := cycle.beside_devices(cycle.pod, required, number):
            crowded[text] = crowded.get(text, 0) | 1 << number
    return crowded


# Which node comes nearest to taking a pod, of those that refuse it whatever devices they have.


def nearest_refusing(cycle: PodCycle, nodes: Mask) -> int:
    """The node with the fewest reasons; of these the one that lacks the smallest part of the requests; the first.

    nodes: at least one. A reason is a filter, a resource that is short, a claim that is not reached, or devices.
    Cost: O(nodes) array operations for each reason.
    """
    infos = cycle.cluster.infos
    reasons, missing = np.zeros(infos.size, np.int64), np.zeros(infos.size)
    for required in cycle.asks:
        asked_here = required.nodes & nodes
        for refused in _refused(cycle, required):
            reasons += flags_of(refused & asked_here, infos.size)
        numbers = numbers_of(asked_here)
        missing[numbers] = fraction_missing(required.requests, infos, numbers)
    asked = numbers_of(nodes)
    return int(asked[np.lexsort((missing[asked], reasons[asked]))[0]])  # a stable sort: the first of equals


def with_devices(cycle: PodCycle) -> Mask:
    """The nodes that have the devices that the claims lack, whatever else keeps the pod from them."""
    return union(_giving(cycle, required) for required in cycle.asks)


def _giving(cycle: PodCycle, required: Requirements) -> Mask:
    return 0 if required.problem else required.nodes & cycle.giving(required)


def _refused(cycle: PodCycle, required: Requirements) -> Iterator[Mask]:
    """For each reason the nodes of `required` that have it, and maybe others."""
    view = cycle.view.requesting(required.requests)
    yield from (mask_of(view.signature.refused_by_filter(position)) for position in range(view.signature.filters))
    for plugin in cycle.plugins:
        if plugin.dynamic:
            yield from (one.nodes for one in plugin.dynamic.rejections(view, required.nodes))
    yield from (~cycle.reached_by(claim) for claim in cycle.claims)
    yield ~_giving(cycle, required)


# Single changes after which a plugin would no longer refuse a pod on a node; each of them was tried.
#
# Changes about devices are the allocator's (`allocator.explain.node_explanation`).


@dataclass(frozen=True, slots=True)
class PluginRefusal:
    """Which plugin refuses a node. remedies: the changes after which no plugin would, in words; devices aside."""

    plugin: str
    remedies: Sequence[str] = ()


def refusing_plugins(cycle: PodCycle) -> Mapping[str, str]:
    """The plugin that refuses each node, by the node's name, as far as one does for another reason than devices."""
    by_node: dict[str, str] = {}
    for required in () if cycle.pod is None or cycle.pod.node_name else cycle.asks:
        for plugin, rejected in cycle.refused_by_filters(required, 0):
            by_node.update(dict.fromkeys(map(cycle.cluster.name_of, bits(rejected.nodes)), plugin.name))
    return by_node


def plugin_refusal(cycle: PodCycle, node: Node, number: int) -> PluginRefusal | None:
    """The plugin that refuses the node for a reason other than devices, and what would help; None if none does.

    Cost: O(pods on nodes) for each change.
    """
    if cycle.pod is None or cycle.pod.node_name:
        return None
    required = cycle.asks_of(number)
    refused = cycle.refused_by_filters(required, 0)
    plugin = next((plugin for plugin, one in refused if one.nodes >> number & 1), None)
    if plugin is None:
        return None
    place = RefusingNode(number, node, tuple(cycle.cluster.pods.on_nodes()))
    changes = plugin.changes(cycle.view.requesting(required.requests), place) if plugin.changes else ()
    helping = (one.text for one in changes if _helps(cycle, cycle.pod, required.requests, one, place))
    return PluginRefusal(plugin.name, tuple(helping))


def _helps(cycle: PodCycle, pod: Pod, requests: PodRequests, change: Change, place: RefusingNode) -> bool:
    """Whether every plugin lets the node pass then, with the pods that were promised it as well as without."""
    changed, node = change.pod or pod, change.node or place.node
    view = PodCycle(cycle.cluster, changed, cycle.claims).view.requesting(change.requests or requests)
    promised = {number: pods for number, pods in view.nominated.items() if number == place.number}

    def passes(plugin: Plugin) -> bool:
        is_refused = bool(plugin.dynamic and plugin.dynamic.refused(view) >> place.number & 1)
        return not is_refused and not (plugin.static and plugin.static.refusal(changed, node))

    # The change is made in the cluster itself, and undone at the end: nothing is copied for the question.
    with view.without(change.gone):
        if not all(map(passes, cycle.plugins)):
            return False
        if any(plugin.dynamic and plugin.dynamic.kept_by(view, promised) for plugin in cycle.plugins):
            return False
        with view.beside(promised):
            return all(map(passes, cycle.plugins))

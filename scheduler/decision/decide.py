"""One attempt to place a pod: a function of the cluster's current state, without side effects.

In kube-scheduler's order: checks that hold for every node (claims, classes), the filters, the devices, the scores. All
nodes are evaluated. The caller reserves the result before anything else is decided.
Source: the scheduling cycle of kube-scheduler; its DynamicResources plugin for texts.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from allocator.explain.text import has_matching_devices, nearest_miss, nearest_of
from allocator.fleet.alike import fingerprint_of
from allocator.model import Claim
from allocator.outcome import AllocationError, Outcome, PolicyFailed
from allocator.search.rules import Mask, bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.filters import (
    NO_POD,
    EligibleNodes,
    Groups,
    Requirements,
    able,
    after_devices,
    allocated,
    binds_volumes,
    classes_of,
    counts_devices,
    cycle_of,
    fit_error,
    for_every_node,
    pick,
    preferred_by_policy,
    reached_by_all,
    refused_everywhere,
    rejections,
    requirements,
    with_devices,
)
from scheduler.decision.schedule_result import Failed, NotPlaced, OutOfTime, Placed, ScheduleResult
from scheduler.decision.time_limits import TooLong
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import DEVICES
from scheduler.plugins.node_name import NODE_NAME
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.plugins.plugin import NO_NODES, Reason, Refusal, Rejected
from scheduler.plugins.volume_binding import pinned, plan
from scheduler.state.masks import numbers_of, union
from scheduler.state.pods import OF_NODES, PodRequests, pod_requests
from scheduler.state.volumes import NO_PLAN, claims_of

# Why no node takes a pod: counted by reason in kube-scheduler's words, with what the nearest node lacks.
#
# Source: kube-scheduler's FitError; its DynamicResources plugin for texts.


NO_DEVICES = "cannot allocate all claims"
NOT_REACHED = "resourceclaim not available on the node"
NO_ROOM_BESIDE = "node(s) didn't have room for the pod with its devices"
"""What devices take of the node is more than it has left (KEP-5517)."""


def refused_by_all_nodes(
    cluster: Cluster, problem: tuple[Reason, str], requests: PodRequests, pending: Sequence[Claim]
) -> NotPlaced:
    """A pod that is kept from every node at once by this. pending: its claims without devices."""
    reason, text = problem
    message = fit_error(cluster.fleet.all.bit_count(), Counter(), before=text)
    refusal = Refusal(frozenset({reason}), requests, classes_of(pending), message=message, gist=text)
    return NotPlaced(refusal, everywhere=text)


def not_placed(
    cluster: Cluster,
    cycle: Cycle,
    asked: Sequence[EligibleNodes],
    claims: Sequence[Claim],
    failed: Mapping[str, str],
) -> NotPlaced:
    """A pod that no node can take. claims, failed: as for `decide`."""
    pod, everywhere = cycle.pod, reached_by_all(cluster, claims, failed)
    kept = [Kept.of(cluster, cycle, one, everywhere) for one in asked]
    left = union(one.left for one in kept)
    reported: Counter[str] = Counter()
    reasons: set[Reason] = set() if cluster.fleet.all else {NO_NODES}
    for reason, rejected in (found for one in kept for found in one.found()):
        reported[rejected.reason] += rejected.nodes.bit_count()
        reasons.add(reason)
    lacking = lacking_devices(cluster, pod, [(one.required, one.lacking) for one in kept])
    are_all = reported.keys() <= {NO_DEVICES}
    unready, volume = next(iter(failed.values()), "") if left else "", kept_by_a_volume(cluster, cycle)
    explanation = f"{volume} {lacking.text(pod.namespace, are_all=are_all) or unready}".strip()
    refusal = Refusal(
        frozenset(reasons or {NODE_NAME.reason}),  # a node that is to be the pod's, and is not there
        min((one.requests for one, _ in asked), key=lambda requests: len(requests.amounts), default=cycle.requests),
        classes_of(claim for required, _ in asked for claim in required.pending),
        frozenset(() if pod.node_name else cluster.extended_resources.asked_by(pod)) | _taken_by_devices(kept),
        fit_error(cluster.fleet.all.bit_count(), reported, explanation=explanation),
        _gist([*sorted(reported), volume, unready], kept, lacking),
    )
    stuck = [one for one in claims if one.allocation and left & ~reached_by_all(cluster, [one], failed)]
    filtered = [found for one in kept for _, found in one.filtered]
    return NotPlaced(refusal, tuple(stuck), lacking=lacking.outcomes, filtered=filtered)


def _gist(reasons: Sequence[str], kept: Iterable["Kept"], lacking: "LackingDevices") -> str:
    """Of the refusal: the reasons, what is asked, and whether there are such devices at all, free or not."""
    asked = hash(tuple([fingerprint_of(one.required.pending) for one in kept]))
    has_any = any(has_matching_devices(outcome) for outcome in lacking.by_node.values())
    return "; ".join([*reasons, f"asked {asked:x}", "devices match" if has_any else "no device matches"])


def kept_by_a_volume(cluster: Cluster, cycle: Cycle) -> str:
    """Which of the pod's claims keeps it on one node, and how; empty where none does."""
    if not cycle.pod.volumes.claims or not binds_volumes(cluster, cycle.pod):
        return ""
    return pinned(cycle)


@dataclass(frozen=True, slots=True)
class Kept:
    """The nodes of some requirements by what keeps the pod from them. filtered: by filters. left: by none of them.

    refused: by those of them before devices. late: what keeps the pod from the nodes that a later one refuses.
    Of those that are left some do not reach what the claims have, some lack devices, and some have no room beside them.
    """

    required: Requirements
    filtered: Sequence[tuple[Reason, Rejected]]
    refused: Sequence[tuple[Reason, Rejected]]
    late: Sequence[tuple[Reason, Rejected]]
    left: Mask
    unreached: Mask
    lacking: Mask
    crowded: Mask

    @staticmethod
    def of(cluster: Cluster, cycle: Cycle, asked: EligibleNodes, reached: Mask, fitting: Mask = 0) -> "Kept":
        """Of a pod. reached: by its allocated claims. fitting: the nodes that can take it, see `able`."""
        pod, (required, left) = cycle.pod, asked
        giving = left & reached & (cluster.fleet_of(pod).able(required.pending) if required.pending else left)
        filtered = [] if pod.node_name else list(_refused_by_filters(cluster, cycle, asked))
        found = [] if required.problem else filtered
        names = {plugin.name for plugin in after_devices(cluster.templates_of(pod).plugins)} if found else ()
        refused = [(reason, one) for reason, one in found if not _is_late(reason, one, names)]
        late = [(reason, one) for reason, one in found if _is_late(reason, one, names)]
        others = list(_lacking_by_node(cluster, pod, required, late, reached)) if late else []
        lacking = left & reached & ~giving
        return Kept(required, filtered, refused, others, left, left & ~reached, lacking, giving & ~fitting)

    def found(self) -> Iterator[tuple[Reason, Rejected]]:
        """What keeps the pod from which nodes; a node may lack several resources."""
        yield from self.refused
        if self.required.problem:
            yield DEVICES, Rejected(self.required.problem, self.required.nodes)
        if self.unreached:
            yield DEVICES, Rejected(NOT_REACHED, self.unreached)
        if self.lacking:
            yield DEVICES, Rejected(NO_DEVICES, self.lacking)
        if self.crowded:
            yield NODE_RESOURCES_FIT.reason, Rejected(NO_ROOM_BESIDE, self.crowded, self.crowded)
            yield DEVICES, Rejected(NO_ROOM_BESIDE, 0)  # other devices may take less
        yield from self.late


def _refused_by_filters(cluster: Cluster, cycle: Cycle, asked: EligibleNodes) -> Iterator[tuple[Reason, Rejected]]:
    """Why not, for the nodes that are asked and that a filter refuses."""
    required, allowed = asked
    for plugin, one in rejections(cycle.requesting(required.requests), cluster.templates_of(cycle.pod), allowed):
        if nodes := one.nodes & required.nodes:
            yield plugin.reason, replace(one, nodes=nodes, resolvable=one.resolvable & required.nodes)


def _is_late(reason: Reason, one: Rejected, after_devices: Collection[str]) -> bool:
    """Whether the nodes are asked for devices first."""
    return one.is_late or reason.plugin in after_devices


def _lacking_by_node(
    cluster: Cluster, pod: Pod, required: Requirements, late: Iterable[tuple[Reason, Rejected]], reached: Mask
) -> Iterator[tuple[Reason, Rejected]]:
    """The reasons for nodes that are refused by a filter that runs after devices: devices may be missing as well."""
    giving = cluster.fleet_of(pod).able(required.pending) if required.pending else cluster.fleet.all
    for reason, one in late:
        for text, nodes in ((NOT_REACHED, one.nodes & ~reached), (NO_DEVICES, one.nodes & reached & ~giving)):
            if nodes:
                yield DEVICES, Rejected(text, nodes)
        if nodes := one.nodes & reached & giving:
            yield reason, Rejected(one.reason, nodes, one.resolvable & nodes)


def _taken_by_devices(kept: Iterable[Kept]) -> frozenset[str]:
    """The resources of which devices may take what is missing."""
    return OF_NODES if any(one.crowded for one in kept) else frozenset()


@dataclass(frozen=True, slots=True)
class LackingDevices:
    """Why nodes cannot provide devices. outcomes: with the nodes that say so. by_node: by the first node of each.

    nearest: the first node of the one that comes nearest, whose outcome names devices and holders.
    """

    outcomes: Sequence[tuple[Outcome, Mask]] = ()
    by_node: Mapping[str, Outcome] = field(default_factory=dict)
    nearest: str = ""

    def text(self, reader: str, *, are_all: bool) -> str:
        """What the nearest node lacks. are_all: no node is refused for another reason."""
        if not self.by_node:
            return ""
        return nearest_miss(self.by_node, are_all=are_all, nearest=self.nearest, reader=reader)


def lacking_devices(cluster: Cluster, pod: Pod | None, groups: Iterable[tuple[Requirements, Mask]]) -> LackingDevices:
    """Why these nodes cannot provide the devices of these claims; for the nearest node, also who holds them.

    groups: nodes that are not able, and what the pod asks of them. Cost: O(different reasons).
    """
    fleet = cluster.fleet_of(pod)
    found = [
        (required, required.named(outcome), own)
        for required, nodes in groups
        if nodes
        for outcome, own in fleet.unable(required.pending, nodes)
    ]
    if not found:
        return LackingDevices()
    numbers = [next(bits(nodes)) for _, _, nodes in found]
    by_node = {cluster.name_of(number): outcome for number, (_, outcome, _) in zip(numbers, found, strict=True)}
    nearest = nearest_of(by_node)
    required = next(one[0] for one, number in zip(found, numbers, strict=True) if cluster.name_of(number) == nearest)
    by_node[nearest] = required.named(fleet.refusal(required.pending, cluster.number_of(nearest) or 0))
    outcomes = [(by_node[cluster.name_of(number)], nodes) for number, (_, _, nodes) in zip(numbers, found, strict=True)]
    return LackingDevices(outcomes, by_node, nearest)


def decide(
    cluster: Cluster,
    pod: Pod,
    claims: Sequence[Claim],
    full: Iterable[Claim] = (),
    failed: Mapping[str, str] = MappingProxyType({}),
) -> ScheduleResult:
    """What becomes of the pod. claims: its own, each once. full: those that no further pod can use.

    failed: uids of allocated claims whose devices will not be made ready, with the reason: on no node can they be used.
    Cost: O(what has changed since a pod like this was decided), array operations over all nodes, and one allocation.
    """
    try:
        with cluster.time_limit.limited():
            return _decided(cluster, pod, claims, full, failed)
    except TooLong as error:
        return OutOfTime(str(error))
    except AllocationError as error:
        return _failed(error)


def decide_claim(cluster: Cluster, claim: Claim) -> ScheduleResult:
    """What becomes of a claim that no pod uses: the node that the policy finds best, the first of equals."""
    if problem := refused_everywhere(cluster, [claim], ()):
        return refused_by_all_nodes(cluster, problem, pod_requests(NO_POD), [claim])
    try:
        groups = cluster.fleet.scores([claim], cluster.fleet.all)
    except AllocationError as error:
        return _failed(error)
    everywhere = Requirements(cluster.fleet.all, pod_requests(NO_POD), (claim,))
    if not groups:
        nodes = cluster.fleet.all
        message = fit_error(nodes.bit_count(), Counter({NO_DEVICES: nodes.bit_count()}))
        refusal = Refusal(frozenset({DEVICES}), pod_requests(NO_POD), classes_of([claim]), message=message)
        return NotPlaced(refusal, lacking=lacking_devices(cluster, None, [(everywhere, nodes)]).outcomes)
    nodes = preferred_by_policy(groups, cluster.fleet.all)
    number = cluster.order.first(numbers_of(_by_whole_nodes(cluster, None, [everywhere], groups, nodes)))
    return Placed(cluster.name_of(number), (claim,), allocated(cluster, None, number, [claim]))


def _failed(error: AllocationError) -> Failed:
    return Failed(str(error), by_policy=isinstance(error, PolicyFailed))


def _decided(
    cluster: Cluster, pod: Pod, claims: Sequence[Claim], full: Iterable[Claim], failed: Mapping[str, str]
) -> Placed | NotPlaced:
    requests = pod_requests(pod)
    pending = [claim for claim in claims if claim.allocation is None]
    if cluster.node_scores_of(pod) is not None:
        cluster.rooms.workload.see(pod.uid, requests, claims)
    cycle = cycle_of(cluster, pod, requests)
    if problem := for_every_node(cluster, cycle, pending, full):
        return refused_by_all_nodes(cluster, problem, requests, pending)
    asked = [EligibleNodes.of(cluster, cycle, required) for required in requirements(cluster, pod, requests, pending)]
    reached = reached_by_all(cluster, claims, failed)
    groups: dict[tuple[int, tuple[float, ...]], Mask] = {}
    for required, left in asked:
        for rank, nodes in able(cluster, pod, claims, required, left & reached).items():
            groups[rank] = groups[rank] | nodes if rank in groups else nodes
    rather = _rather(cluster, pod, union(groups.values()))
    among = _by_whole_nodes(cluster, pod, [required for required, _ in asked], groups, rather)
    number = _best(cluster, cycle, groups, among)
    if number is None:
        return not_placed(cluster, cycle, asked, claims, failed)
    required = next(one for one, _ in asked if one.nodes >> number & 1)
    allocations = allocated(cluster, pod, number, required.pending)
    by_claims = with_devices(cluster, pod, claims, required, allocations).taken if counts_devices(cluster) else ()
    volumes = plan(cycle, number) if binds_volumes(cluster, pod) else NO_PLAN
    return Placed(cluster.name_of(number), tuple(claims), allocations, required.extended, by_claims, volumes)


def _best(cluster: Cluster, cycle: Cycle, groups: Groups, among: Mask) -> int | None:
    """The best node by the scores; a single one needs none. among: some of those in the groups."""
    last = among.bit_length() - 1  # `among & (among - 1)` takes ten times as long
    if among and among == 1 << last:
        return last
    chosen = pick(cycle, cluster.templates_of(cycle.pod).plugins, groups, among, cluster.order)
    return chosen[0] if chosen else None


def _by_whole_nodes(
    cluster: Cluster, pod: Pod | None, asked: Sequence[Requirements], groups: Groups, nodes: Mask
) -> Mask:
    """Those of the nodes that the policy finds best, where it looks at whole nodes; else all of them.

    As with every policy, a node that gives an earlier alternative of a request goes before.
    """
    scores = cluster.node_scores_of(pod)
    if scores is None or not nodes:
        return nodes
    rank = max(rank for (rank, _), mask in groups.items() if mask & nodes)
    nodes &= union(mask for (other, _), mask in groups.items() if other == rank)
    name = str(pod or asked[0].pending[0])
    found = [scores.best(name, one.requests, one.pending, own) for one in asked if (own := nodes & one.nodes)]
    best = max(score for score, _ in found)
    return union(mask for score, mask in found if score == best)


def _rather(cluster: Cluster, pod: Pod, able: Mask) -> Mask:
    """The nodes to choose from, before any score: without those where a volume could not be provisioned recently."""
    # Differs from kube-scheduler, which may choose that node again, and always does while it is the best one.
    declined = 0 if cluster.fleet.features.is_strict else cluster.volumes.declined(claims_of(pod))
    others = (able & ~declined or able) if declined else able
    return _nominated(cluster, pod) & others or others


def _nominated(cluster: Cluster, pod: Pod) -> Mask:
    """The node that the pod was promised, which is taken however good others are (kube-scheduler, too)."""
    number = cluster.number_of(pod.nominated_node)
    return 0 if number is None else 1 << number

"""Why no node takes a pod: counted by reason in kube-scheduler's words, with what the nearest node lacks.

Source: kube-scheduler's FitError; its DynamicResources plugin for texts.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from allocator.explain.text import has_matching_devices, nearest_miss, nearest_of
from allocator.fleet.questions import fingerprint_of
from allocator.model import Claim
from allocator.outcome import Outcome
from allocator.search.rules import Mask, bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.able import EligibleNodes, binds_volumes, reached_by_all
from scheduler.decision.cluster import Cluster
from scheduler.decision.everywhere import classes_of
from scheduler.decision.feasibility import after_devices, fit_error, rejections
from scheduler.decision.requirements import Requirements
from scheduler.decision.schedule_result import NotPlaced
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import DEVICES
from scheduler.plugins.node_name import NODE_NAME
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.plugins.plugin import NO_NODES, Reason, Refusal, Rejected
from scheduler.plugins.volume_binding import pinned
from scheduler.state.masks import union
from scheduler.state.pod_requests import OF_NODES, PodRequests

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

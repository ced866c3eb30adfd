"""One attempt to place a pod: what the cluster is now, and what follows from it; nothing is changed.

In kube-scheduler's order: what holds for every node (claims, classes), the filters, the devices, the scores. All nodes
are looked at. Whoever asks reserves what comes out before anything else is decided.
Source: the scheduling cycle of kube-scheduler; its DynamicResources plugin for texts.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.did_you_mean import did_you_mean
from allocator.explain.text import nearest_miss, nearest_of
from allocator.gates import ADMIN_ACCESS, NODE_ALLOCATABLE_RESOURCES
from allocator.model import Allocation, Claim
from allocator.outcome import Allocated, AllocationError, Outcome
from allocator.search.rules import Mask, bits
from scheduler.core_v1.pod import Pod
from scheduler.decision import admin_access
from scheduler.decision.choice import Groups, first_of, pick, preferred_by_policy
from scheduler.decision.cluster import Cluster
from scheduler.decision.feasibility import after_devices, feasible, fit_error, refused_by_all, rejections
from scheduler.decision.requirements import Requirements, requirements
from scheduler.decision.time_limit import TooLong
from scheduler.decision.verdict import Failed, NotPlaced, OutOfTime, Placed, Verdict
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import ADMIN_ACCESS as NO_ADMIN_ACCESS
from scheduler.plugins.dynamic_resources import CLAIMS, CLASSES, DEVICES
from scheduler.plugins.node_name import NODE_NAME
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.plugins.plugin import NO_NODES, UNSUPPORTED, Reason, Refusal, Rejected
from scheduler.plugins.volume_binding import VOLUME_BINDING, pinned, plan
from scheduler.state.masks import union
from scheduler.state.node_allocatable_resources import WithDevices
from scheduler.state.pod_requests import OF_NODES, PodRequests, pod_requests
from scheduler.state.volumes import NO_PLAN, claims_of

NO_DEVICES = "cannot allocate all claims"
NOT_REACHED = "resourceclaim not available on the node"
NO_ROOM_BESIDE = "node(s) didn't have room for the pod with its devices"
"""What devices take of the node is more than it has left (KEP-5517)."""


def decide(
    cluster: Cluster,
    pod: Pod,
    claims: Sequence[Claim],
    full: Iterable[Claim] = (),
    failed: Mapping[str, str] = MappingProxyType({}),
) -> Verdict:
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
        return Failed(str(error))


def decide_claim(cluster: Cluster, claim: Claim) -> Verdict:
    """What becomes of a claim that no pod uses: the node that the policy finds best, the first of equals."""
    if problem := refused_everywhere(cluster, [claim], ()):
        return _refused_by_all(cluster, problem, pod_requests(_NO_POD), [claim])
    try:
        groups = cluster.fleet.scores([claim], cluster.fleet.all)
    except AllocationError as error:
        return Failed(str(error))
    if not groups:
        nodes = cluster.fleet.all
        message = fit_error(nodes.bit_count(), Counter({NO_DEVICES: nodes.bit_count()}))
        refusal = Refusal(frozenset({DEVICES}), pod_requests(_NO_POD), _classes([claim]), message=message)
        return NotPlaced(refusal, lacking=_lacking_devices(cluster, None, [([claim], nodes)]))
    number = first_of(preferred_by_policy(groups, cluster.fleet.all), cluster.start)
    return Placed(cluster.name_of(number), (claim,), _allocated(cluster, None, number, [claim]))


_NO_POD = Pod("", "")


def _decided(
    cluster: Cluster, pod: Pod, claims: Sequence[Claim], full: Iterable[Claim], failed: Mapping[str, str]
) -> Placed | NotPlaced:
    requests = pod_requests(pod)
    pending = [claim for claim in claims if claim.allocation is None]
    cycle = cycle_of(cluster, pod, requests)
    if problem := for_every_node(cluster, cycle, pending, full):
        return _refused_by_all(cluster, problem, requests, pending)
    asked = requirements(cluster, pod, requests, pending)
    reached = reached_by_all(cluster, claims, failed)
    groups: dict[tuple[int, tuple[float, ...]], Mask] = {}
    for required in asked:
        for rank, nodes in able(cluster, pod, claims, required, reached).items():
            groups[rank] = groups.get(rank, 0) | nodes
    among = _rather(cluster, pod, union(groups.values()))
    chosen = pick(cycle, cluster.templates_of(pod).plugins, groups, among, cluster.start)
    if chosen is None:
        return _not_placed(cluster, pod, asked, claims, failed)
    number, _ = chosen
    required = next(one for one in asked if one.nodes >> number & 1)
    allocations = _allocated(cluster, pod, number, required.pending)
    by_claims = _with_devices(cluster, pod, claims, required, allocations).taken if counts_devices(cluster) else ()
    volumes = plan(cycle, number) if _binds_volumes(cluster, pod) else NO_PLAN
    return Placed(cluster.name_of(number), tuple(claims), allocations, required.extended, by_claims, volumes)


def _rather(cluster: Cluster, pod: Pod, able: Mask) -> Mask:
    """Those of the nodes that are chosen from, before any score: not where a volume could not be made a moment ago."""
    # Differs from kube-scheduler, which may choose that node again, and always does while it is the best one.
    declined = 0 if cluster.fleet.features.is_strict else cluster.volumes.declined(claims_of(pod))
    others = able & ~declined or able
    return _nominated(cluster, pod) & others or others


def _binds_volumes(cluster: Cluster, pod: Pod) -> bool:
    """Whether unbound claims for volumes get theirs with the pod's node: where the plugin is off, nobody does that."""
    return not pod.node_name and any(
        one.name == VOLUME_BINDING.name and one.dynamic for one in cluster.templates_of(pod).plugins
    )


def _kept_by_a_volume(cluster: Cluster, pod: Pod) -> str:
    """Which of the pod's claims keeps it on one node, and how; empty where none does."""
    if not pod.volumes.claims or not _binds_volumes(cluster, pod):
        return ""
    return pinned(cycle_of(cluster, pod, pod_requests(pod)))


def _nominated(cluster: Cluster, pod: Pod) -> Mask:
    """The node that the pod was promised, which is taken however good others are (kube-scheduler, too)."""
    number = cluster.number_of(pod.nominated_node)
    return 0 if number is None else 1 << number


def able(cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements, reached: Mask) -> Groups:
    """The nodes of `required` that can take the pod. reached: by its allocated claims. Raises AllocationError."""
    left = allowed(cluster, pod, required) & reached
    groups: Groups = cluster.fleet_of(pod).scores(required.pending, left) if required.pending else {(0, ()): left}
    if not counts_devices(cluster) or not (claims or required.pending):
        return groups
    return {rank: _with_room(cluster, pod, claims, required, nodes) for rank, nodes in groups.items()}


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
    )


def counts_devices(cluster: Cluster) -> bool:
    """Whether devices may take something of their node beside the pod: KEP-5517."""
    return cluster.fleet.features.has(NODE_ALLOCATABLE_RESOURCES)


def beside_devices(cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements, number: int) -> str:
    """Why the pod does not fit the node with the devices that it gets there; empty where it does. Cost: an allocation.

    The node is one that can give the devices.
    """
    found = _with_devices(cluster, pod, claims, required, _allocated(cluster, pod, number, required.pending))
    return found.refusal(number, cluster.infos, cluster.consumers_of)


def _with_room(cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements, nodes: Mask) -> Mask:
    """Those of the nodes that have room for the pod with its devices. Cost: an allocation for each."""
    fitting = (number for number in bits(nodes) if not beside_devices(cluster, pod, claims, required, number))
    return sum(1 << number for number in fitting)


def _with_devices(
    cluster: Cluster, pod: Pod, claims: Sequence[Claim], required: Requirements, allocations: Sequence[Allocation]
) -> WithDevices:
    had = [claim for claim in claims if claim.allocation is not None]
    given = [replace(claim, allocation=one) for claim, one in zip(required.pending, allocations, strict=True)]
    return WithDevices.of(pod, [*had, *given], cluster.fleet.slices.by_pool)


def _allocated(cluster: Cluster, pod: Pod | None, number: int, pending: Sequence[Claim]) -> tuple[Allocation, ...]:
    """What the pod's claims get on a node that is able."""
    if not pending:
        return ()
    outcome = cluster.fleet_of(pod).allocate(number, pending)
    assert isinstance(outcome, Allocated), f"node {cluster.name_of(number)} was able: {outcome}"
    return outcome.allocations


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


def _refused_by_all(
    cluster: Cluster, problem: tuple[Reason, str], requests: PodRequests, pending: Sequence[Claim]
) -> NotPlaced:
    reason, text = problem
    message = fit_error(cluster.fleet.all.bit_count(), Counter(), before=text)
    return NotPlaced(Refusal(frozenset({reason}), requests, _classes(pending), message=message), everywhere=text)


def refused_everywhere(cluster: Cluster, pending: Sequence[Claim], full: Iterable[Claim]) -> tuple[Reason, str] | None:
    """What is wrong with the claims on every node, whatever is free. full: those that no further pod can use."""
    for claim in full:
        problem = f"resourceclaim {claim} is reserved for {RESERVED_FOR_MAX} pods already, which is the limit"
        return CLAIMS, problem
    if missing := _missing_class(cluster, pending):
        return CLASSES, missing
    if cluster.fleet.features.has(ADMIN_ACCESS):
        for claim in filter(admin_access.is_asked_for, pending):
            if problem := admin_access.refusal(claim, cluster.labels_of(claim.namespace)):
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


def _classes(claims: Iterable[Claim]) -> frozenset[str]:
    return frozenset(one.class_name for claim in claims for request in claim.requests for one in request.alternatives)


def allowed(cluster: Cluster, pod: Pod, required: Requirements) -> Mask:
    """The nodes where the pod can be, devices aside; a pod that has its node already cannot be anywhere else."""
    if required.problem:
        return 0
    if not pod.node_name:
        return feasible(cycle_of(cluster, pod, required.requests), cluster.templates_of(pod).plugins) & required.nodes
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


def _not_placed(
    cluster: Cluster, pod: Pod, asked: Sequence[Requirements], claims: Sequence[Claim], failed: Mapping[str, str]
) -> NotPlaced:
    everywhere = reached_by_all(cluster, claims, failed)
    kept = [Kept.of(cluster, pod, required, everywhere) for required in asked]
    left = union(one.left for one in kept)
    told: Counter[str] = Counter()
    reasons: set[Reason] = set() if cluster.fleet.all else {NO_NODES}
    for reason, rejected in (found for one in kept for found in one.found()):
        told[rejected.reason] += rejected.nodes.bit_count()
        reasons.add(reason)
    lacking = _lacking_devices(cluster, pod, [(one.required.pending, one.lacking) for one in kept])
    devices = _nearest(cluster, lacking) or (next(iter(failed.values()), "") if left else "")
    explanation = f"{_kept_by_a_volume(cluster, pod)} {devices}".strip()
    refusal = Refusal(
        frozenset(reasons or {NODE_NAME.reason}),  # a node that is to be the pod's, and is not there
        min((one.requests for one in asked), key=lambda requests: len(requests.amounts)),
        _classes(claim for required in asked for claim in required.pending),
        frozenset(() if pod.node_name else cluster.extended_resources.asked_by(pod)) | _taken_by_devices(kept),
        fit_error(cluster.fleet.all.bit_count(), told, explanation=explanation),
    )
    stuck = [one for one in claims if one.allocation and left & ~reached_by_all(cluster, [one], failed)]
    return NotPlaced(refusal, tuple(stuck), lacking=lacking)


@dataclass(frozen=True, slots=True)
class Kept:
    """The nodes of some requirements by what keeps the pod from them. refused: by filters. left: by none of them.

    late: what keeps the pod from nodes that a filter refuses which comes after devices.
    Of those that are left some do not reach what the claims have, some lack devices, and some have no room beside them.
    """

    required: Requirements
    refused: Sequence[tuple[Reason, Rejected]]
    late: Sequence[tuple[Reason, Rejected]]
    left: Mask
    unreached: Mask
    lacking: Mask
    crowded: Mask

    @staticmethod
    def of(cluster: Cluster, pod: Pod, required: Requirements, reached: Mask, fitting: Mask = 0) -> "Kept":
        """Of a pod. reached: by its allocated claims. fitting: the nodes that can take it, see `able`."""
        left = allowed(cluster, pod, required)
        giving = left & reached & (cluster.fleet_of(pod).able(required.pending) if required.pending else left)
        found = [] if pod.node_name or required.problem else list(refused_by_filters(cluster, pod, required))
        names = {plugin.name for plugin in after_devices(cluster.templates_of(pod).plugins)}
        refused = [(reason, one) for reason, one in found if reason.plugin not in names]
        late = [(reason, one) for reason, one in found if reason.plugin in names]
        others = list(_told_after_devices(cluster, pod, required, late, reached)) if late else []
        return Kept(required, refused, others, left, left & ~reached, left & reached & ~giving, giving & ~fitting)

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


def refused_by_filters(cluster: Cluster, pod: Pod, required: Requirements) -> Iterator[tuple[Reason, Rejected]]:
    """Why not, for the nodes of `required` that a filter refuses."""
    for plugin, one in rejections(cycle_of(cluster, pod, required.requests), cluster.templates_of(pod)):
        if nodes := one.nodes & required.nodes:
            yield plugin.reason, Rejected(one.reason, nodes, one.resolvable & required.nodes)


def _told_after_devices(
    cluster: Cluster, pod: Pod, required: Requirements, late: Iterable[tuple[Reason, Rejected]], reached: Mask
) -> Iterator[tuple[Reason, Rejected]]:
    """What there is to say of nodes that a filter refuses which comes after devices: those may be missing as well."""
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


def _lacking_devices(
    cluster: Cluster, pod: Pod | None, groups: Iterable[tuple[Sequence[Claim], Mask]]
) -> list[tuple[Outcome, Mask]]:
    """Why these nodes cannot give these claims their devices; that of the nearest node tells who has them.

    groups: nodes that are not able, and the claims without devices. Cost: O(different reasons).
    """
    fleet = cluster.fleet_of(pod)
    found = [(claims, *one) for claims, nodes in groups if nodes for one in fleet.unable(claims, nodes)]
    if not found:
        return []
    first = {cluster.name_of(next(bits(nodes))): number for number, (_, _, nodes) in enumerate(found)}
    nearest = first[nearest_of({name: found[number][1] for name, number in first.items()})]
    claims, _, nodes = found[nearest]
    told = fleet.refusal(claims, next(bits(nodes)))
    return [(told if number == nearest else outcome, nodes) for number, (_, outcome, nodes) in enumerate(found)]


def _nearest(cluster: Cluster, lacking: Iterable[tuple[Outcome, Mask]]) -> str:
    """What the nearest of the nodes that lack devices lacks."""
    found = {cluster.name_of(next(bits(nodes))): outcome for outcome, nodes in lacking}
    return nearest_miss(found) if found else ""

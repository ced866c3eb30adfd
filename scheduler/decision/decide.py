"""One attempt to place a pod: a function of the cluster's current state, without side effects.

In kube-scheduler's order: checks that hold for every node (claims, classes), the filters, the devices, the scores. All
nodes are evaluated. The caller reserves the result before anything else is decided.
Source: the scheduling cycle of kube-scheduler; its DynamicResources plugin for texts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from allocator.model import Claim
from allocator.outcome import AllocationError, PolicyFailed
from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.decision.able import (
    NO_POD,
    EligibleNodes,
    able,
    allocated,
    binds_volumes,
    counts_devices,
    cycle_of,
    reached_by_all,
    with_devices,
)
from scheduler.decision.choice import Groups, pick, preferred_by_policy
from scheduler.decision.cluster import Cluster
from scheduler.decision.decision_time_limit import TooLong
from scheduler.decision.everywhere import classes_of, for_every_node, refused_everywhere
from scheduler.decision.feasibility import fit_error
from scheduler.decision.not_placed import NO_DEVICES, lacking_devices, not_placed, refused_by_all_nodes
from scheduler.decision.requirements import Requirements, requirements
from scheduler.decision.schedule_result import Failed, NotPlaced, OutOfTime, Placed, ScheduleResult
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.dynamic_resources import DEVICES
from scheduler.plugins.plugin import Refusal
from scheduler.plugins.volume_binding import plan
from scheduler.state.masks import numbers_of, union
from scheduler.state.pod_requests import pod_requests
from scheduler.state.volumes import NO_PLAN, claims_of


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

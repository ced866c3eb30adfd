"""Which nodes can take a pod: they pass every filter, reach its allocated devices, and can provide the others."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from allocator.gates import NODE_ALLOCATABLE_RESOURCES
from allocator.model import Allocation, Claim
from allocator.policies.contract import PolicyOfNode
from allocator.search.rules import Mask, bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.choice import Groups
from scheduler.decision.cluster import Cluster
from scheduler.decision.feasibility import feasible
from scheduler.decision.requirements import Requirements
from scheduler.plugins.cycle import Cycle
from scheduler.state.node_allocatable_resources import WithDevices
from scheduler.state.pod_requests import PodRequests, pod_requests

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

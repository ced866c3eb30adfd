"""preempt: the nodes among kube-scheduler's candidates where the devices would fit after the evictions.

The devices of a claim become free once all pods that it is reserved for are evicted. No victim is added or removed:
kube-scheduler has selected them for its own resources, and a node where they do not free enough devices is dropped.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from allocator.model import Claim
from allocator.outcome import Allocated, AllocationError
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.decision_time_limit import TooLong
from scheduler.extender.question import Hopeless, Needs, needs_of
from scheduler.state.claim_index import ClaimObject
from scheduler.state.pod_claims import Waiting, claims_of


def kept_nodes(cluster: Cluster, pod: Pod, victims: Mapping[str, Collection[str]]) -> list[str]:
    """The nodes to keep. victims: uids of pods by node; a node without any is not kept.

    Cost: O(nodes) allocations.
    """
    try:
        needs = needs_of(cluster, pod)
    except Hopeless:
        return []
    own = {claim.uid for claim in needs.claims}
    freed = {node: tuple(_freed(cluster, frozenset(uids), own)) for node, uids in victims.items() if uids}
    try:
        with cluster.time_limit.limited():
            return [node for node, gone in freed.items() if _fits(cluster, node, needs, gone)]
    except TooLong:
        return []


def _fits(cluster: Cluster, node: str, needs: Needs, freed: Sequence[Claim]) -> bool:
    number = cluster.number_of(node)
    if number is None or not needs.reached >> number & 1:
        return False
    if not needs.pending:
        return True
    try:
        return isinstance(cluster.fleet.allocate(number, needs.pending, freed), Allocated)
    except AllocationError:
        return False


def _freed(cluster: Cluster, gone: frozenset[str], own: set[str]) -> Iterator[Claim]:
    """The devices that are free once these pods are gone. own: uids of claims that the pod itself needs as well."""
    held = {one.claim.uid: one for uid in gone for one in _used_by(cluster, uid)}
    for claim_uid in held.keys() - own:
        users = {user.uid for user in held[claim_uid].reserved_for}
        holding = cluster.claims.holding(claim_uid)
        # A claim that is reserved for nobody keeps its devices: only the end of its last consumer frees them.
        if users and users <= gone and holding and holding.counted:
            yield holding.counted


def _used_by(cluster: Cluster, pod_uid: str) -> Iterable[ClaimObject]:
    """The claims of a pod that is on a node."""
    pod = cluster.pods.bound(pod_uid)
    found = claims_of(pod, cluster.claims) if pod else ()
    return () if isinstance(found, Waiting) else found

"""Claims whose devices come free when their users go: what a pod can win by the end of others, on one node.

A claim comes free if all its users are taken away, and only if everything that it holds is published for that node
alone. One that a group has, that is being written by an attempt, or that is reserved for nobody stays: its reservation
may be on its way. One whose users have all ended is as good as free already: its controller is about to deallocate it.
Source: KEP-5690, with the users that kube-controller-manager's resourceclaim controller goes by.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property, partial

from allocator.cluster.usage import occupying
from allocator.model import Alternative, Claim, Device, DeviceResult, PoolID
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster


class WinnableClaims:
    """What can be won for a pod. own: uids of its claims, which are never won. is_on: False where nothing is."""

    def __init__(self, cluster: Cluster, own: Collection[str], *, is_on: bool) -> None:
        self._cluster = cluster
        self._own = own
        self.is_on = is_on

    def frees(self, node: str, uid: str) -> bool:
        """Whether the claim comes free on the node when nobody uses it any more."""
        return self.is_on and uid not in self._own and not self.obstacle(node, uid)

    def obstacle(self, node: str, uid: str) -> str:
        """Why the claim stays even if all its pods go from the node; empty where it comes free."""
        holding = self._cluster.claims.holding(uid)
        if holding is not None and holding.reservation is not None:
            return f"claim {holding.reservation.claim} is being written"
        if holding is None or holding.watched is None or holding.allocated is None:
            return ""
        claim = holding.allocated
        groups = [user.name for user in holding.watched.reserved_for if not user.is_of_pods]
        if groups:
            return f"claim {claim} is held by group {groups[0]}"
        if not holding.watched.reserved_for:
            return f"claim {claim} is allocated, and reserved for nobody"
        if not all(map(partial(self._is_local, node), occupying(claim))):
            return f"claim {claim} has devices that other nodes reach"
        return ""

    def kept_by(self, node: str, uid: str, gone: Collection[str], named: Callable[[Pod], str]) -> str:
        """Why the claim stays when these pods (uids) go from the node; empty where it comes free.

        named: a user that stays, in words.
        """
        if problem := self.obstacle(node, uid):
            return problem
        holding, cluster = self._cluster.claims.holding(uid), self._cluster
        if holding is None or holding.watched is None:
            return ""
        users = {one.uid for one in holding.watched.reserved_for if cluster.is_live(one.uid)}
        users |= cluster.claims.users_in_flight(uid, cluster.pods)
        staying = [pod for one in sorted(users.difference(gone)) if (pod := cluster.pods.known(one)) is not None]
        if not staying:
            return ""
        how = "is shared with" if len(users) > 1 else "is used by"
        return f"claim {holding.watched.claim} {how} {' and '.join(map(named, staying))}"

    def unused(self, node: str) -> Sequence[str]:
        """The claims (uids) on the node that hold devices although none of their users is left."""
        return [uid for uid, claim in self._unused if uid not in self._own and self._is_of(node, claim)]

    @property
    def nodes_of_unused(self) -> set[str]:
        """Where such claims are."""
        return {node for uid, claim in self._unused for node in self._nodes_of(claim) if uid not in self._own}

    def most_freed(self, pod: Pod) -> int:
        """So many devices come free at most when the pod goes."""
        claims = self._cluster.claims
        holdings = map(claims.holding, claims.of_pod(pod))
        return sum(len(occupying(one.counted)) for one in holdings if one is not None and one.counted is not None)

    def free_devices(self, number: int) -> int:
        """How many devices of the node nobody has; one that is given in shares counts in any case."""
        fleet, claims = self._cluster.fleet, self._cluster.claims
        devices = fleet.devices(fleet.node(number))
        return sum(1 for one in devices if one.allow_multiple_allocations or not claims.holders(one.id))

    @cached_property
    def _unused(self) -> Sequence[tuple[str, Claim]]:
        cluster = self._cluster
        unused = cluster.claims.unused(cluster.is_live) if self.is_on else ()
        # Pods that are about to be bound use claims that do not name them yet.
        return [(uid, claim) for uid, claim in unused if not cluster.claims.users_in_flight(uid, cluster.pods)]

    def _is_of(self, node: str, claim: Claim) -> bool:
        return self._nodes_of(claim) == {node}

    def _nodes_of(self, claim: Claim) -> set[str]:
        """The nodes for which the devices are published; "" for one that is not for a single node."""
        return {self._node_of(result) for result in occupying(claim)}

    def _is_local(self, node: str, result: DeviceResult) -> bool:
        return self._node_of(result) == node

    def _node_of(self, result: DeviceResult) -> str:
        """The node for which the device is published; empty where that is not one alone, or it is not published."""
        slices = self._cluster.fleet.slices.by_pool.get(PoolID(result.driver, result.pool), ())
        newest = max((slice_.generation for slice_ in slices), default=0)
        for slice_ in slices:
            if slice_.generation == newest:
                if slice_.reach.node_name and not slice_.reach.per_device and _has(slice_.devices, result.device):
                    return slice_.reach.node_name
                if slice_.reach.per_device:
                    named = (device.reach.node_name for device in slice_.devices if device.name == result.device)
                    if name := next(named, ""):
                        return name
        return ""


def _has(devices: Iterable[Device], name: str) -> bool:
    return any(device.name == name for device in devices)


def least_devices(claims: Iterable[Claim]) -> int:
    """So many devices the claims ask for at least, but for shares, of which several may be of one device."""
    return sum(min(map(_least_devices, request.alternatives)) for claim in claims for request in claim.requests)


def _least_devices(alternative: Alternative) -> int:
    if alternative.admin_access or alternative.capacity is not None:
        return 0
    return alternative.count if alternative.mode == "ExactCount" else 1

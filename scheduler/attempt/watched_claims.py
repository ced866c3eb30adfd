"""What attempts read from the watches: claims, rivals, nodes and devices."""

from collections.abc import Sequence

from allocator.model import NodeSelector
from scheduler.attempt.claim_objects import Claim, ClaimKey, key_of, version_of
from scheduler.attempt.decision import Decision
from scheduler.cache.kinds import WatchedClaim
from scheduler.cache.reflector import Reflector
from scheduler.cache.watch_events import Key
from scheduler.decision.cluster import Cluster
from scheduler.state.invariants import is_reached
from scheduler.state.rivals import Rival


class WatchedClaims:
    """The claims, as the watch shows them."""

    def __init__(self, claims: Reflector[WatchedClaim], cluster: Cluster) -> None:
        self._claims = claims
        self._cluster = cluster

    async def reached(self, resource_version: int, timeout_s: float) -> bool:
        """True once the watch of the claims has passed that version, False when time is up."""
        return await self._claims.store.reached(resource_version, timeout_s)

    async def catch_up(self) -> None:
        """List the claims again at a quorum and take in what is newer. Raises CallFailed."""
        await self._claims.catch_up()

    def rivals(self, claim: ClaimKey) -> Sequence[Rival]:
        """The other claims that cannot hold what they hold together with this one."""
        return self._cluster.rivals(claim.uid)

    def written(self, claim: ClaimKey, resource_version: int) -> None:
        """Our reservation of the claim's devices is stored since that version."""
        self._cluster.written(claim.uid, resource_version)

    def made(self, made_up: str, claim: ClaimKey) -> None:
        """The claim with the made-up uid is there; what was taken for it is this one's."""
        self._cluster.made(made_up, claim.uid)

    def claim(self, known: Claim) -> Claim | None:
        """The claim as the watch shows it, or as it is known where that is older or cannot be read; None once gone."""
        key = key_of(known)
        found, name = self._claims.store, Key(key.namespace, key.name)
        if name in found.undecoded:
            return known
        entry = found.entries.get(name)
        if entry is None or entry.uid != key.uid:
            return None
        return entry.value.raw if entry.resource_version > int(version_of(known)) else known

    def has_node(self, node: str) -> bool:
        """Whether the node is there."""
        return self._cluster.node(node) is not None

    def is_reached(self, node: str, selector: NodeSelector | None) -> bool:
        """Whether devices allocated for these nodes can be used on the node; True for one that is not known."""
        found = self._cluster.node(node)
        return selector is None or found is None or is_reached(selector, found)

    def objection(self, decision: Decision) -> str:
        """Why the node cannot give the devices any more; "" while it can."""
        return self._cluster.objection(decision.node, decision.allocations)

"""What the rules of `dra audit` look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allocator.status import PoolStatus
from scheduler.checks.contract import ObjectName
from scheduler.core_v1.pod import Pod
from scheduler.state.claims import ClaimObject
from scheduler.state.evicting_taints import Eviction

ClaimKey = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Pools with their devices, claims and pods. knows_pods: pods were looked for, so that those not there are gone.

    evictions: of pods that taints end.
    """

    pools: Sequence[PoolStatus]
    claims: Mapping[ClaimKey, ClaimObject]
    pods: Sequence[Pod]
    knows_pods: bool
    evictions: Sequence[Eviction] = ()


def claim_subject(found: ClaimObject) -> ObjectName:
    """The claim."""
    return ObjectName("ResourceClaim", found.claim.name, found.claim.namespace)


def pool_subject(pool: PoolStatus) -> ObjectName:
    """The pool, which is no object of its own: slices make it."""
    return ObjectName("pool", f"{pool.id.driver}/{pool.id.pool}")

"""A pool is incomplete or contradicts itself, so that none of its devices is allocated."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import ClusterState, pool_subject
from scheduler.checks.contract import Check, FindingLevel, Observation


def _check(state: ClusterState) -> Iterator[Observation]:
    for pool in state.pools:
        if pool.problem:
            yield Observation(pool_subject(pool), f"{pool.problem}: no device of it is allocated")


POOL_PROBLEM = Check(
    "pool-problem",
    FindingLevel.WARNING,
    "A pool is incomplete or contradicts itself, so that none of its devices is allocated.",
    "A pool is incomplete for a moment while its driver publishes it anew. If this lasts, check the driver.",
    _check,
)

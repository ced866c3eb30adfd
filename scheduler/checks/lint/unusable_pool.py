"""A pool is incomplete or contradicts itself, so that no device of it is allocated, nor checked here."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import pool_subject
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for pool in manifests.pools:
        if pool.problem:
            yield Observation(pool_subject(pool), pool.problem)


UNUSABLE_POOL = Check(
    "unusable-pool",
    FindingLevel.WARNING,
    "No device of a pool can be allocated, and no selector is run over its devices.",
    "Add the slices that are missing: all of one moment, `kubectl get resourceslices -o yaml`.",
    _check,
)

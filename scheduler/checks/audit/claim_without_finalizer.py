"""An allocated claim lacks the finalizer that keeps it from being deleted while its devices may be in use."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import ClusterState, claim_subject
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.state.claims import FINALIZER


def _check(state: ClusterState) -> Iterator[Observation]:
    for found in state.claims.values():
        if found.claim.allocation is not None and FINALIZER not in (found.raw["metadata"].get("finalizers") or ()):
            yield Observation(claim_subject(found), f"is allocated, but has no finalizer {FINALIZER}", _FIELD)


_FIELD = "metadata.finalizers"

CLAIM_WITHOUT_FINALIZER = Check(
    "claim-without-finalizer",
    FindingLevel.ERROR,
    "An allocated claim can be deleted while its devices are in use.",
    f"Add the finalizer {FINALIZER} to the claim, or delete its pods. A scheduler that allocates has to add it first.",
    _check,
)

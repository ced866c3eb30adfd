"""A claim is allocated, but reserved for nobody: its devices are taken for nothing."""

from collections.abc import Iterator

from scheduler.checks.audit.cluster_state import ClusterState, claim_subject
from scheduler.checks.contract import Check, FindingLevel, Observation


def _check(state: ClusterState) -> Iterator[Observation]:
    for found in state.claims.values():
        if found.claim.allocation is not None and found.claim.allocation.results and not found.reserved_for:
            number = len(found.claim.allocation.results)
            devices = f"{number} device{'' if number == 1 else 's'}"
            yield Observation(
                claim_subject(found), f"holds {devices}, but is reserved for nobody", "status.reservedFor"
            )


CLAIM_NOT_RESERVED = Check(
    "claim-not-reserved",
    FindingLevel.WARNING,
    "An allocated claim is reserved for nobody, so that its devices are taken for nothing.",
    "If this lasts, check that kube-controller-manager runs: it deallocates such claims. Delete claims nobody needs.",
    _check,
)

"""An object is there twice, and the copies differ: which of them applies depends on their order."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.input.documents import FindingReason


def _check(manifests: Manifests) -> Iterator[Observation]:
    return manifests.reported(FindingReason.DUPLICATE)


DUPLICATE_OBJECT = Check(
    "duplicate-object",
    FindingLevel.ERROR,
    "An object is there twice, and the copies differ: `kubectl apply` keeps the one that it comes to last.",
    "Remove one of the copies, or check them one at a time.",
    _check,
)

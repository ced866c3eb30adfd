"""An object has a field that its version does not have: it is misspelt, misplaced, or of another version."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.input.documents import FindingReason


def _check(manifests: Manifests) -> Iterator[Observation]:
    return manifests.reported(FindingReason.UNKNOWN_FIELD)


UNKNOWN_FIELD = Check(
    "unknown-field",
    FindingLevel.ERROR,
    "An object has an unknown field: `kubectl apply` refuses it; without validation, the API server drops the field.",
    "Correct the field that the message names, or move it to where it belongs.",
    _check,
)

"""The API server would refuse an object: a field of the wrong type, a selector that does not compile, and so on."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.input.documents import FindingReason


def _check(manifests: Manifests) -> Iterator[Observation]:
    return manifests.reported(FindingReason.REFUSED)


INVALID_OBJECT = Check(
    "invalid-object",
    FindingLevel.ERROR,
    "The API server would refuse an object.",
    "Correct the field that the message names.",
    _check,
)

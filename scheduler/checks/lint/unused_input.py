"""A part of the input is valid, but has no effect, or cannot be checked: pods of a kind that is not known, say."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.input.documents import FindingReason


def _check(manifests: Manifests) -> Iterator[Observation]:
    return manifests.reported(FindingReason.UNUSED)


UNUSED_INPUT = Check(
    "unused-input",
    FindingLevel.WARNING,
    "A part of the input has no effect, or cannot be checked.",
    "Check that nothing depends on it.",
    _check,
)

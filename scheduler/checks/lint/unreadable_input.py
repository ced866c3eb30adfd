"""A part of the input cannot be read, so that nothing in it is checked."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.input.documents import FindingReason


def _check(manifests: Manifests) -> Iterator[Observation]:
    return manifests.reported(FindingReason.UNREADABLE)


UNREADABLE_INPUT = Check(
    "unreadable-input",
    FindingLevel.ERROR,
    "A file or a document cannot be read, and nothing in it is checked.",
    "Correct it, or leave it out.",
    _check,
)

"""The API server would refuse an object: a field of the wrong type, a selector that does not compile, and so on."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.input.documents import Finding


def _check(manifests: Manifests) -> Iterator[Observation]:
    for error in manifests.inventory.errors:
        yield Observation(_subject(error), f"{error.place}: {error.message}")


def _subject(error: Finding) -> ObjectName:
    kind, _, name = error.subject.partition(" ")
    namespace, slash, rest = name.partition("/")
    if not kind:
        return ObjectName("file", str(error.place.file))
    return ObjectName(kind, rest, namespace) if slash else ObjectName(kind, name)


INVALID_OBJECT = Check(
    "invalid-object",
    FindingLevel.ERROR,
    "The API server would refuse an object.",
    "Correct the field that the message names.",
    _check,
)

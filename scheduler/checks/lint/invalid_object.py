"""The API server would refuse an object: a wrong type, a selector that does not compile, an unserved version."""

from collections.abc import Iterator

from allocator.api.versions import GROUP, versions_of
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.input.documents import FindingReason


def _check(manifests: Manifests) -> Iterator[Observation]:
    yield from manifests.reported(FindingReason.REFUSED)
    release = manifests.features.release.name
    for subject, version in manifests.versions():
        served = versions_of(subject.kind, release)
        if version not in served:
            of_kind = f"it serves {', '.join(served)}" if served else "it serves no version of the kind"
            message = f"Kubernetes {release} does not serve {subject.kind} in {GROUP}/{version}: {of_kind}"
            yield Observation(subject, message, "apiVersion")


INVALID_OBJECT = Check(
    "invalid-object",
    FindingLevel.ERROR,
    "The API server would refuse an object.",
    "Correct the field that the message names.",
    _check,
)

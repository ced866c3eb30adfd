"""An object is of a version of resource.k8s.io that the API server will stop serving."""

from collections.abc import Iterator

from allocator.api.versions import GROUP, versions_of
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for subject, version in manifests.versions():
        served = versions_of(subject.kind, manifests.features.release.name)
        if version != "v1" and {"v1", version} <= set(served):
            yield Observation(subject, f"is of version {GROUP}/{version}", "apiVersion")


OLD_VERSION = Check(
    "old-version",
    FindingLevel.WARNING,
    "An object is of a version that the API server will stop serving.",
    f"Use {GROUP}/v1: `kubectl get -o yaml` of a cluster that serves it prints it.",
    _check,
)

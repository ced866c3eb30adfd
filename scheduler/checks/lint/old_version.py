"""An object is of a version of resource.k8s.io that the API server will stop serving."""

from collections.abc import Iterator

from allocator.api.versions import GROUP, SERVED
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint.manifests import Manifests
from scheduler.core_v1.pod import DEFAULT_NAMESPACE

_CLUSTER_WIDE = frozenset({"DeviceClass", "ResourceSlice", "DeviceTaintRule"})


def _check(manifests: Manifests) -> Iterator[Observation]:
    for (kind, namespace, name), version in sorted(manifests.inventory.versions.items()):
        group, _, short = version.partition("/")
        if group == GROUP and short != "v1" and kind in SERVED["v1"] and kind != "DeviceTaintRule":
            subject = ObjectName(kind, name, "" if kind in _CLUSTER_WIDE else namespace or DEFAULT_NAMESPACE)
            yield Observation(subject, f"is of version {version}", "apiVersion")


OLD_VERSION = Check(
    "old-version",
    FindingLevel.WARNING,
    "An object is of a version that the API server will stop serving.",
    f"Use {GROUP}/v1: `kubectl get -o yaml` of a cluster of Kubernetes 1.34 or later prints it.",
    _check,
)

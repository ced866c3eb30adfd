"""The input uses a feature whose gate is off: the API server drops its fields, and schedulers ignore what is stored."""

from collections.abc import Iterator

from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for line in manifests.switched_off:
        yield Observation(ObjectName("feature gate", line.partition(" ")[0]), line)


GATE_OFF = Check(
    "gate-off",
    FindingLevel.WARNING,
    "The input uses a feature whose gate is off: the API server drops its fields, or kube-scheduler ignores them.",
    "Turn the gate on in the cluster, or say here that it is on: --feature-gates, --kubernetes.",
    _check,
)

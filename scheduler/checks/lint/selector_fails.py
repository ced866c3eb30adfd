"""A selector fails on a device: a pod whose claim comes to this device is not scheduled anywhere."""

from collections.abc import Iterator

from allocator.cluster.selectors import Selectors
from scheduler.checks.contract import Check, FindingLevel, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    explaining = Selectors(manifests.features.environment)
    for one in manifests.selectors:
        if failing := manifests.answers(one).failing:
            error = explaining.error(one.expression, failing[0])
            message = f"fails on {len(failing)} of {one.whole} ({len(one.devices)}), first on {failing[0].id}: {error}"
            yield Observation(one.subject, message, one.field)


SELECTOR_FAILS = Check(
    "selector-fails",
    FindingLevel.ERROR,
    "A selector fails on a device. kube-scheduler gives up a pod, on all nodes, if it comes to such a device.",
    "Ask for the driver first, and for attributes that a device may lack with has(...) or with .? and orValue(...).",
    _check,
)

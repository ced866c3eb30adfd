"""A DeviceTaintRule with an empty selector taints every device of every driver."""

from collections.abc import Iterator

from allocator.api.device_class import DeviceTaintSelector
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for rule in sorted(manifests.inventory.taint_rules, key=lambda one: one.name):
        if rule.selector == DeviceTaintSelector():
            text = f"taints every device of every driver with {rule.taint.key}:{rule.taint.effect}"
            yield Observation(ObjectName("DeviceTaintRule", rule.name), text, "spec.deviceSelector")


TAINTS_EVERYTHING = Check(
    "taints-everything",
    FindingLevel.WARNING,
    "A DeviceTaintRule with an empty deviceSelector taints every device of every driver.",
    "Select a driver, a pool or a device. Without deviceSelector, a rule taints nothing.",
    _check,
)

"""A DeviceTaintRule selects no device, so that it taints nothing."""

from collections.abc import Iterator

from allocator.api import TaintRule
from allocator.did_you_mean import did_you_mean
from allocator.model import Device
from scheduler.checks.contract import Check, FindingLevel, ObjectName, Observation
from scheduler.checks.lint.manifests import Manifests


def _check(manifests: Manifests) -> Iterator[Observation]:
    for rule in sorted(manifests.inventory.taint_rules, key=lambda one: one.name):
        if text := _why_nothing(rule, manifests):
            yield Observation(ObjectName("DeviceTaintRule", rule.name), text, "spec.deviceSelector")


def _why_nothing(rule: TaintRule, manifests: Manifests) -> str:
    """Why the rule taints no device of the input; empty where it taints one, or the input has none."""
    selector = rule.selector
    if selector is None:
        return "is absent: the rule taints nothing"
    left = manifests.devices
    for field in ("driver", "pool", "device"):
        value, names = getattr(selector, field), {_name_in(field, one) for one in left}
        if value is not None and left and value not in names:
            return f"selects none of the input's devices: none has the {field} {value}{did_you_mean(value, names)}"
        left = [one for one in left if value in (None, _name_in(field, one))]
    return ""


def _name_in(field: str, device: Device) -> str:
    return {"driver": device.driver, "pool": device.pool, "device": device.name}[field]


TAINTS_NOTHING = Check(
    "taints-nothing",
    FindingLevel.WARNING,
    "A DeviceTaintRule selects no device.",
    "Compare its selector with what drivers publish: kubectl get resourceslices -o yaml.",
    _check,
)

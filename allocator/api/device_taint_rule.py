"""DeviceTaintRules: taints that an administrator adds to devices.

Source: KEP-5055; k8s.io/api resource/v1 DeviceTaintRule and its validation.
"""

from dataclasses import dataclass

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.findings import Findings
from allocator.api.metadata import MetadataShape, check_metadata
from allocator.api.taints import TaintShape, build_taint, check_taint
from allocator.model import Taint


class TaintSelectorShape(TypedDict, total=False):
    """spec.deviceSelector."""

    driver: str | None
    pool: str | None
    device: str | None


class RuleSpecShape(TypedDict, total=False):
    """spec of a DeviceTaintRule."""

    deviceSelector: TaintSelectorShape | None
    taint: TaintShape | None


class RuleShape(TypedDict, total=False):
    """A DeviceTaintRule; its status tells of evictions, and decides nothing."""

    apiVersion: str
    kind: str
    metadata: MetadataShape | None
    spec: RuleSpecShape | None
    status: object


@dataclass(frozen=True, slots=True)
class DeviceTaintSelector:
    """The devices that a rule taints: those that match all that is not None."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule. selector: None matches no device, one without parts every device.

    What it does not know of a selector it leaves out: a rule that selects too much only takes away.
    """

    name: str
    taint: Taint
    selector: DeviceTaintSelector | None = None


def check_rule(shape: RuleShape, findings: Findings) -> None:
    """The rules of a DeviceTaintRule."""
    check_metadata(shape.get("metadata") or {}, is_namespaced=False, findings=findings)
    spec = shape.get("spec") or {}
    check_taint(spec.get("taint") or {}, "spec.taint", findings)
    selector = spec.get("deviceSelector") or {}
    parts = (("driver", names.driver_name), ("pool", names.pool_name), ("device", names.short_name))
    for field, rule in parts:
        value = selector.get(field)
        if isinstance(value, str) and (problem := rule(value)):
            findings.error(f"spec.deviceSelector.{field}", value, problem)


def build_rule(shape: RuleShape) -> TaintRule:
    """The rule in the allocator's form."""
    spec = shape.get("spec") or {}
    selector = spec.get("deviceSelector")
    return TaintRule(
        name=(shape.get("metadata") or {}).get("name") or "",
        taint=build_taint(spec.get("taint") or {}),
        selector=None if selector is None else _selector(selector),
    )


def _selector(shape: TaintSelectorShape) -> DeviceTaintSelector:
    return DeviceTaintSelector(shape.get("driver"), shape.get("pool"), shape.get("device"))

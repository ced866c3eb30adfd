"""DeviceTaintRules: taints that an administrator adds to devices.

Source: KEP-5055; k8s.io/api resource/v1 DeviceTaintRule and its validation.
"""

from dataclasses import dataclass

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.findings import Findings
from allocator.api.metadata import MetadataFields, check_metadata
from allocator.api.taints import TaintFields, build_taint, check_taint
from allocator.model import Taint


class TaintSelectorFields(TypedDict, total=False):
    """spec.deviceSelector."""

    driver: str | None
    pool: str | None
    device: str | None


class RuleSpecFields(TypedDict, total=False):
    """spec of a DeviceTaintRule."""

    deviceSelector: TaintSelectorFields | None
    taint: TaintFields | None


class RuleFields(TypedDict, total=False):
    """A DeviceTaintRule; its status describes evictions, and decides nothing."""

    apiVersion: str
    kind: str
    metadata: MetadataFields | None
    spec: RuleSpecFields | None
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


def check_rule(fields: RuleFields, findings: Findings) -> None:
    """The rules of a DeviceTaintRule."""
    check_metadata(fields.get("metadata") or {}, is_namespaced=False, findings=findings)
    spec = fields.get("spec") or {}
    check_taint(spec.get("taint") or {}, "spec.taint", findings)
    selector = spec.get("deviceSelector") or {}
    parts = (("driver", names.driver_name), ("pool", names.pool_name), ("device", names.short_name))
    for field, rule in parts:
        value = selector.get(field)
        if isinstance(value, str) and (problem := rule(value)):
            findings.error(f"spec.deviceSelector.{field}", value, problem)


def build_rule(fields: RuleFields) -> TaintRule:
    """The rule in the allocator's form."""
    spec = fields.get("spec") or {}
    selector = spec.get("deviceSelector")
    return TaintRule(
        name=(fields.get("metadata") or {}).get("name") or "",
        taint=build_taint(spec.get("taint") or {}),
        selector=None if selector is None else _selector(selector),
    )


def _selector(fields: TaintSelectorFields) -> DeviceTaintSelector:
    return DeviceTaintSelector(fields.get("driver"), fields.get("pool"), fields.get("device"))

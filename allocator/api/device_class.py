"""DeviceClass and DeviceTaintRule: what an operator says of devices."""

from dataclasses import dataclass

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.device import TaintFields, build_taint, check_taint
from allocator.api.driver_config import (
    CONFIG_MAX,
    ClassConfigFields,
    SelectorFields,
    build_class_config,
    build_selectors,
    check_count,
    check_opaque,
    check_selectors,
)
from allocator.api.findings import Findings
from allocator.api.metadata import MetadataFields, check_metadata
from allocator.model import DeviceClass, Taint

# DeviceClasses: selectors and configuration that requests refer to by name.
#
# Source: k8s.io/api resource/v1 DeviceClass and its validation.


class ClassSpecFields(TypedDict, total=False):
    """spec of a DeviceClass."""

    selectors: list[SelectorFields] | None
    config: list[ClassConfigFields] | None
    extendedResourceName: str | None


class ClassFields(TypedDict, total=False):
    """A DeviceClass."""

    apiVersion: str
    kind: str
    metadata: MetadataFields | None
    spec: ClassSpecFields | None


def check_class(fields: ClassFields, findings: Findings) -> None:
    """The rules of a class."""
    check_metadata(fields.get("metadata") or {}, is_namespaced=False, findings=findings)
    spec = fields.get("spec") or {}
    check_selectors(spec.get("selectors"), "spec.selectors", findings)
    config = spec.get("config") or ()
    check_count(len(config), CONFIG_MAX, "spec.config", findings)
    for index, entry in enumerate(config):
        check_opaque(entry.get("opaque"), f"spec.config[{index}]", findings)
    resource = spec.get("extendedResourceName")
    if resource is not None and (problem := names.extended_resource_name(resource)):
        findings.error("spec.extendedResourceName", resource, problem)


def build_class(fields: ClassFields, findings: Findings) -> DeviceClass:
    """The class in the allocator's form."""
    metadata, spec = fields.get("metadata") or {}, fields.get("spec") or {}
    return DeviceClass(
        name=metadata.get("name") or "",
        selectors=build_selectors(spec.get("selectors")),
        config=build_class_config(spec.get("config")),
        extended_resource_name=spec.get("extendedResourceName") or "",
        creation_timestamp=metadata.get("creationTimestamp") or "",
        unknown_fields=findings.carried_by("spec"),
    )


# DeviceTaintRules: taints that an administrator adds to devices.
#
# Source: KEP-5055; k8s.io/api resource/v1 DeviceTaintRule and its validation.


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

"""Devices of a slice: attributes, capacity, what they consume, where they can be reached.

Source: k8s.io/api resource/v1 Device and its validation; KEP-4815, KEP-5055, KEP-5075, KEP-5007.
"""

from collections.abc import Mapping, Sequence
from sys import intern
from types import MappingProxyType
from typing import Any, Literal

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.attributes import VALUES_MAX, Attributes, AttributesField, check_attributes
from allocator.api.capacity import ZERO, Capacities, CapacitiesField, build_policies, check_capacities
from allocator.api.driver_config import check_count
from allocator.api.field_types import QuantityField
from allocator.api.findings import Findings, duplicates
from allocator.api.node_allocatable import NodeAllocatableFields, check_node_allocatable
from allocator.api.node_selector import NodeSelectorFields
from allocator.api.reach import build_reach, check_reach
from allocator.api.taints import TaintFields, build_taint, check_taint
from allocator.model import CounterConsumption, Device
from cel.values.quantity import Quantity

ATTRIBUTES_AND_CAPACITIES_MAX = 32
TAINTS_MAX = 16
CONSUMPTIONS_MAX = 2
COUNTERS_MAX = 32
GROUPS_MAX = 2
CONDITIONS_MAX = 4

_REACH_FIELDS: tuple[Literal["nodeName", "nodeSelector", "allNodes"], ...] = ("nodeName", "nodeSelector", "allNodes")
_USUAL_FIELDS = frozenset({"name", "attributes", "capacity"})


class CounterFields(TypedDict, total=False):
    """A counter of a counter set, or a device's part of it."""

    value: QuantityField | None


class ConsumptionFields(TypedDict, total=False):
    """An entry of consumesCounters."""

    counterSet: str | None
    counters: dict[str, CounterFields] | None
    compatibilityGroups: list[str] | None


class DeviceFields(TypedDict, total=False):
    """An entry of a slice's `devices`."""

    name: str | None
    attributes: AttributesField | None
    capacity: CapacitiesField | None
    consumesCounters: list[ConsumptionFields] | None
    nodeName: str | None
    nodeSelector: NodeSelectorFields | None
    allNodes: bool | None
    taints: list[TaintFields] | None
    bindsToNode: bool | None
    bindingConditions: list[str] | None
    bindingFailureConditions: list[str] | None
    allowMultipleAllocations: bool | None
    nodeAllocatableResources: dict[str, NodeAllocatableFields] | None


def has_extras(fields: DeviceFields) -> bool:
    """Whether the device has what lowers the number of devices that a slice may have."""
    return bool(fields.get("taints") or fields.get("consumesCounters") or _attributes(fields).has_lists)


def check_device(fields: DeviceFields, path: str, findings: Findings, *, is_per_device: bool) -> None:
    """The rules of one device. is_per_device: its slice says perDeviceNodeSelection."""
    if problem := names.short_name(fields.get("name") or ""):
        findings.error(f"{path}.name", fields.get("name"), problem)
    attributes, capacities = _attributes(fields), _capacities(fields)
    _check_sizes(attributes, capacities, path, findings)
    if attributes.unchecked:
        check_attributes(attributes, f"{path}.attributes", findings)
    if capacities.unchecked:
        is_shared = bool(fields.get("allowMultipleAllocations"))
        check_capacities(capacities, f"{path}.capacity", findings, is_shared=is_shared)
    if is_per_device or not _USUAL_FIELDS.issuperset(fields):
        _check_rest(fields, path, findings)
        _check_reach(fields, path, findings, is_per_device=is_per_device)


def _attributes(fields: DeviceFields) -> Attributes:
    return fields.get("attributes") or _NO_ATTRIBUTES


def _capacities(fields: DeviceFields) -> Capacities:
    return fields.get("capacity") or _NO_CAPACITIES


_NO_ATTRIBUTES = Attributes({}, {})
_NO_CAPACITIES = Capacities({}, {})


def _check_sizes(attributes: Attributes, capacities: Capacities, path: str, findings: Findings) -> None:
    entries, limit = len(attributes.values) + len(capacities.values), ATTRIBUTES_AND_CAPACITIES_MAX
    if entries > limit:
        findings.error(path, entries, f"must not have more than {limit} attributes and capacities in all")
    if attributes.unchecked and attributes.value_count > VALUES_MAX:
        message = f"must not have more than {VALUES_MAX} attribute values, each list entry counted"
        findings.error(path, attributes.value_count, message)


def _check_rest(fields: DeviceFields, path: str, findings: Findings) -> None:
    taints = fields.get("taints") or ()
    check_count(len(taints), TAINTS_MAX, f"{path}.taints", findings)
    for index, taint in enumerate(taints):
        check_taint(taint, f"{path}.taints[{index}]", findings)
    _check_consumptions(fields.get("consumesCounters") or (), f"{path}.consumesCounters", findings)
    check_conditions(fields.get("bindingConditions"), fields.get("bindingFailureConditions"), path, findings)
    allocatable = fields.get("nodeAllocatableResources") or {}
    check_node_allocatable(allocatable, _capacities(fields).values, f"{path}.nodeAllocatableResources", findings)


def _check_consumptions(entries: Sequence[ConsumptionFields], path: str, findings: Findings) -> None:
    check_count(len(entries), CONSUMPTIONS_MAX, path, findings)
    for index, fields in enumerate(entries):
        if problem := names.short_name(fields.get("counterSet") or ""):
            findings.error(f"{path}[{index}].counterSet", fields.get("counterSet"), problem)
        check_counters(fields.get("counters"), f"{path}[{index}].counters", findings)
        _check_groups(fields.get("compatibilityGroups") or (), f"{path}[{index}].compatibilityGroups", findings)
    for index, name in duplicates(fields.get("counterSet") for fields in entries):
        findings.error(f"{path}[{index}]", name, "the counter set must be unique within the device")


def check_counters(counters: Mapping[str, CounterFields] | None, path: str, findings: Findings) -> None:
    """The rules of a set's or a device's counters: at least one, not too many, names are DNS labels."""
    if not counters:
        findings.required(path, "must have at least one entry")
    check_count(len(counters or ()), COUNTERS_MAX, path, findings)
    for name in counters or ():
        if problem := names.short_name(name):
            findings.error(path, name, problem)


def _check_groups(groups: Sequence[str], path: str, findings: Findings) -> None:
    check_count(len(groups), GROUPS_MAX, path, findings)
    for index, name in enumerate(groups):
        if problem := names.short_name(name):
            findings.error(f"{path}[{index}]", name, problem)
    for index, duplicate in duplicates(groups):
        findings.error(f"{path}[{index}]", duplicate, "must be unique")


def check_conditions(binding: list[str] | None, failure: list[str] | None, path: str, findings: Findings) -> None:
    """The rules of binding conditions: both lists or none, names of conditions, nothing twice."""
    for field, conditions in (("bindingConditions", binding or []), ("bindingFailureConditions", failure or [])):
        check_count(len(conditions), CONDITIONS_MAX, f"{path}.{field}", findings)
        for index, condition in enumerate(conditions):
            if problem := names.label_key(condition):
                findings.error(f"{path}.{field}[{index}]", condition, problem)
        for index, duplicate in duplicates(conditions):
            findings.error(f"{path}.{field}[{index}]", duplicate, "must be unique")
    for index, condition in enumerate(failure or ()):
        if condition in (binding or ()):
            findings.error(
                f"{path}.bindingFailureConditions[{index}]", condition, "must not be in bindingConditions too"
            )
    if bool(binding) != bool(failure):
        missing = "bindingFailureConditions" if binding else "bindingConditions"
        findings.required(f"{path}.{missing}", "is required: binding conditions come with failure conditions")


def _check_reach(fields: DeviceFields, path: str, findings: Findings, *, is_per_device: bool) -> None:
    given = [field for field in _REACH_FIELDS if fields.get(field) is not None]
    if not is_per_device:
        if given:
            findings.error(path, None, f"must not set {', '.join(given)} unless spec.perDeviceNodeSelection is true")
        return
    flags = {"allNodes": fields.get("allNodes")}
    chosen = check_reach(fields.get("nodeName"), fields.get("nodeSelector"), flags, path, findings)
    if len(chosen) != 1 and not (findings.is_uncertain(path) and not chosen):
        every = ", ".join(_REACH_FIELDS)
        findings.error(path, None, f"must set exactly one of {every}, as spec.perDeviceNodeSelection is true")


def build_device(fields: DeviceFields, driver: str, pool: str, path: str, findings: Findings) -> Device:
    """The device of a slice in the allocator's form."""
    name, attributes, capacities = intern(fields.get("name") or ""), _attributes(fields), _capacities(fields)
    unknown = findings.carried_by(path)
    if not capacities.unchecked and _USUAL_FIELDS.issuperset(fields):
        return Device(name, driver, pool, attributes.values, capacities.values, _NONE, unknown_fields=unknown)
    reach = build_reach(fields.get("nodeName"), fields.get("nodeSelector"), all_nodes=fields.get("allNodes"))
    return Device(
        name,
        driver,
        pool,
        attributes=attributes.values,
        capacity=capacities.values,
        policies=build_policies(capacities),
        allow_multiple_allocations=bool(fields.get("allowMultipleAllocations")),
        consumes_counters=tuple(_consumption(entry) for entry in fields.get("consumesCounters") or ()),
        reach=reach,
        taints=tuple(build_taint(taint) for taint in fields.get("taints") or ()),
        binds_to_node=bool(fields.get("bindsToNode")),
        binding_conditions=tuple(fields.get("bindingConditions") or ()),
        binding_failure_conditions=tuple(fields.get("bindingFailureConditions") or ()),
        node_allocatable=fields.get("nodeAllocatableResources") or _NONE,
        unknown_fields=unknown,
    )


_NONE: Mapping[str, Any] = MappingProxyType({})


def _consumption(fields: ConsumptionFields) -> CounterConsumption:
    groups = tuple(fields.get("compatibilityGroups") or ())
    return CounterConsumption(fields.get("counterSet") or "", build_counters(fields.get("counters")), groups)


def build_counters(entries: Mapping[str, CounterFields] | None) -> dict[str, Quantity]:
    """The counters by name."""
    return {name: counter.get("value") or ZERO for name, counter in (entries or {}).items()}

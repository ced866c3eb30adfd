"""A device as the API spells it: attributes, taints, nodes that reach it, and what it takes of a node."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic_core import core_schema
from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.capacity import ZERO, Capacities, CapacitiesField, build_policies, check_capacities
from allocator.api.driver_config import check_count
from allocator.api.findings import Findings, duplicates, step_text
from allocator.api.node_selector import NodeSelectorFields, build_node_selector, check_node_selector
from allocator.api.schema import INT64_MAX, INT64_MIN, CheckedBy, Int64, QuantityField, Timestamp, schema_of
from allocator.model import Attribute, CounterConsumption, Device, Reach, Taint, Toleration
from cel.values.quantity import Quantity

# What a device takes of a node's ordinary resources: a mapping of the device itself, or overhead.
#
# Source: KEP-5517; k8s.io/api resource/v1 NodeAllocatableResource.


class MappingFields(TypedDict, total=False):
    """The mapping of a device that models a node's resource."""

    capacityKey: str | None
    capacityMultiplier: QuantityField | None
    deviceMultiplier: QuantityField | None


class OverheadFields(TypedDict, total=False):
    """What a device needs beside itself."""

    perPod: QuantityField | None
    perContainer: QuantityField | None


class NodeAllocatableFields(TypedDict, total=False):
    """An entry of nodeAllocatableResources."""

    mapping: MappingFields | None
    overhead: OverheadFields | None


def check_node_allocatable(
    entries: Mapping[str, NodeAllocatableFields], capacities: Container[str], path: str, findings: Findings
) -> None:
    """The rules of nodeAllocatableResources. capacities: the names of the device's own."""
    for name, fields in entries.items():
        at = f"{path}[{step_text(name)}]"
        if "/" in name and "kubernetes.io/" not in name:
            findings.error(path, name, "must be a node's own resource such as cpu or memory, not an extended one")
        mapping, overhead = fields.get("mapping"), fields.get("overhead")
        if mapping is not None:
            _check_mapping(mapping, capacities, f"{at}.mapping", findings)
        if overhead is not None:
            _check_overhead(overhead, f"{at}.overhead", findings)
        elif mapping is None and not findings.is_uncertain(at):
            findings.required(at, "must have a mapping or an overhead")


def _check_mapping(fields: MappingFields, capacities: Container[str], path: str, findings: Findings) -> None:
    key, multiplier = fields.get("capacityKey"), fields.get("capacityMultiplier")
    if (key is None) == (fields.get("deviceMultiplier") is None) and not findings.is_uncertain(path):
        findings.error(path, None, "must set exactly one of capacityKey and deviceMultiplier")
    if (key is None) != (multiplier is None):
        findings.error(path, None, "must set capacityKey and capacityMultiplier together")
    if key is not None and key not in capacities:
        findings.error(f"{path}.capacityKey", key, "must be the name of a capacity of the device")
    for name, amount in (("capacityMultiplier", multiplier), ("deviceMultiplier", fields.get("deviceMultiplier"))):
        if amount is not None and amount.sign <= 0:
            findings.error(f"{path}.{name}", amount.text, "must be positive")


def _check_overhead(fields: OverheadFields, path: str, findings: Findings) -> None:
    amounts = {"perPod": fields.get("perPod"), "perContainer": fields.get("perContainer")}
    if all(amount is None for amount in amounts.values()) and not findings.is_uncertain(path):
        findings.required(path, "must have perPod or perContainer")
    for name, amount in amounts.items():
        if amount is not None and amount.sign < 0:
            findings.error(f"{path}.{name}", amount.text, "must not be negative")


# Taints of devices, and the tolerations of requests and results.
#
# Source: KEP-5055; k8s.io/api resource/v1 DeviceTaint, DeviceToleration.


EFFECTS = ("None", "NoSchedule", "NoExecute")


class TaintFields(TypedDict, total=False):
    """A taint of a device or of a rule."""

    key: str | None
    value: str | None
    effect: str | None
    timeAdded: Timestamp | None


class TolerationFields(TypedDict, total=False):
    """A toleration of a request, as a result repeats it."""

    key: str | None
    operator: str | None
    value: str | None
    effect: str | None
    tolerationSeconds: Int64 | None


def check_taint(fields: TaintFields, path: str, findings: Findings) -> None:
    """The rules of a taint: a label's key and value, and one of three effects."""
    if problem := names.label_key(fields.get("key") or ""):
        findings.error(f"{path}.key", fields.get("key"), problem)
    if problem := names.label_value(fields.get("value") or ""):
        findings.error(f"{path}.value", fields.get("value"), problem)
    if fields.get("effect") not in EFFECTS:
        findings.error(f"{path}.effect", fields.get("effect"), f"must be one of {', '.join(EFFECTS)}")


def check_toleration(fields: TolerationFields, path: str, findings: Findings) -> None:
    """The rules of a toleration; an empty key or effect stands for all of them."""
    key, effect = fields.get("key") or "", fields.get("effect") or ""
    if key and (problem := names.label_key(key)):
        findings.error(f"{path}.key", key, problem)
    if effect and effect not in EFFECTS:
        findings.error(f"{path}.effect", effect, f"must be absent or one of {', '.join(EFFECTS)}")
    operator, value = fields.get("operator") or "", fields.get("value") or ""
    if operator not in {"Exists", "Equal"}:
        findings.error(f"{path}.operator", fields.get("operator"), "must be Exists or Equal")
    elif operator == "Exists" and value:
        findings.error(f"{path}.value", value, "must be empty for the operator Exists")
    elif problem := names.label_value(value):
        findings.error(f"{path}.value", value, problem)


def build_taint(fields: TaintFields) -> Taint:
    """The taint without the time at which it was added: no decision depends on that."""
    return Taint(fields.get("key") or "", fields.get("value") or "", fields.get("effect") or "")


def build_toleration(fields: TolerationFields) -> Toleration:
    """The toleration, together with the object that a result repeats."""
    raw: Mapping[str, object] = {name: value for name, value in fields.items() if value is not None}
    key, operator = fields.get("key") or "", fields.get("operator") or ""
    return Toleration(key, operator, fields.get("value") or "", fields.get("effect") or "", raw)


# Attributes of a device, in one step where nothing about them is unusual.
#
# A fleet has ten million of them. So the usual ones, one value of a plain type under a valid name, are recognised,
# checked and shared by one look into a cache; as soon as one of a device's attributes is not of that kind, all of them
# are typed and later checked like everything else, which finds the words for what is wrong. Source: k8s.io/api
# resource/v1 DeviceAttribute and its validation.


VALUES_MAX = 48

# In a class, the fields `int` and `bool` would hide the types.
AttributeFields = TypedDict(  # noqa: UP013
    "AttributeFields",
    {
        "int": Int64 | None,
        "bool": bool | None,
        "string": str | None,
        "version": str | None,
        "ints": list[Int64] | None,
        "bools": list[bool] | None,
        "strings": list[str] | None,
        "versions": list[str] | None,
    },
    total=False,
)

_ValueKind = Literal["ints", "bools", "strings", "versions", "int", "bool", "string", "version"]
_PRECEDENCE: tuple[_ValueKind, ...] = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_LISTS = frozenset(_PRECEDENCE[4:])
_CLASSES: Mapping[object, type] = {"int": int, "bool": bool, "string": str, "version": str}


class Attributes(NamedTuple):
    """Attributes of a device in the allocator's form; `unchecked` holds their fields, and nothing if all are usual."""

    values: dict[str, Attribute]
    unchecked: Mapping[str, AttributeFields]

    @property
    def has_lists(self) -> bool:
        """Whether one of them is a list."""
        return any(not _LISTS.isdisjoint(fields) for fields in self.unchecked.values())

    @property
    def value_count(self) -> int:
        """The number of values, each entry of a list counted."""
        return len(self.values) + sum(_further_values(fields) for fields in self.unchecked.values())


def _further_values(fields: AttributeFields) -> int:
    lists = (value for kind, value in fields.items() if kind in _LISTS and isinstance(value, list))
    return max(sum(map(len, lists)) - 1, 0)


def _read(raw: object, typed: Callable[[object], dict[str, AttributeFields]]) -> Attributes:
    if isinstance(raw, dict):
        with suppress(AttributeError, TypeError, ValueError):  # of attributes that are not usual
            return Attributes(_usual(raw), {})
    entries = typed(raw)
    return Attributes({name: _attribute(fields) for name, fields in entries.items()}, entries)


AttributesField = Annotated[
    Attributes, CheckedBy(core_schema.no_info_wrap_validator_function(_read, schema_of(dict[str, AttributeFields])))
]
"""A map of attributes in JSON, read as `Attributes`."""


def _usual(raw: Mapping[object, Any]) -> dict[str, Attribute]:
    """The attributes if all are usual: unpacking and looking up raise for everything else."""
    values = {}
    for name, fields in raw.items():
        ((kind, value),) = fields.items()
        shared_name, attribute = _usual_attribute(name, kind, value.__class__, value)
        values[shared_name] = attribute
    return values


@lru_cache(maxsize=1 << 15)
def _usual_attribute(name: object, kind: object, class_: type, value: object) -> tuple[str, Attribute]:
    """The name and the attribute, the same objects for each device that has them; ValueError if they are not usual.

    class_: of the value, without which the cache would take True for 1.
    """
    if not isinstance(name, str) or len(name) > names.USUAL_MAX:
        raise ValueError(name)
    if class_ is _CLASSES.get(kind) and not names.qualified_name(name):
        if kind == "string":
            is_usual = isinstance(value, str) and value.isascii() and len(value) <= names.VALUE_MAX
        elif kind == "version":
            is_usual = isinstance(value, str) and not names.version(value)
        else:
            is_usual = isinstance(value, int) and INT64_MIN <= value <= INT64_MAX
        if is_usual:
            return name, (str(kind), value)
    raise ValueError(name)


def _attribute(fields: AttributeFields) -> Attribute:
    """The value; of several, which only unchecked objects have, the one that the newest reference looks at first."""
    for kind in _PRECEDENCE:
        value = fields.get(kind)
        if value is not None:
            return kind, tuple(value) if isinstance(value, list) else value
    return "", None


def check_attributes(attributes: Attributes, path: str, findings: Findings) -> None:
    """The rules of attributes: names, exactly one value each, lengths. path: of the map."""
    for name, fields in attributes.unchecked.items():
        if problem := names.qualified_name(name):
            findings.error(path, name, problem)
        at = f"{path}[{step_text(name)}]"
        kinds = [kind for kind in _PRECEDENCE if fields.get(kind) is not None]
        if len(kinds) > 1:
            findings.error(at, None, f"must have exactly one value, has {', '.join(kinds)}")
        elif not kinds and not findings.is_uncertain(at):
            findings.required(at, "must have exactly one value")
        for kind in kinds:
            for where, value, problem in _value_problems(kind, fields[kind]):
                findings.error(f"{at}.{kind}{where}", value, problem)


def _value_problems(kind: str, value: Any) -> Iterator[tuple[str, object, str]]:
    """(place below the value, value, problem). value: of the type that the kind says, as its type has been checked."""
    if kind in _LISTS and not value:
        yield "", value, "must not be empty"
    elif kind in {"string", "version"}:
        if problem := _text_problem(kind, value):
            yield "", value, problem
    elif kind in {"strings", "versions"}:
        yield from _item_problems(kind.removesuffix("s"), value)


def _item_problems(kind: str, items: Sequence[str]) -> Iterator[tuple[str, object, str]]:
    for index, item in enumerate(items):
        if problem := _text_problem(kind, item):
            yield f"[{index}]", item, problem


def _text_problem(kind: str, text: str) -> str:
    return names.version(text) if kind == "version" else names.too_long(text, names.VALUE_MAX)


# Which nodes reach a slice or a device: a name, a selector, all, or a choice of each device.
#
# Source: k8s.io/api resource/v1 ResourceSliceSpec and Device: nodeName, nodeSelector, allNodes, perDeviceNodeSelection.


def check_reach(
    node_name: str | None,
    selector: NodeSelectorFields | None,
    flags: Mapping[str, bool | None],
    path: str,
    findings: Findings,
) -> list[str]:
    """The fields that select nodes, after the rules of each: set means not empty, not false.

    flags: allNodes, and in a slice perDeviceNodeSelection.
    """
    chosen = []
    if node_name:
        chosen.append("nodeName")
        if problem := names.long_name(node_name):
            findings.error(f"{path}.nodeName", node_name, problem)
    elif node_name is not None:
        findings.error(f"{path}.nodeName", node_name, "must be absent or not empty")
    if selector is not None:
        chosen.append("nodeSelector")
        check_node_selector(selector, f"{path}.nodeSelector", findings)
    for flag, value in flags.items():
        if value:
            chosen.append(flag)
        elif value is not None:
            findings.error(f"{path}.{flag}", value, "must be absent or true")
    return chosen


def build_reach(
    node_name: str | None,
    selector: NodeSelectorFields | None,
    *,
    all_nodes: bool | None,
    per_device: bool | None = None,
) -> Reach:
    """The fields in the order of the reference: a name takes precedence, then all nodes, then a selector."""
    if node_name or selector is None:
        return _shared(node_name or "", bool(all_nodes and not node_name), bool(per_device))
    return Reach("", build_node_selector(selector), bool(all_nodes), bool(per_device))


@lru_cache(maxsize=1 << 14)
def _shared(node_name: str, all_nodes: bool, per_device: bool) -> Reach:  # noqa: FBT001 - as in Reach
    return Reach(node_name=node_name, all_nodes=all_nodes, per_device=per_device)


# Devices of a slice: attributes, capacity, what they consume, where they can be reached.
#
# Source: k8s.io/api resource/v1 Device and its validation; KEP-4815, KEP-5055, KEP-5075, KEP-5007.


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

"""Capacity of a device, and how the requests of shares of it are rounded and bounded.

Like attributes, the usual capacities (a value as text under a valid name) are read in one step and shared.
Source: KEP-5075; k8s.io/api resource/v1 CapacityRequestPolicy and its validation.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, NamedTuple

from pydantic_core import core_schema
from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.driver_config import check_count
from allocator.api.findings import Findings, duplicates, step_text
from allocator.api.schema import CheckedBy, QuantityField, counted, schema_of
from allocator.model import RequestPolicy, ValidRange
from cel.values.quantity import Quantity

VALID_VALUES_MAX = 10
ZERO = Quantity.parse("0")
"""What a capacity or counter without a value holds, as in the API server."""


class RangeFields(TypedDict, total=False):
    """The validRange of a request policy."""

    min: QuantityField | None
    max: QuantityField | None
    step: QuantityField | None


class PolicyFields(TypedDict, total=False):
    """The requestPolicy of a capacity."""

    default: QuantityField | None
    validValues: list[QuantityField] | None
    validRange: RangeFields | None


class CapacityFields(TypedDict, total=False):
    """An entry of a device's capacity."""

    value: QuantityField | None
    requestPolicy: PolicyFields | None


class Capacities(NamedTuple):
    """The capacities of a device in the allocator's form; `unchecked` holds their fields, nothing if all are usual."""

    values: Mapping[str, Quantity]
    unchecked: Mapping[str, CapacityFields]


def _read(raw: object, typed: Callable[[object], dict[str, CapacityFields]]) -> Capacities:
    usual = _usual(raw) if type(raw) is dict else None
    if usual is not None:
        return usual
    entries = typed(raw)
    return Capacities({name: fields.get("value") or ZERO for name, fields in entries.items()}, entries)


CapacitiesField = Annotated[
    Capacities, CheckedBy(core_schema.no_info_wrap_validator_function(_read, schema_of(dict[str, CapacityFields])))
]
"""A map of capacities in JSON, read as `Capacities`."""


def _usual(raw: dict[object, object]) -> Capacities | None:
    written = []
    for name, fields in raw.items():
        if type(fields) is not dict or len(fields) != 1 or type(value := fields.get("value")) is not str:
            return None
        written.append((name, value))
    try:
        return _shared(tuple(written))
    except ValueError:
        return None


@lru_cache(maxsize=1 << 14)
def _shared(written: tuple[tuple[object, str], ...]) -> Capacities:
    """The capacities that are written so, the same object for each device; ValueError if they are not usual."""
    values = {}
    for name, text in written:
        if not isinstance(name, str) or max(len(name), len(text)) > names.USUAL_MAX or names.qualified_name(name):
            raise ValueError(name)
        values[name] = counted(text)
    return Capacities(values, {})


def check_capacities(capacities: Capacities, path: str, findings: Findings, *, is_shared: bool) -> None:
    """The rules of capacities. path: of the map. is_shared: the device allows multiple allocations."""
    for name, fields in capacities.unchecked.items():
        if problem := names.qualified_name(name):
            findings.error(path, name, problem)
        _check_policy(fields, f"{path}[{step_text(name)}]", findings, is_shared=is_shared)


def _check_policy(fields: CapacityFields, path: str, findings: Findings, *, is_shared: bool) -> None:
    policy = fields.get("requestPolicy")
    if policy is None:
        return
    at, values, allowed_range = f"{path}.requestPolicy", policy.get("validValues") or [], policy.get("validRange")
    if not is_shared:
        findings.error(at, None, "must be absent unless allowMultipleAllocations is true")
    elif values and allowed_range is not None:
        findings.error(at, None, "must not set both validValues and validRange")
    elif values or allowed_range is not None:
        default, value = policy.get("default"), fields.get("value") or ZERO
        if default is None:
            findings.required(f"{at}.default", "is required with validValues and validRange")
        elif allowed_range is not None:
            _check_range(allowed_range, default, value, f"{at}.validRange", findings)
        else:
            _check_values(values, default, value, f"{at}.validValues", findings)


def _check_values(values: Sequence[Quantity], default: Quantity, most: Quantity, path: str, findings: Findings) -> None:
    check_count(len(values), VALID_VALUES_MAX, path, findings)
    for index, value in enumerate(values):
        if value > most:
            findings.error(f"{path}[{index}]", value.text, f"must not be larger than the capacity's value {most}")
    for index, (before, after) in enumerate(pairwise(values), start=1):
        if before > after:
            findings.error(f"{path}[{index}]", after.text, f"must not be less than the entry before it, {before}")
    for index, _ in duplicates(value.ceil_int() for value in values):
        # The reference compares them as whole numbers, rounded up.
        findings.error(f"{path}[{index}]", values[index].text, "must be unique, rounded up to a whole number")
    if default not in values:
        findings.error(path, default.text, "must contain the default")


def _check_range(fields: RangeFields, default: Quantity, value: Quantity, path: str, findings: Findings) -> None:
    least, most, step = fields.get("min"), fields.get("max"), fields.get("step")
    if least is None:
        findings.required(f"{path}.min")
        return
    for field, wrong, message in _range_problems(least, most, default, value):
        findings.error(f"{path}.{field}", wrong.text, message)
    if step is not None:
        for wrong, message in _step_problems(least, most, default, value, step):
            findings.error(f"{path}.step", wrong.text, message)


def _range_problems(
    least: Quantity, most: Quantity | None, default: Quantity, value: Quantity
) -> Iterator[tuple[str, Quantity, str]]:
    if least > value:
        yield "min", least, f"must not be larger than the capacity's value {value}"
    if default < least:
        yield "min", least, f"must not be larger than the default {default}"
    if most is None:
        return
    if least > most:
        yield "max", most, f"must not be less than min {least}"
    if most > value:
        yield "max", most, f"must not be larger than the capacity's value {value}"
    if default > most:
        yield "max", most, f"must not be less than the default {default}"


def _step_problems(
    least: Quantity, most: Quantity | None, default: Quantity, value: Quantity, step: Quantity
) -> Iterator[tuple[Quantity, str]]:
    size = step.ceil_int()
    if not size:
        # Differs from kube-scheduler: its validation divides by this.
        yield step, "must not be zero"
        return
    if least + step > value:
        yield step, f"must not exceed the capacity's value {value} when added to min {least}"
    for name, bound in (("default", default), ("max", most)):
        if bound is not None and (bound.ceil_int() - least.ceil_int()) % size:
            yield step, f"must divide the distance from min {least} to {name} {bound}"


def build_policies(capacities: Capacities) -> Mapping[str, RequestPolicy]:
    """The request policies of those capacities that have one."""
    given = ((name, fields.get("requestPolicy")) for name, fields in capacities.unchecked.items())
    return {name: _policy(policy) for name, policy in given if policy is not None}


def _policy(fields: PolicyFields) -> RequestPolicy:
    bounds = fields.get("validRange")
    valid_range = None if bounds is None else ValidRange(bounds.get("min"), bounds.get("max"), bounds.get("step"))
    return RequestPolicy(fields.get("default"), tuple(fields.get("validValues") or ()), valid_range)

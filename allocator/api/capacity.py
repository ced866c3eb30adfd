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
from allocator.gates import FRACTIONAL_CAPACITY_RANGE, Features
from allocator.model import RequestPolicy, ValidRange
from cel.values.quantity import MAX_INT64, Quantity

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
            return
        if allowed_range is None:
            _check_values(values, default, value, f"{at}.validValues", findings)
        elif (least := allowed_range.get("min")) is None:
            findings.required(f"{at}.validRange.min")
        else:
            for field, wrong, message in _range_problems(least, allowed_range.get("max"), default, value):
                findings.error(f"{at}.validRange.{field}", wrong.text, message)
        own = _policy(policy)
        # The release is not known here: only what each of them refuses.
        by_rules = [list(policy_problems(own, value, rules)) for rules in EVERY_RULES]
        for field, wrong, message in by_rules[-1] if all(by_rules) else ():
            findings.error(f"{at}.{field}", wrong.text, message)


def _check_values(values: Sequence[Quantity], default: Quantity, most: Quantity, path: str, findings: Findings) -> None:
    check_count(len(values), VALID_VALUES_MAX, path, findings)
    for index, value in enumerate(values):
        if value > most:
            findings.error(f"{path}[{index}]", value.text, f"must not be larger than the capacity's value {most}")
    for index, (before, after) in enumerate(pairwise(values), start=1):
        if before > after:
            findings.error(f"{path}[{index}]", after.text, f"must not be less than the entry before it, {before}")
    if default not in values:
        findings.error(path, default.text, "must contain the default")


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


# What releases disagree on: how amounts are compared that are no whole numbers, and what a step may be.


class PolicyRules(NamedTuple):
    """Those of a release. is_fractional: its gate DRAFractionalCapacityRange is on."""

    are_steps_positive: bool
    is_fractional: bool

    @staticmethod
    def of(features: Features) -> "PolicyRules":
        """Those with these gates."""
        return PolicyRules(features.release.steps_are_positive, features.has(FRACTIONAL_CAPACITY_RANGE))


EVERY_RULES = PolicyRules(False, False), PolicyRules(True, False), PolicyRules(True, True)

_MILLI = 10**6
"""A thousandth, in 10**-9."""


def policy_problems(policy: RequestPolicy, value: Quantity, rules: PolicyRules) -> Iterator[tuple[str, Quantity, str]]:
    """What is wrong with a policy of this capacity by some rules: (field, its amount, message)."""
    amounts = [one if rules.is_fractional else one.ceil_int() for one in policy.valid_values]
    for index, _ in duplicates(amounts):
        rounded = "" if rules.is_fractional else ", rounded up to a whole number"
        yield f"validValues[{index}]", policy.valid_values[index], f"must be unique{rounded}"
    bounds, default = policy.valid_range, policy.default
    if bounds is not None and bounds.minimum is not None and default is not None:
        for field, wrong, message in _bounds_problems(bounds, bounds.minimum, default, value, rules):
            yield f"{'' if field == 'default' else 'validRange.'}{field}", wrong, message


def _bounds_problems(
    bounds: ValidRange, least: Quantity, default: Quantity, value: Quantity, rules: PolicyRules
) -> Iterator[tuple[str, Quantity, str]]:
    named = {"default": default, "min": least, "max": bounds.maximum, "step": bounds.step}
    given = {field: amount for field, amount in named.items() if amount is not None}
    step, is_milli = bounds.step, rules.is_fractional and any(amount.nanos % 10**9 for amount in given.values())
    if is_milli:
        unfit = [field for field, amount in given.items() if amount.nanos % _MILLI or not _fits(amount.nanos // _MILLI)]
        yield from ((field, given[field], "must be a whole number of thousandths") for field in unfit)
        if unfit:
            return
    if step is None:
        return
    if step.sign <= 0 and rules.are_steps_positive:
        yield "step", step, "must be greater than zero"
        return
    if not step.ceil_int():
        # Differs from kube-scheduler: up to 1.36 its validation divides by this.
        yield "step", step, "must not be zero"
        return
    if least + step > value:
        yield "step", step, f"must not exceed the capacity's value {value} when added to min {least}"
    if rules.are_steps_positive and not is_milli:
        beyond = [field for field, amount in given.items() if amount.sign < 0 or not _fits(amount.ceil_int())]
        yield from ((field, given[field], f"must be between 0 and {MAX_INT64}") for field in beyond)
        if beyond:
            return
    size, first = (step.nanos // _MILLI, least.nanos // _MILLI) if is_milli else (step.ceil_int(), least.ceil_int())
    for field in ("default", "max"):
        if (bound := given.get(field)) is not None:
            at = bound.nanos // _MILLI if is_milli else bound.ceil_int()
            if (at - first) % size:
                yield "step", step, f"must divide the distance from min {least} to {field} {bound}"


def _fits(number: int) -> bool:
    return -MAX_INT64 <= number <= MAX_INT64


def build_policies(capacities: Capacities) -> Mapping[str, RequestPolicy]:
    """The request policies of those capacities that have one."""
    given = ((name, fields.get("requestPolicy")) for name, fields in capacities.unchecked.items())
    return {name: _policy(policy) for name, policy in given if policy is not None}


def _policy(fields: PolicyFields) -> RequestPolicy:
    bounds = fields.get("validRange")
    valid_range = None if bounds is None else ValidRange(bounds.get("min"), bounds.get("max"), bounds.get("step"))
    return RequestPolicy(fields.get("default"), tuple(fields.get("validValues") or ()), valid_range)

"""The typing of raw JSON by pydantic-core: objects whose fields have the types of the API, nothing coerced.

Each kind declares its fields as typed dictionaries with optional fields only; what is required is a rule and not a
type, so that one pass names every wrong type and unknown field, and the rules still see all the rest.
Source: https://docs.pydantic.dev/latest/errors/validation_errors/ for the types of errors.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from pydantic_core import ErrorDetails, PydanticCustomError, ValidationError, core_schema

from allocator.api.findings import FieldError, Findings, Location
from allocator.api.names import USUAL_MAX
from allocator.api.schema import CheckedBy, Reader, schema_of
from cel.values.quantity import Quantity

Fields = TypeVar("Fields")

_ABSENT = object()
MOST_ERRORS = 1 << 13
"""Errors of an object that are all reported: several unknown fields in each device of a slice are among them."""

_TRIES = 2  # the second sees what the first has repaired
_REPAIRS: Mapping[str, tuple[str, object]] = {
    "string_type": ("must be a string", ""),
    "string_unicode": ("must be valid Unicode text", ""),
    "int_type": ("must be an integer", 0),
    "greater_than_equal": ("must fit into a signed integer of 64 bits", 0),
    "less_than_equal": ("must fit into a signed integer of 64 bits", 0),
    "bool_type": ("must be true or false", False),
    "list_type": ("must be a list", []),
    "dict_type": ("must be an object", {}),
    "invalid_key": ("the field's name must be a string", _ABSENT),
    "quantity": ("must be a quantity such as 80Gi, 500m or 4", "0"),
    "timestamp": ("must be a time such as 2026-01-31T12:00:00Z", None),
}
"""pydantic's type of an error -> what to say, and the neutral value with which the other rules are tried."""


def counted(text: str) -> Quantity:
    """The amount. Raises ValueError, also for one that has too many digits to be counted with."""
    return _recently_counted(text) if len(text) <= USUAL_MAX else _counted(text)


def _counted(text: str) -> Quantity:
    amount = Quantity.parse(text)
    _ = amount.nanos
    return amount


_recently_counted = lru_cache(maxsize=1 << 14)(_counted)


def _quantity(value: object) -> Quantity:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        with suppress(ValueError):
            return counted(str(value).strip(" \t\r\n"))
    raise PydanticCustomError("quantity", "no quantity")


def _timestamp(text: str) -> str:
    if _RFC3339.fullmatch(text):
        with suppress(ValueError):
            datetime.fromisoformat(text)
            return text
    raise PydanticCustomError("timestamp", "no time")


_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})")

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Int64 = Annotated[int, CheckedBy(core_schema.int_schema(strict=True, ge=INT64_MIN, le=INT64_MAX))]
"""An integer as Go's int64 holds it."""

QuantityField = Annotated[Quantity, CheckedBy(core_schema.no_info_plain_validator_function(_quantity))]
"""A quantity, written as text or as a bare number."""

Timestamp = Annotated[str, CheckedBy(core_schema.no_info_after_validator_function(_timestamp, schema_of(str)))]
"""A point in time, kept as it is written (RFC 3339)."""


def typed(
    reader: Reader[Fields], raw: Mapping[str, object], findings: Findings, most_errors: int = MOST_ERRORS
) -> Fields | None:
    """The object with typed fields, after wrong types and unknown fields are reported and taken out of it.

    `raw` itself stays as it is. None where not even the rest can be typed, or more than `most_errors` are found, of
    which the first are reported. Cost: O(size).
    """
    rest: Mapping[str, object] = raw
    for _ in range(_TRIES):
        try:
            return reader.read(rest)
        except ValidationError as error:
            details = reader.errors(rest, error, most_errors)
            rest = _repaired(rest, details, findings)
            if error.error_count() > most_errors:
                findings.errors.append(FieldError("", None, f"{error.error_count() - len(details):,} more errors"))
                break
    return None


def _repaired(raw: Mapping[str, object], details: Sequence[ErrorDetails], findings: Findings) -> Mapping[str, object]:
    copy = _Repaired(raw)
    for detail in details:
        _report(detail, copy, findings)
    return copy.top


def _report(detail: ErrorDetails, repaired: "_Repaired", findings: Findings) -> None:
    location, kind = detail["loc"], detail["type"]
    if kind == "extra_forbidden":
        findings.unknown_field(location)
        repaired.put(location, _ABSENT)
        return
    if location[-1] == "[key]":
        location, kind = location[:-1], "invalid_key"
    value = None if kind == "invalid_key" else detail["input"]
    message, neutral = _REPAIRS.get(kind, (detail["msg"].lower(), _ABSENT))
    findings.wrong_type(location, value, message)
    repaired.put(location, neutral)


class _Repaired:
    """A copy of a JSON object that shares with it all that is not changed."""

    def __init__(self, raw: Mapping[str, object]) -> None:
        self.top = dict(raw)
        self._owned: dict[Location, Any] = {(): self.top}

    def put(self, location: Location, value: object) -> None:
        """Set the value at the location, or remove what is there where the value is _ABSENT."""
        holder = self._own(location[:-1])
        key = _key(holder, location[-1])
        if key is _ABSENT:
            return
        if value is not _ABSENT:
            holder[key] = value
        elif isinstance(holder, dict):
            del holder[key]

    def _own(self, location: Location) -> Any:
        """The container at the location, copied on the first change (any JSON container: its type is not known)."""
        if location not in self._owned:
            holder = self._own(location[:-1])
            key = _key(holder, location[-1])
            self._owned[location] = {} if key is _ABSENT else holder[key].copy()
            if key is not _ABSENT:
                holder[key] = self._owned[location]
        return self._owned[location]


def _key(holder: Any, step: str | int) -> Any:
    """The key that pydantic writes as `step`: YAML has keys that are no strings."""
    if isinstance(holder, list) or step in holder:
        return step
    return next((key for key in holder if str(key) == str(step)), _ABSENT)

"""What fields a kind has, read off its models, where a misplaced field belongs, and the typing of raw JSON.

The typing is pydantic-core's: objects whose fields have the types of the API, nothing coerced. Each kind declares its
fields as typed dictionaries with optional fields only; what is required is a rule and not a type, so that one pass
names every wrong type and unknown field, and the rules still see all the rest.
Source: https://docs.pydantic.dev/latest/errors/validation_errors/ for the types of errors.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Generic, LiteralString, TypeVar, Union, get_args, get_origin

from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, SchemaValidator, ValidationError, core_schema
from typing_extensions import is_typeddict

from allocator.api.findings import FieldError, Findings, Location
from allocator.api.names import USUAL_MAX
from allocator.words import did_you_mean
from cel.values.quantity import Quantity

# From the annotations of a type to the schema that pydantic-core checks by.
#
# pydantic derives the same schemas from all that Python's types can say, which takes 10 ms for a large type, after 60
# ms for its import: more than all else that `dra` does on a small input. The types here need five kinds of types.
# Source: https://docs.pydantic.dev/latest/api/pydantic_core_schema/


Fields = TypeVar("Fields")

_PLAIN: Mapping[object, CoreSchema] = {
    str: core_schema.str_schema(strict=True),
    int: core_schema.int_schema(strict=True),
    bool: core_schema.bool_schema(strict=True),
    object: core_schema.any_schema(),
}


class CheckedBy:
    """In `Annotated`: the schema of a type that has rules of its own."""

    def __init__(self, schema: CoreSchema) -> None:
        self.schema = schema


class Reader(Generic[Fields]):
    """Checks raw objects against a type. Its validator is built when it is needed first."""

    def __init__(self, type_: type[Fields]) -> None:
        self.type = type_

    def read(self, raw: object) -> Fields:
        """The object with typed fields. Raises pydantic_core.ValidationError. Cost: O(size)."""
        typed: Fields = self._validator.validate_python(raw)
        return typed

    def errors(self, raw: object, error: ValidationError, most: int) -> list[ErrorDetails]:
        """What is wrong with the object, of which `error` was raised.

        If that is more than `most`, only the first of each list and map: each takes a kilobyte.
        """
        if error.error_count() > most:
            try:
                self._brief_validator.validate_python(raw)
            except ValidationError as brief:
                error = brief
        return error.errors(include_url=False)[:most]

    @cached_property
    def _validator(self) -> SchemaValidator:
        return SchemaValidator(schema_of(self.type))

    @cached_property
    def _brief_validator(self) -> SchemaValidator:
        return SchemaValidator(_brief(schema_of(self.type)))


def _brief(schema: Any) -> Any:
    """The schema, by which a list or map is read no further than to its first error."""
    inner = {name: _brief(one) for name, one in schema.items() if name in _INNER}
    if isinstance(fields := schema.get("fields"), dict):
        inner["fields"] = {name: _brief(field) for name, field in fields.items()}
    return {**schema, **inner, **({"fail_fast": True} if schema["type"] in {"list", "dict"} else {})}


_INNER = frozenset({"schema", "items_schema", "keys_schema", "values_schema"})


def schema_of(annotation: Any) -> CoreSchema:
    """The schema of a type, or of what annotates a field."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        checked: CheckedBy = inner[1]
        return checked.schema
    if origin in (Union, UnionType):
        (other,) = (one for one in inner if one is not NoneType)
        return core_schema.nullable_schema(schema_of(other))
    if origin is list:
        return core_schema.list_schema(schema_of(inner[0]), strict=True)
    if origin is dict:
        return core_schema.dict_schema(schema_of(inner[0]), schema_of(inner[1]), strict=True)
    return _typed_dict(annotation) if is_typeddict(annotation) else _class(annotation)


def _typed_dict(type_: Any) -> CoreSchema:
    """A dictionary with these fields at most."""
    fields = type_.__annotations__.items()
    optional = {name: core_schema.typed_dict_field(schema_of(one), required=False) for name, one in fields}
    return core_schema.typed_dict_schema(optional, extra_behavior="forbid", strict=True)


def _class(type_: Any) -> CoreSchema:
    """An object with these attributes, of which those with a value in the class may be absent; others are not read."""
    annotations = {name: one for base in reversed(type_.__mro__) for name, one in _annotations(base).items()}
    fields = {name: core_schema.model_field(_attribute(type_, name, one)) for name, one in annotations.items()}
    return core_schema.model_schema(type_, core_schema.model_fields_schema(fields, extra_behavior="ignore"))


def _annotations(type_: type) -> Mapping[str, Any]:
    """What a class annotates itself; `reader`, which all have, is not."""
    own = vars(type_).get("__annotations__", {})
    return {name: one for name, one in own.items() if get_origin(one) is not ClassVar}


def _attribute(type_: Any, name: str, annotation: Any) -> CoreSchema:
    schema = schema_of(annotation)
    return core_schema.with_default_schema(schema, default=getattr(type_, name)) if hasattr(type_, name) else schema


# Where an unknown field belongs: elsewhere in the object, or under a name that is like it.


Steps = tuple[str, ...]
"""A path without positions and keys: `requests[]` is an entry of requests."""

_IN_BRACKETS = re.compile(r"\[[^\]]*\]")
_FARTHEST = 3
_OF_EVERYTHING = frozenset({"name", "key", "value"})
"""Names that say nothing about where they belong."""


def advice_on_place(path: str, type_: object) -> str:
    """Where the unknown field at the path belongs, in words; empty where nothing is like it. type_: of the object."""
    *holder, name = _IN_BRACKETS.sub("[]", path).split(".")
    places = _places(type_)
    parent = tuple(holder)
    meant = did_you_mean(name, [one for one, found in places.items() if parent in found])
    near = None if name in _OF_EVERYTHING else _nearest(parent, places.get(name, ()))
    return f"it belongs in {_shown(near, parent)}{meant}" if near else meant.removeprefix("; ")


def _nearest(parent: Steps, found: Sequence[Steps]) -> Steps | None:
    """The nearest of the places, the first of equally near ones; None if all are far away."""
    near = min(found, key=lambda place: _distance(parent, place), default=None)
    return near if near is not None and _distance(parent, near) <= _FARTHEST else None


def _distance(one: Steps, other: Steps) -> int:
    return len(one) + len(other) - 2 * _shared(one, other)


def _shared(one: Steps, other: Steps) -> int:
    """How many steps both begin with."""
    for number, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return number
    return min(len(one), len(other))


def _shown(place: Steps, parent: Steps) -> str:
    """The place as it is seen from the parent, if it is below."""
    is_below = place[: len(parent)] == parent
    return ".".join(place[len(parent) :] if is_below else place).removesuffix("[]")


@lru_cache(maxsize=64)
def _places(type_: Any) -> Mapping[str, list[Steps]]:
    """The objects that have a field, by its name, in the order of the type."""
    places: dict[str, list[Steps]] = {}
    for name, holder in _fields(type_, ()):
        places.setdefault(name, []).append(holder)
    return places


def _fields(annotation: Any, holder: Steps) -> Iterator[tuple[str, Steps]]:
    """Each field with the object that has it."""
    if not is_typeddict(annotation):
        return
    fields = annotation.__annotations__
    yield from ((name, holder) for name in fields)
    for name, inner in fields.items():
        of_entry, step = _entry(inner, name)
        yield from _fields(of_entry, (*holder, step))


def _entry(annotation: Any, step: str) -> tuple[Any, str]:
    """The type of what a field holds, or of its entries, and the step to it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        (other,) = (one for one in inner if one is not NoneType)
        return _entry(other, step)
    if origin in (list, dict):
        return _entry(inner[-1], f"{step}[]")
    return annotation, step


_ABSENT = object()
MOST_ERRORS = 1 << 13
"""Errors of an object that are all reported: several unknown fields in each device of a slice are among them."""

_NO_TIME: LiteralString = "must be a time such as 2026-01-31T12:00:00Z"

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
    "timestamp": (_NO_TIME, None),
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
        with suppress(ValueError, OverflowError):
            datetime.fromisoformat(text).astimezone(UTC)  # of a year from 1 to 9999 there as well
            return text
    raise PydanticCustomError("timestamp", _NO_TIME)


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

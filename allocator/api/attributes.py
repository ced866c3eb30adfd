"""Attributes of a device, in one step where nothing about them is unusual.

A fleet has ten million of them. So the usual ones, one value of a plain type under a valid name, are recognised,
checked and shared by one look into a cache; as soon as one of a device's attributes is not of that kind, all of them
are typed and later checked like everything else, which finds the words for what is wrong.
Source: k8s.io/api resource/v1 DeviceAttribute and its validation.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic_core import core_schema
from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.field_types import INT64_MAX, INT64_MIN, Int64
from allocator.api.findings import Findings, step_text
from allocator.api.schema import CheckedBy, schema_of
from allocator.model import Attribute

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

_Kind = Literal["ints", "bools", "strings", "versions", "int", "bool", "string", "version"]
_PRECEDENCE: tuple[_Kind, ...] = ("ints", "bools", "strings", "versions", "int", "bool", "string", "version")
_LISTS = frozenset(_PRECEDENCE[:4])
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
    """The value; of several, which only unchecked objects have, the one that the reference looks at first."""
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

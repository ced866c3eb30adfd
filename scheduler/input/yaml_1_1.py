"""YAML as kubectl reads it, from the events of libyaml's parser.

The C parser is fast and never recurses; its composer does, and crashes on deeply nested input, so values are built here
with an explicit stack. YAML 1.1 booleans, numbers in Go's notation; no timestamps and no numbers with colons; keys
become strings. Stricter than kubectl in one point: duplicate keys in a mapping are an error, where kubectl silently
takes the last one.
Source: https://yaml.org/spec/1.1, and sigs.k8s.io/yaml, with which kubectl reads manifests.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from allocator.api.findings import shown, step_text

MAX_DEPTH = 200
"""Levels of nesting. No object comes near, and what is read can be written again: JSON is written to 254 levels."""

MAX_VALUES = 400_000
"""Values that aliases may add to those that a document's text has; kubectl stops there too."""

_WORDS: Mapping[str, object] = MappingProxyType(
    dict.fromkeys(("~", "null", "Null", "NULL", ""))
    | dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True)
    | dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False)
)
_NUMERIC = frozenset("+-.0123456789")
_INTEGER = re.compile(r"([-+]?)(?:0[bB]([01]+)|0[oO]?([0-7]+)|0[xX]([0-9a-fA-F]+)|(0|[1-9][0-9]*))|0b([-+][01]+)")
_BASES = (2, 8, 16, 10, 2)
_MIN_INTEGER, _MAX_INTEGER, _MAX_UNSIGNED = -(2**63), 2**63 - 1, 2**64 - 1
_MAX_DIGITS = 20
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_FRACTION = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TAGS = "tag:yaml.org,2002:"
_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {"int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),)}
)
_MERGE = object()


class InvalidYAML(ValueError):
    """Text that is not YAML, or not what an object can be written in. Line and column count from 1."""

    def __init__(self, problem: str, mark: Any) -> None:
        self.problem = problem
        self.line = mark.line + 1 if mark else 0
        super().__init__(f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem)


def documents(text: str) -> Iterator[tuple[int, object]]:
    """The documents of a text, one after the other, each after its first line. Raises InvalidYAML. Cost: O(size)."""
    try:
        builder, line = _Builder(), 0
        for event in yaml.parse(text, Loader=yaml.CLoader):
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                line = line or _line(event)
                handler(builder, event)
            elif isinstance(event, DocumentEndEvent):
                yield line, builder.finish(event.start_mark)
                builder, line = _Builder(), 0
    except yaml.MarkedYAMLError as error:
        raise InvalidYAML(error.problem or str(error.context), error.problem_mark or error.context_mark) from error
    except yaml.YAMLError as error:
        raise InvalidYAML(str(error).replace("\n", " "), None) from error


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


class _Builder:
    """The values of one document. The stack holds what is open, each with the key that waits for its value."""

    def __init__(self) -> None:
        self.root: object = None
        self._count = 0
        self._stack: list[tuple[Any, list[object]]] = []
        self._pending: list[object] = []
        self._merged: dict[int, set[str]] = {}
        self._anchors: dict[str, object] = {}
        self._heights: dict[str, int] = {}
        self._open: set[int] = set()
        self._aliased = False

    def finish(self, mark: Any) -> object:
        """The document's value."""
        if self._aliased and _size(self.root, {}) - self._count > MAX_VALUES:
            raise InvalidYAML(f"its aliases expand to more than {MAX_VALUES} values", mark)
        return self.root

    def scalar(self, event: Any) -> None:
        """A value of no parts."""
        value: object = event.value
        if event.tag is not None:
            value = _tagged(event)
        elif event.implicit[0]:
            value = plain(event.value)
            if value is None and event.value not in _WORDS:
                raise InvalidYAML(f"{event.value} is not a finite number", event.start_mark)
        if event.anchor is not None:
            self._anchor(event.anchor, value)
        self._add(_MERGE if event.value == "<<" and self._takes_key() and _is_merge(event) else value, event)

    def alias(self, event: Any) -> None:
        """A value that stands elsewhere in the document."""
        name = step_text(event.anchor)
        if event.anchor not in self._anchors:
            raise InvalidYAML(f"unknown alias *{name}", event.start_mark)
        value = self._anchors[event.anchor]
        if id(value) in self._open:
            raise InvalidYAML(f"the alias *{name} is used inside its own anchor", event.start_mark)
        if event.anchor not in self._heights:
            self._heights[event.anchor] = _height(value, {})
        if len(self._stack) + self._heights[event.anchor] > MAX_DEPTH:
            raise InvalidYAML(f"the alias *{name} causes more than {MAX_DEPTH} levels of nesting", event.start_mark)
        self._aliased = True
        self._add(value, event)

    def start(self, event: Any) -> None:
        """A mapping or a sequence begins."""
        if len(self._stack) == MAX_DEPTH:
            raise InvalidYAML(f"more than {MAX_DEPTH} levels of nesting", event.start_mark)
        if self._takes_key():
            raise InvalidYAML("a key must be a scalar", event.start_mark)
        value: object = {} if isinstance(event, MappingStartEvent) else []
        if event.anchor is not None:
            self._anchor(event.anchor, value)
        self._open.add(id(value))
        self._stack.append((value, self._pending))
        self._pending = []

    def end(self, event: Any) -> None:
        """What was begun last ends, and is a value of what is around it."""
        value, pending = self._stack.pop()
        self._open.discard(id(value))
        self._merged.pop(id(value), None)
        self._pending = pending
        self._add(value, event)

    def _takes_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1][0], dict) and not self._pending

    def _anchor(self, name: str, value: object) -> None:
        self._anchors[name] = value
        self._heights.pop(name, None)

    def _add(self, value: object, event: Any) -> None:
        self._count += 1
        container = self._stack[-1][0] if self._stack else None
        if type(container) is dict and not self._pending:
            self._pending.append(value if value is _MERGE else self._key(value, event.start_mark))
            return
        if type(value) is float:
            value = as_json(value)
        if container is None:
            self.root = value
        elif type(container) is list:
            container.append(value)
        elif (key := self._pending.pop()) is _MERGE:
            self._merge(container, value, event.start_mark)
        else:
            container[key] = value

    def _key(self, value: object, mark: Any) -> str:
        """The key that the value is; one that was merged in may come once again, and goes before."""
        container, key = self._stack[-1][0], value if type(value) is str else _key_text(value, mark)
        if key in container:
            merged = self._merged.get(id(container), set())
            if key not in merged:
                raise InvalidYAML(f"the key '{step_text(key)}' appears twice in one mapping", mark)
            merged.discard(key)
        return key

    def _merge(self, container: dict[str, object], value: object, mark: Any) -> None:
        """The merged keys replace those that stand before, and give way to those that follow."""
        merged = self._merged.setdefault(id(container), set())
        for source in reversed(value) if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise InvalidYAML("only mappings can be merged", mark)
            merged.update(source.keys() - container.keys())
            container.update(source)
        self._aliased = True


def _is_merge(event: Any) -> bool:
    return bool(event.implicit[0]) if event.tag is None else event.tag == f"{_TAGS}merge"


def plain(text: str) -> object:
    """The value of an unquoted scalar: null, boolean, integer, float, or text; None too for what is not finite.

    Integers beyond 64 bits are floats, or text where their base is not 10, as for kubectl.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC:
        return text
    if _NOT_FINITE.fullmatch(text):
        return None
    if text[0] == ".":
        return _float(text) if _FRACTION.fullmatch(text) else text
    digits = text.replace("_", "")
    if (match := _INTEGER.fullmatch(digits)) and (number := _integer(match)) is not None:
        return number
    return _float(text) if _FLOAT.fullmatch(digits) else text


def _float(text: str) -> float | str:
    """The number, or the text where the number is too large."""
    value = float(text.replace("_", ""))
    return value if math.isfinite(value) else text


def _integer(match: re.Match[str]) -> int | None:
    """The integer, None where it has more than 64 bits."""
    sign, *groups = match.groups()
    digits, base = next((found, base) for found, base in zip(groups, _BASES, strict=True) if found is not None)
    if base == 10 and len(digits) > _MAX_DIGITS:
        return None
    number = int(f"{sign or ''}{digits}", base)
    return number if _MIN_INTEGER <= number <= (_MAX_INTEGER if sign else _MAX_UNSIGNED) else None


def as_json(value: float) -> int | float:
    """The number after it went through JSON, as with kubectl: a float without a fraction is an integer."""
    return int(value) if value.is_integer() and _MIN_INTEGER <= value < _MAX_INTEGER else value


def _tagged(event: Any) -> object:
    """The value of a scalar with a tag; a tag that is not one of YAML's own makes it text."""
    kind, text = event.tag.removeprefix(_TAGS), event.value
    if kind == "binary":
        value: object = _decoded(text)
        fits = value is not None
    elif kind in _TYPES:
        value = plain(text)
        fits = isinstance(value, _TYPES[kind]) and (kind == "bool" or not isinstance(value, bool))
        fits = fits and (value is not None or text in _WORDS)
    else:
        return text
    if not fits:
        raise InvalidYAML(f"the tag !!{kind} does not fit {shown(text)}", event.start_mark)
    return value


def _decoded(text: str) -> str | None:
    """The text that base64 stands for, None where it is no base64; bytes that are no text are replaced."""
    try:
        return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _key_text(value: object, mark: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _float_key(value)
    if isinstance(value, str) or (isinstance(value, int) and value <= _MAX_INTEGER):
        return str(value)
    raise InvalidYAML("a key must not be null" if value is None else "a key must be a scalar of 64 bits", mark)


def _float_key(value: float) -> str:
    """A float as a key: as many digits as 32 bits need, with an exponent from a million on, as kubectl writes it."""
    try:
        single = struct.pack("<f", value)
    except OverflowError:
        return "-.inf" if value < 0 else ".inf"
    (value,) = struct.unpack("<f", single)
    digits = next(n for n in range(1, 10) if struct.pack("<f", float(f"{value:.{n - 1}e}")) == single)
    text = f"{value:.{digits - 1}e}"
    has_exponent = not -4 <= int(text.partition("e")[2]) < 6
    return text if has_exponent else f"{value:.{max(digits, 6)}g}"


def _height(value: object, known: dict[int, int]) -> int:
    """Levels of nesting; each shared part is looked at once."""
    if not isinstance(value, dict | list):
        return 0
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + max((_height(item, known) for item in inner), default=0)
    return known[id(value)]


def _size(value: object, known: dict[int, int]) -> int:
    """How many values there are when every alias is written out; each shared part is counted once and remembered."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(item, known) for item in inner)
    return known[id(value)]


_HANDLERS: Mapping[type, Any] = MappingProxyType(
    {
        ScalarEvent: _Builder.scalar,
        AliasEvent: _Builder.alias,
        MappingStartEvent: _Builder.start,
        SequenceStartEvent: _Builder.start,
        MappingEndEvent: _Builder.end,
        SequenceEndEvent: _Builder.end,
    }
)


# Writes YAML, quoted so that kubectl reads back the same values.


class _Dumper(yaml.CSafeDumper):
    """Plain block style: no anchors, keys in their order."""

    def ignore_aliases(self, data: object) -> bool:
        """An object that is used twice is written twice."""
        return True


def _text(dumper: Any, value: str) -> Any:
    is_text = isinstance(plain(value), str) if value else False
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if is_text else '"')


def _mapping(dumper: Any, value: Mapping[str, object]) -> Any:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=False)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _mapping)


def dump(value: object) -> str:
    """The value as one YAML document, with what would steer a terminal written out."""
    text = _dumped(value, allow_unicode=True)
    return text if text.replace("\n", "").isprintable() else _dumped(value, allow_unicode=False)


def _dumped(value: object, *, allow_unicode: bool) -> str:
    return yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=1_000_000, allow_unicode=allow_unicode
    )

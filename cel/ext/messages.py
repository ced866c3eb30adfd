"""The messages of all environments: the well-known types of protocol buffers.

A message is an ordinary value: `google.protobuf.Int64Value{value: 1}` is 1, a Struct is a map of JSON values.
Source: the protocol buffers' well-known types; common/types/provider.go of github.com/google/cel-go.
"""

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final

from cel.errors import EvalError
from cel.ext.url import Url
from cel.run.calls import fits
from cel.stack import on_own_stack
from cel.values import moments, types
from cel.values.types import BOOL, BYTES, DOUBLE, DYN, INT, STRING, UINT, Type, list_of, map_of, nullable
from cel.values.values import Duration, List, Map, Optional, TextMap, Timestamp, Uint, Value, register, type_of

_FLOAT32: Final = Struct("f")
_MAX_INT32: Final = 2**31 - 1
_MAX_UINT32: Final = 2**32 - 1
_YEAR_ONE: Final = 62_135_596_800  # seconds before 1970
_LARGEST_JSON_INT: Final = 2**53 - 1

_WRITTEN: Final = frozenset(type_.name for type_ in (types.CIDR, types.IP, types.QUANTITY, types.SEMVER, types.URL))

_FILLED_ONE_BY_ONE: Final = frozenset({"fields", "values"})  # of Struct and ListValue
EMPTY: Final = types.struct("google.protobuf.Empty")


@dataclass(frozen=True, slots=True)
class EmptyMessage:
    """The value of google.protobuf.Empty."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that can be constructed. result: its static type. make: its value, from the fields that are set."""

    name: str
    fields: Mapping[str, Type]
    result: Type
    make: Callable[[Mapping[str, Value]], Value]

    def conversion(self, field: str) -> Callable[[Value], Value]:
        """The conversion of the value of a field; raises EvalError.

        Kubernetes' own types become text, and optionals are unwrapped.
        """
        type_ = self.fields[field]
        is_fit = fits(type_)
        is_whole = field not in _FILLED_ONE_BY_ONE

        def convert(value: Value) -> Value:
            while is_whole and isinstance(value, Optional) and value.is_present:
                value = value.value
            if is_fit is None or is_fit(value):
                return value
            name = type_of(value).name
            if type_ is STRING and name in _WRITTEN:
                return value.written if isinstance(value, Url) else str(value)
            raise EvalError(f"field type conversion error for {self.name}.{field}: type conversion error from '{name}'")

        return convert


def _wrapper(name: str, type_: Type, zero: Value, least: int | None = None, most: int | None = None) -> Message:
    """A scalar in a message; for the 32-bit ones with the range that it can hold."""

    def make(fields: Mapping[str, Value]) -> Value:
        value = fields.get("value", zero)
        if least is not None and most is not None:
            assert isinstance(value, int)
            _checked(name, "value", value, least, most)
        return value

    return Message(f"google.protobuf.{name}", {"value": type_}, nullable(type_), make)


def _checked(message: str, field: str, value: int, least: int, most: int) -> int:
    if least <= value <= most:
        return value
    raise EvalError(f"field type conversion error for google.protobuf.{message}.{field} value type: integer overflow")


def _float(fields: Mapping[str, Value]) -> Value:
    """The nearest number of 32 bits; beyond the greatest one it is infinite."""
    value = fields.get("value", 0.0)
    assert isinstance(value, float)
    try:
        (rounded,) = _FLOAT32.unpack(_FLOAT32.pack(value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(rounded)


def _span_nanos(message: str, fields: Mapping[str, Value]) -> int:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    assert isinstance(seconds, int)
    assert isinstance(nanos, int)
    return seconds * moments.SECOND + _checked(message, "nanos", nanos, -_MAX_INT32 - 1, _MAX_INT32)


def _duration(fields: Mapping[str, Value]) -> Value:
    nanos = _span_nanos("Duration", fields)
    return Duration(max(-(2**63), min(nanos, 2**63 - 1)))


def _timestamp(fields: Mapping[str, Value]) -> Value:
    seconds, nanos = divmod(_span_nanos("Timestamp", fields), moments.SECOND)
    # The reference counts from the year 1 in int64, and lets that wrap around.
    counted = (seconds + _YEAR_ONE + 2**63) % 2**64 - 2**63
    return Timestamp((counted - _YEAR_ONE) * moments.SECOND + nanos)


def _struct(fields: Mapping[str, Value]) -> Value:
    entries = fields.get("fields", Map())
    assert isinstance(entries, Map)
    return _json_map(entries)


def _list_value(fields: Mapping[str, Value]) -> Value:
    values = fields.get("values", List())
    assert isinstance(values, List)
    return List([_json(value) for value in values])


def _json_value(fields: Mapping[str, Value]) -> Value:
    """The field that was set last; null if none was, or the one that stands for it, whatever its number."""
    number = fields.get("null_value", 0)
    assert isinstance(number, int)
    _checked("Value", "null_value", number, -_MAX_INT32 - 1, _MAX_INT32)
    last = ["null_value", *fields][-1]
    return None if last == "null_value" else _json(fields[last])


def _json(value: Value) -> Value:
    """A value as it comes back from JSON: numbers are doubles, what JSON doesn't have is a string."""
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return float(value) if abs(value) <= _LARGEST_JSON_INT else str(int(value))
    if isinstance(value, List | Map):
        try:
            return _json_map(value) if isinstance(value, Map) else List([_json(item) for item in value])
        except RecursionError:  # as for their equality
            return on_own_stack(_json, value)
    if isinstance(value, Optional) and value.is_present:
        return _json(value.value)
    return _json_text(value)


def _json_text(value: Value) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return moments.text_of_timestamp(value)
    if isinstance(value, Duration):
        return moments.text_of_duration(value)
    raise EvalError("unsupported conversion to google.protobuf.Value")


def _json_map(entries: Map) -> Map:
    pairs = []
    for key, value in entries.items():
        if not isinstance(key, str | int):
            raise EvalError("unsupported type of a key in google.protobuf.Struct")
        pairs.append((key if isinstance(key, str) else _json_key(key), _json(value)))
    return TextMap(pairs)


def _json_key(key: int) -> str:
    return str(key).lower() if isinstance(key, bool) else str(int(key))


def _empty(_: Mapping[str, Value]) -> Value:
    return EmptyMessage()


def _unsupported(message: str, _: Mapping[str, Value]) -> Value:
    raise EvalError(f"unsupported conversion to a value: {message}")


register(EmptyMessage, EMPTY, equal=lambda left, right: type(left) is type(right))

_JSON_MAP: Final = map_of(STRING, DYN)
_JSON_LIST: Final = list_of(DYN)
_SPAN: Final = {"seconds": INT, "nanos": INT}
_VALUE_FIELDS: Final = {
    "null_value": INT,
    "number_value": DOUBLE,
    "string_value": STRING,
    "bool_value": BOOL,
    "struct_value": _JSON_MAP,
    "list_value": _JSON_LIST,
}
_ALL: Final = (
    _wrapper("BoolValue", BOOL, zero=False),
    _wrapper("BytesValue", BYTES, zero=b""),
    _wrapper("DoubleValue", DOUBLE, zero=0.0),
    Message("google.protobuf.FloatValue", {"value": DOUBLE}, nullable(DOUBLE), _float),
    _wrapper("Int32Value", INT, zero=0, least=-_MAX_INT32 - 1, most=_MAX_INT32),
    _wrapper("Int64Value", INT, zero=0),
    _wrapper("StringValue", STRING, zero=""),
    _wrapper("UInt32Value", UINT, zero=Uint(0), least=0, most=_MAX_UINT32),
    _wrapper("UInt64Value", UINT, zero=Uint(0)),
    Message("google.protobuf.Duration", _SPAN, types.DURATION, _duration),
    Message("google.protobuf.Timestamp", _SPAN, types.TIMESTAMP, _timestamp),
    Message("google.protobuf.Struct", {"fields": _JSON_MAP}, _JSON_MAP, _struct),
    Message("google.protobuf.ListValue", {"values": _JSON_LIST}, _JSON_LIST, _list_value),
    Message("google.protobuf.Value", _VALUE_FIELDS, DYN, _json_value),
    Message("google.protobuf.Empty", {}, EMPTY, _empty),
    Message(
        "google.protobuf.Any",
        {"type_url": STRING, "value": BYTES},
        types.ANY,
        partial(_unsupported, "google.protobuf.Any"),
    ),
)
MESSAGES: Final[Mapping[str, Message]] = {message.name: message for message in _ALL}
NAMED: Final = (EMPTY,)  # the messages whose names are also values, of kind type
CONSTANTS: Final[Mapping[str, Value]] = {"google.protobuf.NullValue.NULL_VALUE": 0}


def unknown(name: str, fields: Mapping[str, Type]) -> Message:
    """A type with fields that expressions cannot construct: it is an error of evaluation."""

    def make(_: Mapping[str, Value]) -> Value:
        raise EvalError(f"unknown type '{name}'")

    return Message(name, fields, types.struct(name), make)

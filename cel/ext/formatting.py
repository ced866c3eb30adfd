"""CEL's `format`, in the older of its two versions: what `%s`, `%d`, `%f`, `%e`, `%b`, `%x`, `%X` and `%o` print.

If the arguments are a literal list, their types are checked when the expression is compiled (`misfit`).
The number after `%.` is a precision for `%f`, but a width for `%e`, which always prints six places; both wrap around.
Source: github.com/google/cel-go/ext/formatting.go, and golang.org/x/text/message for `%f` and `%e`.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final, NamedTuple

from cel.check.overloads import Library, Overload
from cel.errors import EvalError
from cel.ext.declare import scan, scan_estimate, scan_estimate_since_1_38
from cel.syntax.ast import Expr, ListExpr, MapExpr
from cel.values import moments, numbers
from cel.values.types import DYN, STRING, Kind, Type, list_of
from cel.values.values import Duration, List, Map, Timestamp, Uint, Value, bounded, quoted, type_of, weight_of

_HEAVIEST: Final = 2**18  # of what one call prints: it takes four times as long for a part as any other call
_PLACES: Final = 6  # where the format does not say
_MOST_PLACES: Final = 1074  # no double has more
_LARGEST_NUMBER: Final = 10_000_009  # in a format; beyond, Go reads no verb

_CLAUSE: Final = re.compile(r"%(?:(?P<percent>%)|(?:\.(?P<number>[0-9]*+))?+(?P<verb>.)?)", re.DOTALL)
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class Clause(NamedTuple):
    """One `%` of a format. verb: its letter. number: what follows `%.`, None without that."""

    verb: str
    number: int | None


def parse(text: str) -> Iterator[str | Clause]:
    """The texts and clauses of a format, in order; raises ValueError on reaching a malformed clause."""
    end = 0
    for match in _CLAUSE.finditer(text):
        yield text[end : match.start()]
        end = match.end()
        yield "%" if match["percent"] else _clause(match["number"], match["verb"])
    yield text[end:]


def _clause(number: str | None, verb: str | None) -> Clause:
    if verb is None:
        raise ValueError("unexpected end of string" if number is None else "could not find end of precision specifier")
    value = None if number is None else _number(number)
    if verb not in _PRINTERS:
        raise ValueError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return Clause(verb, value)


def _number(digits: str) -> int:
    significant = digits.lstrip("0")
    if not digits or len(significant) > 19 or int(significant or "0") > 2**63 - 1:
        raise ValueError(f'could not parse formatting clause: strconv.Atoi: parsing "{digits[:64]}": no such number')
    return int(significant or "0")


def _format(text: str, arguments: List) -> str:
    try:
        return "".join(_printed(text, arguments))
    except ValueError as error:
        raise EvalError(str(error)) from None


def _printed(text: str, arguments: List) -> Iterator[str]:
    used, weight = 0, 0
    for part in parse(text):
        if isinstance(part, str):
            yield part
            continue
        if used == len(arguments):
            raise ValueError(f"index {used} out of range")
        weight = bounded(weight + weight_of(arguments[used]), _HEAVIEST)  # one list may be printed many times over
        yield _PRINTERS[part.verb](arguments[used], part.number)
        used += 1


def _wrong(what: str, value: Value) -> ValueError:
    return ValueError(f"error during formatting: {what}, was given {type_of(value).name}")


def _string(value: Value, _: int | None = None) -> str:
    if isinstance(value, List | Map):
        return _literal(value)
    convert = _CONVERSIONS.get(type(value))
    if convert is None:
        raise _wrong(_EXPECTED["s"], value)
    return convert(value)


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError("error during formatting: invalid UTF-8 in bytes, cannot convert to string") from None


_CONVERSIONS: Final[Mapping[type, Callable[..., str]]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    Uint: numbers.text_of_uint,
    float: numbers.text_of_double,
    str: str,
    bytes: _text_of_bytes,
    type(None): lambda _: "null",
    Timestamp: moments.text_of_timestamp,
    Duration: moments.text_of_duration,
    Type: lambda value: value.name,
}


class _Done(NamedTuple):
    text: str


def _literal(value: Value) -> str:
    """A value as it would be written in an expression; without recursion, since nothing bounds its depth."""
    printed: list[str] = []
    pending: list[Value] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, _Done):
            printed.append(item.text)
        elif isinstance(item, List):
            pending.extend(reversed(_list_texts(item)))
        elif isinstance(item, Map):
            pending.extend(reversed(_map_texts(item)))
        else:
            printed.append(_scalar_literal(item))
    return "".join(printed)


def _list_texts(items: List) -> list[Value]:
    texts: list[Value] = [_Done("[")]
    for index, item in enumerate(items):
        texts.extend((_Done(", "), item) if index else (item,))
    return [*texts, _Done("]")]


def _map_texts(map_: Map) -> list[Value]:
    texts: list[Value] = [_Done("{")]
    pairs = sorted(((_key_literal(key), value) for key, value in map_.items()), key=itemgetter(0))
    for index, (key, value) in enumerate(pairs):
        texts.extend((_Done(f"{', ' if index else ''}{key}:"), value))
    return [*texts, _Done("}")]


def _key_literal(key: Value) -> str:
    if not isinstance(key, str | int):
        raise _wrong("no formatting function for map key", key)
    return _scalar_literal(key)


def _scalar_literal(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.{_PLACES}f}" if math.isfinite(value) else f'"{numbers.text_of_double(value)}"'
    if isinstance(value, Timestamp | Duration):
        return f"{'timestamp' if isinstance(value, Timestamp) else 'duration'}({quoted(_string(value))})"
    if isinstance(value, str | bytes):
        return ("b" if isinstance(value, bytes) else "") + quoted(_string(value))
    if type(value) not in _CONVERSIONS:
        raise _wrong("no formatting function", value)
    return _string(value)


def _decimal(value: Value, _: int | None) -> str:
    if not _is_integer(value):
        raise _wrong(_EXPECTED["d"], value)
    return f"{value:d}"


def _is_integer(value: Value) -> bool:
    return type(value) is int or type(value) is Uint


def _octal(value: Value, _: int | None) -> str:
    if not _is_integer(value):
        raise _wrong(_EXPECTED["o"], value)
    return f"{value:o}"


def _binary(value: Value, _: int | None) -> str:
    if not _is_integer(value) and not isinstance(value, bool):
        raise _wrong(_EXPECTED["b"], value)
    return f"{value:b}"


def _hexadecimal(value: Value, _: int | None) -> str:
    if isinstance(value, str | bytes):
        return (value.encode() if isinstance(value, str) else value).hex()
    if not _is_integer(value):
        raise _wrong(_EXPECTED["x"], value)
    return f"{value:x}"


def _upper_hexadecimal(value: Value, number: int | None) -> str:
    return _hexadecimal(value, number).upper()


def _double(verb: str, value: Value) -> float:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if not isinstance(value, float):
        raise _wrong(_EXPECTED[verb], value)
    return value


def _fixed(value: Value, number: int | None) -> str:
    """All places of the double, but zeros at their end only up to the number modulo 256; groups of three digits."""
    double = _double("f", value)
    places = _PLACES if number is None else number
    if places > _LARGEST_NUMBER:
        return "%!(NOVERB)"
    if not math.isfinite(double):
        return _not_finite(double)
    whole, _, fraction = f"{abs(double):.{min(places, _MOST_PLACES)}f}".partition(".")
    fraction = fraction.rstrip("0").ljust(places % 256, "0")
    return f"{'-' if double < 0 else ''}{int(whole):,}{'.' if fraction else ''}{fraction}"


def _scientific(value: Value, number: int | None) -> str:
    """Six places, aligned to the right in as many characters as the number says, modulo 65,536."""
    double = _double("e", value)
    width = _PLACES if number is None else number
    if width > _LARGEST_NUMBER:
        return "%!(NOVERB)"
    return (_scientific_digits(double) if math.isfinite(double) else _not_finite(double)).rjust(width % 65_536)


def _scientific_digits(double: float) -> str:
    digits, _, exponent = f"{double or 0.0:.{_PLACES}e}".partition("e")
    return f"{digits}\N{MULTIPLICATION SIGN}10{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}"


def _not_finite(double: float) -> str:
    if math.isnan(double):
        return "NaN"
    return "∞" if double > 0 else "-∞"


_PRINTERS: Final[Mapping[str, Callable[[Value, int | None], str]]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hexadecimal,
    "X": _upper_hexadecimal,
    "o": _octal,
}
_HEXADECIMALS: Final = "only integers, byte buffers, and strings can be formatted as hex"
_EXPECTED: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": _HEXADECIMALS,
    "X": _HEXADECIMALS,
    "o": "octal clause can only be used on integers",
}
_INTEGERS: Final = frozenset({Kind.INT, Kind.UINT})
_KINDS: Final = {
    "s": frozenset(
        {Kind.LIST, Kind.MAP, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.BOOL, Kind.STRING, Kind.TIMESTAMP, Kind.BYTES}
    )
    | {Kind.DURATION, Kind.TYPE, Kind.NULL},
    "d": _INTEGERS,
    "f": frozenset({Kind.DOUBLE, Kind.STRING}),  # a string may be "NaN" or an infinity
    "e": frozenset({Kind.DOUBLE, Kind.STRING}),
    "b": _INTEGERS | {Kind.BOOL},
    "x": _INTEGERS | {Kind.STRING, Kind.BYTES},
    "X": _INTEGERS | {Kind.STRING, Kind.BYTES},
    "o": _INTEGERS,
}


class Misfit(NamedTuple):
    """Why a call of `format` cannot work. argument: what is of the wrong type; None where it is the call as a whole."""

    message: str
    argument: Expr | None


def misfit(text: str, arguments: Sequence[Expr], types_: Mapping[Expr, Type]) -> Misfit | None:
    """The problems of a literal format and the elements of its literal list, before any value is known."""
    used = 0
    try:
        for part in parse(text):
            if isinstance(part, str):
                continue
            if used == len(arguments):
                return Misfit(f"index {used} out of range", None)
            wrong = _wrong_argument(part.verb, arguments[used], types_)
            if wrong is not None:
                return Misfit(f"error during formatting: {_EXPECTED[part.verb]}, was given {types_[wrong].name}", wrong)
            used += 1
    except ValueError as error:
        return Misfit(str(error), None)
    if used < len(arguments):
        message = f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
        return Misfit(message, None)
    return None


def _wrong_argument(verb: str, argument: Expr, types_: Mapping[Expr, Type]) -> Expr | None:
    """The argument, or the part of a literal list or map that `%s` is to print, whose type does not fit."""
    type_ = types_[argument]
    if type_ is not DYN and type_.kind not in _KINDS[verb]:
        return argument
    if verb != "s":
        return None
    elements: Sequence[Expr] = ()
    if isinstance(argument, ListExpr):
        elements = argument.elements
    elif isinstance(argument, MapExpr):
        elements = [one for entry in argument.entries for one in (entry.key, entry.value)]
    return next((wrong for one in elements if (wrong := _wrong_argument(verb, one, types_)) is not None), None)


_NUMBERS = re.compile(r"[.]([0-9]{1,5})")


def _work_of_writing(arguments: Sequence[Value]) -> int:
    """By the elements, and the characters that the template asks for by numbers such as that of `%.65535e`."""
    template, elements = arguments
    if not isinstance(template, str):
        return 0  # of dyn: the call refuses it
    return 16 * weight_of(elements) + sum(map(int, _NUMBERS.findall(template))) // 32


_FORMAT: Final = Overload(
    "format",
    "string_format",
    (STRING, list_of(DYN)),
    STRING,
    implementation=_format,
    member=True,
    cost=scan,
    beside=_work_of_writing,
    estimate=scan_estimate_since_1_38,
)
LIBRARY: Final = Library("cel.lib.ext.strings.format", overloads=(_FORMAT,))
LIBRARY_1_37: Final = replace(LIBRARY, overloads=(replace(_FORMAT, estimate=scan_estimate),))

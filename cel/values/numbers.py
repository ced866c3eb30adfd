"""Conversions between texts, int, uint and double, as by Go's strconv and cel-go.

Every function raises EvalError if the reference's conversion fails.
"""

import math
import re
from typing import Final

from cel.errors import EvalError
from cel.values.values import MAX_INT, MAX_UINT, MIN_INT, Uint

_INTEGER: Final = re.compile(r"(?P<sign>[+-]?)(?P<digits>[0-9]+)")
_MOST_DIGITS: Final = 20  # longer ones are out of range, and Python takes quadratic time for them
_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9](?:_?[0-9])*\.?(?:[0-9](?:_?[0-9])*)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9](?:_?[0-9])*)?"
)
_HEXADECIMAL: Final = re.compile(
    r"(?P<sign>[+-]?)0[xX](?P<whole>(?:_?[0-9a-fA-F])*)(?:\.(?P<fraction>(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*)?))?"
    r"[pP](?P<exponent>[+-]?[0-9](?:_?[0-9])*)"
)
_SPECIAL: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)


def int_overflow() -> EvalError:
    """The error of a result outside of int64."""
    return EvalError("integer overflow")


def uint_overflow() -> EvalError:
    """The error of a result outside of uint64."""
    return EvalError("unsigned integer overflow")


def checked_int(value: int) -> int:
    """`value`, if it fits int64."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise int_overflow()


def checked_uint(value: int) -> Uint:
    """`value` as uint, if it fits uint64."""
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise uint_overflow()


def int_from_uint(value: Uint) -> int:
    """Up to 2**63 - 1."""
    return checked_int(int(value))


def text_of_uint(value: Uint) -> str:
    """Decimal."""
    return str(int(value))


def int_from_double(value: float) -> int:
    """Truncated; the open interval between -2**63 and 2**63 only."""
    if -(2.0**63) < value < 2.0**63:
        return int(value)
    raise int_overflow()


def uint_from_double(value: float) -> Uint:
    """Truncated; from 0 to below 2**64."""
    if 0 <= value < 2.0**64:
        return Uint(int(value))
    raise uint_overflow()


def int_from_text(text: str) -> int:
    """Decimal, with or without sign."""
    match = _INTEGER.fullmatch(text)
    value = None if match is None else _int_of_digits(match["digits"])
    if match is not None and value is not None:
        signed = -value if match["sign"] == "-" else value
        if MIN_INT <= signed <= MAX_INT:
            return signed
    raise _not_convertible("int")


def uint_from_text(text: str) -> Uint:
    """Decimal, without sign."""
    match = _INTEGER.fullmatch(text)
    value = None if match is None or match["sign"] else _int_of_digits(match["digits"])
    if value is None or value > MAX_UINT:
        raise _not_convertible("uint")
    return Uint(value)


def _int_of_digits(digits: str) -> int | None:
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else None


def double_from_text(text: str) -> float:
    """Decimal or hexadecimal, with underscores between digits; infinities and NaN by name."""
    if _DECIMAL.fullmatch(text):
        value = float(text.replace("_", ""))
        if math.isinf(value):
            raise _not_convertible("double")
        return value
    hexadecimal = _HEXADECIMAL.fullmatch(text)
    if hexadecimal:
        return _from_hexadecimal(hexadecimal)
    if _SPECIAL.fullmatch(text):
        return float(text)
    raise _not_convertible("double")


def _from_hexadecimal(match: re.Match[str]) -> float:
    whole, fraction = match["whole"].replace("_", ""), (match["fraction"] or "").replace("_", "")
    if not whole and not fraction:
        raise _not_convertible("double")
    try:
        return float.fromhex(f"{match['sign']}0x{whole}.{fraction}p{match['exponent'].replace('_', '')}")
    except OverflowError:
        raise _not_convertible("double") from None


def bool_from_text(text: str) -> bool:
    """As Go's strconv.ParseBool: 1, t, T, true, True, TRUE and their opposites."""
    if text in ("1", "t", "T", "true", "True", "TRUE"):
        return True
    if text in ("0", "f", "F", "false", "False", "FALSE"):
        return False
    raise _not_convertible("bool")


def text_of_double(value: float) -> str:
    """Shortest text that reads back, as Go's %g: an exponent below -4 and from 6 on, of two digits at least."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    digits, exponent = _shortest(value)
    sign = "-" if math.copysign(1, value) < 0 else ""
    if -4 <= exponent < 6:
        return sign + _plain(digits, exponent)
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def plain_text_of_double(value: float) -> str:
    """Shortest text that reads back, never with an exponent (Go's %f of precision -1)."""
    digits, exponent = _shortest(value)
    return ("-" if math.copysign(1, value) < 0 else "") + _plain(digits, exponent)


def _shortest(value: float) -> tuple[str, int]:
    """The fewest digits that read back as `value`, and the power of ten of the first."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole) - 1 if whole != "0" else len(digits) - len(fraction) - 1
    return digits.rstrip("0") or "0", int(exponent or "0") + leading if digits else 0


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def _not_convertible(type_name: str) -> EvalError:
    return EvalError(f"type conversion error from 'string' to '{type_name}'")

"""Kubernetes quantities: exact amounts such as `80Gi`, `1500m` and `1e3`, and the family of their suffix.

A quantity is `mantissa * 10**scale` on Python's integers. The reference holds it in one of two forms, a small integer
with a scale or a big decimal, and selectors can see which (`isInteger` depends on the form, not the value); so
the form is kept here as well. Device capacities, consumed capacities and counters are quantities, and so are CEL's
`kubernetes.Quantity` values.
Source: k8s.io/apimachinery/pkg/api/resource.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter

MAX_DIGITS = 10_240  # a literal in the longest expression that the API server admits still fits
MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

_NANO = -9
_SMALL_DIGITS = 18  # as many digits always fit into an int64
_SHORT_TEXT = 64
_CHUNK_DIGITS = 600  # Python may be configured to refuse longer texts at once

# Possessive quantifiers: text that does not match is refused in linear time.
_WRITTEN = re.compile(r"([+-]?+)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,100})")

_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = ("", *_BINARY_SUFFIXES)
_LARGEST_SI = max(_DECIMAL_NAMES)


class Format(StrEnum):
    """The family of suffixes that a quantity is written with."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


class QuantityLimitError(ValueError):
    """A quantity with more digits than are supported here."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount: immutable, ordered and hashable by value, however it was written."""

    mantissa: int
    scale: int
    """mantissa, scale: the value is mantissa * 10**scale, with scale >= -9."""
    is_small: bool
    """Held as an int64 with a scale (the reference's fast form) rather than as a big decimal."""
    format: Format
    written: str | None = None
    """The original text, if the reference would print it; else None."""
    is_long: bool = False
    """Given as a whole number of 19 digits that an int64 holds, which is a small form since 1.38."""

    @staticmethod
    def parse(text: str) -> "Quantity":
        """Parses a quantity, without blanks around it.

        Below 1n it is rounded away from zero to 1n; with a binary suffix it is capped at 2**63-1.
        Raises ValueError for text that is no quantity, and QuantityLimitError for more than MAX_DIGITS digits.
        """
        return recent_quantities(text) if len(text) <= _SHORT_TEXT else _parse(text)

    @staticmethod
    def of(value: int, format_: Format = Format.DECIMAL_SI) -> "Quantity":
        """The quantity of a whole number."""
        return Quantity(value, 0, is_small=_fits_int64(value), format=format_)

    @property
    def form(self) -> tuple[int, int, bool, Format, str | None, bool]:
        """All fields: equal for two quantities only if no expression can distinguish them."""
        return _FORM(self)

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.mantissa > 0) - (self.mantissa < 0)

    @property
    def nanos(self) -> int:
        """The exact value in units of 10**-9; raises QuantityLimitError beyond about MAX_DIGITS digits."""
        return _scaled(self.mantissa, self.scale - _NANO)

    def milli(self) -> int | None:
        """The value in thousandths, or None if that is no whole number; raises like `nanos`."""
        value, rest = divmod(self.nanos, 10**6)
        return None if rest else value

    def ceil_int(self) -> int:
        """The value rounded away from zero to a whole number, as the reference's Value(); raises like `nanos`."""
        return _divided_away_from_zero(self.nanos, 10**9)

    def is_integer(self) -> bool:
        """Whether `as_integer` succeeds: it depends on the form, not the value, as in the reference."""
        return self._int64() is not None

    def as_integer(self) -> int:
        """The value as an int64; raises ValueError unless `is_integer`."""
        value = self._int64()
        if value is None:
            raise ValueError("cannot convert value to integer")
        return value

    def _int64(self) -> int | None:
        return _scaled_int64(self.mantissa, self.scale) if self.is_small and self.scale >= 0 else None

    def as_approximate_float(self) -> float:
        """Mantissa times power of ten, both as doubles: 0.3 gives 0.30000000000000004; inf beyond a double's range."""
        mantissa = _nearest_double(self.mantissa)
        return mantissa if self.scale == 0 else mantissa * _double_power_of_ten(self.scale)

    @property
    def text(self) -> str:
        """The canonical text: no fraction, and the largest suffix of the quantity's own family that loses nothing."""
        if self.written is not None:
            return self.written
        if not self.mantissa:
            return "0"
        if self.format is Format.BINARY_SI:
            whole, rest = divmod(self.nanos, 10**9)
            if not rest and abs(whole) >= 1024:
                return _binary_text(whole)
        return _decimal_text(self)

    def __str__(self) -> str:
        return self.text

    def compare(self, other: "Quantity") -> int:
        """-1, 0 or 1 as this quantity is less than, equal to or greater than the other; linear in their digits."""
        if self.scale == other.scale:
            return (self.mantissa > other.mantissa) - (self.mantissa < other.mantissa)
        if self.sign != other.sign:
            return 1 if self.sign > other.sign else -1
        if self.scale < other.scale:
            return -_compare_scaled(other.mantissa, other.scale - self.scale, self.mantissa)
        return _compare_scaled(self.mantissa, self.scale - other.scale, other.mantissa)

    def __add__(self, other: "Quantity") -> "Quantity":
        """The exact sum, in this quantity's family of suffixes, or in the other's if this one is zero.

        Raises QuantityLimitError where the operands lie more than MAX_DIGITS powers of ten apart.
        """
        small = _small_sum(self, other.mantissa, other) if self.is_small and other.is_small else None
        return _big_sum(self, other.mantissa, other) if small is None else small

    def __sub__(self, other: "Quantity") -> "Quantity":
        """The exact difference; family and errors as those of the sum."""
        small = None
        if self.is_small and other.is_small:
            # The reference negates within int64, where the least value is its own negative.
            small = _small_sum(self, -other.mantissa if other.mantissa != MIN_INT64 else MIN_INT64, other)
        return _big_sum(self, -other.mantissa, other) if small is None else small

    def __neg__(self) -> "Quantity":
        return Quantity(-self.mantissa, self.scale, self.is_small and self.mantissa != MIN_INT64, self.format)

    def __eq__(self, other: object) -> bool:
        return self.compare(other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def __le__(self, other: "Quantity") -> bool:
        return self.compare(other) <= 0

    def __gt__(self, other: "Quantity") -> bool:
        return self.compare(other) > 0

    def __ge__(self, other: "Quantity") -> bool:
        return self.compare(other) >= 0

    def __hash__(self) -> int:
        # Equal values with different scales are equal modulo a prime too, and no exponent is written out for it.
        return self.mantissa * pow(10, self.scale, _HASH_PRIME) % _HASH_PRIME


_HASH_PRIME = 2**61 - 1
_FORM = attrgetter("mantissa", "scale", "is_small", "format", "written", "is_long")


@dataclass(frozen=True, slots=True)
class _Written:
    """A parsed number, without its suffix."""

    text: str
    negative: bool
    whole: str
    fraction: str
    mantissa: int

    def small(self, value: int, scale: int, format_: Format, *, canonical: bool) -> Quantity:
        return Quantity(-value if self.negative else value, scale, True, format_, self.text if canonical else None)


def _parse(text: str) -> Quantity:
    if text == "0":
        return Quantity(0, 0, is_small=True, format=Format.DECIMAL_SI, written=text)
    match = _WRITTEN.fullmatch(text)
    if match is None or not text:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    sign, zeros, whole, fraction, suffix = match.groups(default="")
    if len(whole) + len(fraction) > MAX_DIGITS:
        raise QuantityLimitError(f"quantities of more than {MAX_DIGITS} digits are not supported")
    exponent, format_ = _read_suffix(suffix)
    mantissa = _int_of(whole + fraction)
    written = _Written(text, sign == "-", whole or "0", fraction, mantissa)
    small = (
        _small_binary(written, exponent) if format_ is Format.BINARY_SI else _small_decimal(written, exponent, format_)
    )
    if small is not None:
        return small
    if not zeros + whole + fraction:
        raise ValueError("unable to parse numeric part of quantity")
    value = -mantissa if sign == "-" else mantissa
    big = _big_form(value, exponent, len(fraction), format_)
    is_long = not (exponent or fraction) and format_ is Format.DECIMAL_SI and _fits_int64(value)
    return replace(big, is_long=True) if is_long else big


@lru_cache(maxsize=4096)
def recent_quantities(text: str) -> Quantity:
    """`Quantity.parse` of a short text, cached: fleets repeat the same few."""
    return _parse(text)


def _read_suffix(suffix: str) -> tuple[int, Format]:
    """The exponent (of 2 for the binary family, else of 10) and the family that a suffix stands for."""
    exponent = _DECIMAL_SUFFIXES.get(suffix)
    if exponent is not None:
        return exponent, Format.DECIMAL_SI
    exponent = _BINARY_SUFFIXES.get(suffix)
    if exponent is not None:
        return exponent, Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not _fits_int64(int(match[1])):
        raise ValueError("unable to parse quantity's suffix")
    return _int32(int(match[1])), Format.DECIMAL_EXPONENT


def _small_decimal(written: _Written, exponent: int, format_: Format) -> Quantity | None:
    """The small form, where the number of digits says that it fits; else None."""
    digits = written.whole + written.fraction
    scale = _int32(exponent - len(written.fraction))
    if len(digits) > _SMALL_DIGITS or scale < _NANO:
        return None
    canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    return written.small(written.mantissa, scale, format_, canonical=canonical)


def _small_binary(written: _Written, exponent: int) -> Quantity | None:
    """The small form, where the reference's estimate of the digits says that it fits; else None."""
    value = written.mantissa << exponent
    if written.fraction or len(written.whole) + 3 * exponent // 10 > 14 or value > MAX_INT64:
        return None
    return written.small(value, 0, Format.BINARY_SI, canonical=written.mantissa & 7 != 0)


def _big_form(mantissa: int, exponent: int, places: int, format_: Format) -> Quantity:
    """The big form, rounded away from zero to whole nanos, and capped where the suffix is binary."""
    if format_ is Format.BINARY_SI:
        return _big_binary(mantissa << exponent, places)
    scale = exponent - places
    if not mantissa:
        return Quantity(0, max(scale, _NANO), is_small=False, format=format_)
    if scale < _NANO:
        # No number within MAX_DIGITS reaches 1n over so many places, so the power need not be computed.
        below = min(_NANO - scale, MAX_DIGITS + 1)
        return Quantity(_divided_away_from_zero(mantissa, 10**below), _NANO, is_small=False, format=format_)
    if scale - _NANO > MAX_DIGITS:
        return Quantity(mantissa, scale, is_small=False, format=format_)
    return Quantity(mantissa * 10 ** (scale - _NANO), _NANO, is_small=False, format=format_)


def _big_binary(mantissa: int, places: int) -> Quantity:
    if abs(mantissa) > MAX_INT64 * 10**places:
        return Quantity(MAX_INT64 if mantissa > 0 else -MAX_INT64, 0, is_small=False, format=Format.BINARY_SI)
    nanos = _divided_away_from_zero(mantissa * 10**9, 10**places)
    format_ = Format.DECIMAL_SI if 0 < abs(nanos) < 10**9 else Format.BINARY_SI
    return Quantity(nanos, _NANO if nanos else max(-places, _NANO), is_small=False, format=format_)


def _small_sum(left: Quantity, mantissa: int, right: Quantity) -> Quantity | None:
    """The sum of left and mantissa * 10**right.scale in the small form, None where int64 does not hold it."""
    format_ = left.format if left.mantissa else right.format
    if not mantissa:
        return Quantity(left.mantissa, left.scale, is_small=True, format=format_)
    if not left.mantissa:
        return Quantity(mantissa, right.scale, is_small=True, format=format_)
    scale = min(left.scale, right.scale)
    augend = _scaled_int64(left.mantissa, left.scale - scale)
    addend = _scaled_int64(mantissa, right.scale - scale)
    if augend is None or addend is None or not _fits_int64(augend + addend):
        return None
    return Quantity(augend + addend, scale, is_small=True, format=format_)


def _big_sum(left: Quantity, mantissa: int, right: Quantity) -> Quantity:
    scale = min(left.scale, right.scale)
    total = _scaled(left.mantissa, left.scale - scale) + _scaled(mantissa, right.scale - scale)
    return Quantity(total, scale, is_small=False, format=left.format if left.mantissa else right.format)


def _compare_scaled(left: int, places: int, right: int) -> int:
    """Compares left * 10**places with right, which have the same sign."""
    if 3 * places >= right.bit_length():  # 10**places exceeds 8**places, so the power need not be computed
        return (left > 0) - (left < 0)
    scaled: int = left * 10**places
    return (scaled > right) - (scaled < right)


def _scaled(value: int, places: int) -> int:
    if not value or not places:
        return value
    if places > MAX_DIGITS - _NANO:
        raise QuantityLimitError(f"quantities of more than {MAX_DIGITS} digits are not supported")
    scaled: int = value * 10**places
    return scaled


def _scaled_int64(value: int, places: int) -> int | None:
    """Value * 10**places where that is an int64."""
    if not value or not places:
        return value
    if places > _SMALL_DIGITS:
        return None
    scaled: int = value * 10**places
    return scaled if _fits_int64(scaled) else None


def _fits_int64(value: int) -> bool:
    return MIN_INT64 <= value <= MAX_INT64


def _int32(value: int) -> int:
    """The value as the reference's 32-bit exponents hold it: they wrap around."""
    return (value + 2**31) % 2**32 - 2**31


def _divided_away_from_zero(value: int, divisor: int) -> int:
    return -(-value // divisor) if value > 0 else value // divisor


def _nearest_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _double_power_of_ten(exponent: int) -> float:
    """10**exponent composed from two tables, as Go's math.Pow10 does it: not always the nearest double."""
    if exponent > 308:
        return float("inf")
    if exponent < -323:
        return 0.0
    high, low = divmod(abs(exponent), 32)
    if exponent >= 0:
        return float(f"1e{32 * high}") * float(f"1e{low}")
    return float(f"1e-{32 * high}") / float(f"1e{low}")


def _int_of(digits: str) -> int:
    if len(digits) <= _CHUNK_DIGITS:
        return int(digits or "0")
    value = 0
    for start in range(0, len(digits), _CHUNK_DIGITS):
        chunk = digits[start : start + _CHUNK_DIGITS]
        value = value * 10 ** len(chunk) + int(chunk)
    return value


def _digits_of(value: int) -> str:
    """The decimal digits of a positive integer."""
    chunks = []
    while value >= 10**_CHUNK_DIGITS:
        value, chunk = divmod(value, 10**_CHUNK_DIGITS)
        chunks.append(str(chunk).zfill(_CHUNK_DIGITS))
    return "".join((str(value), *reversed(chunks)))


def _decimal_text(quantity: Quantity) -> str:
    digits = _digits_of(abs(quantity.mantissa))
    significant = digits.rstrip("0")
    exponent = quantity.scale + len(digits) - len(significant)
    padding = exponent % 3
    exponent -= padding
    if quantity.format is Format.DECIMAL_EXPONENT:
        suffix = f"e{exponent}" if exponent else ""
    else:
        # Differs from kube-scheduler: beyond E it drops the suffix, and with it the amount.
        padding += max(0, exponent - _LARGEST_SI)
        suffix = _DECIMAL_NAMES[min(exponent, _LARGEST_SI)]
    return "-" * (quantity.mantissa < 0) + significant + "0" * padding + suffix


def _binary_text(value: int) -> str:
    times = 0
    # Differs from kube-scheduler: beyond Ei it drops the suffix, and with it the amount.
    while value % 1024 == 0 and times < len(_BINARY_SUFFIXES):
        value //= 1024
        times += 1
    return "-" * (value < 0) + _digits_of(abs(value)) + _BINARY_NAMES[times]

"""Timestamps and durations: parsing, formatting, bounded arithmetic, and accessors.

Texts are parsed and formatted as by Go's time package; the calendar is the proleptic Gregorian one.
Every function raises EvalError where the reference fails.
"""

import datetime as dt
import re
import zoneinfo
from functools import lru_cache
from typing import Final, NamedTuple

from cel.errors import EvalError
from cel.values.numbers import checked_int, int_overflow, plain_text_of_double
from cel.values.values import MAX_INT, MIN_INT, Duration, Timestamp

SECOND: Final = 10**9  # nanoseconds, as all spans here
_DAY_S: Final = 86_400
_EARLIEST_S: Final = -62_135_596_800  # the first second of the year 1
_LATEST_S: Final = 253_402_300_799  # the last second of the year 9999
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()

_DAY_ZERO: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "\N{MICRO SIGN}s": 1_000,
    "\N{GREEK SMALL LETTER MU}s": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_NUMBER_AND_UNIT: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]+)")
_OFFSET: Final = re.compile(r"([+-]?[0-9]+):([+-]?[0-9]+)")
_LONGEST_ZONE_NAME: Final = 64  # characters; the database has 32
_ZONE_NAME: Final = re.compile(r"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+)*", re.ASCII)


def timestamp_from_text(text: str) -> Timestamp:
    """RFC 3339, from the year 1 to 9999 in UTC; keeps the offset."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise _not_convertible("google.protobuf.Timestamp")
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    seconds = _days(year, month, day) * _DAY_S + hour * 3600 + minute * 60 + second
    offset_s = _offset(*match.group(8, 9, 10))
    if hour > 23 or minute > 59 or second > 59:
        raise _not_convertible("google.protobuf.Timestamp")
    nanos = int((match.group(7) or "").ljust(9, "0")[:9])
    return _in_range(Timestamp((seconds - offset_s) * SECOND + nanos, offset_s))


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date from the year 0 on."""
    try:
        # Year 0 is a leap year of the same calendar 400 years, 146,097 days, before.
        shift = 0 if year else 400
        return dt.date(year + shift, month, day).toordinal() - _EPOCH - (146_097 if shift else 0)
    except ValueError:
        raise _not_convertible("google.protobuf.Timestamp") from None


def _offset(sign: str | None, hours: str, minutes: str) -> int:
    if sign is None:
        return 0
    if int(hours) > 24 or int(minutes) > 60:
        raise _not_convertible("google.protobuf.Timestamp")
    return (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)


def timestamp_from_int(seconds: int) -> Timestamp:
    """Seconds since 1970."""
    return _in_range(Timestamp(seconds * SECOND))


def text_of_timestamp(moment: Timestamp) -> str:
    """RFC 3339 with the original offset, and no more digits of the second than needed."""
    seconds, nanos = divmod(moment.nanos, SECOND)
    local = civil(seconds + moment.offset_s)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    clock = f"{local.hour:02d}:{local.minute:02d}:{local.second:02d}{fraction}"
    return f"{local.year:04d}-{local.month:02d}-{local.day:02d}T{clock}{_text_of_offset(moment.offset_s)}"


def _text_of_offset(offset_s: int) -> str:
    if offset_s == 0:
        return "Z"
    hours, minutes = divmod(abs(offset_s) // 60, 60)
    return f"{'-' if offset_s < 0 else '+'}{hours:02d}:{minutes:02d}"


def duration_from_text(text: str) -> Duration:
    """Decimal numbers with units from ns to h, such as -1.5h or 2h45m; 292 years at most."""
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        match = _NUMBER_AND_UNIT.match(rest, position)
        if match is None:
            raise _not_convertible("google.protobuf.Duration")
        total += _nanos_of(*match.groups(""))
        position = match.end()
    if not rest or total > 2**63 or (total == 2**63 and not negative):
        raise _not_convertible("google.protobuf.Duration")
    return Duration(-total if negative else total)


def _nanos_of(whole: str, fraction: str, unit: str) -> int:
    nanos = _UNITS.get(unit)
    whole = whole.lstrip("0") if whole.lstrip("0") or not whole else "0"
    if nanos is None or not (whole or fraction) or len(whole) > 19:
        raise _not_convertible("google.protobuf.Duration")
    value = int(whole or "0") * nanos
    digits, scale = _leading_fraction(fraction)
    value += int(float(digits) * (float(nanos) / scale))
    if value > 2**63:
        raise _not_convertible("google.protobuf.Duration")
    return value


def _leading_fraction(fraction: str) -> tuple[int, float]:
    """The digits after the point that fit int64, and the power of ten by which to divide them."""
    digits, scale = 0, 1.0
    for digit in fraction:
        if digits > MAX_INT // 10:
            break
        longer = digits * 10 + int(digit)
        if longer > 2**63:
            break
        digits, scale = longer, scale * 10
    return digits, scale


def text_of_duration(span: Duration) -> str:
    """Seconds, such as 5400s or -0.001s."""
    return f"{plain_text_of_double(seconds_of(span))}s"


def seconds_of(span: Duration) -> float:
    """Seconds as a double, rounded as Go's Duration.Seconds."""
    seconds = truncated(span.nanos, SECOND)
    return float(seconds) + float(span.nanos - seconds * SECOND) / 1e9


def truncated(value: int, divisor: int) -> int:
    """The quotient without its fraction; `divisor` may be negative."""
    quotient = abs(value) // abs(divisor)
    return quotient if (value < 0) == (divisor < 0) else -quotient


def moved(moment: Timestamp, nanos: int) -> Timestamp:
    """`moment` later by `nanos`, within the years 1 to 9999."""
    return _in_range(Timestamp(moment.nanos + nanos, moment.offset_s))


def between(later: Timestamp, earlier: Timestamp) -> Duration:
    """The span from the earlier to the later, where int64 holds the nanoseconds."""
    seconds = later.nanos // SECOND - earlier.nanos // SECOND
    nanos = checked_int(seconds * SECOND)
    return Duration(checked_int(nanos + later.nanos % SECOND - earlier.nanos % SECOND))


def checked_duration(nanos: int) -> Duration:
    """A duration of `nanos`, where int64 holds them."""
    if MIN_INT <= nanos <= MAX_INT:
        return Duration(nanos)
    raise int_overflow()


def _in_range(moment: Timestamp) -> Timestamp:
    if _EARLIEST_S <= moment.nanos // SECOND <= _LATEST_S:
        return moment
    raise EvalError("timestamp overflow")


class Civil(NamedTuple):
    """Local date and time."""

    year: int
    month: int
    day: int
    """month, day: from 1."""
    day_of_year: int
    """From 0."""
    weekday: int
    """0 is Sunday."""
    hour: int
    minute: int
    second: int


def civil(seconds: int) -> Civil:
    """The date and time of a clock that shows `seconds` since 1970, in any year."""
    days, second = divmod(seconds, _DAY_S)
    ordinal = days + _EPOCH
    cycles = (ordinal - 1) // 146_097 if not 1 <= ordinal <= dt.date.max.toordinal() else 0
    date = dt.date.fromordinal(ordinal - cycles * 146_097)
    day_of_year = date.toordinal() - date.replace(month=1, day=1).toordinal()
    hour, rest = divmod(second, 3600)
    return Civil(
        date.year + 400 * cycles, date.month, date.day, day_of_year, (days + 4) % 7, hour, rest // 60, rest % 60
    )


def civil_in_zone(moment: Timestamp, zone: str) -> Civil:
    """Date and time of `moment` in a zone of the IANA database, or at an offset such as -08:00."""
    seconds = moment.nanos // SECOND
    return civil(seconds + _zone_offset(zone, seconds))


def _zone_offset(zone: str, seconds: int) -> int:
    if ":" in zone:
        match = _OFFSET.fullmatch(zone)
        if match is None:
            raise EvalError(f'strconv.Atoi: parsing "{zone[:64]}": invalid syntax')
        hours, minutes = (_offset_field(part) for part in match.groups())
        return _fixed_offset(60 * (hours * 60 + (-minutes if zone.startswith("-") else minutes)))
    if zone in ("", "UTC", "Local"):  # a scheduler's own zone must not change an answer
        return 0
    moment = _DAY_ZERO + dt.timedelta(seconds=_within_calendar(seconds))
    known = _zone(zone) if len(zone) <= _LONGEST_ZONE_NAME and _ZONE_NAME.fullmatch(zone) else None
    if known is None:
        raise EvalError(f"unknown time zone {zone[:64]}")
    offset = moment.astimezone(known).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _within_calendar(seconds: int) -> int:
    """The same moment, moved by cycles of 400 years into the range of Python's calendar."""
    cycle = 146_097 * _DAY_S
    after = max(0, seconds - (_LATEST_S - 2 * _DAY_S))
    before = max(0, _EARLIEST_S + 2 * _DAY_S - seconds)
    return seconds - -(-after // cycle) * cycle + -(-before // cycle) * cycle


def _offset_field(text: str) -> int:
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > 18:
        raise EvalError(f'strconv.Atoi: parsing "{text[:64]}": value out of range')
    return -int(digits or "0") if text.startswith("-") else int(digits or "0")


def _fixed_offset(offset_s: int) -> int:
    # Differs from kube-scheduler: it lets an offset of more than 292 years overflow and goes on with the wrong one.
    if abs(offset_s) * SECOND >= 2**63:
        raise EvalError("an offset of more than 292 years")
    return offset_s


@lru_cache(maxsize=1024)  # there are some 600, and each is a file to read
def _zone(name: str) -> zoneinfo.ZoneInfo | None:
    """The zone of a name; None if there is none."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _not_convertible(type_name: str) -> EvalError:
    return EvalError(f"type conversion error from 'string' to '{type_name}'")

"""Why a text is no IP address, in the words of the reference: `format.uri()` gives them to the expression as a value.

Source: ParseAddr of Go's net/netip.
"""

import re
from typing import Final

from cel.values.values import quoted

_FIELDS: Final = 8  # of an IPv6 address; an IPv4 address at its end stands for two
_OCTETS: Final = 4
_FIRST_MARK: Final = re.compile("[.:%]")
_DECIMAL: Final = re.compile("[0-9]*")
_HEXADECIMAL: Final = re.compile("[0-9A-Fa-f]*")


def fault_of(text: str) -> str:
    """The problems of `text` as an address, which may have a zone; empty where nothing is."""
    fault = _fault_of_address(text)
    return f"ParseAddr({quoted(text)}): {fault}" if fault else ""


def _fault_of_address(text: str) -> str:
    mark = _FIRST_MARK.search(text)
    if mark is None:
        return "unable to parse IP"
    if mark[0] == "%":
        return "missing IPv6 address"
    return _fault_of_v4(text) if mark[0] == "." else _fault_of_v6(text)


def _fault_of_v4(text: str) -> str:
    start = 0
    octets = text.split(".")
    for number, octet in enumerate(octets, start=1):
        digits = _run(_DECIMAL, octet)
        if len(digits) > 1 and digits.startswith("0"):
            return "IPv4 field has octet with leading zero"
        if len(digits) > 3 or int(digits or "0") > 255:
            return "IPv4 field has value >255"
        if digits != octet:
            return _at("unexpected character", text[start + len(digits) :])
        end = start + len(octet)
        if end < len(text) and (not octet or end == len(text) - 1):
            return _at("IPv4 field must have at least one digit", text[end:])
        if end < len(text) and number == _OCTETS:
            return "IPv4 address too long"
        start = end + 1
    return "" if len(octets) == _OCTETS else "IPv4 address too short"


def _fault_of_v6(text: str) -> str:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        return "zone must be a non-empty string"
    has_gap = rest.startswith("::")
    if has_gap:
        rest = rest[2:]
    fields = 0
    while fields < _FIELDS and (rest or not has_gap):
        digits = _run(_HEXADECIMAL, rest)
        if fault := _fault_of_field(rest, digits, has_gap=has_gap, fields=fields):
            return fault
        if rest[len(digits) :].startswith("."):
            if fault := _fault_of_v4(rest):
                return fault
            fields, rest = fields + 2, ""
            break
        fields, rest = fields + 1, rest[len(digits) + 1 :]
        if not rest:
            break
        if rest.startswith(":"):
            if has_gap:
                return _at("multiple :: in address", rest)
            has_gap, rest = True, rest[1:]
    return _fault_of_length(rest, has_gap=has_gap, fields=fields)


def _fault_of_field(rest: str, digits: str, *, has_gap: bool, fields: int) -> str:
    """The problems of the field that `rest` begins with, and with what follows it at once."""
    if len(digits) > 4:
        return _at("each group must have 4 or less digits", rest)
    if not digits:
        return _at("each colon-separated field must have at least one digit", rest)
    after = rest[len(digits) :]
    if after.startswith("."):
        return _fault_of_place(rest, has_gap=has_gap, fields=fields)
    if after and not after.startswith(":"):
        return _at("unexpected character, want colon", after)
    return _at("colon must be followed by more characters", after) if after == ":" else ""


def _fault_of_place(rest: str, *, has_gap: bool, fields: int) -> str:
    """The problems of an IPv4 address after so many fields."""
    if not has_gap and fields != _FIELDS - 2:
        return _at("embedded IPv4 address must replace the final 2 fields of the address", rest)
    if fields > _FIELDS - 2:
        return _at("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    return ""


def _fault_of_length(rest: str, *, has_gap: bool, fields: int) -> str:
    if rest:
        return _at("trailing garbage after address", rest)
    if fields < _FIELDS and not has_gap:
        return "address string too short"
    if fields == _FIELDS and has_gap:
        return "the :: must expand to at least one field of zeros"
    return ""


def _run(of: re.Pattern[str], text: str) -> str:
    match = of.match(text)
    assert match is not None
    return match[0]


def _at(fault: str, rest: str) -> str:
    return f"{fault} (at {quoted(rest)})" if rest else fault

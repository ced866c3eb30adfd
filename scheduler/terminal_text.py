"""Text as terminals show it: what would steer one is written out, and columns are as wide as they look.

Users write names, messages and expressions. Among the characters of these are escapes of terminals (also single ones
above ASCII, such as U+009B), line ends, and marks that turn the direction of a line.
"""

import re
import unicodedata
from collections.abc import Callable

import orjson

GAP = "   "
"""Between columns."""

_UNUSUAL = re.compile(r"[^\n -~]")


def printable(line: str) -> str:
    """The line with what would steer a terminal written out."""
    return line if line.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def json_of(value: object, option: int = 0, default: Callable[[object], object] | None = None) -> str:
    """The value as JSON for people. Reading it gives the same value. option, default: of orjson."""
    text = orjson.dumps(value, default=default, option=option).decode()
    return text if text.isascii() and "\x7f" not in text else _UNUSUAL.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2))


def width_of(text: str) -> int:
    """The columns that a printable text takes: two for a wide character, none for a mark on the one before it."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def padded(text: str, width: int, *, is_number: bool = False) -> str:
    """The text with spaces up to so many columns: before it if it is a number, else after it."""
    room = " " * (width - width_of(text))
    return f"{room}{text}" if is_number else f"{text}{room}"


LONGEST_MESSAGE = 1 << 12
"""Characters of what is wrong with a call or an object, which its sender decides."""


def in_short(message: str) -> str:
    """At most LONGEST_MESSAGE characters of it, which steer no terminal."""
    message = printable(message)
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 3]}..."

"""Texts of objects as they are shown to people: without what would steer a terminal or mislead the reader.

Users write names, messages and expressions. Among the characters of these are escapes of terminals (also single ones
above ASCII, such as U+009B), line ends, and marks that turn the direction of a line.
"""

import re
from collections.abc import Callable

import orjson

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

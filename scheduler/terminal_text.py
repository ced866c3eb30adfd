"""Text as terminals show it: what would steer one is written out, and columns are as wide as they look."""

import unicodedata
from collections.abc import Iterator, Sequence

GAP = "   "
"""Between columns."""


def printable(line: str) -> str:
    """The line with what would steer a terminal written out."""
    return line if line.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


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


def aligned(rows: Sequence[Sequence[str]], numbers: frozenset[int] = frozenset()) -> Iterator[str]:
    """A line for each row, in aligned columns. numbers: the columns that are aligned to the right."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(width_of(row[place]) for row in shown) for place in range(len(shown[0]))]
    for row in shown:
        cells = (padded(cell, widths[place], is_number=place in numbers) for place, cell in enumerate(row))
        yield GAP.join(cells).rstrip()

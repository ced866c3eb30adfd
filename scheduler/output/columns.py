"""Rows of text in aligned columns, as kubectl prints them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.input.printable import printable

_GAP = "   "


@dataclass(frozen=True, slots=True)
class ColumnTable:
    """A table; as text, it is aligned. header: titles in capitals. numbers: titles of the columns with numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return aligned(self.header, self.rows, self.numbers)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[str] = frozenset()) -> str:
    """The table. numbers: titles of the columns that are aligned to the right. Cells get what steers terminals out."""
    shown = [list(header), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[place]) for row in shown) for place in range(len(header))]
    return "\n".join("".join(_cells(row, header, widths, numbers)).rstrip() for row in shown)


def _cells(row: Sequence[str], header: Sequence[str], widths: Sequence[int], numbers: frozenset[str]) -> Iterator[str]:
    for cell, title, width in zip(row, header, widths, strict=True):
        yield (cell.rjust(width) if title in numbers else cell.ljust(width)) + _GAP

"""Rows of text in aligned columns, as kubectl prints them."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler import terminal_text


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
    right = frozenset(place for place, title in enumerate(header) if title in numbers)
    return "\n".join(terminal_text.aligned([header, *rows], right))

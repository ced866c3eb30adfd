"""Tables and sentences as text: aligned as kubectl prints them, wrapped where a terminal is narrow, in one palette."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import click

from scheduler.terminal_text import GAP, padded, printable, width_of

NARROWEST = 80
"""Columns that a terminal is taken to have at least."""

_READABLE, _MANY = 24, 8
"""Columns of a terminal that a text takes before names are broken, and columns of a table that stand in parts then."""

_LEAST_ROOM = 40
"""Columns that a text in the last cell of a row has at least, beside the cells before it; else it stands below them."""

_STYLES: Mapping[str, str] = {
    **dict.fromkeys(("free", "fits", "fits now", "can"), "green"),
    **dict.fromkeys(("shared", "reserved", "note", "moves", "is new", "may or may not fit"), "cyan"),
    **dict.fromkeys(("tainted", "blocked", "pending", "deleted", "warning", "is evicted", "is gone"), "yellow"),
    **dict.fromkeys(("unusable", "error", "does not fit", "no longer fits", "cannot", "cannot run"), "red"),
}
"""The colour of a state, a severity or a verdict, wherever it stands."""

_STYLED = frozenset({"STATE", "LEVEL", "VERDICT", "WHAT", "ANSWER"})
"""The columns of tables that hold such words."""


@dataclass(frozen=True, slots=True)
class TextLayout:
    """How text is laid out. width: of the terminal, in columns; None for lines as long as they are."""

    width: int | None = None
    has_colour: bool = False

    def styled(self, text: str, word: str) -> str:
        """The text in the colour of the word, which is a state, a severity or a verdict."""
        colour = _STYLES.get(word)
        return click.style(text, fg=colour) if colour and self.has_colour else text

    def lines(self, text: str) -> Iterator[str]:
        """The lines of a text, each wrapped, and indented by what it belongs to."""
        for line in text.split("\n"):
            yield from self._wrapped(line)

    def _wrapped(self, line: str) -> Iterator[str]:
        # The place of an error in a selector: what stands below a character has to stay there.
        if self.width is None or width_of(line) <= self.width or line.startswith(" | "):
            yield line
            return
        depth = len(line) - len(line.lstrip(" "))
        first, *others = wrapped(line[depth:], self.width - depth, hanging=2)
        yield " " * depth + first
        yield from (" " * (depth + 2) + other for other in others)


PLAIN = TextLayout()
"""For files, pipes and programs."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text with lines. word: its verdict, which has its colour in the first of them."""

    text: str
    word: str

    def lines(self, layout: TextLayout) -> Iterator[str]:
        """The lines, each wrapped."""
        first, *others = layout.lines(self.text)
        yield first.replace(self.word, layout.styled(self.word, self.word), 1)
        yield from others


@dataclass(frozen=True, slots=True)
class ColumnTable:
    """A table. header: titles in capitals. numbers: titles of the columns that are aligned to the right.

    A row may have fewer cells than there are columns: its last cell takes the rest of the line. verdict: the word whose
    colour such cells have.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = field(default=frozenset())
    verdict: str = ""

    def with_column(self, title: str, cells: Sequence[str]) -> "ColumnTable":
        """The table with one more column at the end."""
        rows = [[*row, cell] for row, cell in zip(self.rows, cells, strict=True)]
        return replace(self, header=[*self.header, title], rows=rows)

    def __str__(self) -> str:
        return "\n".join(self.lines(PLAIN))

    def lines(self, layout: TextLayout) -> Iterator[str]:
        """The lines of the table. Cells get what steers terminals out."""
        shown = [[printable(cell) for cell in row] for row in (self.header, *self.rows)]
        for number, columns in enumerate(_side_by_side_columns(shown, layout.width)):
            rows = shown
            if len(columns) < len(self.header):
                rows = [[row[place] for place in columns] for row in shown if len(row) > max(columns)]
            if number:
                yield ""
            widths = _widths(rows, layout.width)
            part = replace(self, header=rows[0])
            right = [title in self.numbers for title in part.header]
            for row in rows:
                if layout is PLAIN and len(row) == len(widths):  # most tables are long ones in files
                    yield GAP.join(map(_padded, row, widths, right)).rstrip()
                else:
                    yield from part._row(row, widths, layout)  # noqa: SLF001 - of the same table

    def _row(self, row: Sequence[str], widths: Sequence[int], layout: TextLayout) -> Iterator[str]:
        is_whole = len(row) == len(widths)
        cells = [self._cell(cell, place, widths, layout) for place, cell in enumerate(row if is_whole else row[:-1])]
        if not is_whole:
            before = sum(widths[: len(row) - 1]) + len(GAP) * (len(row) - 1)
            room = None if layout.width is None else layout.width - before
            if room is not None and room < min(_LEAST_ROOM, width_of(row[-1])):
                yield from _side_by_side(cells, widths)
                yield from self._below(row[-1], layout)
                return
            cells.append([layout.styled(line, self.verdict) for line in wrapped(row[-1], room)])
        yield from _side_by_side(cells, [*widths[: len(cells) - 1], 0])

    def _below(self, text: str, layout: TextLayout) -> Iterator[str]:
        assert layout.width is not None
        return (f"    {layout.styled(line, self.verdict)}" for line in wrapped(text, layout.width - 4))

    def _cell(self, cell: str, place: int, widths: Sequence[int], layout: TextLayout) -> list[str]:
        """The lines of a cell, each as wide as its column."""
        title = self.header[place]
        lines = wrapped(cell, None if layout.width is None else widths[place])
        shown = [padded(line, widths[place], is_number=title in self.numbers) for line in lines]
        if title not in _STYLED or cell == title:
            return shown
        return [layout.styled(line, cell.partition(",")[0]) for line in shown]


def _padded(text: str, width: int, is_number: bool) -> str:  # noqa: FBT001 - as map calls it
    return padded(text, width, is_number=is_number)


def _side_by_side(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """The lines of a row, each cell of which has lines of its own."""
    for number in range(max(map(len, cells))):
        line = [one[number] if number < len(one) else " " * width for one, width in zip(cells, widths, strict=False)]
        yield GAP.join(line).rstrip()


def _widths(rows: Sequence[Sequence[str]], width: int | None) -> list[int]:
    """The width of each column; where they are too wide together, the widest give way, words last.

    The last cell of a row with fewer cells is in no column.
    """
    number = len(rows[0])
    columns = [[row[place] for row in rows if place < len(row) - (len(row) < number)] for place in range(number)]
    widths = [max(map(width_of, column)) for column in columns]
    if width is None:
        return widths
    words, parts = ([max(_least(cell, pattern) for cell in column) for column in columns] for pattern in (_WORD, _PART))
    readable = [max(least, min(_READABLE, own)) for least, own in zip(words, widths, strict=True)]
    for least in (readable, [min(pair) for pair in zip(readable, parts, strict=True)], parts, [1] * number):
        widths = _narrowed(widths, least, width - len(GAP) * (number - 1))
    return widths


def _side_by_side_columns(rows: Sequence[Sequence[str]], width: int | None) -> Sequence[Sequence[int]]:
    """The columns that have room beside each other: all of them, or groups that begin with the first column each."""
    number = len(rows[0])
    if width is None or number < _MANY:
        return [range(number)]
    least = [max(_least(row[place], _WORD) for row in rows if place < len(row)) for place in range(number)]
    groups: list[list[int]] = [[0]]
    for place in range(1, number):
        if sum(least[other] for other in groups[-1]) + least[place] + len(GAP) * len(groups[-1]) > width:
            groups.append([0])
        groups[-1].append(place)
    return groups


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widths, of which the widest are made smaller until all have room, none below its least."""
    narrowed = list(widths)
    while (over := sum(narrowed) - room) > 0:
        able = [place for place, width in enumerate(narrowed) if width > least[place]]
        if not able:
            break
        widest = max(able, key=narrowed.__getitem__)
        others = [narrowed[place] for place in able if narrowed[place] < narrowed[widest]]
        narrowed[widest] = max(
            least[widest], narrowed[widest] - over, min(narrowed[widest] - 1, max(others, default=1))
        )
    return narrowed


_WORD = re.compile(r" *(?:[^ ,]|,(?![^ \d]))+,?|.")
_PART = re.compile(r" *(?:[^ ,/]|,(?![^ \d]))+[,/]?|.")
"""What is kept together: a word, or a name in a list without spaces; and if that is too wide, what a / ends."""


def _least(text: str, pattern: re.Pattern[str]) -> int:
    return max((width_of(found.strip()) for found in pattern.findall(text)), default=0)


def wrapped(text: str, width: int | None, *, hanging: int = 0) -> list[str]:
    """The lines of a text, broken between words, and in words that are wider than a line.

    hanging: by how much lines after the first are narrower.
    """
    if width is None or width_of(text) <= width:
        return [text]
    lines, line = [], ""
    room = max(1, width)
    words = _WORD.findall(text)
    for piece in (part for word in words for part in ([word] if width_of(word) <= room else _PART.findall(word))):
        if width_of(line) + width_of(piece) <= room:
            line += piece
            continue
        if line:
            lines.append(line.rstrip())
            room = max(1, width - hanging)
        line = piece.lstrip()
        while width_of(line) > room:
            end = _end(line, room)
            lines.append(line[:end])
            line, room = line[end:], max(1, width - hanging)
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _end(text: str, room: int) -> int:
    """How many characters have room, at least one."""
    taken = 0
    for place, character in enumerate(text):
        taken += width_of(character)
        if taken > room and place:
            return place
    return len(text)

"""Output that is shown again and again: on a terminal in place, otherwise below each other where it has changed."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, Self, TextIO

import click

from scheduler.cli.ending import print_to_stderr
from scheduler.terminal_text import printable

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?1049l\x1b[?25h"
_BOLD, _PLAIN, _TO_THE_END = "\x1b[1m", "\x1b[0m", "\x1b[K"


@dataclass(frozen=True, slots=True)
class PrintedText:
    """What is shown. notes: beside the text, for people."""

    text: str
    notes: str = ""


class PrintedUpdates(Protocol):
    """Where texts are shown while the context is open."""

    def __enter__(self) -> Self:
        """Prepare it."""
        ...

    def __exit__(self, *_: object) -> None:
        """Leave everything as it was."""
        ...

    def show(self, shown: PrintedText) -> None:
        """The text that is to be seen from now on."""
        ...


def updates_of(*, has_colour: bool) -> PrintedUpdates:
    """The whole terminal, or lines where standard output is none, or one that cannot be drawn on."""
    is_screen = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return Screen(sys.stdout, has_colour=has_colour) if is_screen else PlainUpdates()


class PlainUpdates:
    """Each text that differs from the one before it, after a line without text; and so for the notes."""

    def __init__(self) -> None:
        self._last = PrintedText("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, shown: PrintedText) -> None:
        """Print what is new of it."""
        before = _lines(self._last.notes)
        print_to_stderr(line for line in _lines(shown.notes) if line not in before)
        if shown.text != self._last.text:
            click.echo(f"\n{shown.text}" if self._last.text else shown.text)
            sys.stdout.flush()
        self._last = shown


class Screen:
    """The whole terminal while the context is open. Only lines that change are written; these are bold once."""

    def __init__(self, output: TextIO, *, has_colour: bool = True) -> None:
        self._output = output
        self._has_colour = has_colour
        self._plain: Sequence[str] | None = None
        self._written: Sequence[str] = ()
        self._size = (0, 0)
        self._last = ""

    def __enter__(self) -> Self:
        self._output.write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        self._output.write(f"{_LEAVE}{self._last}\n")
        self._output.flush()

    def show(self, shown: PrintedText) -> None:
        """Draw it, cut to the terminal."""
        columns, rows = size = _size_of(self._output)
        if size != self._size:
            self._output.write("\x1b[2J")
            self._size, self._written, self._plain = size, (), None
        foot = ["", *(line[:columns] for line in (*_lines(shown.notes), "Ctrl-C ends"))][-rows:]
        lines = [*cut(shown.text.split("\n"), columns, rows - len(foot)), *foot]
        written = self._marked(lines)
        self._output.write("".join(rewritten(self._written, written)))
        self._output.flush()
        self._plain, self._written, self._last = lines, written, shown.text

    def _marked(self, lines: Sequence[str]) -> Sequence[str]:
        """The lines, bold where they differ from those before."""
        if self._plain is None or not self._has_colour:
            return lines
        before = set(self._plain)
        return [line if line in before else f"{_BOLD}{line}{_PLAIN}" for line in lines]


def _size_of(output: TextIO) -> tuple[int, int]:
    """Columns and rows as they are now, whatever the environment says."""
    try:
        columns, rows = os.get_terminal_size(output.fileno())
    except OSError:
        columns, rows = 0, 0
    return columns or 80, rows or 24


def _lines(notes: str) -> Sequence[str]:
    return [printable(line) for line in notes.split("\n") if line]


def cut(lines: Sequence[str], columns: int, rows: int) -> Sequence[str]:
    """As much of the lines as fits; the last row says how many are left out."""
    if rows < 1:
        return []
    shown = list(lines) if len(lines) <= rows else [*lines[: rows - 1], f"... {len(lines) - rows + 1} more lines"]
    return [line[:columns] for line in shown]


def rewritten(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """What a terminal has to be sent, row by row."""
    for row, (old, new) in enumerate(zip_longest(before, after), start=1):
        if old != new:
            yield f"\x1b[{row};1H{new or ''}{_TO_THE_END}"

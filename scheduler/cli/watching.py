"""Output that is printed again and again: on a terminal in place, otherwise below each other where it has changed."""

import io
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import zip_longest
from typing import Self, TextIO

import click

from scheduler import garbage
from scheduler.cli.ending import BAD_INPUT, print_to_stderr

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?1049l\x1b[?25h"
_BOLD, _PLAIN, _TO_THE_END = "\x1b[1m", "\x1b[0m", "\x1b[K"


@dataclass(frozen=True, slots=True)
class PrintedText:
    """What a command printed once. notes: on standard error. is_whole: it did not end with an error."""

    text: str
    notes: str
    is_whole: bool = True


def frame_of(show: Callable[[], None]) -> PrintedText:
    """What it prints, and whether it ended well."""
    text, notes, is_whole = io.StringIO(), io.StringIO(), True
    try:
        with redirect_stdout(text), redirect_stderr(notes):
            show()
    except SystemExit as end:
        is_whole = end.code in (None, 0)
    return PrintedText(text.getvalue().rstrip("\n"), notes.getvalue().rstrip("\n"), is_whole)


def follow(
    show: Callable[[], None], interval_s: float, wait: Callable[[float], None] = time.sleep, *, has_colour: bool = True
) -> None:
    """Print it until Ctrl-C, after that many seconds each time. What fails at first ends the command.

    What fails later is tried again, and the text before it stays, with the error below it. wait: for tests.
    """
    garbage.keep()  # a command is not expected to last
    frame = frame_of(show)
    if not frame.is_whole:
        print_to_stderr([frame.notes])
        sys.exit(BAD_INPUT)
    with Screen(sys.stdout, has_colour=has_colour) if sys.stdout.isatty() else _Log() as printed:
        while True:
            printed.show(frame)
            wait(interval_s)
            after = frame_of(show)
            frame = after if after.is_whole else PrintedText(frame.text, after.notes)


class _Log:
    """Each text that differs from the one before it, after a line without text; and so for the notes."""

    def __init__(self) -> None:
        self._last = PrintedText("", "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, frame: PrintedText) -> None:
        """Print what is new of it."""
        if frame.notes != self._last.notes and frame.notes:
            print_to_stderr([frame.notes])
        if frame.text != self._last.text:
            click.echo(f"\n{frame.text}" if self._last.text else frame.text)
            sys.stdout.flush()
        self._last = frame


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

    def show(self, frame: PrintedText) -> None:
        """Draw it, cut to the terminal."""
        columns, rows = shutil.get_terminal_size()
        if (columns, rows) != self._size:
            self._output.write("\x1b[2J")
            self._size, self._written, self._plain = (columns, rows), (), None
        lines = cut([*frame.text.split("\n"), "", *frame.notes.split("\n"), "Ctrl-C ends"], columns, rows)
        written = self._marked(lines)
        self._output.write("".join(rewritten(self._written, written)))
        self._output.flush()
        self._plain, self._written, self._last = lines, written, frame.text

    def _marked(self, lines: Sequence[str]) -> Sequence[str]:
        """The lines, bold where they differ from those before."""
        if self._plain is None or not self._has_colour:
            return lines
        before = set(self._plain)
        return [line if line in before else f"{_BOLD}{line}{_PLAIN}" for line in lines]


def cut(lines: Sequence[str], columns: int, rows: int) -> Sequence[str]:
    """As much of the lines as fits; the last row says how many are left out."""
    found = list(lines) if len(lines) <= rows else [*lines[: rows - 1], f"... {len(lines) - rows + 1} more lines"]
    return [line[:columns] for line in found]


def rewritten(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """What a terminal has to be sent, row by row."""
    for row, (old, new) in enumerate(zip_longest(before, after), start=1):
        if old != new:
            yield f"\x1b[{row};1H{new or ''}{_TO_THE_END}"

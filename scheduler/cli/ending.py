"""How commands end: exit codes, and messages on standard error.

A command that cannot continue prints the reason, one line for each problem, and exits with `BAD_INPUT`.
"""

import errno
import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

import click

from scheduler.output.table import NARROWEST, PLAIN, TextLayout
from scheduler.terminal_text import printable

KUBECTL_DRA = "kubectl dra"
"""How users call the program that kubectl runs for it."""

BAD_INPUT = 2
"""Exit code for input that cannot be used, or output that cannot be written; 1: something asked for was not done."""

INTERRUPTED = 130
CLOSED_PIPE = 141
TERMINATED = 143
"""Exit codes of a program that ends by Ctrl-C, as nobody reads its output any more, or by SIGTERM."""


def layout_of(stream: TextIO) -> TextLayout:
    """How text is laid out on a terminal; nothing is wrapped or coloured where it is none."""
    if not stream.isatty():
        return PLAIN
    context = click.get_current_context(silent=True)
    has_colour = (context is None or context.color is not False) and os.environ.get("TERM") != "dumb"
    return TextLayout(max(NARROWEST, shutil.get_terminal_size().columns), has_colour)


def print_to_stderr(lines: Iterable[str]) -> None:
    """Lines to standard error; what would steer a terminal is written out, since they contain what objects do."""
    layout = layout_of(sys.stderr)
    for line in lines:
        shown = "\n".join(layout.lines("\n".join(map(printable, line.split("\n")))))
        word, colon, rest = shown.partition(":")
        click.echo(f"{layout.styled(word, _SEVERITIES.get(word, ''))}{colon}{rest}", err=True)


_SEVERITIES = {"warning": "warning", "error": "error", "dra": "error"}
"""What a line begins with, and how severe that is."""


def stop(*problems: str) -> NoReturn:
    """End the command, which cannot go on."""
    print_to_stderr(f"dra: {problem}" for problem in problems)
    sys.exit(BAD_INPUT)


def leave(code: int) -> NoReturn:
    """End the process at once. Python would free every object first, which takes a tenth of a run on a large input.

    Nothing is lost: click writes through what it is given.
    """
    os._exit(code)


class _ClosedOutput(io.TextIOBase):
    """A standard output that is closed; Python has None in its place, for which click drops what it is given."""

    def write(self, text: str) -> NoReturn:
        raise OSError(errno.EBADF, "standard output is closed")


@contextmanager
def ending_quietly() -> Iterator[None]:
    """Ctrl-C and a reader that stops early end the program silently; a failed write is reported in one line."""
    if sys.stdout is None:
        sys.stdout = cast(TextIO, _ClosedOutput())
    if sys.stderr is None:  # what nobody wants to read changes nothing of what is done
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _drop_output()
        sys.exit(CLOSED_PIPE)
    except MemoryError:
        stop("the memory that this process may have is used up: give it more, or less input")
    except OSError as error:
        _drop_output()
        file = f"{error.filename:.80}: " if isinstance(error.filename, str) else ""
        with suppress(OSError):  # standard error may be what cannot be written
            print_to_stderr([f"dra: {file}{error.strerror or error}"])
        sys.exit(BAD_INPUT)


def _drop_output() -> None:
    """Nothing more is written: Python would try once again at the end, and complain."""
    with suppress(io.UnsupportedOperation):  # it was closed from the start
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class FilePath(click.Path):
    """The type of options and arguments that name a file: Python takes the empty path for the folder it runs in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path as click.Path takes it; the command ends with an empty one."""
        if value == "":
            self.fail("'' names no file", param, ctx)
        return super().convert(value, param, ctx)


class NumberRange(click.FloatRange):
    """The type of options with a number of a range: of nan and inf, click compares, and lets them pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; the command ends with one that cannot be counted with."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a number that can be counted with", param, ctx)
        return number

"""How commands print their reports, the option for the format, and progress of a long command on standard error.

Of progress nothing is shown for the first second, then one line that is overwritten.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import click

from scheduler.cli.ending import layout_of
from scheduler.output.report import FORMATS, PAGE, Block, Report, laid_out, listed, rendered


@contextmanager
def after_delay(text: str, delay_s: float = 1.0) -> Iterator[threading.Timer]:
    """Prints the text once the context is open for longer than delay_s: for work with unknown progress."""
    timer = threading.Timer(delay_s, click.echo, [text], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield timer
    finally:
        timer.cancel()


_WIDTH = 30
"""Of a bar, in characters."""


class Progress:
    """Prints how far the work is, once it takes longer than a second.

    has_bar: as a bar, with how long the rest takes by what it took so far; on a terminal only.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, doing: str = "placing", has_bar: bool = False
    ) -> None:
        self._clock = clock
        self._doing = doing
        self._has_bar = has_bar
        self._begin: tuple[float, float] | None = None
        self._next = clock() + 1.0
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the line from a terminal, so that something else can be printed."""
        if self._is_shown and sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True, color=True)
        self._is_shown = False

    def show(self, done: float, total: int | None = None) -> None:
        """So many are done of so many, None where nobody knows; a share of one only in a bar, which has a total."""
        now = self._clock()
        self._begin = self._begin or (now, done)
        if now < self._next:
            return
        is_terminal = sys.stderr.isatty()
        self._next = now + (0.1 if is_terminal else 5.0)
        if self._has_bar and not is_terminal:
            return
        self._is_shown = True
        text = f"{self._doing}: {done} {'so far' if total is None else f'of {total}'}"
        if self._has_bar and total is not None:
            text = self._bar(now, done, total)
        # What wipes the line is no colour, and is kept where colours are not wanted.
        click.echo(f"\r\033[K{text}" if is_terminal else text, nl=not is_terminal, err=True, color=is_terminal)

    def _bar(self, now: float, done: float, total: int) -> str:
        full = int(_WIDTH * done / total)
        share = f"{int(100 * done / total)} %"
        return f"{self._doing} [{'#' * full}{'-' * (_WIDTH - full)}] {share}{self._left(now, done, total)}"

    def _left(self, now: float, done: float, total: int) -> str:
        begin_s, before = self._begin or (now, done)
        if done <= before:
            return ""
        seconds = (now - begin_s) / (done - before) * (total - done)
        return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"


def output_option(*formats: str) -> Callable[[Any], Any]:
    """The option -o with these formats, the first of which is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Output format."
        + (" html: one page with a map of nodes and devices (docs/ui.md)." if PAGE in formats else ""),
    )


report_option = output_option(*FORMATS)
page_option = output_option(*FORMATS, PAGE)


def print_report(report: Report, output: str, head: Sequence[str] = ()) -> None:
    """Print it in that format. head: of a page."""
    click.echo(rendered(report, output, layout_of(sys.stdout), head), nl=False)


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print them as text."""
    if text := laid_out(blocks, layout_of(sys.stdout)):
        click.echo(text)


def print_reports(reports: Iterable[Report], kind: str, output: str, progress: Progress) -> None:
    """Print reports of a kind in that format, each as soon as it is there. progress: is wiped out before each."""
    for piece in listed(reports, kind, output, layout_of(sys.stdout)):
        progress.clear()
        click.echo(piece, nl=False)

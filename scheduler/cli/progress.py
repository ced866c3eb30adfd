"""Progress of a long command on standard error: nothing for the first second, then one line that is overwritten."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import click


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


class Progress:
    """Prints how far the work is, once it takes longer than a second. estimates: also how long it will take."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, doing: str = "placing", estimates: bool = False
    ) -> None:
        self._clock = clock
        self._doing = doing
        self._estimates = estimates
        self._begin: tuple[float, int] | None = None
        self._next = clock() + 1.0
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown and sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True, color=True)

    def show(self, done: int, total: int) -> None:
        """So many are done of so many."""
        now = self._clock()
        self._begin = self._begin or (now, done)
        if now < self._next:
            return
        is_terminal = sys.stderr.isatty()
        self._next = now + (0.1 if is_terminal else 5.0)
        self._is_shown = True
        text = f"{self._doing}: {done} of {total}{self._left(now, done, total)}"
        # What wipes the line is no colour, and is kept where colours are not wanted.
        click.echo(f"\r\033[K{text}" if is_terminal else text, nl=not is_terminal, err=True, color=is_terminal)

    def _left(self, now: float, done: int, total: int) -> str:
        begin_s, before = self._begin or (now, done)
        if not self._estimates or done <= before:
            return ""
        seconds = (now - begin_s) / (done - before) * (total - done)
        return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"

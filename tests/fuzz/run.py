"""`make fuzz`: untrusted input for whatever takes some, in turn, for some minutes, in a process with little memory.

Each input comes from a seed of its own. What is not taken or refused in order is printed with its seed, and ends the
run: `make fuzz MINUTES=0 ARGS="--target TARGET --seed SEED"` repeats it.
"""

import resource
import signal
import time
from collections.abc import Sequence
from random import Random
from types import FrameType

import click

from tests.fuzz import cel_expressions, extender_bodies, guard_bodies, manifests
from tests.fuzz.target import FuzzTarget

MEMORY = 4 << 30  # bytes of address space
REPORTED_EVERY_S = 30.0
TARGETS: dict[str, FuzzTarget] = {
    "cel": cel_expressions.TARGET,
    "manifests": manifests.TARGET,
    "extender": extender_bodies.TARGET,
    "guard": guard_bodies.TARGET,
}


class TooSlowError(BaseException):
    """An input took longer than any should; no `except Exception` in between may swallow it."""


@click.command()
@click.option("--minutes", type=float, default=1.0, show_default=True, help="How long; 0: one input of each target.")
@click.option("--seed", default=1, show_default=True, help="Of the first input.")
@click.option("--target", "names", type=click.Choice(list(TARGETS)), multiple=True, help="Default: all.")
def main(minutes: float, seed: int, names: Sequence[str]) -> None:
    """Fuzz what takes untrusted input."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _too_slow)
    chosen = names or tuple(TARGETS)
    until, reported = time.monotonic() + minutes * 60, time.monotonic()
    taken = dict.fromkeys(chosen, 0)
    number = 0
    while not number or time.monotonic() < until:
        for name in chosen:
            taken[name] += tried(name, seed + number)
        number += 1
        if time.monotonic() > reported + REPORTED_EVERY_S:
            reported = time.monotonic()
            click.echo(_summary(number, taken), err=True)
    click.echo(f"from seed {seed} on, {_summary(number, taken)}; all others were refused in order")


def _summary(number: int, taken: dict[str, int]) -> str:
    return f"{number:,} inputs each: " + ", ".join(f"{name} took {times:,}" for name, times in taken.items())


def tried(name: str, seed: int) -> bool:
    """Whether the target takes the input of the seed; what it raises is shown with what was drawn."""
    target = TARGETS[name]
    text = target.draw(Random(f"{name} {seed}"))  # noqa: S311 - no secret
    signal.alarm(target.longest_s)
    try:
        return target.is_taken(text)
    except BaseException:
        click.echo(f"{name}, seed {seed}: {text!r}", err=True)
        raise
    finally:
        signal.alarm(0)


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlowError


if __name__ == "__main__":
    main()

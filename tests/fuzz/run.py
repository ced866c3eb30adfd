"""`make fuzz`: untrusted input for whatever takes some, for some minutes, in a process with little memory.

Where atheris is installed, it guides what is drawn, for one target after the other (`tests.fuzz.guided`). Otherwise, or
with --seeds, each input comes from a seed of its own, by turns: `make fuzz MINUTES=0 SEED=N ARGS="--seeds --target T"`
repeats one. What is not taken or refused in order is printed, and ends the run.
"""

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import FrameType

import click

from tests.fuzz import call_connections, cel_expressions, extender_bodies, guard_bodies, manifests
from tests.fuzz.target import FuzzTarget

CORPUS = Path(".cache/fuzz")
"""What atheris has found worth keeping, by target, and what failed."""

MEMORY = 4 << 30  # bytes of address space
REPORTED_EVERY_S = 30.0
TARGETS: dict[str, FuzzTarget] = {
    "cel": cel_expressions.TARGET,
    "manifests": manifests.TARGET,
    "extender": extender_bodies.TARGET,
    "guard": guard_bodies.TARGET,
    "calls": call_connections.TARGET,
}


class TooSlowError(BaseException):
    """An input took longer than any should; no `except Exception` in between may swallow it."""


@click.command()
@click.option("--minutes", type=float, default=1.0, show_default=True, help="How long; 0: one input of each target.")
@click.option("--seed", default=1, show_default=True, help="Of the first input.")
@click.option("--seeds", "is_seeded", is_flag=True, help="Draw from seeds although atheris is installed.")
@click.option("--target", "names", type=click.Choice(list(TARGETS)), multiple=True, help="Default: all.")
def main(minutes: float, seed: int, names: Sequence[str], *, is_seeded: bool) -> None:
    """Fuzz what takes untrusted input."""
    chosen = names or tuple(TARGETS)
    if not is_seeded and find_spec("atheris"):
        for name in chosen:
            guide(name, seed, minutes * 60 / len(chosen))
    else:
        draw(chosen, seed, minutes)


def guide(name: str, seed: int, seconds: float) -> None:
    """Let atheris draw for a target; SystemExit where an input failed, which it has printed."""
    command = [sys.executable, "-m", "tests.fuzz.guided", name, str(seed), str(seconds), str(CORPUS / name)]
    if subprocess.run(command, check=False).returncode:
        click.echo(f"to repeat it: {' '.join(command[1:])} .cache/fuzz/{name}/failed-...", err=True)
        sys.exit(1)


def draw(chosen: Sequence[str], seed: int, minutes: float) -> None:
    """Draw for each of the targets by turns, from one seed after the other."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _too_slow)
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

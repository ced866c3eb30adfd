"""How much of a long sweep runs: a part of it in the gate, others each day, and all of it in `make nightly`.

TEST_EXTENT=nightly: all of it. TEST_DAY=2026-11-27: as on that day, to repeat what a gate or a nightly found.
"""

import os
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TypeVar

T = TypeVar("T")

PRODUCT = ("cel", "allocator", "scheduler", "setup.py")
"""Where the code is that tests depend on, for those that say so (tests/gate/unchanged.py)."""

EXTENT, NIGHTLY, DAY = "TEST_EXTENT", "nightly", "TEST_DAY"


def is_nightly() -> bool:
    """Whether everything runs."""
    return os.environ.get(EXTENT) == NIGHTLY


def day() -> int:
    """The number of the day, which is the next one's less 1."""
    named = os.environ.get(DAY)
    return (date.fromisoformat(named) if named else datetime.now(UTC).date()).toordinal()


def part(cases: Sequence[T], count: int) -> Sequence[T]:
    """So many of the cases, and all at night. On the days that follow each other it is each case's turn."""
    if is_nightly() or count >= len(cases):
        return cases
    first = day() * count
    return [cases[(first + number) % len(cases)] for number in range(count)]


def chosen(variable: str, in_gate: int, at_night: int) -> int:
    """A number that the environment may name: how many cases, or the seed that they are drawn from."""
    named = os.environ.get(variable)
    return int(named) if named else at_night if is_nightly() else in_gate

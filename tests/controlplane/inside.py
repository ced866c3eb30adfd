"""Runs `dra` with a wall clock that a test moves, and with other limits; at SIGUSR1 it says what is under way in it.

`python -P inside.py FOLDER ARGUMENT...` runs `dra ARGUMENT...`. In FOLDER, `clock` has the seconds by which the time of
day is off, read at each look at the clock, and `limits.json` constants as {"module:NAME": value}. What is under way is
written to `under-way.json`. Monotonic clocks stay as they are. This file needs nothing of the tests.
"""

import asyncio
import datetime as dt
import importlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

CLOCK, LIMITS, UNDER_WAY = "clock", "limits.json", "under-way.json"


class Alike(type):
    """The usual objects are instances of a class of this type as well."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, USUAL)


USUAL = dt.datetime


class MovedDatetime(dt.datetime, metaclass=Alike):
    """`datetime` by `time.time`, which the library's own does not ask."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Self:
        """The time of day."""
        return cls.fromtimestamp(time.time(), tz)


def move_clock(offset_s: Callable[[], float]) -> None:
    """From now on the time of day is off by that. Before any module takes `datetime` for itself."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + offset_s()
    time.time_ns = lambda: real_ns() + int(offset_s() * 1e9)
    dt.datetime = MovedDatetime  # type: ignore[misc] # that is what it is for


def offset_in(path: Path) -> Callable[[], float]:
    """What the file says; 0 where there is none."""

    def read() -> float:
        try:
            return float(path.read_text())
        except FileNotFoundError:
            return 0.0

    return read


def set_limits(limits: dict[str, float]) -> None:
    """Constants of modules. Raises AttributeError for one that is not there."""
    for place, value in limits.items():
        module, _, name = place.partition(":")
        found = importlib.import_module(module)
        getattr(found, name)
        setattr(found, name, value)


def report_at_signal(path: Path) -> None:
    """At SIGUSR1, say in the file which tasks there are, and what decisions have reserved in memory."""
    from scheduler.decision import cluster

    clusters: list[cluster.Cluster] = []
    begin = cluster.Cluster.__init__

    def begun(self: cluster.Cluster, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        clusters.append(self)

    def report(*_: object) -> None:
        reserved = [text for one in clusters for text in _reserved(one)]
        written = path.with_suffix(".new")
        written.write_text(json.dumps({"tasks": _tasks(), "reserved": reserved}))
        written.replace(path)

    cluster.Cluster.__init__ = begun  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, report)


def _tasks() -> dict[str, int]:
    """How many there are, by what they do."""
    return Counter(getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())


def _reserved(found: Any) -> list[str]:  # Any: looked into, as no program does
    """The pods that are where a decision has put them, and the claims whose devices an attempt has."""
    pods = [f"pod {pod} on {node}" for pod, node in found.pods._assumed.values()]
    holdings = found.claims._holdings.values()
    return [*pods, *(f"claim {one.reservation.claim}" for one in holdings if one.reservation is not None)]


def main() -> None:
    """The program."""
    folder = Path(sys.argv[1])
    sys.argv[1:2] = []
    move_clock(offset_in(folder / CLOCK))
    if (folder / LIMITS).exists():
        set_limits(json.loads((folder / LIMITS).read_text()))
    report_at_signal(folder / UNDER_WAY)
    from scheduler.cli.main import main as dra

    dra()


if __name__ == "__main__":
    main()

"""Runs `dra` with a wall clock that a test moves, and with other limits; at SIGUSR1 it says what is under way in it.

`python -P inside.py FOLDER ARGUMENT...` runs `dra ARGUMENT...`. In FOLDER, `clock` has the seconds by which the time of
day is off, read at each look at the clock, and `limits.json` constants as {"module:NAME": value}. What is under way is
written to `under-way.json`. Monotonic clocks stay as they are. This file needs nothing of the tests.
"""

import asyncio
import datetime
import importlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLOCK, LIMITS, UNDER_WAY = "clock", "limits.json", "under-way.json"


def move_clock(offset_s: Callable[[], float]) -> None:
    """From now on the time of day is off by that. Before any module takes `datetime` for itself."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + offset_s()
    time.time_ns = lambda: real_ns() + int(offset_s() * 1e9)
    usual = datetime.datetime

    class Alike(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, usual)

    class MovedDatetime(usual, metaclass=Alike):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:  # Any: the usual class, in the place of this one
            return usual.fromtimestamp(time.time(), tz)

    datetime.datetime = MovedDatetime  # type: ignore[misc] # that is what this is for


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
        written = path.with_suffix(".new")
        written.write_text(json.dumps({"tasks": _tasks(), "reserved": sum(map(_reserved, clusters))}))
        written.replace(path)

    cluster.Cluster.__init__ = begun  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, report)


def _tasks() -> dict[str, int]:
    """How many there are, by what they do."""
    return Counter(getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())


def _reserved(found: Any) -> int:  # Any: looked into, as no program does
    holdings = found.claims._holdings.values()
    return found.pods.assumed + sum(one.reservation is not None for one in holdings)


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

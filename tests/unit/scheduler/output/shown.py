"""A program as the page at /ui shows it."""

import asyncio
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from allocator.model import Claim
from scheduler.decision.cluster import Cluster
from scheduler.output.live_view import LiveView
from scheduler.output.time_line import EVERY_S, AllocatedShares, DecisionLog, TimeLine
from scheduler.output.ui_server import Ui, UiSource
from scheduler.runtime.health import Endpoints, serving
from tests.builders import a_result, an_allocated_claim
from tests.unit.scheduler.extender.clusters import a_cluster

Rows = list[list[str]]
State = dict[tuple[str, str], Rows]
"""Rows by table and group."""


class Program:
    """A program that is asked what it shows. waiting: its queue; troubles: what fails."""

    def __init__(self, *devices: int) -> None:
        self.cluster: Cluster = a_cluster(*devices)
        self.decisions = DecisionLog()
        self.waiting: list[dict[str, object]] = []
        self.groups: list[dict[str, object]] = []
        self.troubles: list[str] = []
        self.asked = count()
        self.source = UiSource(
            "dra test",
            self.cluster,
            self.decisions,
            queue=lambda: self.waiting,
            waiting=lambda: len(self.waiting),
            troubles=self._troubles,
            cluster_name="context test",
            groups=lambda most: self.groups[:most],
        )

    def view(self) -> LiveView:
        return LiveView(self.source, self.time_line(), lambda: 0.0)

    def time_line(self, clock: Callable[[], float] = lambda: 0.0) -> TimeLine:
        """Every look at the clock is a moment of its own, if it says so."""
        shares = AllocatedShares(self.cluster, clock)
        waiting, decided = self.source.waiting, lambda: self.decisions.number
        return TimeLine(shares, waiting, decided, now=clock, clock=clock)

    def _troubles(self) -> Iterable[str]:
        next(self.asked)
        return self.troubles


def a_holder(name: str, *devices: str, pool: str = "node-0") -> Claim:
    return an_allocated_claim(*(a_result(one, pool=pool) for one in devices), name=name)


def applied(state: State, groups: Iterable[bytes]) -> State:
    """The state that a page has after these changes."""
    for table, group, rows in map(json.loads, groups):
        if rows is None:
            state.pop((table, group), None)
        else:
            state[table, group] = rows
    return state


def devices_of(state: State) -> dict[str, list[str]]:
    """State and holders of each device."""
    return {row[0]: row[2:4] for (table, _), rows in state.items() if table == "devices" for row in rows}


def rows_of(state: State, table: str) -> Rows:
    """In the order in which the page shows them."""
    return [row for (name, _), rows in sorted(state.items()) if name == table for row in rows]


def answer_of(state: State) -> list[Any]:  # Any: JSON
    return [one for (one,) in state["answer", ""]]


@contextmanager
def served(program: Program, samples: int = 0) -> Iterator[str]:
    """The address of /ui of the program, which ends with the context. samples: of its time line, up to now."""
    address, ended = queue.SimpleQueue[str](), threading.Event()
    ui = Ui(program.source)
    moments = [time.time() - EVERY_S * (samples - number) for number in range(samples + 1)]
    ui.time_line = program.time_line(lambda: moments[0])
    for _ in range(samples):
        del moments[0]
        ui.time_line.sample()
    server = threading.Thread(target=lambda: asyncio.run(_serve(ui, address, ended)))
    server.start()
    try:
        yield f"{address.get()}/ui"
    finally:
        ended.set()
        server.join()


async def _serve(ui: Ui, address: "queue.SimpleQueue[str]", ended: threading.Event) -> None:
    endpoints = Endpoints({}, {}, {}, lambda _: (b"", "text/plain"), list, ui.attach, ("/ui",))
    async with serving("127.0.0.1:0", endpoints) as url:
        address.put(url)
        await asyncio.to_thread(ended.wait)

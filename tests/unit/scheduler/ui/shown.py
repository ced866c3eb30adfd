"""A program as the page at /ui shows it."""

import json
from collections.abc import Iterable
from itertools import count
from typing import Any

from allocator.model import Claim
from scheduler.decision.cluster import Cluster
from scheduler.ui.decision_log import DecisionLog
from scheduler.ui.live_view import LiveView
from scheduler.ui.ui_server import UiSource
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
        self.troubles: list[str] = []
        self.asked = count()
        self.source = UiSource(
            "dra test",
            self.cluster,
            self.decisions,
            queue=lambda: self.waiting,
            waiting=lambda: len(self.waiting),
            troubles=self._troubles,
        )

    def view(self) -> LiveView:
        return LiveView(self.source, lambda: 0.0)

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

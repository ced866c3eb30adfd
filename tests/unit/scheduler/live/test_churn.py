"""A scheduler that has seen many namespaces, pods, claims and nodes come and go keeps nothing of them."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import cast

import pytest

from scheduler.attempt.binder import Time
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.live import program
from scheduler.live.program import Scheduler
from scheduler.runtime import core
from scheduler.runtime.configuration import Configuration
from scheduler.runtime.core import Site
from tests.builders import kubernetes
from tests.unit.scheduler.churn import (
    AT_ONCE,
    FEW,
    FIRST,
    LIMITS,
    ROUNDS,
    ChurnServer,
    assert_nothing_has_grown,
    entries,
    settle,
)

FATES = ("bound", "refused", "unanswered", "denied", "gone")
"""What becomes of a namespace's pods: they are bound, ask too much, a write fails, or all goes while they wait."""


class Churn:
    """A scheduler, and what comes and goes around it. passed_s: of its clocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_s = 0.0
        self.server = ChurnServer()
        start = datetime(2026, 1, 1, tzinfo=UTC)

        def now() -> datetime:
            return start + timedelta(seconds=self.passed_s)

        async def sleep(_: float) -> None:
            await asyncio.sleep(0)

        monkeypatch.setattr("allocator.limit_use.MOST_NAMESPACES", FEW)
        monkeypatch.setattr("scheduler.state.node_infos.MOST_UNOFFERED", 0)
        monkeypatch.setattr(program, "now", now)
        monkeypatch.setattr(core, "TIME", Time(lambda: self.passed_s, now, sleep, lambda: 0.5))
        configuration = Configuration.model_validate({"leaderElection": {"leaderElect": False}, "limits": LIMITS})
        site = Site(cast(Connection, self.server), Served("v1.37.0", "1.37", "v1", None), kubernetes())
        self.scheduler = Scheduler(configuration, site, lambda: self.passed_s)
        self.numbers = count()

    async def rounds(self, number: int) -> None:
        for _ in range(number):
            names = [f"n-{next(self.numbers)}" for _ in range(AT_ONCE)]
            for position, name in enumerate(names):
                self.server.come(name, FATES[position % len(FATES)])
            for name in names:
                if self.server.fates[name] == "gone":
                    self.server.go(name)
            await settle()
            self._judge(names)
            for name in self.server.fates.copy():
                self.server.go(name)
            await settle()
            self.passed_s += 3600
            self.scheduler._loop.wake()
            await settle()
            self.scheduler._cluster.violations()  # looked at every few seconds

    def _judge(self, names: list[str]) -> None:
        """The test is of what happens: pods are bound, refused, and given up."""
        bound = {key[1] for key, one in self.server.objects.items() if key[0] == "pods" and one["spec"].get("nodeName")}
        assert bound == {name for name in names if self.server.fates.get(name) == "bound"}


def test_nothing_is_kept_of_namespaces_pods_claims_and_nodes_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def churn() -> tuple[Counter[str], Counter[str]]:
        monkeypatch.setattr("scheduler.attempt.slots.QUICK_MAX", 16)  # that many namespaces are remembered
        monkeypatch.setattr("scheduler.fair_queue.MOST_FLOWS", 16)
        monkeypatch.setattr("scheduler.decision.time_limits.MOST_NAMESPACES", 16)
        world = Churn(monkeypatch)
        running = asyncio.create_task(world.scheduler.run(asyncio.Event()))
        world.server.fill(world.scheduler._watched)
        await world.rounds(FIRST)
        before = entries(world.scheduler)
        await world.rounds(ROUNDS)
        after = entries(world.scheduler)
        running.cancel()
        await asyncio.wait([running])
        return before, after

    before, after = asyncio.run(churn())
    assert_nothing_has_grown(before, after)

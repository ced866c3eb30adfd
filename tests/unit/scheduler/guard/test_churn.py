"""A guard that has judged many claims keeps nothing of those that are gone."""

import asyncio
from collections import Counter
from itertools import count
from typing import Any, Self, cast

import pytest

from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.guard import ledger, program
from scheduler.guard.configuration import GuardConfiguration
from scheduler.guard.program import Guard
from scheduler.guard.reviewer import holder_of
from scheduler.runtime.core import Site
from scheduler.runtime.leader_election import LeaderElection
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
from tests.unit.scheduler.guard.test_review import a_body

MOST = 2 * AT_ONCE
"""Of what is bounded in number: less than comes and goes before it is counted."""

FATES = ("stored", "never stored", "gone", "unknown", "dry")
"""What becomes of an update: it is stored, or not; its claim goes before; its device is published by nobody."""

LATE_S = 3600.0


class GuardServer(ChurnServer):
    """The same for a guard, which has a connection of its own for its lease."""

    def apart(self, **_: object) -> Self:
        return self


class Questions:
    """A guard that leads, and claims that get devices. passed_s: of its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_s = 0.0
        self.server = GuardServer(resourceclaims=holder_of)
        monkeypatch.setattr(LeaderElection, "is_leading", lambda _: True)
        monkeypatch.setattr(program, "CLOCK", lambda: self.passed_s)
        monkeypatch.setattr(ledger, "GONE_MAX", MOST)
        monkeypatch.setattr("allocator.limit_use.MOST_NAMESPACES", FEW)
        configuration = GuardConfiguration.model_validate({"limits": LIMITS})
        site = Site(cast(Connection, self.server), Served("v1.37.0", "1.37", "v1", None), kubernetes())
        self.guard = Guard(configuration, site)
        self.guard._reviewer.waits_for = ""
        self.server.fill(self.guard._reflectors)
        self.numbers = count()

    async def rounds(self, number: int) -> None:
        for _ in range(number):
            names = [f"n-{next(self.numbers)}" for _ in range(AT_ONCE)]
            waiting = [asyncio.create_task(self._ask(name, FATES[at % len(FATES)])) for at, name in enumerate(names)]
            await settle()
            self.passed_s += LATE_S
            await asyncio.wait(waiting)
            for name in names:
                self.server.go(name)
            self.guard._ledger.expire(self.passed_s)
            self.guard._check()
            assert self.guard._ledger.open == 0

    async def come_and_go(self, rounds: int) -> None:
        """The same, and nobody asks."""
        for _ in range(rounds):
            names = [f"n-{next(self.numbers)}" for _ in range(AT_ONCE)]
            for name in names:
                self.server.come(name, "bound")
            await settle()
            for name in names:
                self.server.go(name)
            await settle()

    async def _ask(self, name: str, fate: str) -> None:
        self.server.come(name, "bound")
        old = self.server.objects["resourceclaims", name, "claim"]
        pool = "nobody's" if fate == "unknown" else name
        result = {"request": "r", "driver": "gpu.example", "pool": pool, "device": "gpu-0"}
        new = {**old, "status": {"allocation": {"devices": {"results": [result]}}}}
        found = self.guard._reviewer.answer(a_body(new, old, dryRun=fate == "dry"))
        answer = found if isinstance(found, bytes) else await found
        assert (b'"allowed":true' in answer) == (fate != "unknown")
        match fate:
            case "stored":
                self.server.put("resourceclaims", new)
            case "gone":
                self.server.delete("resourceclaims", name, "claim")


async def never(*_: object) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_: float, plain: Any = asyncio.sleep) -> None:
        await plain(0)

    monkeypatch.setattr("scheduler.guard.reviewer.asyncio.sleep", sleep)


@pytest.mark.usefixtures("without_waiting")
def test_nothing_is_kept_of_claims_and_devices_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def churn() -> tuple[Counter[str], Counter[str]]:
        world = Questions(monkeypatch)
        await world.rounds(FIRST)
        before = entries(world.guard)
        await world.rounds(ROUNDS)
        return before, entries(world.guard)

    assert_nothing_has_grown(*asyncio.run(churn()))


@pytest.mark.usefixtures("without_waiting")
def test_a_standby_keeps_nothing_of_them_either(monkeypatch: pytest.MonkeyPatch) -> None:
    async def churn() -> tuple[Counter[str], Counter[str]]:
        world = Questions(monkeypatch)
        monkeypatch.setattr(LeaderElection, "run", never)
        async with asyncio.TaskGroup() as group:
            standing_by = group.create_task(world.guard._lead(group, b"", 0))
            await settle()
            await world.come_and_go(FIRST)
            before = entries(world.guard)
            await world.come_and_go(ROUNDS)
            after = entries(world.guard)
            for task in (standing_by, *world.guard._beside):
                task.cancel()
        return before, after

    assert_nothing_has_grown(*asyncio.run(churn()))

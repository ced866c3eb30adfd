"""Room that is asked for by whom the clock of the scheduler is ahead of, or where there is none."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.attempt.binder import Binder
from scheduler.attempt.room import ROOM_ASKED, Room, refusal
from scheduler.core_v1.pod import Pod
from scheduler.live.kept_rooms import KeptRooms
from scheduler.live.preemptions import Preemptions
from tests.builders import a_pod

NOW = 1_000_000.0
POD = replace(a_pod(uid="uid-of-pod"), nominated_node="node-0")


class Asked:
    """An API server whose pod asks for room until then. conditions: that were written to it."""

    def __init__(self, until: float) -> None:
        self.asked = {"type": ROOM_ASKED, "message": str(Room("request", "node-0", frozenset(), until))}
        self.conditions: list[dict[str, Any]] = []

    @property
    def pod(self) -> dict[str, Any]:
        status = {"nominatedNodeName": "node-0", "conditions": [self.asked, *self.conditions]}
        return {"metadata": {"uid": POD.uid}, "status": status}

    async def request(self, method: str, _path: str, *, body: Any = None, **_: object) -> dict[str, Any]:
        if method == "PATCH":
            self.conditions += [one for one in body["status"].get("conditions", []) if "$patch" not in one]
        return self.pod


def look(until: float, *, has_room: bool) -> Asked:
    server = Asked(until)
    time = SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC), monotonic=float)
    preemptions = SimpleNamespace(records={}, keep=lambda *_: has_room)

    async def act() -> None:
        binder = cast(Binder, SimpleNamespace(api=server, time=time))
        started: list[Any] = []
        rooms = KeptRooms(binder, cast(Preemptions, preemptions), lambda _: True, lambda: NOW, started.append)
        rooms.look(POD)
        await started.pop()

    asyncio.run(act())
    return server


@pytest.mark.parametrize(
    ("until", "has_room", "reason", "log", "told"),
    [
        (NOW - 600, True, "TimeIsOver", "its time is over for 600 s", "is the clock of this machine behind?"),
        (NOW + 600, False, "NoRoom", "it has none", "the node has no room for it"),
        (NOW + 600, True, "KeptForMoves", "", ""),
    ],
)
def test_who_asks_for_room_is_told_why_there_is_none(
    *, until: float, has_room: bool, reason: str, log: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server = look(until, has_room=has_room)
    assert [one["reason"] for one in server.conditions] == [reason]
    assert log in caplog.text
    assert refusal(server.pod, "request").endswith(told)
    assert refusal(server.pod, "another request") == ""


class Clock:
    """Passes when somebody sleeps, or decides."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_after_a_long_decision_all_wait_and_the_pods_of_its_namespace_longer() -> None:
    clock = Clock()
    took = list[tuple[str, float]]()

    def keep(pod: Pod, *_: object) -> bool:
        clock.now += 1.0 if pod.namespace == "costly" else 0.0
        return True

    async def act() -> None:
        time = SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC), monotonic=clock, sleep=clock.sleep)
        binder = cast(Binder, SimpleNamespace(api=Asked(NOW + 600), time=time))
        preemptions = cast(Preemptions, SimpleNamespace(records={}, keep=keep))
        started: list[Any] = []
        rooms = KeptRooms(binder, preemptions, lambda _: True, lambda: NOW, started.append)
        for namespace in ("costly", "other", "costly"):
            before = clock.now
            rooms.look(replace(POD, namespace=namespace))
            await started.pop()
            took.append((namespace, clock.now - before))

    asyncio.run(act())
    assert took == [("costly", 1.0), ("other", 4.0), ("costly", 17.0)]

"""Room that is asked for by whom the clock of the scheduler is ahead of, or where there is none."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.attempt.binder import Binder
from scheduler.attempt.room import ROOM_ASKED, ROOM_KEPT, Room, refusal
from scheduler.client.errors import api_error
from scheduler.core_v1.pod import Pod
from scheduler.live.kept_rooms import KeptRooms
from scheduler.live.preemptions import Preemptions
from scheduler.state.cluster_changes import PodChanged
from tests.builders import a_pod

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
NOW = MOMENT.timestamp()
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
    time = SimpleNamespace(now=lambda: MOMENT, monotonic=float)
    preemptions = SimpleNamespace(records={}, keep=lambda *_: has_room)

    async def act() -> None:
        binder = cast(Binder, SimpleNamespace(api=server, time=time))
        started: list[Any] = []
        rooms = KeptRooms(binder, cast(Preemptions, preemptions), lambda _: True, lambda _: POD, started.append)
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
    then: Callable[[], object] = staticmethod(lambda: None)
    """What happens while somebody sleeps."""

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.then()


def test_after_a_long_decision_all_wait_and_the_pods_of_its_namespace_longer() -> None:
    clock = Clock()
    took = list[tuple[str, float]]()

    def keep(pod: Pod, *_: object) -> bool:
        clock.now += 1.0 if pod.namespace == "costly" else 0.0
        return True

    async def act() -> None:
        time = SimpleNamespace(now=lambda: MOMENT, monotonic=clock, sleep=clock.sleep)
        binder = cast(Binder, SimpleNamespace(api=Asked(NOW + 600), time=time))
        preemptions = cast(Preemptions, SimpleNamespace(records={}, keep=keep))
        started: list[Any] = []
        rooms = KeptRooms(binder, preemptions, lambda _: True, lambda _: POD, started.append)
        for namespace in ("costly", "other", "costly"):
            before = clock.now
            rooms.look(replace(POD, namespace=namespace))
            await started.pop()
            took.append((namespace, clock.now - before))

    asyncio.run(act())
    assert took == [("costly", 1.0), ("other", 4.0), ("costly", 17.0)]


@dataclass(eq=False)
class Target:
    """A pod for which room is asked for, and the scheduler that keeps it. shown: as the watch shows it."""

    until: float = NOW + 600
    shown: Pod | None = POD
    calls: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    kept: set[str] = field(default_factory=set)
    name: str = "request"
    conditions: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        time = SimpleNamespace(now=lambda: MOMENT, monotonic=self.clock, sleep=self.clock.sleep)
        binder = cast(Binder, SimpleNamespace(api=self, time=time))
        preemptions = SimpleNamespace(
            records={}, keep=self._keep, is_kept_for_moves=self.kept.__contains__, drop=self.kept.discard
        )
        self.started: list[Any] = []
        self.rooms = KeptRooms(
            binder, cast(Preemptions, preemptions), lambda _: True, lambda _: self.shown, self.started.append
        )
        self.rooms.is_on = True

    def _keep(self, pod: Pod, *_: object) -> bool:
        self.kept.add(pod.uid)
        return True

    async def request(self, method: str, path: str, *, body: Any = None, **_: object) -> dict[str, Any]:
        self.calls.append(method)
        await asyncio.sleep(0)
        if body is not None:
            for _turn in range(0 if self.conditions else 10):  # the first one takes long
                await asyncio.sleep(0)
            self.conditions += body["status"].get("conditions", [])
        if self.shown is None:
            raise api_error(f"{method} {path}", 404, b"{}")
        team = f" of {path.split('/')[4]}" if "/team-" in path else ""
        asked = {"type": ROOM_ASKED, "message": str(Room(self.name, "node-0", frozenset(), self.until))}
        status = {"nominatedNodeName": "node-0", "conditions": [asked]}
        return {"metadata": {"uid": POD.uid + team}, "spec": {}, "status": status}

    def becomes(self, pod: Pod | None) -> None:
        """The watch shows it so."""
        before, self.shown = self.shown, pod
        self.rooms.on_event(PodChanged(before, pod))

    async def go_on(self) -> None:
        """All that was started ends."""
        while self.started:
            await self.started.pop(0)


def test_those_who_wait_at_once_take_turns() -> None:
    """After each decision of a second, four seconds are others', however many have waited for the same moment."""
    took = list[float]()

    async def act() -> None:
        target = Target()

        def keep(*_: object) -> bool:
            took.append(target.clock.now)
            target.clock.now += 1.0
            return True

        target.rooms._preemptions.keep = keep  # type: ignore[method-assign, assignment]
        pods = [replace(POD, namespace=f"team-{number}", uid=f"{POD.uid} of team-{number}") for number in range(4)]
        for pod in pods:
            target.rooms.look(pod)
        target.rooms._next_at = 10.0
        await asyncio.gather(*target.started)

    asyncio.run(act())
    assert [int(one) for one in took] == [10, 15, 20, 25]


@pytest.mark.parametrize(
    "becomes",
    [None, replace(POD, nominated_node=""), replace(POD, node_name="node-0"), replace(POD, is_deleting=True)],
)
def test_nothing_is_kept_for_a_request_that_was_taken_back_while_it_waited(becomes: Pod | None) -> None:
    async def act() -> Target:
        target = Target()
        target.rooms._next_at = 10.0
        target.rooms.look(POD)
        waiting = target.started.pop()
        target.clock.then = lambda: target.becomes(becomes)
        await waiting
        await target.go_on()
        return target

    target = asyncio.run(act())
    assert (target.kept, target.rooms._kept) == (set(), {})
    assert "PATCH" not in target.calls


def test_what_is_said_of_a_pod_is_said_one_after_the_other_and_another_request_stays() -> None:
    """A run of who moves pods ends, and another one begins at once: the end of the first one's room is said first."""

    async def act() -> list[dict[str, Any]]:
        target = Target()
        target.rooms.look(POD)
        await target.go_on()
        target.becomes(replace(POD, nominated_node=""))
        target.name = "another request"
        target.becomes(POD)
        assert len(target.started) == 2
        await asyncio.gather(*[target.started.pop(0), target.started.pop(0)])
        return target.conditions

    said = [(one["type"], one.get("status"), one.get("message")) for one in asyncio.run(act())]
    assert said == [
        (ROOM_KEPT, "True", "request"),
        (ROOM_KEPT, "False", "request"),
        (ROOM_KEPT, "True", "another request"),
    ]


def test_nothing_is_tried_again_for_a_pod_that_goes_while_its_room_ends() -> None:
    async def act() -> Target:
        target = Target(until=NOW + 1)
        target.rooms.look(POD)
        await target.go_on()
        assert target.kept
        target.until = NOW - 1
        room, timer = target.rooms._kept[POD.uid]
        timer.cancel()
        ending = target.rooms._end(POD, room)
        target.becomes(None)
        await ending
        await target.go_on()
        return target

    target = asyncio.run(act())
    assert (target.kept, target.rooms._kept) == (set(), {})

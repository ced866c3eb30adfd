"""Events are bounded: in their number, in their length."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler import reporting as module
from scheduler.attempt.decision import PodKey
from scheduler.client.api_resources import NODES, claims
from scheduler.client.errors import ApiError, ApiStatus
from scheduler.client.watch_states import Key
from scheduler.reporting import (
    FINISHED_S,
    NOTE_MAX_BYTES,
    QUEUE_MAX,
    QUEUED_OF_NAMESPACE,
    Events,
    note_of,
)


class Silence:
    """An API server that nobody asks."""

    async def request(self, *_: object, **__: object) -> dict[str, object]:
        raise AssertionError


class Denial:
    """An API server that takes no event."""

    async def request(self, method: str, path: str, **_: object) -> dict[str, object]:
        raise ApiError(f"{method} {path}", 403, ApiStatus("Forbidden", "events are forbidden"))


def a_pod(number: int) -> PodKey:
    return PodKey("work", f"pod-{number}", f"uid-{number}", "1", "dra-scheduler")


def test_events_beyond_the_queue_are_dropped_and_counted() -> None:
    async def say_too_much() -> Events:
        events = Events(Silence(), "dra-scheduler", "host-0", lambda: datetime(2026, 1, 1, tzinfo=UTC))
        for number in range(QUEUE_MAX + 3):
            events.scheduled(a_pod(number), "node-0")
        return events

    assert asyncio.run(say_too_much()).dropped == 3


def test_namespace_that_fills_the_queue_leaves_room_for_others() -> None:
    async def say_too_much() -> Events:
        events = Events(Silence(), "dra-scheduler", "host-0", lambda: datetime(2026, 1, 1, tzinfo=UTC))
        for number in range(QUEUE_MAX):
            events.scheduled(a_pod(number), "node-0")
        for number in range(QUEUED_OF_NAMESPACE + 3):
            events.scheduled(PodKey("other", f"pod-{number}", f"uid-{number}", "1", "dra-scheduler"), "node-0")
        return events

    assert asyncio.run(say_too_much()).dropped == 3


def test_events_that_the_server_refuses_are_counted() -> None:
    async def say_twice() -> Events:
        events = Events(Denial(), "dra-scheduler", "host-0", lambda: datetime(2026, 1, 1, tzinfo=UTC))
        writing = asyncio.create_task(events.run())
        assert events.failed == 0
        for number in range(2):
            events.scheduled(a_pod(number), "node-0")
        for _ in range(9):
            await asyncio.sleep(0)
        writing.cancel()
        return events

    assert asyncio.run(say_twice()).failed == 2


def test_refusals_that_are_repeated_by_turns_are_written_once_however_many_pods_are_bound_in_between() -> None:
    pods = QUEUE_MAX // 2

    async def refuse_by_turns() -> Events:
        events = Events(Silence(), "dra-scheduler", "host-0", lambda: datetime(2026, 1, 1, tzinfo=UTC))
        for _ in range(2):
            for number in range(pods):
                events.failed_scheduling(a_pod(number), "0/1 nodes are available.")
            for number in range(pods // 2):
                events.scheduled(a_pod(pods + number), "node-0")
        return events

    assert asyncio.run(refuse_by_turns()).dropped == 0


def test_series_that_was_not_said_again_for_minutes_has_ended() -> None:
    """What is kept of pods that are long gone would grow for hours."""
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]

    async def refuse() -> list[int]:
        events = Events(Silence(), "dra-scheduler", "host-0", lambda: clock[0])
        counts = []
        for pause_s in (0, FINISHED_S - 1, FINISHED_S - 1, FINISHED_S):
            clock[0] += timedelta(seconds=pause_s)
            events.failed_scheduling(a_pod(0), "0/1 nodes are available.")
            events.failed_scheduling(a_pod(int(pause_s) + 1), "0/1 nodes are available.")
            counts.append(next(one.count for said, one in events._known.items() if said.regarding.name == "pod-0"))
        assert len(events._known) == 2
        return counts

    assert asyncio.run(refuse()) == [1, 2, 3, 1]


def test_series_begin_anew_when_the_clock_is_set_back() -> None:
    """By a year: nothing of what is said would be written for so long."""
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]

    async def refuse() -> list[int]:
        events = Events(Silence(), "dra-scheduler", "host-0", lambda: clock[0])
        counts = []
        for jump in (timedelta(0), timedelta(days=-365), timedelta(seconds=1)):
            clock[0] += jump
            events.failed_scheduling(a_pod(0), "0/1 nodes are available.")
            counts += [one.count for one in events._known.values()]
        return counts

    assert asyncio.run(refuse()) == [1, 1, 2]


def test_bound_pods_push_nothing_out_of_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KNOWN_MAX", 2)
    monkeypatch.setattr(module, "QUEUE_MAX", 7)

    async def refuse_bind_refuse() -> Events:
        events = Events(Silence(), "dra-scheduler", "host-0", lambda: datetime(2026, 1, 1, tzinfo=UTC))
        for message in ("first", "second"):
            events.failed_scheduling(a_pod(0), message)
        for number in range(5):
            events.scheduled(a_pod(number), "node-0")
        for message in ("first", "second"):
            events.failed_scheduling(a_pod(0), message)
        return events

    assert asyncio.run(refuse_bind_refuse()).dropped == 0


def test_note_is_cut_between_characters() -> None:
    assert note_of("a" * NOTE_MAX_BYTES) == "a" * NOTE_MAX_BYTES
    cut = note_of("€" * NOTE_MAX_BYTES)
    assert cut == "€" * 340 + "..."
    assert len(cut.encode()) <= NOTE_MAX_BYTES


class Taken:
    """An API server that takes down what is created, as path and what it is about."""

    def __init__(self) -> None:
        self.created: list[tuple[str, dict[str, str]]] = []

    async def request(self, method: str, path: str, *, body: Any = None, **_: object) -> dict[str, object]:
        assert method == "POST"
        self.created.append((path, body["regarding"]))
        return {}


def test_object_that_cannot_be_read_says_so_itself_if_it_says_who_it_is() -> None:
    taken = Taken()

    async def say() -> None:
        events = Events(taken, "dra-scheduler", "host-0", lambda: datetime(2026, 1, 1, tzinfo=UTC))
        events.unreadable(claims("v1beta1"), Key("work", "a"), "uid-a", "spec: is wrong")
        events.unreadable(NODES, Key("", "n"), "uid-n", "spec: is wrong")
        events.unreadable(NODES, Key("", ""), "uid-n", "metadata.name: is wrong")
        events.unreadable(NODES, Key("", "n"), "", "metadata.uid: is wrong")
        running = asyncio.create_task(events.run())
        await events.drain()
        running.cancel()

    asyncio.run(say())
    claim = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "namespace": "work"}
    node = {"apiVersion": "v1", "kind": "Node", "namespace": ""}
    assert taken.created == [
        ("/apis/events.k8s.io/v1/namespaces/work/events", {**claim, "name": "a", "uid": "uid-a"}),
        ("/apis/events.k8s.io/v1/namespaces/default/events", {**node, "name": "n", "uid": "uid-n"}),
    ]

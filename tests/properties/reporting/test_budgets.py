"""However often pods are refused, and whatever is said: what is written has a bound, and the last word is told."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.attempt.decision import PodKey
from scheduler.core_v1.pod import Pod
from scheduler.reporting import (
    CHANGES_AT_ONCE,
    CHANGES_EVERY_S,
    CHANGES_OF_ALL_AT_ONCE,
    CHANGES_OF_ALL_EVERY_S,
    DETAILS_EVERY_S,
    FINISHED_S,
    REASONS_AT_ONCE,
    REASONS_EVERY_S,
    RELEASE_EVERY_S,
    SERIES_S,
    Events,
    Refusals,
)
from tests.builders import a_pod

PODS = ("a", "b", "c")
TURNS = 20
"""Of the event loop: more than what is queued takes to be written."""

LATER_S = 4 * DETAILS_EVERY_S
"""For so long nothing is said at the end."""


@dataclass(frozen=True)
class Refusal:
    """after_s: since the one before. gist, detail: what is said."""

    after_s: int
    pod: str
    gist: str
    detail: int

    @property
    def message(self) -> str:
        return f"0/9 nodes are available: {self.detail} {self.gist}"


REFUSALS = st.lists(
    st.builds(
        Refusal,
        st.sampled_from([0, 0, 1, 3, 40, 400]),
        st.sampled_from(PODS),
        st.sampled_from(["cannot allocate all claims", "Insufficient cpu"]),
        st.integers(0, 9),
    ),
    max_size=60,
)


@dataclass
class Written:
    """An API server whose clock goes on as it is told, and what it takes: when, how, and the body."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    taken: list[tuple[float, str, str, Any]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.now.timestamp()

    async def request(self, method: str, path: str, *, body: Any = None, **_: object) -> dict[str, object]:
        self.taken.append((self.seconds, method, path, body))
        return {"metadata": {"resourceVersion": str(1 + len(self.taken))}}

    async def pass_s(self, seconds: float, refusals: Refusals | None = None) -> None:
        """Let so much time pass; every second, what was put off may be written."""
        end = self.now + timedelta(seconds=seconds)
        while refusals and self.now + timedelta(seconds=RELEASE_EVERY_S) <= end:
            self.now += timedelta(seconds=RELEASE_EVERY_S)
            refusals.release()
            if refusals.waiting:
                await self.write()
        self.now = end
        await self.write()

    async def write(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)


def test_condition_names_other_reasons_soon_and_other_details_later_within_a_bound() -> None:
    @given(REFUSALS)
    def check(refusals: Sequence[Refusal]) -> None:
        server = asyncio.run(_refused(refusals))
        by_pod: dict[str, list[tuple[float, str]]] = {name: [] for name in PODS}
        for at, _, path, body in server.taken:
            by_pod[path.split("/")[-2]].append((at, _message(body)))
        last = {one.pod: one.message for one in refusals}
        assert {name: told[-1][1] for name, told in by_pod.items() if told} == last
        for told in by_pod.values():
            _check_bound([at for at, _ in told], REASONS_AT_ONCE + 1, min(REASONS_EVERY_S, DETAILS_EVERY_S) / 2)
            details = [at for (at, new), (_, old) in zip(told[1:], told, strict=False) if _gist(new) == _gist(old)]
            _check_bound(details, 1, DETAILS_EVERY_S)

    check()


async def _refused(refusals: Iterable[Refusal]) -> Written:
    server = Written()
    writer = Refusals(server, lambda: server.now)
    running = asyncio.create_task(writer.run())
    pods: dict[str, Pod] = {name: a_pod(name=name, uid=name, resource_version="1") for name in PODS}
    said: dict[str, list[tuple[float, str]]] = {name: [] for name in PODS}
    for one in refusals:
        await server.pass_s(one.after_s, writer)
        is_rested = not said[one.pod] or server.seconds - said[one.pod][-1][0] >= REASONS_AT_ONCE * REASONS_EVERY_S
        writer.refuse(pods[one.pod], "Unschedulable", one.message, one.gist)
        await server.write()
        if is_rested and (not said[one.pod] or said[one.pod][-1][1] != one.gist):
            at, _, _, body = server.taken[-1]
            assert (at, _message(body)) == (server.seconds, one.message), "it is told at once"
        said[one.pod].append((server.seconds, one.gist))
    await server.pass_s(LATER_S, writer)
    assert not writer.waiting
    running.cancel()
    return server


def _message(body: Any) -> str:
    return str(body["status"]["conditions"][0]["message"])


def _gist(message: str) -> str:
    return message.split(": ")[1].split(" ", 1)[1]


def _check_bound(times: Sequence[float], at_once: int, every_s: float) -> None:
    """Between any two moments, no more are written than at once and one more after each pause."""
    for first, start in enumerate(times):
        for number, end in enumerate(times[first:], 1):
            assert number <= at_once + (end - start) / every_s, times


def test_events_about_a_pod_and_about_all_have_a_bound_and_repetitions_are_counted() -> None:
    @given(REFUSALS)
    def check(refusals: Sequence[Refusal]) -> None:
        server = asyncio.run(_said(refusals))
        about: dict[str, list[float]] = {name: [] for name in PODS}
        for at, method, _, body in server.taken:
            if method == "POST":
                about[body["regarding"]["name"]].append(at)
        for times in about.values():
            _check_bound(times, 1 + CHANGES_AT_ONCE, min(CHANGES_EVERY_S, FINISHED_S) / 2)
        patched = Counter(path for _, method, path, _ in server.taken if method == "PATCH")
        lasted_s = server.seconds - datetime(2026, 1, 1, tzinfo=UTC).timestamp()
        assert all(number <= lasted_s / SERIES_S for number in patched.values())
        assert {one.pod for one in refusals} == {name for name, times in about.items() if times}

    check()


async def _said(refusals: Iterable[Refusal]) -> Written:
    server = Written()
    events = Events(server, "ours", "host", lambda: server.now)
    running = asyncio.create_task(events.run())
    for one in refusals:
        await server.pass_s(one.after_s)
        events.failed_scheduling(PodKey("default", one.pod, one.pod, "1", "ours"), one.message, one.gist)
        await server.write()
    running.cancel()
    return server


def test_crowd_whose_refusals_change_all_the_time_has_few_events_and_conditions() -> None:
    """Pods that fit nowhere, each refused every ten seconds, with another nearest node each time."""
    pods, seconds = 500, 200

    async def crowd() -> Counter[str]:
        server = Written()
        writer, events = Refusals(server, lambda: server.now), Events(server, "ours", "host", lambda: server.now)
        running = [asyncio.create_task(one.run()) for one in (writer, events)]
        for second in range(seconds):
            for number in range(second % 10, pods, 10):
                pod = a_pod(name=f"pod-{number}", uid=f"uid-{number}", resource_version="1")
                message = f"0/9 nodes are available: 9 cannot allocate all claims. nearest is node {second}"
                events.failed_scheduling(PodKey.of(pod), message, "cannot allocate all claims")
                writer.refuse(pod, "Unschedulable", message, "cannot allocate all claims")
            await asyncio.gather(writer.drain(), events.drain())
            await server.pass_s(1, writer)
        for one in running:
            one.cancel()
        return Counter(f"{method} {'event' if 'event' in path else 'pod'}" for _, method, path, _ in server.taken)

    written = asyncio.run(crowd())
    assert written["POST event"] == pods
    assert written["PATCH event"] == 0
    assert pods <= written["PATCH pod"] <= pods + seconds / RELEASE_EVERY_S


def test_crowd_whose_reasons_change_all_the_time_has_few_events() -> None:
    pods, seconds = 1500, 100

    async def crowd() -> int:
        server = Written()
        events = Events(server, "ours", "host", lambda: server.now)
        running = asyncio.create_task(events.run())
        for second in range(seconds):
            for number in range(second % 10, pods, 10):
                pod = a_pod(name=f"pod-{number}", uid=f"uid-{number}")
                events.failed_scheduling(PodKey.of(pod), f"reason {second % 3}")
            await events.drain()
            await server.pass_s(1)
        running.cancel()
        return len(server.taken)

    assert asyncio.run(crowd()) <= pods + CHANGES_OF_ALL_AT_ONCE + seconds / CHANGES_OF_ALL_EVERY_S

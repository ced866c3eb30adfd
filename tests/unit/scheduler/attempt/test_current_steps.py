"""An attempt that takes long explains itself."""

import asyncio
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.attempt.attempt import Attempt, WrittenPod
from scheduler.attempt.binder import LATE_S, Binder, CurrentSteps, WatchedChanges
from scheduler.attempt.decision import Bound, Step
from scheduler.attempt.pod_fate import look
from scheduler.attempt.run import run
from scheduler.attempt.slots import Slots
from scheduler.client.errors import Unanswered


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_attempt_that_is_at_a_step_for_ten_seconds_is_logged_once_for_each_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    progress = CurrentSteps(clock)
    progress.at("uid", "ns/pod", "node-0", "Allocate", "claim ns/c")
    progress.failed("uid", Unanswered("PUT /claim", "no answer in time", is_ambiguous=True))
    reported: list[int] = []
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            clock.now += LATE_S - 1
            progress.log_late()
            reported.append(len(caplog.records))
        progress.at("uid", "ns/pod", "node-0", "Bind")
        clock.now += LATE_S
        progress.log_late()
        progress.end("uid")
        progress.log_late()
    assert reported == [0, 1, 1]
    first, second = (record.getMessage() for record in caplog.records)
    assert first == (
        "its attempt on node node-0 has been at step Allocate (claim ns/c) for 18.0 s; the last failure: "
        "PUT /claim: no answer in time"
    )
    assert second == "its attempt on node node-0 has been at step Bind for 10.0 s"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert progress.of("uid") == ""


class Waiting(Step):
    """Waits until it is let go, and fails a call meanwhile."""

    def __init__(self, scene: "ProgressScene") -> None:
        self.scene = scene

    async def do(self) -> Bound:
        await look(self.scene.binder, self.scene.attempt)
        return Bound("node-0")


class ProgressScene:
    """An attempt with an API server that does not answer for a while."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.answers: Iterator[bool] = iter([False, True])

        async def sleep(_: float) -> None:
            self.seen.append(self.binder.progress.of("uid"))

        time = SimpleNamespace(monotonic=float, sleep=sleep, random=lambda: 0.5)
        listener = SimpleNamespace(passed=lambda *_, **__: None)
        self.binder = cast(
            Binder,
            SimpleNamespace(
                api=self,
                listener=listener,
                time=time,
                progress=CurrentSteps(float),
                changes=WatchedChanges(),
                volumes=SimpleNamespace(pod=lambda _: None),
            ),
        )
        pod = SimpleNamespace(namespace="ns", name="pod", uid="uid")
        decision = SimpleNamespace(pod=pod, node="node-0", extended=None, is_assigned=False)
        slot = Slots(1, float).take("ns")
        self.attempt = Attempt(cast(Any, decision), cast(Any, None), slot, WrittenPod("1", {}))

    async def request(self, method: str, path: str, **_: object) -> dict[str, Any]:
        if not next(self.answers):
            raise Unanswered(f"{method} {path}", "no answer in time", is_ambiguous=False)
        return {"metadata": {"uid": "uid", "resourceVersion": "1"}, "spec": {}}


def test_step_and_the_last_failed_call_are_shown_while_the_attempt_asks_again_and_forgotten_at_its_end() -> None:
    scene = ProgressScene()
    asyncio.run(run(scene.binder, scene.attempt, [Waiting(scene)]))
    (shown,) = scene.seen
    assert shown.startswith("its attempt on node node-0 has been at step Waiting for 0.0 s; the last failure: GET ")
    assert shown.endswith("no answer in time")
    assert scene.binder.progress.by_step() == {}


def test_reason_names_step_and_last_failure_and_stays_the_same_while_time_passes() -> None:
    now = [0.0]
    steps = CurrentSteps(lambda: now[0])
    assert steps.reason("uid") == ""
    steps.at("uid", "ns/pod", "node-0", "Reserve", "claim ns/a")
    assert steps.reason("uid") == "it was at step Reserve (claim ns/a)"
    steps.failed("uid", ValueError('failed calling webhook "slow.example"'))
    reason = steps.reason("uid")
    now[0] = 20.0
    assert reason == steps.reason("uid")
    assert reason == 'it was at step Reserve (claim ns/a); the last failure: failed calling webhook "slow.example"'

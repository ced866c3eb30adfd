"""An attempt does its steps in order, and undoes in reverse order exactly those that were begun."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.attempt.attempt import Attempt, WrittenPod
from scheduler.attempt.binder import Binder, CurrentSteps, WatchedChanges
from scheduler.attempt.decision import (
    AttemptEnded,
    AttemptOutcome,
    Bound,
    BoundElsewhere,
    Pending,
    Retry,
    Step,
    Stopped,
)
from scheduler.attempt.pod_fate import UndoStopped
from scheduler.attempt.run import run
from scheduler.attempt.slots import Slots
from scheduler.client.errors import ApiError, ApiStatus

FAILED = Retry("failed")


@dataclass(eq=False)
class Noted(Step):
    """A step that notes what is asked of it."""

    scene: "Scene"
    name: str
    does: Callable[[], Pending | None] = lambda: None
    is_relied_on: bool = False
    keeps: AttemptOutcome | None = None

    async def do(self) -> Pending | None:
        self.scene.log.append(f"do {self.name}")
        await asyncio.sleep(0)
        return self.does()

    @property
    def may_be_relied_on(self) -> bool:
        return self.is_relied_on

    async def undo(self, node: str) -> bool:
        self.scene.log.append(f"undo {self.name}{node and f' on {node}'}")
        if self.keeps:
            raise UndoStopped(cast(Any, self.keeps))
        return True


@dataclass
class Scene:
    """An attempt for a pod on node-0. node: where the pod turns out to be; is_denied: nobody may read it."""

    log: list[str] = field(default_factory=list)
    node: str = ""
    is_denied: bool = False
    is_assigned: bool = False

    async def request(self, method: str, path: str, **_: object) -> dict[str, Any]:
        self.log.append(f"{method} pod")
        if self.is_denied:
            raise ApiError(path, 400, ApiStatus("BadRequest", "no"))
        return {"metadata": {"uid": "uid", "resourceVersion": "1"}, "spec": {"nodeName": self.node}}

    def run(self, *steps: Step, cancelled_after: int = 0) -> AttemptOutcome:
        pod = SimpleNamespace(namespace="ns", name="pod", uid="uid")
        decision = SimpleNamespace(pod=pod, node="node-0", extended=None, is_assigned=self.is_assigned)
        listener = SimpleNamespace(
            passed=lambda _decision, point, *, is_done, **_: self.log.append(f"{point} {is_done}"),
            rolled_back=lambda _, outcome: self.log.append(f"rolled back {type(outcome).__name__}"),
        )
        volumes = SimpleNamespace(pod=lambda _: None)
        parts = {"progress": CurrentSteps(float), "changes": WatchedChanges(), "volumes": volumes}
        binder = SimpleNamespace(api=self, listener=listener, time=SimpleNamespace(monotonic=lambda: 0.0), **parts)

        def report(outcome: AttemptOutcome) -> None:
            self.log.append(f"report {type(outcome).__name__}")

        slot, written = Slots(1, float).take("ns"), WrittenPod("1", {})
        attempt = Attempt(cast(Any, decision), cast(Any, None), slot, written, report=report)

        async def act() -> AttemptOutcome:
            task = asyncio.create_task(run(cast(Binder, binder), attempt, steps))
            for _ in range(cancelled_after):
                await asyncio.sleep(0)
            if cancelled_after:
                task.cancel()
            return await task

        return asyncio.run(act())


def fail() -> None:
    raise AttemptEnded(FAILED)


def break_down() -> None:
    raise RuntimeError("a defect")


def test_steps_are_done_in_order_and_none_is_undone() -> None:
    scene = Scene()
    assert scene.run(Noted(scene, "a"), Noted(scene, "b")) == Bound("node-0")
    assert scene.log == ["do a", "do b", "PreBind True"]


def test_outcome_of_a_step_ends_the_attempt_and_keeps_what_was_done() -> None:
    scene = Scene()
    assert scene.run(Noted(scene, "a", lambda: Pending("not ready")), Noted(scene, "b")) == Pending("not ready")
    assert scene.log == ["do a", "PreBind True"]


def test_failure_undoes_the_steps_that_were_begun_the_last_first() -> None:
    scene = Scene()
    assert scene.run(Noted(scene, "a"), Noted(scene, "b", fail), Noted(scene, "c")) == FAILED
    assert scene.log == [
        "do a",
        "do b",
        "PreBind False",
        "report Retry",
        "undo b",
        "undo a",
        "rolled back Retry",
    ]


def test_cancelled_attempt_undoes_its_steps_and_reports_nothing() -> None:
    scene = Scene()
    with pytest.raises(asyncio.CancelledError):
        scene.run(Noted(scene, "a"), Noted(scene, "b"), cancelled_after=2)
    assert scene.log == ["do a", "do b", "PreBind False", "undo b", "undo a", f"rolled back {Stopped.__name__}"]


def test_defect_undoes_the_steps_and_is_raised() -> None:
    scene = Scene()
    with pytest.raises(RuntimeError, match="a defect"):
        scene.run(Noted(scene, "a", break_down))
    assert "undo a" in scene.log


def test_pod_is_read_before_a_step_is_undone_that_may_be_relied_on() -> None:
    scene = Scene()
    assert scene.run(Noted(scene, "a", is_relied_on=True), Noted(scene, "b", fail)) == FAILED
    assert scene.log[3:6] == ["GET pod", "report Retry", "undo b"]


def test_pod_that_is_bound_after_all_keeps_everything() -> None:
    scene = Scene(node="node-0")
    assert scene.run(Noted(scene, "a", is_relied_on=True), Noted(scene, "b", fail)) == Bound("node-0")
    assert scene.log[3:] == ["GET pod"]


def test_pod_that_is_bound_elsewhere_keeps_what_it_needs_there() -> None:
    scene = Scene(node="node-1")
    assert scene.run(Noted(scene, "a", fail, is_relied_on=True)) == BoundElsewhere("node-1")
    assert scene.log[2:] == ["GET pod", "report BoundElsewhere", "undo a on node-1", "rolled back BoundElsewhere"]


def test_pod_that_nobody_knows_of_keeps_everything() -> None:
    scene = Scene(is_denied=True)
    assert isinstance(scene.run(Noted(scene, "a", fail, is_relied_on=True)), Retry)
    assert scene.log[2:] == ["GET pod", "report Retry"]


def test_pod_that_is_found_bound_while_steps_are_undone_keeps_the_rest() -> None:
    scene = Scene()
    kept = Noted(scene, "b", fail, keeps=Bound("node-0"))
    assert scene.run(Noted(scene, "a"), kept) == Bound("node-0")
    assert scene.log[3:] == ["report Retry", "undo b"]


def test_pod_that_had_its_node_before_is_not_read() -> None:
    scene = Scene(is_assigned=True)
    assert scene.run(Noted(scene, "a", fail, is_relied_on=True)) == FAILED
    assert scene.log[2:] == ["report Retry", "undo a on node-0", "rolled back Retry"]

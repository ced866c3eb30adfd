"""What becomes of a pod whose attempt is given up, and what it says."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.attempt import pod_fate
from scheduler.attempt.attempt import Attempt, WrittenPod
from scheduler.attempt.binder import Binder, CurrentSteps, WatchedChanges
from scheduler.attempt.decision import (
    AttemptOutcome,
    Bound,
    BoundElsewhere,
    Decision,
    ExtendedPlan,
    Gone,
    PodKey,
    Retry,
    Unschedulable,
)
from scheduler.attempt.pod_fate import GIVEN_UP, fence, look
from scheduler.attempt.slots import CallLimit, Slots
from scheduler.attempt.steps.pod import Bind
from scheduler.client.errors import Unanswered
from scheduler.core_v1.pod import Pod
from scheduler.plugins.dynamic_resources import CLAIMS
from scheduler.state.cluster_changes import PodChanged
from tests.builders import a_pod


class Fenced:
    """An API server that has the pod, and takes down its condition; the version moves where that is another one."""

    def __init__(self) -> None:
        self.version = 7
        self.condition: dict[str, Any] = {}

    async def request(self, method: str, _path: str, *, body: Any = None, **_: object) -> dict[str, Any]:
        if method == "PATCH":
            (condition,) = body["status"]["conditions"]
            self.version += {**self.condition, **condition} != self.condition
            self.condition |= condition
        version = str(self.version)
        metadata = {"namespace": "ns", "name": "pod", "uid": "uid", "resourceVersion": version}
        return {"metadata": metadata, "spec": {}, "status": {"conditions": [self.condition] if self.condition else []}}


@pytest.mark.parametrize(
    ("ended", "reason", "message"),
    [
        (
            Unschedulable("claim ns/c is reserved for 256 pods, the maximum", CLAIMS),
            "Unschedulable",
            "claim ns/c is reserved for 256 pods, the maximum",
        ),
        (Retry("claim ns/c changed"), "SchedulerError", "claim ns/c changed"),
        (None, "SchedulerError", GIVEN_UP),
    ],
)
def test_pod_whose_attempt_is_given_up_says_why_and_the_same_each_time(
    ended: AttemptOutcome | None, reason: str, message: str
) -> None:
    server = Fenced()
    pod = SimpleNamespace(namespace="ns", name="pod", uid="uid")
    decision = SimpleNamespace(pod=pod, node="node-0", extended=None)
    time = SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    volumes = SimpleNamespace(pod=lambda _: None)
    parts = {"repairs": CallLimit(1, 1), "progress": CurrentSteps(float), "changes": WatchedChanges()}
    binder = SimpleNamespace(api=server, time=time, volumes=volumes, **parts)
    attempt = Attempt(
        cast(Any, decision),
        cast(Any, SimpleNamespace(node="node-0")),
        Slots(1, float).take("ns"),
        WrittenPod("7", {}),
        ended=ended,
    )
    for times in range(1, 5):  # also in one second: each attempt moves the version, and says the same
        assert asyncio.run(fence(cast(Binder, binder), attempt)) is None
        assert server.version == 7 + times
        assert (server.condition["reason"], server.condition["message"]) == (reason, message)


TURNS = 20


class Silent:
    """An API server that does not answer, or fails each call, while a watch still shows the pod."""

    def __init__(self, *, fails: bool = False, is_extended: bool = False) -> None:
        self.fails = fails
        self.shown = a_pod()
        self.told: list[AttemptOutcome] = []
        time = SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC), sleep=asyncio.sleep, random=lambda: 0.0)
        self.binder = cast(
            Binder,
            SimpleNamespace(
                api=self,
                time=time,
                volumes=SimpleNamespace(pod=lambda _: self.shown),
                repairs=CallLimit(1, 1),
                progress=CurrentSteps(float),
                changes=WatchedChanges(),
            ),
        )
        extended = cast(ExtendedPlan, object()) if is_extended else None
        self.attempt = Attempt(
            Decision(PodKey.of(self.shown), "node-0", (), 1, extended=extended),
            cast(Any, SimpleNamespace(node="node-0")),
            Slots(1, float).take("ns"),
            WrittenPod("1", {}, sent="1"),
            report=self.told.append,
        )
        self.binder.progress.at(self.shown.uid, "", "", "Undo")

    async def request(self, method: str, path: str, **_: object) -> dict[str, Any]:
        if self.fails:
            raise Unanswered(f"{method} {path}", "no answer in time", is_ambiguous=True)
        await asyncio.Event().wait()
        return {}

    def show(self, pod: Pod) -> None:
        self.binder.changes.on_event(PodChanged(self.shown, pod))
        self.shown = pod
        self.binder.changes.on_event(PodChanged(self.shown, pod))

    def run(self, wait: Callable[[], Awaitable[object]], shown: Pod | None) -> object:
        """What the wait ends with once the watch shows that; "still waiting" if it does not end."""

        async def act() -> object:
            task = asyncio.ensure_future(wait())
            await turns()
            if shown:
                self.show(shown)
                await turns()
            if task.done():
                return await task
            task.cancel()
            return "still waiting"

        return asyncio.run(act())


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


ASKS: Mapping[str, Callable[[Binder, Attempt], Awaitable[object]]] = {"look": look, "fence": fence}


@pytest.mark.parametrize("api_server", ["fails", "is silent"])
@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize(
    ("shown", "fate"),
    [
        (a_pod(node_name="node-0"), Bound("node-0")),
        (a_pod(node_name="node-1"), BoundElsewhere("node-1")),
        (a_pod(is_deleting=True), Gone("pod default/pod is being deleted")),
        (a_pod(resource_version="2"), "still waiting"),
        (None, "still waiting"),
    ],
)
def test_watch_says_what_became_of_a_pod_while_the_api_server_does_not(
    shown: Pod | None, fate: object, ask: str, api_server: str
) -> None:
    scene = Silent(fails=api_server == "fails")
    assert scene.run(lambda: ASKS[ask](scene.binder, scene.attempt), shown) == fate


def test_unanswered_binding_ends_as_bound_once_the_watch_shows_it() -> None:
    scene = Silent()
    assert scene.run(Bind(scene.binder, scene.attempt).do, a_pod(node_name="node-0")) == Bound("node-0")
    assert scene.attempt.pod.sent == ""


@pytest.mark.parametrize("node", ["node-0", "node-1"])
def test_binding_of_a_pod_with_extended_resources_waits_for_the_api_server(node: str) -> None:
    """It may be there with the claim of another attempt, of the same name: only its status says so."""
    scene = Silent(is_extended=True)
    assert scene.run(Bind(scene.binder, scene.attempt).do, a_pod(node_name=node)) == "still waiting"


def test_attempt_that_is_cancelled_while_it_asks_is_cancelled() -> None:
    scene = Silent()

    async def act() -> None:
        task = asyncio.ensure_future(look(scene.binder, scene.attempt))
        await turns()
        task.cancel()
        scene.show(a_pod(node_name="node-0"))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(act())


@pytest.mark.parametrize(
    ("api_server", "trouble"),
    [
        ("fails", "GET /api/v1/namespaces/default/pods/pod: no answer in time"),
        ("is silent", "the API server does not answer"),
    ],
)
def test_pod_is_told_while_the_api_server_does_not_say_whether_it_is_bound(
    api_server: str, trouble: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pod_fate, "REPORT_S", 0.0)
    scene = Silent(fails=api_server == "fails")
    assert scene.run(lambda: fence(scene.binder, scene.attempt), None) == "still waiting"
    (told,) = scene.told
    reason = f"it is not known yet whether pod default/pod is bound to node node-0: {trouble}"
    assert told == Retry(reason)
    assert caplog.messages == [reason]


def test_pod_is_told_nothing_when_the_answer_comes_soon() -> None:
    scene = Silent()
    scene.run(lambda: fence(scene.binder, scene.attempt), a_pod(node_name="node-0"))
    assert scene.told == []

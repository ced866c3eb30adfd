"""A pod whose attempt waits for long says for what, and is bound in the version that it has then."""

import asyncio
import copy
from types import SimpleNamespace
from typing import Any, cast

import pytest

from allocator.api.versions import Json
from scheduler.attempt import pod_fate
from scheduler.attempt.attempt import Attempt, WrittenPod
from scheduler.attempt.binder import Binder
from scheduler.attempt.decision import Decision, PodKey
from scheduler.attempt.pod_fate import reporting
from scheduler.attempt.slots import Slots
from scheduler.client.errors import ApiError, ApiStatus
from scheduler.runtime.core import TIME
from tests.builders import a_pod

AWAITED = "the API server's answer to a write of claim work/claim"
TURNS = 20


class PendingScene:
    """The pod on the API server, and an attempt that knows its first version. refuses: it takes no writes."""

    def __init__(self, *, node: str = "", refuses: bool = False) -> None:
        self.refuses = refuses
        metadata = {"namespace": "default", "name": "pod", "uid": "uid-pod", "resourceVersion": "1", "generation": 3}
        self.pod: Json = {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {}}
        self.patches: list[Json] = []
        parts = {"api": self, "time": TIME}
        self.binder = cast(Binder, SimpleNamespace(**parts))
        decision = Decision(PodKey.of(a_pod()), "node-0", (), 1)
        self.attempt = Attempt(decision, cast(Any, None), Slots(4, float).take("default"), WrittenPod("1", {}))

    async def request(self, method: str, path: str, *, body: Any = None, **_: object) -> Json:
        await asyncio.sleep(0)
        if method == "PATCH":
            if self.refuses:
                raise ApiError(f"{method} {path}", 500, ApiStatus("InternalError", "no"))
            self.patches.append(body["status"])
            self.pod["metadata"] = {**self.pod["metadata"], "resourceVersion": "2"}
        return copy.deepcopy(self.pod)

    def wait(self, turns: int = TURNS) -> None:
        """The attempt waits for so many turns of the loop."""

        async def act() -> None:
            async with reporting(self.binder, self.attempt, AWAITED):
                for _ in range(turns):
                    await asyncio.sleep(0)

        asyncio.run(act())


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_fate, "REPORT_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_pod_says_what_is_awaited_and_the_attempt_knows_its_new_version(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    scene = PendingScene()
    scene.wait()
    (condition,) = scene.patches[0]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "BindingPending")
    assert condition["message"] == f"waiting for {AWAITED}"
    assert condition["observedGeneration"] == 3
    assert scene.attempt.pod.version == "2"
    assert caplog.messages == [f"pod default/pod: waiting for {AWAITED}"]


def test_pod_whose_attempt_is_short_is_told_nothing() -> None:
    scene = PendingScene()
    scene.wait()
    assert scene.patches == []


@pytest.mark.usefixtures("at_once")
def test_what_is_being_told_is_awaited_so_that_the_version_is_known() -> None:
    scene = PendingScene()
    scene.wait(turns=2)
    assert scene.attempt.pod.version == "2"


@pytest.mark.usefixtures("at_once")
def test_pod_that_has_its_node_is_told_nothing() -> None:
    scene = PendingScene(node="node-0")
    scene.wait()
    assert scene.patches == []


@pytest.mark.usefixtures("at_once")
def test_attempt_goes_on_though_the_pod_cannot_be_told(caplog: pytest.LogCaptureFixture) -> None:
    scene = PendingScene(refuses=True)
    scene.wait()
    assert scene.attempt.pod.version == "1"
    assert "pod default/pod: cannot write that it is waiting: PATCH" in caplog.text

"""What a pod says whose attempt is given up."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.attempt.attempt import Attempt, WrittenPod
from scheduler.attempt.binder import Binder
from scheduler.attempt.current_steps import CurrentSteps
from scheduler.attempt.decision import AttemptOutcome, Retry, Unschedulable
from scheduler.attempt.pod_fate import fence
from scheduler.attempt.slots import CallLimit, Slots
from scheduler.plugins.dynamic_resources import CLAIMS

GIVEN_UP = "the attempt for node node-0 was given up at version 7"


class Fenced:
    """An API server that has the pod, and takes down its condition."""

    def __init__(self) -> None:
        self.condition: dict[str, Any] = {}

    async def request(self, method: str, _path: str, *, body: Any = None, **_: object) -> dict[str, Any]:
        if method == "PATCH":
            (self.condition,) = body["status"]["conditions"]
        return {"metadata": {"namespace": "ns", "name": "pod", "uid": "uid", "resourceVersion": "7"}, "spec": {}}


@pytest.mark.parametrize(
    ("ended", "reason", "message"),
    [
        (
            Unschedulable("claim ns/c is reserved for 256 pods, the maximum", CLAIMS),
            "Unschedulable",
            f"claim ns/c is reserved for 256 pods, the maximum ({GIVEN_UP})",
        ),
        (Retry("claim ns/c changed"), "SchedulerError", f"claim ns/c changed ({GIVEN_UP})"),
        (None, "SchedulerError", GIVEN_UP),
    ],
)
def test_pod_whose_attempt_is_given_up_says_why_first(ended: AttemptOutcome | None, reason: str, message: str) -> None:
    server = Fenced()
    pod = SimpleNamespace(namespace="ns", name="pod", uid="uid")
    decision = SimpleNamespace(pod=pod, node="node-0", extended=None)
    time = SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    binder = SimpleNamespace(api=server, time=time, repairs=CallLimit(1, 1), progress=CurrentSteps(float))
    attempt = Attempt(
        cast(Any, decision),
        cast(Any, SimpleNamespace(node="node-0")),
        Slots(1, float).take("ns"),
        WrittenPod("7", {}),
        ended=ended,
    )
    assert asyncio.run(fence(cast(Binder, binder), attempt)) is None
    assert (server.condition["reason"], server.condition["message"]) == (reason, message)

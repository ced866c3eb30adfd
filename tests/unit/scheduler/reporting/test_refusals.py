"""What the log says of pods that cannot be told."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import cast

import pytest

from scheduler.attempt import pod_calls
from scheduler.client.connection import Api
from scheduler.client.errors import ApiError, ApiStatus
from scheduler.core_v1.pod_status import Condition
from scheduler.reporting import Refusals
from tests.builders import a_pod

REASONS = ["BadRequest", "BadRequest", "BadRequest", "", "BadRequest", "InternalError"]
"""What becomes of one pod after the other; empty where it is told."""

STATUS = {"BadRequest": 400, "InternalError": 500}


class Refusing:
    """An API server that answers in this order."""

    def __init__(self) -> None:
        self._reasons = iter(REASONS)

    async def request(self, method: str, path: str, **_: object) -> dict[str, object]:
        if reason := next(self._reasons):
            raise ApiError(f"{method} {path}", STATUS[reason], ApiStatus(reason, "no"))
        return {"metadata": {"resourceVersion": "2"}}


def test_server_that_takes_no_condition_is_logged_once_and_again_when_it_has_taken_one_or_says_something_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def tell_all() -> None:
        refusals = Refusals(Refusing(), lambda: datetime(2026, 1, 1, tzinfo=UTC))
        running = asyncio.create_task(refusals.run())
        for number in range(len(REASONS)):
            refusals.refuse(a_pod(name=f"pod-{number}", resource_version="1"), "Unschedulable", "no room")
            await refusals.drain()
        running.cancel()

    with caplog.at_level(logging.DEBUG, "scheduler.reporting"):
        asyncio.run(tell_all())
    reported = [record.getMessage().split(":")[0] for record in caplog.records if record.levelno == logging.WARNING]
    assert reported == ["pod default/pod-0", "pod default/pod-4", "pod default/pod-5"]
    assert len(caplog.records) == len([reason for reason in REASONS if reason])


class Conflicting:
    """An API server where somebody else has just written to the pod; found: the pod as it is then."""

    def __init__(self, **spec: str) -> None:
        self.methods: list[str] = []
        metadata = {"namespace": "default", "name": "p", "uid": "u", "resourceVersion": "2"}
        self._found: dict[str, object] = {"metadata": metadata, "spec": spec}

    async def request(self, method: str, path: str, **_: object) -> dict[str, object]:
        self.methods.append(method)
        if method == "PATCH" and len(self.methods) == 1:
            raise ApiError(f"{method} {path}", 409, ApiStatus("Conflict", "changed"))
        return self._found


@pytest.mark.parametrize(
    ("spec", "methods"), [({}, ["PATCH", "GET", "PATCH"]), ({"nodeName": "node-0"}, ["PATCH", "GET"])]
)
def test_pod_that_has_changed_is_reported_again_unless_it_has_its_node_by_now(
    spec: dict[str, str], methods: list[str]
) -> None:
    server = Conflicting(**spec)

    async def tell() -> None:
        refusals = Refusals(server, lambda: datetime(2026, 1, 1, tzinfo=UTC))
        running = asyncio.create_task(refusals.run())
        refusals.refuse(a_pod(name="p", uid="u", resource_version="1"), "Unschedulable", "no room")
        await refusals.drain()
        running.cancel()

    asyncio.run(tell())
    assert server.methods == methods


@pytest.mark.parametrize(
    "said",
    [
        pod_calls.not_scheduled("BindingPending", "waiting", 0),
        pod_calls.not_scheduled("SchedulerError", "preemption on node a: evicts 1 of other namespaces", 0),
    ],
    ids=["it waits", "others go for it"],
)
def test_pod_that_says_what_its_attempt_does_is_told_at_once_why_that_has_failed(said: Condition) -> None:
    """It was told the same before it waited; what it says in between is its attempt's."""
    written: list[str] = []

    class Taking:
        async def request(self, *_: object, body: dict[str, dict[str, list[dict[str, str]]]], **__: object) -> object:
            written.append(body["status"]["conditions"][0]["message"])
            return {"metadata": {"resourceVersion": str(2 * len(written))}}

    async def tell() -> None:
        refusals = Refusals(cast(Api, Taking()), lambda: datetime(2026, 1, 1, tzinfo=UTC))
        running = asyncio.create_task(refusals.run())
        for pod in (a_pod(resource_version="1"), a_pod(resource_version="3", conditions=(said,))):
            refusals.refuse(pod, "SchedulerError", "no answer")
            await refusals.drain()
        running.cancel()

    asyncio.run(tell())
    assert written == ["no answer", "no answer"]

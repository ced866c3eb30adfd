"""Writes to a pod that somebody else changes all the time, or that fail."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.attempt.attempt import Attempt, WrittenPod, ended
from scheduler.attempt.binder import Binder, CurrentSteps, WatchedChanges
from scheduler.attempt.claim_objects import Intent
from scheduler.attempt.decision import AttemptEnded, Bound, Decision, PodKey
from scheduler.attempt.slots import Slots
from scheduler.attempt.steps.pod import Bind
from scheduler.client.errors import ApiError, ApiStatus, CallFailed, Unanswered
from scheduler.core_v1.pod import Pod
from tests.builders import a_pod


class Restless:
    """An API server whose pod somebody changes as often as anybody waits; it binds the pod in its newest version."""

    def __init__(self) -> None:
        self.version = 2

    async def sleep(self, _: float) -> None:
        self.version += 1

    async def request(self, method: str, path: str, *, body: Any = None, **_: object) -> dict[str, Any]:
        version = str(self.version)
        if method == "POST" and body["metadata"]["resourceVersion"] != version:
            raise ApiError(f"POST {path}", 409, ApiStatus("Conflict", "the pod was changed"))
        return {"metadata": {"uid": "uid-of-pod", "resourceVersion": version}, "spec": {}}


def test_pod_that_is_changed_all_the_time_is_read_right_before_it_is_bound() -> None:
    server, pod = Restless(), a_pod(uid="uid-of-pod")
    attempt = an_attempt(pod, Slots(1, float))
    assert asyncio.run(Bind(a_binder(server), attempt).do()) == Bound("node-0")
    assert attempt.pod.failures == 1


class Answering:
    """An API server that answers bindings of a pod, which stays as it is, with these errors."""

    def __init__(self, *errors: CallFailed) -> None:
        self.errors = list(errors)

    async def sleep(self, _: float) -> None:
        """Not at all."""

    async def request(self, method: str, *_: object, **__: object) -> dict[str, Any]:
        if method == "POST":
            raise self.errors.pop(0)
        return {"metadata": {"uid": "uid-of-pod", "resourceVersion": "1"}, "spec": {}}


DENIAL = ApiError("POST /b", 403, ApiStatus("Forbidden", 'admission webhook "w.example" denied the request: no'))
NO_ANSWER = Unanswered("POST /b", "no answer in time", is_ambiguous=True)
OF_ETCD = ApiError("POST /b", 409, ApiStatus("Conflict", "the pods/binding: etcdserver: request timed out"))


@pytest.mark.parametrize(("errors", "sent"), [([DENIAL], ""), ([OF_ETCD, DENIAL], "1"), ([OF_ETCD, NO_ANSWER], "1")])
def test_binding_that_etcd_did_not_answer_may_be_stored_though_the_next_one_is_denied(
    errors: Sequence[CallFailed], sent: str
) -> None:
    server, attempt = Answering(*errors), an_attempt(a_pod(uid="uid-of-pod"), Slots(1, float))
    with pytest.raises(AttemptEnded):
        asyncio.run(Bind(a_binder(server), attempt).do())
    assert server.errors == []
    assert attempt.pod.sent == sent


def test_limit_of_a_namespace_whose_webhook_was_down_names_what_it_denies_now() -> None:
    slots = Slots(1, float)
    attempt = an_attempt(a_pod(), slots)
    attempt.slot.failed("500 InternalError: failed calling webhook")
    denial = ApiStatus("Forbidden", 'admission webhook "w.example" denied the request: no')
    ended(attempt, ApiError("PUT /a", 403, denial), "claim a")
    assert slots.objection("default").endswith("1 at a time: PUT /a: 403 Forbidden: " + denial.message)


def a_binder(server: Restless | Answering) -> Binder:
    parts = SimpleNamespace(
        api=server,
        time=SimpleNamespace(sleep=server.sleep, random=lambda: 0.0),
        volumes=SimpleNamespace(pod=lambda _: None),
        progress=CurrentSteps(float),
        changes=WatchedChanges(),
    )
    return cast(Binder, parts)


def an_attempt(pod: Pod, slots: Slots) -> Attempt:
    """An attempt to bind the pod, which has a slot."""
    return Attempt(
        Decision(PodKey.of(pod), "node-0", (), 1),
        Intent("ours", 1, "process", pod.uid, "node-0", 1),
        slots.take(pod.namespace),
        WrittenPod("1", {}),
    )

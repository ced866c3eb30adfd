"""What a refused pod shows: the condition PodScheduled."""

import asyncio
from collections.abc import Callable
from functools import partial
from threading import Barrier

import pytest

from scheduler.attempt import pod_calls
from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.reporting import WRITERS_OF_NAMESPACE as WRITERS
from scheduler.reporting import Refusals
from tests.controlplane.faults import meanwhile
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.rest import Json
from tests.integration.attempt.scene import NAMESPACE, NODE, Scene

MESSAGE = "0/1 nodes are available: 1 Insufficient cpu."
OK = 200
STATUS_OF_POD = r"/pods/pod/status$"


def reported(scene: Scene, say: Callable[[Refusals], None]) -> None:
    """Let it be said, and told to the pods."""

    async def act() -> None:
        async with scene.binder() as binder:
            refusals = Refusals(binder.api, scene.time.now)
            say(refusals)
            running = asyncio.create_task(refusals.run())
            await refusals.drain()
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(act())


def observed(raw: Json) -> Pod:
    pod, errors = decode_pod(raw)
    assert pod is not None, errors
    return pod


def refuse(scene: Scene, raw: Json, message: str = MESSAGE) -> None:
    reported(scene, lambda refusals: refusals.refuse(observed(raw), "Unschedulable", message))


def conditions(scene: Scene) -> list[Json]:
    found: list[Json] = scene.pod()["status"].get("conditions", [])
    return found


def test_refused_pod_says_why_and_for_which_generation(scene: Scene) -> None:
    refuse(scene, scene.a_pod())
    (condition,) = conditions(scene)
    assert condition.pop("lastProbeTime") is None
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": MESSAGE,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def test_what_the_pod_says_already_is_not_written_again(scene: Scene) -> None:
    refuse(scene, scene.a_pod())
    refuse(scene, scene.pod())
    assert len(scene.calls()) == 1


def test_another_message_keeps_the_time_since_when_the_pod_waits(scene: Scene) -> None:
    refuse(scene, scene.a_pod())
    scene.time.passed_s = 100.0
    refuse(scene, scene.pod(), "another")
    (condition,) = conditions(scene)
    assert condition["message"] == "another"
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_of_several_refusals_only_the_last_is_reported(scene: Scene) -> None:
    pod = observed(scene.a_pod())

    def say(refusals: Refusals) -> None:
        refusals.refuse(pod, "Unschedulable", "first")
        refusals.refuse(pod, "SchedulerError", "last")
        assert refusals.waiting == 1

    reported(scene, say)
    assert [condition["message"] for condition in conditions(scene)] == ["last"]
    assert len(scene.calls()) == 1


def test_pods_are_reported_beside_each_other_and_each_by_one_writer(scene: Scene) -> None:
    """The first write of each pod is held until all writers are at one; a pod refused meanwhile is told after it."""
    raw = [scene.a_pod(name=f"pod-{number}") for number in range(WRITERS)]
    pods = [observed(one) for one in raw]
    at_work = Barrier(WRITERS)
    scene.proxy.on("PATCH", r"/pods/[^/]+/status$", meanwhile(partial(at_work.wait, TIMEOUT_S)), times=WRITERS)

    async def act() -> None:
        async with scene.binder() as binder:
            refusals = Refusals(binder.api, scene.time.now)
            running = asyncio.create_task(refusals.run())
            for pod in pods[1:]:
                refusals.refuse(pod, "Unschedulable", MESSAGE)
            while refusals.waiting:  # noqa: ASYNC110 - until the writers have had their turn
                await asyncio.sleep(0)
            refusals.refuse(pods[1], "Unschedulable", "again")
            refusals.refuse(pods[0], "Unschedulable", MESSAGE)
            await refusals.drain()
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(act())
    assert [message_of(scene.pod(pod.name)) for pod in pods] == [MESSAGE, "again", MESSAGE, MESSAGE]
    assert len([call for call in scene.calls() if call[2] == OK]) == WRITERS + 1


def message_of(pod: Json) -> str:
    return str(pod["status"]["conditions"][0]["message"])


def test_pod_that_is_bound_before_it_is_reported_is_not(scene: Scene) -> None:
    pod = scene.a_pod()
    scene.proxy.on("PATCH", STATUS_OF_POD, meanwhile(lambda: scene.bind(scene.a_decision(pod))))
    refuse(scene, pod)
    (condition,) = conditions(scene)
    assert condition["status"] == "True"
    assert scene.pod()["spec"]["nodeName"] == NODE


def test_pod_that_changed_is_shown_in_its_new_version(scene: Scene) -> None:
    pod = scene.a_pod()
    other = {"type": "Example", "status": "True"}
    scene.api.replace_status({**pod, "status": {**pod["status"], "conditions": [other]}})
    refuse(scene, pod)
    assert {condition["type"] for condition in conditions(scene)} == {"Example", "PodScheduled"}


def test_pod_that_has_gone_or_is_forgotten_is_not_reported(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    raw = scene.a_pod()
    pod = observed(raw)

    def say_and_forget(refusals: Refusals) -> None:
        refusals.refuse(pod, "Unschedulable", MESSAGE)
        refusals.forget(pod.uid)

    reported(scene, say_and_forget)
    assert scene.calls() == []
    scene.delete_pod()
    refuse(scene, raw)
    assert scene.calls() == [("PATCH", "pods/pod/status", 404)]
    assert caplog.records == []


def test_runs_beside_the_cycle_until_cancelled(scene: Scene) -> None:
    pod = observed(scene.a_pod())
    rule = scene.proxy.on("PATCH", rf"/namespaces/{NAMESPACE}{STATUS_OF_POD}", meanwhile(lambda: None))

    async def act() -> None:
        async with scene.binder() as binder:
            refusals = Refusals(binder.api, scene.time.now)
            running = asyncio.create_task(refusals.run())
            refusals.refuse(pod, "Unschedulable", MESSAGE)
            await rule.met.reached()
            running.cancel()
            await asyncio.wait([running])
            await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)  # the loop outlives what was cancelled

    asyncio.run(act())
    assert rule.matched == 1

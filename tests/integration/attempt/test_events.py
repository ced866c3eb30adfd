"""Events about pods as the API server takes and keeps them."""

import asyncio
from collections.abc import Callable

from scheduler.reporting import NOTE_MAX_BYTES, SERIES_S, Events
from tests.controlplane.faults import refuse
from tests.controlplane.rest import Json, Kind
from tests.integration.attempt.scene import NAMESPACE, NODE, SCHEDULER, Scene, pod_key

EVENT = Kind("events.k8s.io/v1", "Event")


def said(scene: Scene, *acts: Callable[[Events], None]) -> Events:
    """The events after each act, all that was said being written in between."""

    async def act() -> Events:
        async with scene.binder() as binder:
            events = Events(binder.api, "program", "host-0", scene.time.now)
            running = asyncio.create_task(events.run())
            for one in acts:
                one(events)
                await events.drain()
            running.cancel()
            await asyncio.wait([running])
            return events

    return asyncio.run(act())


def stored(scene: Scene, uid: str) -> list[Json]:
    return [event for event in scene.api.list(EVENT, NAMESPACE) if event["regarding"]["uid"] == uid]


def test_bound_pod_has_the_event_that_kubectl_describe_shows(scene: Scene) -> None:
    pod = pod_key(scene.a_pod())
    said(scene, lambda events: events.scheduled(pod, NODE))
    (event,) = stored(scene, pod.uid)
    fields = ("type", "reason", "action", "note", "reportingController", "reportingInstance", "eventTime")
    assert {field: event[field] for field in fields} == {
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "Successfully assigned work/pod to node-0",
        "reportingController": SCHEDULER,
        "reportingInstance": f"{SCHEDULER}-host-0",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }


def test_same_refusal_is_one_event_whose_series_is_reported_every_five_minutes(scene: Scene) -> None:
    pod = pod_key(scene.a_pod())

    def fail(events: Events) -> None:
        events.failed_scheduling(pod, "no room")

    def fail_later(events: Events) -> None:
        scene.time.passed_s += SERIES_S
        fail(events)

    said(scene, fail, fail, fail, fail_later)
    (event,) = stored(scene, pod.uid)
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "FailedScheduling", "Scheduling")
    assert event["series"] == {"count": 4, "lastObservedTime": "2026-01-01T00:05:00.000000Z"}
    assert len(scene.proxy.writes("/events")) == 2


def test_another_message_or_pod_is_another_event(scene: Scene) -> None:
    first, second = pod_key(scene.a_pod()), pod_key(scene.a_pod(name="second"))

    def fail(events: Events) -> None:
        events.failed_scheduling(first, "no room")
        events.failed_scheduling(first, "no devices")
        events.failed_scheduling(second, "no room")

    said(scene, fail)
    assert sorted(event["note"] for event in stored(scene, first.uid)) == ["no devices", "no room"]
    assert len(stored(scene, second.uid)) == 1


def test_long_message_is_cut_to_what_the_server_takes(scene: Scene) -> None:
    pod = pod_key(scene.a_pod())
    said(scene, lambda events: events.failed_scheduling(pod, "ä" * NOTE_MAX_BYTES))
    (event,) = stored(scene, pod.uid)
    assert len(event["note"].encode()) <= NOTE_MAX_BYTES
    assert event["note"].endswith("...")


def test_pod_with_the_longest_name_can_have_events(scene: Scene) -> None:
    pod = pod_key(scene.a_pod(name="a" * 209 + "-" + "b" * 43))
    said(scene, lambda events: events.scheduled(pod, NODE))
    assert len(stored(scene, pod.uid)) == 1


def test_refused_event_is_counted_and_said_anew_the_next_time(scene: Scene) -> None:
    pod = pod_key(scene.a_pod())
    scene.proxy.on("POST", "/events$", refuse(500, "InternalError"))

    def fail(events: Events) -> None:
        events.failed_scheduling(pod, "no room")

    assert said(scene, fail, fail).failed == 1
    assert len(stored(scene, pod.uid)) == 1

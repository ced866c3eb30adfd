"""Pods of high priority take the place of those of low priority: room on a node, and devices."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.faults import Hold, refuse
from tests.controlplane.rest import POD, Json
from tests.integration.live.world import NAMESPACE, PRIORITY, World, a_device, a_request, is_free

NOMINATION = "dra-scheduler.dev/nomination"
CLASSES = {"low": 1, "middle": 10, "high": 20}
DELETED = r"/pods/[^/]+$"


@pytest.fixture
def classes(world: World) -> Iterator[None]:
    """Pods of three priorities."""
    for name, value in CLASSES.items():
        world.a_priority(name, value)
    yield
    for name in CLASSES:
        world.api.delete(PRIORITY, name)


def a_user(world: World, name: str, priority: str, devices: int = 1, **spec: Any) -> None:
    """A pod with a claim of its own for so many devices."""
    world.a_claim(f"of-{name}", a_request(count=devices))
    world.a_pod(name, f"of-{name}", priorityClassName=priority, **spec)


def disruption(pod: Json) -> Json | None:
    """The condition of a victim."""
    return next((one for one in pod["status"].get("conditions", ()) if one["type"] == "DisruptionTarget"), None)


def is_ending(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def deleted(world: World) -> list[str]:
    """The pods that were to be deleted, by name, in this order."""
    writes = world.proxy.writes(DELETED)
    return [one.path.rpartition("/")[2] for one in writes if one.method == "DELETE"]


@pytest.mark.usefixtures("classes")
def test_pod_gets_the_device_of_one_of_lower_priority(world: World) -> None:
    world.a_cluster()
    a_user(world, "low", "low", terminationGracePeriodSeconds=0)
    assert world.devices_of("low") == ["node-0/gpu-0"]
    a_user(world, "high", "high")
    assert world.devices_of("high") == ["node-0/gpu-0"]
    world.gone(POD, "low")
    assert NOMINATION in world.pod("high")["metadata"]["annotations"]
    # The record is there before the first victim goes.
    sent = [(one.method, one.path.rpartition("pods/")[2]) for one in world.proxy.writes(r"/pods/(low|high)(/status)?$")]
    order = [("PATCH", "high"), ("PATCH", "high/status"), ("PATCH", "low/status"), ("DELETE", "low")]
    assert [one for one in sent if one in order][-4:] == order


@pytest.mark.usefixtures("classes")
def test_victim_says_why_it_goes_and_keeps_its_time_to_end(world: World) -> None:
    world.a_cluster()
    a_user(world, "low", "low")
    world.bound("low")
    a_user(world, "high", "high")
    victim = world.pod_when("low", is_ending)
    found = disruption(victim)
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", "PreemptionByScheduler")
    assert found["message"] == "dra-scheduler: preempting to accommodate a higher priority pod"
    assert victim["metadata"]["deletionGracePeriodSeconds"] == 30
    uid = world.pod("high")["metadata"]["uid"]
    assert [one["note"] for one in world.events("low", "Preempted")] == [f"Preempted by pod {uid} on node node-0"]
    assert world.pod("high")["status"]["nominatedNodeName"] == "node-0"
    # The preemptor says for its owner who goes, and from where.
    told = f": evicts {NAMESPACE}/low; frees claims {NAMESPACE}/of-low"
    assert " on node node-0" in world.refused("high", told)["message"]
    (event, *_) = world.events("high", "FailedScheduling")
    assert event["note"].endswith(told)
    world.delete_pod("low")
    assert world.devices_of("high") == ["node-0/gpu-0"]
    assert deleted(world) == ["low"]


def the_first_of_two_victims_is_gone(world: World) -> None:
    """The pod `middle` waits for the devices of two pods, of which one has ended, and its device is free."""
    world.a_cluster(devices=2)
    for name in ("low-0", "low-1"):
        a_user(world, name, "low")
        world.bound(name)
    a_user(world, "middle", "middle", devices=2)
    for name in ("low-0", "low-1"):
        world.pod_when(name, is_ending)
    world.delete_pod("low-0")
    world.claim_when("of-low-0", is_free)


@pytest.mark.usefixtures("classes")
def test_what_is_free_already_is_kept_from_a_pod_of_the_same_priority_until_the_rest_is(world: World) -> None:
    the_first_of_two_victims_is_gone(world)
    a_user(world, "rival", "middle")
    world.refused("rival", "1 cannot allocate all claims")
    world.delete_pod("low-1")
    assert len(world.devices_of("middle")) == 2
    world.await_queue("rival", queue="unschedulable")
    assert sorted(deleted(world)) == ["low-0", "low-1"]


@pytest.mark.usefixtures("classes")
def test_pod_of_a_higher_priority_may_take_what_is_kept(world: World) -> None:
    the_first_of_two_victims_is_gone(world)
    a_user(world, "high", "high")
    assert len(world.devices_of("high")) == 1


@pytest.mark.usefixtures("classes")
def test_two_preemptors_share_what_one_victim_had(world: World) -> None:
    world.a_cluster(devices=2)
    a_user(world, "low", "low", devices=2)
    world.bound("low")
    for name in ("middle", "high"):
        a_user(world, name, name)
        world.pod_when(name, lambda pod: "nominatedNodeName" in pod["status"])
    world.delete_pod("low")
    assert sorted(world.devices_of("middle") + world.devices_of("high")) == ["node-0/gpu-0", "node-0/gpu-1"]
    assert set(deleted(world)) == {"low"}


@pytest.mark.usefixtures("classes")
def test_eviction_that_is_denied_delays_the_next_try_and_is_reported(world: World) -> None:
    world.a_cluster()
    a_user(world, "low", "low")
    world.bound("low")
    denied = refuse(403, "Forbidden", 'admission webhook "keeper" denied the request: it stays')
    world.proxy.on("DELETE", r"/pods/low$", denied, times=None)
    a_user(world, "high", "high")
    (event,) = world.events("high", "PreemptionBackedOff")
    assert "it stays" in event["note"]
    world.await_metric("dra_scheduler_preemptions_backed_off_total", 1)
    world.await_queue("high", queue="unschedulable")
    assert not is_ending(world.pod("low"))


@pytest.mark.needs("DRADeviceBindingConditions")
@pytest.mark.usefixtures("classes")
def test_victim_that_is_not_bound_yet_is_cancelled_and_not_deleted(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device(bindingConditions=["ready"], bindingFailureConditions=["broken"]))
    a_user(world, "low", "low")
    world.events("low", "BindingConditionsPending")
    a_user(world, "high", "high")
    world.events("high", "BindingConditionsPending")
    world.report("of-high", "ready")
    assert world.devices_of("high") == ["node-0/gpu-0"]
    uid = world.pod("high")["metadata"]["uid"]
    assert [one["note"] for one in world.events("low", "Preempted")] == [
        f"Preempted by pod {uid} on node node-0, before it was bound"
    ]
    world.refused("low", "cannot allocate all claims")
    assert is_free(world.claim("of-low"))
    assert disruption(world.pod("low")) is None
    assert deleted(world) == []


@pytest.mark.usefixtures("classes")
def test_call_that_fails_once_is_tried_again_and_what_is_under_way_is_shown(world: World) -> None:
    world.a_cluster()
    a_user(world, "low", "low")
    world.bound("low")
    hold = Hold()
    world.proxy.on("DELETE", r"/pods/low$", refuse(500, "InternalError"))
    rule = world.proxy.on("DELETE", r"/pods/low$", hold)
    a_user(world, "high", "high")
    rule.met.wait()
    shown = world.await_queue("high", queue="in flight")
    assert "on node node-0 has been at step Evict (1 pod that is preempted)" in shown["message"]
    hold.release()
    world.pod_when("low", is_ending)
    shown = world.await_queue("high", queue="unschedulable")
    assert "(preemption: waiting for 1 of 1 preempted pod to end on node node-0)" in shown["message"]
    world.delete_pod("low")
    assert world.devices_of("high") == ["node-0/gpu-0"]

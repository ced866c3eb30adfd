"""What a pod is told that gets no node: once, in kube-scheduler's form, and in ours why the nearest node did not do."""

import pytest

from tests.controlplane.rest import NODE
from tests.integration.live.world import NAMESPACE, SCHEDULER, World, a_device, a_request, reported, some_devices


@pytest.mark.needs("DRADeviceTaints")
def test_refused_pod_is_shown_how_many_nodes_fail_for_what_and_what_the_nearest_lacks(world: World) -> None:
    world.a_class()
    world.a_node("node-0")
    world.a_node("node-1")
    world.a_node("node-2", unschedulable=True)
    world.a_node("node-3", taints=[{"key": "example.com/ours", "value": "yes", "effect": "NoSchedule"}])
    world.a_slice("node-1", *some_devices(2))
    world.a_claim("claim", a_request(count=3))
    pod = world.a_pod("pod", "claim")
    condition = world.refused()
    message = (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable,"
        " 2 cannot allocate all claims. no other node has 3 devices for request r,"
        " the most is 2, on node-1 (of 2 devices). still not schedulable, preemption: 0/4 nodes are available:"
        " 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )
    assert condition["message"] == message
    assert condition["reason"] == "Unschedulable"
    assert condition["observedGeneration"] == pod["metadata"]["generation"]
    (event,) = world.events("pod", "FailedScheduling")
    assert event["note"] == message
    assert (event["type"], event["action"]) == ("Warning", "Scheduling")
    assert event["reportingController"] == SCHEDULER
    assert world.queue()["pod"]["message"] == message


def test_same_refusal_is_not_written_again(world: World) -> None:
    world.a_cluster()
    world.a_claim("claim", a_request(count=2))
    world.a_pod("pod", "claim")
    world.refused()
    world.events("pod", "FailedScheduling")
    for attempt in (2, 3):
        node = world.api.get(NODE, "node-0")
        labels = {**node["metadata"]["labels"], "attempt": str(attempt)}
        world.api.replace({**node, "metadata": {**node["metadata"], "labels": labels}})
        world.await_queue("pod", queue="unschedulable", attempts=attempt)
    assert len(world.proxy.writes(rf"/namespaces/{NAMESPACE}/pods/pod/status$")) == 1
    assert len(world.proxy.writes(rf"/namespaces/{NAMESPACE}/events$")) == 1


def test_other_refusal_is_written_and_keeps_the_time_since_when_the_pod_waits(world: World) -> None:
    world.a_cluster()
    world.a_claim("claim", a_request(count=3))
    world.a_pod("pod", "claim")
    first = world.refused("pod", "the most is 1")
    world.a_node("node-1")
    world.a_slice("node-1", *some_devices(2))
    second = world.refused("pod", "0/2 nodes are available: 2 cannot allocate all claims.")
    assert second["lastTransitionTime"] == first["lastTransitionTime"]


def test_condition_says_so_once_the_pod_has_its_node(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_claim()
    world.a_pod("pod", "claim")
    world.refused()
    world.a_slice("node-0", a_device())
    pod = world.bound()
    assert reported(pod) is None
    (condition,) = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert condition["status"] == "True"


def test_pod_that_only_waits_for_its_claim_is_shown_nothing(world: World) -> None:
    world.a_cluster()
    world.a_pod("waiting", "absent")
    world.await_queue("waiting", queue="gated")
    world.a_pod("other")
    world.bound("other")
    assert reported(world.pod("waiting")) is None
    assert world.proxy.writes(r"/pods/waiting/status$") == []

"""Pods that are created with a node, where our scheduler is to allocate their claims: --allocate-prescheduled."""

import pytest

from tests.integration.live.world import World, a_device, claims_of, is_allocated, is_free, some_devices, users_of

SETTINGS = {"allocatePrescheduled": True}
COUNTED = "dra_scheduler_prescheduled_pods"


def test_claim_of_a_pod_with_a_node_is_allocated_there_and_reserved_for_it(world: World) -> None:
    world.a_cluster(nodes=3)
    world.a_claim()
    world.a_pod("pod", "claim", nodeName="node-1")
    claim = world.claim_when("claim", is_allocated)
    assert users_of(claim) == ["pod"]
    assert world.devices_of() == ["node-1/gpu-0"]
    assert world.proxy.writes(r"/binding$") == []
    world.await_metric(COUNTED, 0)


def test_claim_of_a_template_of_a_pod_with_a_node_is_allocated_there(world: World) -> None:
    world.a_cluster(nodes=2)
    world.a_template()
    world.a_pod("pod", template="template", nodeName="node-1")
    (claim,) = claims_of(world.pod_when("pod", lambda pod: bool(claims_of(pod))))
    world.claim_when(claim, is_allocated)
    assert world.devices_of() == ["node-1/gpu-0"]
    world.await_metric(COUNTED, 0)


def test_pod_whose_node_lacks_the_devices_waits_for_them(world: World) -> None:
    world.a_class()
    world.a_node("node-0")
    world.a_node("node-1")
    world.a_slice("node-0", *some_devices(4))
    world.a_claim()
    world.a_pod("pod", "claim", nodeName="node-1")
    (event,) = world.events("pod", "FailedScheduling")
    assert event["note"].startswith("0/2 nodes are available: 1 cannot allocate all claims.")
    assert world.metric(COUNTED) == 1
    assert is_free(world.claim())
    world.a_slice("node-1", a_device())
    world.claim_when("claim", is_allocated)
    assert world.devices_of() == ["node-1/gpu-0"]
    assert world.proxy.writes(r"/pods/pod/status$") == []  # that it is scheduled is its kubelet's to say


@pytest.mark.needs("DRADeviceBindingConditions")
def test_pod_whose_devices_are_awaited_is_in_flight_whatever_its_kubelet_reports_meanwhile(world: World) -> None:
    world.a_class()
    world.a_node("node-0")
    world.a_slice("node-0", a_device("gpu-0", bindingConditions=["Ready"], bindingFailureConditions=["Broken"]))
    world.a_claim()
    world.a_pod("pod", "claim", nodeName="node-0")
    world.claim_when("claim", is_allocated)
    world.update_pod("pod", lambda pod: {**pod["status"], "message": "its kubelet is at work"})
    world.a_pod("later")
    world.bound("later")  # then the scheduler has seen the update too
    assert world.queue()["pod"]["queue"] == "in flight"
    world.report("claim", "Broken")
    world.claim_when("claim", is_free)
    world.await_queue("pod", attempts=2)

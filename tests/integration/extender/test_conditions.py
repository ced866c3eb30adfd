"""Devices that are made ready for their node before the pod is bound: one call of bind after the other until they are.

kube-scheduler waits for no answer that long; the allocation stays between the calls, and keeps the pod to its node.
"""

from collections.abc import Sequence

import pytest

from tests.controlplane.rest import CLAIM, Json
from tests.integration.extender.beside import Beside, an_entry
from tests.integration.extender.between import Between, Call
from tests.integration.live.world import NAMESPACE, a_device, is_allocated, is_free, place, results_of, users_of

pytestmark = pytest.mark.needs("DRADeviceBindingConditions")

READY, BROKEN = "example.com/attached", "example.com/broken"
CONDITIONS: Json = {"bindsToNode": True, "bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}


@pytest.fixture(scope="module")
def entry(way: Between) -> Json:
    """Through somebody who keeps what was said."""
    return an_entry(way.url)


def is_pending(call: Call) -> bool:
    return "waiting for binding conditions" in call.answer["Error"]


def names_one_node(call: Call) -> bool:
    return len(call.answer.get("NodeNames") or ()) == 1


def a_fleet(world: Beside, *nodes: str, others: Sequence[Json] = ()) -> None:
    """Nodes with a device each that has to be made ready, and the others."""
    world.a_class()
    for name in nodes:
        world.a_node(name)
        world.a_slice(name, a_device("gpu-0", **CONDITIONS), *others)
    world.a_claim()


def test_pod_keeps_device_and_node_from_call_to_call_until_the_driver_says_ready(
    world: Beside, between: Between
) -> None:
    a_fleet(world, "node-0", "node-1")
    world.a_pod("pod", "claim")
    first, *_ = between.await_calls("bind", "pod", is_pending)
    node, allocation = first.request["Node"], world.claim()["status"]["allocation"]
    between.await_calls("filter", "pod", names_one_node)
    world.refused("pod", "waiting for binding conditions")
    while len(calls := between.of("bind", "pod")) < 2:
        between.await_calls("bind", "pod", lambda call: call is not first)
    assert {one.request["Node"] for one in calls} == {node}
    after = [one.answer["NodeNames"] for one in between.of("filter", "pod")[1:]]
    assert after == [[node]] * len(after)
    claim = world.claim()
    assert claim["status"]["allocation"] == allocation
    assert users_of(claim) == ["pod"]
    world.report("claim", READY)
    assert world.node_of() == node
    assert world.devices_of() == [f"{node}/gpu-0"]


def test_claim_whose_device_fails_is_deallocated_and_gets_another(world: Beside, between: Between) -> None:
    # The device is set aside for a while after this: no other test has one of that name.
    a_fleet(world, "failing-0", others=[a_device("gpu-1")])
    world.a_pod("pod", "claim")
    between.await_calls("bind", "pod", is_pending)
    assert [place(one) for one in results_of(world.claim())] == ["failing-0/gpu-0"]
    world.report("claim", BROKEN)
    failed = between.await_calls("bind", "pod", lambda call: "device binding failed" in call.answer["Error"])
    assert f"has the condition {BROKEN}: by the driver" in failed[-1].answer["Error"]
    assert world.devices_of() == ["failing-0/gpu-1"]


def test_claim_that_is_deleted_while_its_device_is_made_ready_is_given_back_and_the_pod_takes_the_next_of_its_name(
    world: Beside, between: Between
) -> None:
    """No pod has a node to use it on yet: it would wait for the pod, and the pod for it."""
    a_fleet(world, "node-0")
    world.a_pod("pod", "claim")
    between.await_calls("bind", "pod", is_pending)
    world.api.delete(CLAIM, "claim", NAMESPACE)
    world.gone(CLAIM, "claim")
    world.a_claim()
    world.claim_when("claim", is_allocated)
    world.report("claim", READY)
    assert world.devices_of() == ["node-0/gpu-0"]


def test_pod_that_is_deleted_while_its_device_is_made_ready_leaves_it_to_the_next(
    world: Beside, between: Between
) -> None:
    a_fleet(world, "node-0")
    world.a_claim("next")
    world.a_pod("pod", "claim")
    between.await_calls("bind", "pod", is_pending)
    assert is_allocated(world.claim())
    world.delete_pod()
    world.claim_when("claim", is_free)
    world.a_pod("next", "next")
    between.await_calls("bind", "next", is_pending)
    world.report("next", READY)
    assert world.devices_of("next") == ["node-0/gpu-0"]

"""Which pods go for a pod of higher priority, and which never do: a small cluster for each case."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.controlplane.rest import POD, SLICE, Json
from tests.integration.live.test_extended_resources import GPU
from tests.integration.live.test_preemption import CLASSES, a_user, deleted, is_ending
from tests.integration.live.world import (
    NAMESPACE,
    PRIORITY,
    World,
    a_device,
    a_request,
    an_object,
    users_of,
)

SOON: Mapping[str, Any] = {"terminationGracePeriodSeconds": 0}


@pytest.fixture(autouse=True)
def classes(world: World) -> Iterator[None]:
    """Pods of three priorities."""
    for name, value in CLASSES.items():
        world.a_priority(name, value)
    yield
    for name in CLASSES:
        world.api.delete(PRIORITY, name)


def a_sharer(world: World, name: str, claim: str, priority: str, **spec: Any) -> None:
    """A pod that uses a claim with others."""
    world.a_pod(name, claim, priorityClassName=priority, **{**SOON, **spec})


def two_share_a_claim(world: World, other: str) -> None:
    """The only device is held by a pod of low priority, and one of this priority."""
    world.a_cluster()
    world.a_claim("shared")
    for name, priority in (("low", "low"), ("other", other)):
        a_sharer(world, name, "shared", priority)
        world.bound(name)


def test_claim_that_a_pod_of_higher_priority_shares_is_not_won(world: World) -> None:
    two_share_a_claim(world, "high")
    a_user(world, "middle", "middle")
    world.refused("middle", "cannot allocate all claims")
    world.await_queue("middle", queue="unschedulable")
    assert deleted(world) == []


def test_all_who_share_a_claim_go_if_all_are_lower(world: World) -> None:
    two_share_a_claim(world, "low")
    a_user(world, "middle", "middle")
    assert world.devices_of("middle") == ["node-0/gpu-0"]
    assert sorted(deleted(world)) == ["low", "other"]


def test_nobody_else_goes_while_the_first_victim_does(world: World) -> None:
    world.a_cluster(nodes=2)
    for name in ("low-0", "low-1"):
        a_user(world, name, "low")
        world.bound(name)
    a_user(world, "high", "high")
    world.api.await_all(POD, lambda pods: any(map(is_ending, pods)), NAMESPACE)
    for number in range(3):  # each is a reason to try the pod again
        tries = world.await_queue("high", queue="unschedulable")["attempts"]
        world.a_node(f"more-{number}")
        world.a_slice(f"more-{number}", a_device(taints=[{"key": "example.com/no", "effect": "NoSchedule"}]))
        world.await_queue("high", queue="unschedulable", attempts=tries + 1)
    (victim,) = deleted(world)
    world.delete_pod(victim)
    assert world.node_of("high") == f"node-{victim.rpartition('-')[2]}"
    assert deleted(world) == [victim]


def test_pod_that_has_ended_is_no_victim(world: World) -> None:
    two_share_a_claim(world, "low")
    world.end_pod("other")
    a_user(world, "high", "high")
    assert world.devices_of("high") == ["node-0/gpu-0"]
    assert deleted(world) == ["low"]
    assert world.pod("other")["status"]["phase"] == "Succeeded"


def test_pod_that_goes_for_cpu_leaves_the_other_user_of_its_claim(world: World) -> None:
    world.a_class()
    world.a_node(allocatable={"cpu": "2"})
    world.a_slice("node-0", a_device())
    world.a_claim("shared")
    for name, priority in (("low", "low"), ("middle", "middle")):
        a_sharer(world, name, "shared", priority, containers=[with_cpu("1")])
        world.bound(name)
    world.a_pod("high", priorityClassName="high", requests={"cpu": "1"})
    assert world.node_of("high") == "node-0"
    assert deleted(world) == ["low"]
    assert users_of(world.claim_when("shared", lambda claim: len(users_of(claim)) == 1)) == ["middle"]


def with_cpu(cpu: str) -> Json:
    return {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}


@pytest.mark.needs("DRAPartitionableDevices")
def test_victims_whose_counters_are_needed_go_and_the_third_is_given_back(world: World) -> None:
    world.a_class()
    world.a_node()
    sets = [{"name": "all", "counters": {"memory": {"value": "40"}}}]
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 2}
    world.a_slice("node-0", pool=pool, sharedCounters=sets)
    parts = [a_part(f"part-{number}", "10", "small") for number in range(3)] + [a_part("large", "30", "large")]
    spec = {"driver": "gpu.example", "pool": pool, "nodeName": "node-0", "devices": parts}
    world.api.create(an_object(SLICE, "node-0.parts", spec))
    for number in range(3):
        a_user_of_size(world, f"low-{number}", "low", "small")
        world.bound(f"low-{number}")
    a_user_of_size(world, "high", "high", "large")
    assert world.devices_of("high") == ["node-0/large"]
    assert len(deleted(world)) == 2


def a_part(name: str, memory: str, size: str) -> Json:
    consumed = [{"counterSet": "all", "counters": {"memory": {"value": memory}}}]
    return a_device(name, attributes={"size": {"string": size}}, consumesCounters=consumed)


def a_user_of_size(world: World, name: str, priority: str, size: str) -> None:
    selector = {"cel": {"expression": f'device.attributes["gpu.example"].size == "{size}"'}}
    world.a_claim(f"of-{name}", a_request(selectors=[selector]))
    world.a_pod(name, f"of-{name}", priorityClassName=priority, **SOON)


@pytest.mark.needs("DRAConsumableCapacity")
def test_one_of_two_who_share_a_device_goes_if_its_share_is_enough(world: World) -> None:
    world.a_class()
    world.a_node()
    capacity = {"memory": {"value": "80"}}
    world.a_slice("node-0", a_device(allowMultipleAllocations=True, capacity=capacity))
    for name in ("low-0", "low-1", "high"):
        world.a_claim(f"of-{name}", a_request(capacity={"requests": {"memory": "40"}}))
        world.a_pod(name, f"of-{name}", priorityClassName=name.partition("-")[0], **SOON)
        world.bound(name)
    assert len(deleted(world)) == 1


def test_mirror_pod_is_never_evicted(world: World) -> None:
    world.a_cluster()
    spec = {"nodeName": "node-0", "priorityClassName": "low", "containers": [with_cpu("96")]}
    pod = an_object(POD, "mirror", spec, NAMESPACE)
    pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "of-a-file"}
    world.api.create(pod)
    a_user(world, "high", "high", containers=[with_cpu("1")])
    world.refused("high", "Insufficient cpu")
    world.await_queue("high", queue="unschedulable")
    assert deleted(world) == []


@pytest.mark.needs("DRAExtendedResource")
def test_devices_are_won_for_extended_resources_and_kept(world: World) -> None:
    world.a_class(extendedResourceName=GPU)
    world.a_node()
    world.a_slice("node-0", a_device())
    a_user_by_resource(world, "low", "low")
    world.bound("low")
    a_user_by_resource(world, "middle", "middle")
    world.pod_when("low", is_ending)
    a_user(world, "rival", "middle")
    world.refused("rival", "cannot allocate all claims")
    world.delete_pod("low")
    assert world.node_of("middle") == "node-0"
    world.await_queue("rival", queue="unschedulable")
    assert deleted(world) == ["low"]


def a_user_by_resource(world: World, name: str, priority: str) -> None:
    amounts = {GPU: "1"}
    container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    world.a_pod(name, priorityClassName=priority, containers=[container])


def test_nomination_to_a_node_that_is_not_there_does_not_keep_from_preempting(world: World) -> None:
    world.a_cluster()
    a_user(world, "low", "low", **SOON)
    world.bound("low")
    gate = {"name": "example.com/not-yet"}
    a_user(world, "high", "high", schedulingGates=[gate])
    world.update_pod("high", lambda pod: {**pod["status"], "nominatedNodeName": "nowhere"})
    world.leave_gates("high")
    assert world.devices_of("high") == ["node-0/gpu-0"]
    assert deleted(world) == ["low"]

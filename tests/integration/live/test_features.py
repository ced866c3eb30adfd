"""What claims can ask for, one feature after the other, and what becomes of pods whose claims ask for it."""

import pytest

from tests.controlplane.rest import POD, Json, Kind
from tests.integration.live.world import (
    DRIVER,
    FINALIZER,
    NAMESPACE,
    World,
    a_device,
    a_request,
    is_free,
    place,
    results_of,
    some_devices,
    users_of,
)

NAMESPACES = Kind("v1", "Namespace")
NO_DEVICES = "cannot allocate all claims"
ADMIN = "resource.kubernetes.io/admin-access"
TAINT = {"key": "example.com/broken", "value": "yes", "effect": "NoSchedule"}
READY, BROKEN = "example.com/attached", "example.com/broken"
CONDITIONS: Json = {"bindsToNode": True, "bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}
LONG_AGO = "2026-01-01T00:00:00Z"


def test_node_with_the_better_choice_is_taken(world: World) -> None:
    world.a_class()
    for number, size in enumerate(("small", "large", "small")):
        world.a_node(f"node-{number}")
        world.a_slice(f"node-{number}", a_device(attributes={"size": {"string": size}}))
    sizes = [
        {
            "name": size,
            "deviceClassName": "gpu",
            "selectors": selectors(f'device.attributes["{DRIVER}"].size == "{size}"'),
        }
        for size in ("large", "small")
    ]
    for name in ("first", "second"):
        world.a_claim(name, {"name": "r", "firstAvailable": sizes})
        world.a_pod(name, name)
        world.bound(name)
    assert world.node_of("first") == "node-1"
    assert [one["request"] for one in results_of(world.claim("first"))] == ["r/large"]
    assert world.node_of("second") == "node-0"
    assert [one["request"] for one in results_of(world.claim("second"))] == ["r/small"]


def test_all_devices_of_a_node_are_given_or_none(world: World) -> None:
    world.a_cluster(nodes=2, devices=3)
    world.a_claim("one")
    world.a_pod("one", "one")
    assert world.node_of("one") == "node-0"
    for name in ("all", "none"):
        world.a_claim(name, a_request(allocationMode="All"))
        world.a_pod(name, name)
    assert world.devices_of("all") == ["node-1/gpu-0", "node-1/gpu-1", "node-1/gpu-2"]
    world.refused("none", f"2 {NO_DEVICES}")
    world.delete_pod("one")
    assert world.devices_of("none") == ["node-0/gpu-0", "node-0/gpu-1", "node-0/gpu-2"]


def test_admin_access_takes_devices_in_use_where_the_namespace_permits_it(world: World) -> None:
    world.a_cluster()
    world.a_claim("user")
    world.a_pod("user", "user")
    world.bound("user")
    try:
        permit_admin_access(world, is_permitted=True)
        world.a_claim("admin", a_request(adminAccess=True))
        permit_admin_access(world, is_permitted=False)
        world.a_pod("admin", "admin")
        refusal = world.refused("admin")
        assert ADMIN in refusal["message"]
        permit_admin_access(world, is_permitted=True)
        assert world.devices_of("admin") == ["node-0/gpu-0"]
    finally:
        permit_admin_access(world, is_permitted=False)
    (result,) = results_of(world.claim("admin"))
    assert result["adminAccess"] is True
    assert world.devices_of("user") == ["node-0/gpu-0"]


def permit_admin_access(world: World, *, is_permitted: bool) -> None:
    """Label the namespace, or not."""
    found = world.api.get(NAMESPACES, NAMESPACE)
    labels = {key: value for key, value in found["metadata"]["labels"].items() if key != ADMIN}
    label = {ADMIN: "true"} if is_permitted else {}
    world.api.replace({**found, "metadata": {**found["metadata"], "labels": {**labels, **label}}})


@pytest.mark.needs("DRADeviceTaints")
def test_tainted_device_is_given_to_those_who_tolerate_it(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device(taints=[TAINT]))
    world.a_claim("careful")
    world.a_pod("careful", "careful")
    world.refused("careful", NO_DEVICES)
    toleration = {"key": TAINT["key"], "operator": "Exists"}
    world.a_claim("bold", a_request(tolerations=[toleration]))
    world.a_pod("bold", "bold")
    assert world.devices_of("bold") == ["node-0/gpu-0"]
    (result,) = results_of(world.claim("bold"))
    assert result["tolerations"] == [toleration]


@pytest.mark.needs("DRADeviceTaints")
def test_device_whose_taint_is_taken_away_is_given(world: World) -> None:
    world.a_class()
    world.a_node()
    slice_ = world.a_slice("node-0", a_device(taints=[TAINT]))
    world.a_claim()
    world.a_pod("pod", "claim")
    world.refused("pod", NO_DEVICES)
    world.api.replace({**slice_, "spec": {**slice_["spec"], "devices": some_devices(1)}})
    assert world.devices_of() == ["node-0/gpu-0"]


@pytest.mark.needs("DRAPartitionableDevices")
def test_parts_of_a_device_are_given_until_its_counters_are_used_up(world: World) -> None:
    world.a_class()
    world.a_node()
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    counted = world.a_slice("node-0", pool=pool, sharedCounters=counters)
    parts = [a_part("half-0", "40Gi"), a_part("half-1", "40Gi"), a_part("whole", "80Gi")]
    spec = {key: value for key, value in counted["spec"].items() if key != "sharedCounters"}
    world.api.create({**counted, "metadata": {"name": "parts"}, "spec": {**spec, "devices": parts}})
    for name in ("first", "second", "third"):
        world.a_claim(name)
        world.a_pod(name, name)
    names = {tuple(world.devices_of(name)) for name in ("first", "second")}
    assert names == {("node-0/half-0",), ("node-0/half-1",)}
    world.refused("third", NO_DEVICES)
    world.delete_pod("first")
    assert set(world.devices_of("third")) < {"node-0/half-0", "node-0/half-1"}


def a_part(name: str, memory: str) -> Json:
    consumed = [{"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}]
    return a_device(name, consumesCounters=consumed)


@pytest.mark.needs("DRAConsumableCapacity")
def test_shares_of_a_device_are_given_until_its_capacity_is_used_up(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device(allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi"}}))
    for name in ("first", "second", "third"):
        world.a_claim(name, a_request(capacity={"requests": {"memory": "40Gi"}}))
        world.a_pod(name, name)
    shares = [results_of(world.claim(name))[0] for name in ("first", "second") if world.bound(name)]
    assert [place(one) for one in shares] == ["node-0/gpu-0"] * 2
    assert [one["consumedCapacity"] for one in shares] == [{"memory": "40Gi"}] * 2
    assert len({one["shareID"] for one in shares}) == 2
    world.refused("third", NO_DEVICES)
    world.delete_pod("first")
    assert world.devices_of("third") == ["node-0/gpu-0"]


@pytest.mark.needs("DRADeviceBindingConditions")
def test_pod_is_bound_when_the_driver_says_that_its_device_is_ready(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device("gpu-0", **CONDITIONS))
    world.a_claim()
    world.a_pod("pod", "claim")
    (event,) = world.events("pod", "BindingConditionsPending")
    assert event["note"] == f"waiting for binding conditions of devices {DRIVER}/node-0/gpu-0"
    assert "nodeName" not in world.pod()["spec"]
    world.report("claim", READY)
    assert world.node_of() == "node-0"
    assert results_of(world.claim())[0]["bindingConditions"] == [READY]


@pytest.mark.needs("DRADeviceBindingConditions")
def test_pod_whose_device_fails_before_it_is_bound_gets_another(world: World) -> None:
    world.a_class()
    world.a_node("failing-0")  # its device is set aside for a while after this: no other test has one of that name
    world.a_slice("failing-0", a_device("gpu-0", **CONDITIONS), a_device("gpu-1"))
    world.a_claim()
    world.a_pod("pod", "claim")
    world.events("pod", "BindingConditionsPending")
    world.report("claim", BROKEN)
    assert world.devices_of() == ["failing-0/gpu-1"]
    device = f"{DRIVER}/failing-0/gpu-0"
    notes = [event["note"] for event in world.events("pod", "FailedScheduling")]
    assert notes == [
        f"claim {NAMESPACE}/claim: device binding failed: device {device} has the condition {BROKEN}: by the driver"
    ]


@pytest.mark.needs("DRADeviceBindingConditions")
def test_devices_that_were_not_ready_in_time_are_given_back_and_others_taken(world: World) -> None:
    world.a_class()
    world.a_node("late-0")
    world.a_slice("late-0", a_device("gpu-0", **CONDITIONS), a_device("gpu-1"))
    stored = world.a_claim()
    stored = world.api.replace({**stored, "metadata": {**stored["metadata"], "finalizers": [FINALIZER]}})
    conditions = {key: CONDITIONS[key] for key in ("bindingConditions", "bindingFailureConditions")}
    result = {"request": "r", "driver": DRIVER, "pool": "late-0", "device": "gpu-0", **conditions}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": LONG_AGO}
    world.api.replace_status({**stored, "status": {"allocation": allocation}})
    world.a_claim("later")  # a pod comes when it has been seen, and so what was written of the first before
    world.a_pod("pod", "claim")
    assert world.devices_of() == ["late-0/gpu-1"]
    notes = [event["note"] for event in world.events("pod", "FailedScheduling")]
    late = f"device binding timeout: not ready within 600 s: {DRIVER}/late-0/gpu-0"
    assert notes == [f"0/1 nodes are available: 1 resourceclaim not available on the node. {late}"]


@pytest.mark.needs("DRADeviceBindingConditions")
def test_pods_that_share_a_device_that_fails_get_another_together(world: World) -> None:
    world.a_class()
    world.a_node("shared-0")
    world.a_slice("shared-0", a_device("gpu-0", **CONDITIONS), a_device("gpu-1"))
    world.a_claim()
    for name in ("first", "second"):
        world.a_pod(name, "claim")
        world.events(name, "BindingConditionsPending")
    world.report("claim", BROKEN)
    assert world.devices_of("first") == ["shared-0/gpu-1"]
    assert world.devices_of("second") == ["shared-0/gpu-1"]
    assert sorted(users_of(world.claim())) == ["first", "second"]


@pytest.mark.needs("DRADeviceBindingConditions")
def test_device_that_fails_under_a_pod_that_uses_it_is_given_to_no_further_pod_of_its_claim(world: World) -> None:
    world.a_class()
    world.a_node("used-0")
    world.a_slice("used-0", a_device("gpu-0", **CONDITIONS), a_device("gpu-1"))
    world.a_claim()
    world.a_pod("first", "claim")
    world.events("first", "BindingConditionsPending")
    world.report("claim", READY)
    world.bound("first")
    world.report("claim", BROKEN)
    world.a_pod("second", "claim")
    refusal = world.refused("second", "resourceclaim not available on the node. device binding failed")
    assert refusal["reason"] == "Unschedulable"
    assert users_of(world.claim()) == ["first"]
    world.delete_pod("first")
    world.events("second", "BindingConditionsPending")
    world.report("claim", READY)
    assert users_of(world.claim()) == [world.bound("second")["metadata"]["name"]]


@pytest.mark.needs("DRADeviceBindingConditions")
def test_pod_that_is_deleted_while_its_device_is_made_ready_leaves_the_device_to_the_next(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device("gpu-0", **CONDITIONS))
    for name in ("deleted", "next"):
        world.a_claim(name)
    world.a_pod("deleted", "deleted")
    world.events("deleted", "BindingConditionsPending")
    world.delete_pod("deleted")
    world.claim_when("deleted", is_free)
    world.a_pod("next", "next")
    world.events("next", "BindingConditionsPending")
    world.report("next", READY)
    assert world.devices_of("next") == ["node-0/gpu-0"]
    assert is_free(world.claim("deleted"))


@pytest.mark.needs("DRADeviceTaints")
def test_pod_that_a_taint_evicts_gives_its_device_to_one_that_tolerates_it(world: World) -> None:
    world.a_class()
    world.a_node()
    slice_ = world.a_slice("node-0", a_device())
    world.a_claim("first")
    world.a_pod("first", "first", terminationGracePeriodSeconds=0)
    world.bound("first")
    world.a_claim("bold", a_request(tolerations=[{"key": TAINT["key"], "operator": "Exists"}]))
    world.a_pod("bold", "bold")
    world.refused("bold", NO_DEVICES)
    evicting = [a_device(taints=[{**TAINT, "effect": "NoExecute"}])]
    world.api.replace({**slice_, "spec": {**slice_["spec"], "devices": evicting}})
    world.gone(POD, "first")
    assert world.devices_of("bold") == ["node-0/gpu-0"]


def test_expression_that_cannot_be_evaluated_is_an_error_of_the_scheduler(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device())
    world.a_claim("claim", a_request(selectors=selectors(f'device.attributes["{DRIVER}"].absent == 1')))
    world.a_pod("pod", "claim")
    refusal = world.refused("pod")
    assert refusal["reason"] == "SchedulerError"
    assert "absent" in refusal["message"]
    assert is_free(world.claim())


def test_class_whose_expression_is_mended_serves_the_pod(world: World) -> None:
    wrong = world.a_class(selectors=selectors(f'device.attributes["{DRIVER}"].absent == 1'))
    world.a_node()
    world.a_slice("node-0", a_device())
    world.a_claim()
    world.a_pod("pod", "claim")
    world.refused("pod", "absent")
    world.api.replace({**wrong, "spec": {}})
    assert world.devices_of() == ["node-0/gpu-0"]


def test_class_that_is_missing_is_named_and_waited_for(world: World) -> None:
    world.a_node()
    world.a_slice("node-0", a_device())
    world.a_claim()
    world.a_pod("pod", "claim")
    message = world.refused("pod")["message"]
    assert message.startswith("0/1 nodes are available: request r: device class gpu does not exist.")
    world.a_class()
    assert world.devices_of() == ["node-0/gpu-0"]


def selectors(expression: str) -> list[Json]:
    return [{"cel": {"expression": expression}}]

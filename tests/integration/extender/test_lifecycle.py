"""Pods of the stock kube-scheduler that get their devices from the extender, from their claims to their end."""

import pytest

from scheduler.attempt.claim_objects import ANNOTATION as INTENT
from scheduler.extender.poke import ANNOTATION as POKE
from tests.controlplane.rest import CLAIM, NODE
from tests.integration.extender.beside import IN_TREE, Beside
from tests.integration.live.world import (
    DRIVER,
    NAMESPACE,
    a_device,
    a_request,
    claims_of,
    is_free,
    results_of,
    some_devices,
    users_of,
)

IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


def test_pod_without_claims_is_bound(world: Beside) -> None:
    world.a_node()
    world.a_pod()
    assert world.node_of() == "node-0"
    assert world.proxy.writes("/resourceclaims/") == []
    (event,) = world.events("pod", "Scheduled")
    assert event["note"] == f"Successfully assigned {NAMESPACE}/pod to node-0"


def test_pod_gets_a_device_from_the_extender_and_its_node_from_kube_scheduler(world: Beside) -> None:
    world.a_cluster(nodes=2, devices=2)
    world.a_claim()
    world.a_pod("pod", "claim")
    node = world.node_of()
    assert world.devices_of() == [f"{node}/gpu-0"]
    claim = world.claim()
    assert users_of(claim) == ["pod"]
    assert INTENT in claim["metadata"]["annotations"]
    (event,) = world.events("pod", "Scheduled")
    assert event["reportingController"] == "dra-kube-scheduler"


def test_pod_that_comes_before_its_claim_is_made_waits_for_it(world: Beside) -> None:
    world.a_cluster()
    world.a_pod("pod", template="template")
    assert "pod" in world.refused("pod", "ResourceClaim not created yet")["message"]
    world.a_template()
    assert world.devices_of() == ["node-0/gpu-0"]


def test_claim_of_a_template_goes_with_its_pod_and_its_device_to_the_next(world: Beside) -> None:
    world.a_cluster()
    world.a_template()
    world.a_pod("first", template="template")
    assert world.devices_of("first") == ["node-0/gpu-0"]
    (made,) = claims_of(world.pod("first"))
    world.a_pod("second", template="template")
    world.refused("second")
    world.delete_pod("first")
    assert world.devices_of("second") == ["node-0/gpu-0"]
    world.gone(CLAIM, made)


def test_refused_pod_is_shown_what_each_node_lacks(world: Beside) -> None:
    world.a_class()
    for number, devices in enumerate((1, 2)):
        world.a_node(f"node-{number}")
        world.a_slice(f"node-{number}", *some_devices(devices))
    world.a_claim("claim", a_request(count=4))
    world.a_pod("pod", "claim")
    message = world.refused("pod", "available")["message"]
    assert message.startswith("0/2 nodes are available: ")
    for left in ("1 is left (1 device)", "2 are left (2 devices)"):
        assert f"1 request r needs 4 devices, {left}" in message
    assert world.queue()["pod"]["queue"] == "refused"


def test_node_with_the_better_choice_is_taken(world: Beside) -> None:
    world.a_class()
    for number, size in enumerate(("small", "large", "small")):
        world.a_node(f"node-{number}")
        world.a_slice(f"node-{number}", a_device(attributes={"size": {"string": size}}))
    sizes = [
        {
            "name": size,
            "deviceClassName": "gpu",
            "selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].size == "{size}"'}}],
        }
        for size in ("large", "small")
    ]
    world.a_claim("claim", {"name": "r", "firstAvailable": sizes})
    world.a_pod("pod", "claim")
    assert world.node_of() == "node-1"
    assert [one["request"] for one in results_of(world.claim())] == ["r/large"]


def test_pods_that_share_a_claim_come_to_its_node(world: Beside) -> None:
    world.a_cluster(nodes=3)
    world.a_claim()
    names = ["pod-0", "pod-1", "pod-2"]
    for name in names:
        world.a_pod(name, "claim")
    assert len({world.node_of(name) for name in names}) == 1
    assert sorted(users_of(world.claim())) == names
    for name in names:
        world.delete_pod(name)
    world.claim_when("claim", is_free)


def test_claim_that_is_allocated_for_a_node_that_has_gone_is_deallocated_and_serves_elsewhere(world: Beside) -> None:
    world.a_cluster()
    stored = world.a_claim()
    result = {"request": "r", "driver": DRIVER, "pool": "gone", "device": "gpu-0"}
    chosen = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [chosen]}}
    world.api.replace_status({**stored, "status": {"allocation": allocation}})
    world.a_pod("pod", "claim")
    assert world.devices_of() == ["node-0/gpu-0"]


@pytest.mark.needs("SchedulerPopFromBackoffQ")  # without it, pods in backoff need no waking
def test_new_slice_wakes_refused_pods_by_an_annotation_of_its_node(world: Beside) -> None:
    world.a_class()
    for name in ("node-0", "node-1"):
        world.a_node(name)
    names = ("first", "second")
    for name in names:
        world.a_claim(name)
    await_seen_by_kube_scheduler(world, *names)
    for name in names:
        world.a_pod(name, name)
        world.refused(name)
    world.a_slice("node-1", *some_devices(2))
    assert world.node_of("first") == world.node_of("second") == "node-1"
    assert "node-1" in {poke.path.rpartition("/")[2] for poke in world.proxy.writes("/nodes/")}
    assert POKE in world.api.get(NODE, "node-1")["metadata"]["annotations"]


def await_seen_by_kube_scheduler(world: Beside, *claims: str) -> None:
    """Return when it has seen both nodes, the class and the claims: what it sees late wakes the pods as well."""
    world.a_pod("witness", *claims, schedulerName=IN_TREE)
    world.refused("witness", "0/2 nodes are available: 2 cannot allocate all claims.")
    world.delete_pod("witness")


def test_slices_that_come_while_no_pod_waits_are_nobodys_business(world: Beside) -> None:
    world.a_cluster()
    world.a_claim()
    world.a_pod("pod", "claim")
    world.bound()
    world.a_node("node-1")
    world.a_slice("node-1", a_device())
    world.await_seen()
    assert world.proxy.writes("/nodes/") == []


def test_pod_of_a_profile_with_the_plugin_gets_its_device_from_kube_scheduler(world: Beside) -> None:
    world.a_cluster(devices=2)
    for name, profile in (("theirs", IN_TREE), ("ours", "dra-kube-scheduler")):
        world.a_claim(name)
        world.a_pod(name, name, schedulerName=profile)
        assert world.node_of(name) == "node-0"
    assert INTENT not in world.claim("theirs")["metadata"].get("annotations", {})
    assert INTENT in world.claim("ours")["metadata"]["annotations"]
    assert world.devices_of("theirs") != world.devices_of("ours")


def test_device_that_is_asked_for_as_an_extended_resource_is_refused(world: Beside) -> None:
    world.a_cluster()
    container = {"name": "c", "image": "none", "resources": {"limits": {IMPLICIT: "1"}}}
    world.a_pod("pod", containers=[container])
    assert f"Insufficient {IMPLICIT}" in world.refused("pod", IMPLICIT)["message"]

"""Where devices are: what claims, slices and nodes say of it, and what follows when any of them changes."""

import pytest

from tests.controlplane.faults import Hold, cut_before
from tests.controlplane.rest import CLAIM, NODE, SLICE, Json, Kind
from tests.integration.live.world import (
    DRIVER,
    FINALIZER,
    NAMESPACE,
    World,
    a_device,
    a_request,
    is_free,
    reported,
    some_devices,
    users_of,
)

NOT_REACHED = "resourceclaim not available on the node"
NO_DEVICES = "cannot allocate all claims"


def test_pod_goes_where_its_claim_is_or_nowhere(world: World) -> None:
    world.a_cluster(nodes=3)
    world.a_claim()
    world.a_pod("first", "claim", nodeSelector=on("node-1"))
    assert world.node_of("first") == "node-1"
    world.a_pod("second", "claim")
    assert world.node_of("second") == "node-1"
    world.a_pod("third", "claim", nodeSelector=on("node-2"))
    assert f"1 {NOT_REACHED}" in world.refused("third")["message"]
    assert users_of(world.claim()) == ["first", "second"]


def test_claim_that_is_allocated_on_a_node_that_has_gone_is_deallocated_and_its_pod_moves(world: World) -> None:
    world.a_cluster(nodes=2)
    world.a_claim()
    allocate_by_hand(world, "node-7")
    world.a_pod("pod", "claim")
    assert world.devices_of() == ["node-0/gpu-0"]
    assert users_of(world.claim()) == ["pod"]


def test_claim_whose_deallocation_is_not_answered_at_first_is_deallocated_all_the_same(world: World) -> None:
    world.a_cluster()
    world.a_claim()
    allocate_by_hand(world, "node-7")
    rule = world.proxy.on("PUT", r"/resourceclaims/claim$", cut_before)
    world.a_pod("pod", "claim")
    rule.met.wait()
    assert world.devices_of() == ["node-0/gpu-0"]


def test_claim_that_is_deleted_while_its_pod_alone_has_it_reserved_goes_and_the_next_of_its_name_serves_the_pod(
    world: World,
) -> None:
    """As an attempt leaves it that was killed before it bound the pod: neither may wait for the other."""
    world.a_cluster(nodes=2)
    world.a_claim()
    allocate_by_hand(world, "node-1")
    pod = world.a_pod("pod", "claim", schedulingGates=[{"name": "example.com/wait"}])
    claim = world.claim()
    user = {"resource": "pods", "name": "pod", "uid": pod["metadata"]["uid"]}
    world.api.replace_status({**claim, "status": {**claim["status"], "reservedFor": [user]}})
    world.api.delete(CLAIM, "claim", NAMESPACE)
    world.leave_gates()
    world.gone(CLAIM, "claim")
    world.await_queue("pod", queue="gated", gate=f'could not find ResourceClaim "{NAMESPACE}/claim"')
    world.a_claim()
    assert world.devices_of() == ["node-0/gpu-0"]
    assert users_of(world.claim()) == ["pod"]


def test_claim_whose_node_has_no_room_is_deallocated_and_its_pod_moves(world: World) -> None:
    world.a_cluster(nodes=2)
    world.a_claim()
    allocate_by_hand(world, "node-1")
    world.a_pod("large", requests={"cpu": "96"}, nodeSelector=on("node-1"))
    world.bound("large")
    world.a_pod("pod", "claim", requests={"cpu": "1"})
    assert world.devices_of() == ["node-0/gpu-0"]


def test_pod_stays_away_from_where_a_pod_is_that_wants_none_like_it(world: World) -> None:
    """The nodes of a kind are one domain; the other pod is of another scheduler, and says so of pods with a label."""
    world.a_class()
    for name in ("first-0", "first-1", "second-0"):
        world.a_node(name)
        world.a_slice(name, *some_devices(2))
    term = {"topologyKey": "kind", "labelSelector": {"matchLabels": {"noisy": "yes"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for name in ("first-0", "second-0"):
        world.a_pod(f"shy-{name}", schedulerName="another", nodeName=name, affinity=apart)
    world.a_claim("quiet")
    world.a_pod("quiet", "quiet")
    world.bound("quiet")
    world.a_claim("noisy")
    noisy = world.a_pod("noisy", "noisy", schedulingGates=[{"name": "example.com/unlabelled"}])
    labelled = {**noisy, "metadata": {**noisy["metadata"], "labels": {"noisy": "yes"}}}
    world.api.replace({**labelled, "spec": {**noisy["spec"], "schedulingGates": []}})
    message = world.refused("noisy", "nodes are available")["message"]
    assert message.startswith("0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.")
    world.delete_pod("shy-second-0")
    assert world.node_of("noisy") == "second-0"


def test_device_of_an_allocated_claim_that_nobody_uses_is_not_given_to_another(world: World) -> None:
    world.a_cluster(devices=2)
    world.a_claim("held")
    allocate_by_hand(world, "node-0", claim="held")
    world.a_claim("free")
    world.a_pod("pod", "free")
    assert world.devices_of() == ["node-0/gpu-1"]


def test_devices_for_labelled_nodes_are_given_there_and_the_claim_says_so(world: World) -> None:
    world.a_class()
    for name in ("big-0", "small-0"):
        world.a_node(name)
    terms = [{"matchExpressions": [{"key": "kind", "operator": "In", "values": ["small"]}]}]
    world.a_slice("fabric", *some_devices(2), nodeSelector={"nodeSelectorTerms": terms})
    world.a_claim()
    world.a_pod("pod", "claim")
    assert world.node_of() == "small-0"
    assert world.claim()["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"] == terms


def test_node_that_is_labelled_later_reaches_its_devices_from_then_on(world: World) -> None:
    world.a_class()
    node = world.a_node("big-0")
    terms = [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]
    world.a_slice("fabric", a_device(), nodeSelector={"nodeSelectorTerms": terms})
    world.a_claim()
    world.a_pod("pod", "claim")
    world.refused("pod", NO_DEVICES)
    world.api.replace({**node, "metadata": {**node["metadata"], "labels": {"rack": "1"}}})
    assert world.node_of() == "big-0"


def test_node_that_gets_the_label_takes_the_pod_that_asks_for_it(world: World) -> None:
    for number in range(2):
        world.a_node(f"node-{number}")
    world.a_pod("pod", nodeSelector={"disk": "ssd"})
    world.refused("pod", "2 node(s) didn't match Pod's node affinity/selector")
    world.await_queue("pod", queue="unschedulable")
    refused = world.attempts("unschedulable")
    label(world, "node-0", disk="hdd")
    label(world, "node-0", rack="1")
    label(world, "node-1", disk="ssd")
    assert world.node_of() == "node-1"
    assert world.attempts("unschedulable") == refused


def test_node_that_gets_a_zone_takes_the_pod_that_is_spread_over_zones(world: World) -> None:
    world.a_node()
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    world.a_pod("pod", topologySpreadConstraints=[spread])
    world.refused("pod", "1 node(s) didn't match pod topology spread constraints (missing required label)")
    world.await_queue("pod", queue="unschedulable")
    label(world, "node-0", **{"topology.kubernetes.io/zone": "a"})
    assert world.node_of() == "node-0"


def label(world: World, name: str, **labels: str) -> None:
    """As an administrator does."""
    node = world.api.get(NODE, name)
    metadata = node["metadata"]
    world.api.replace({**node, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}})


def test_devices_of_all_nodes_tie_their_claim_to_none(world: World) -> None:
    world.a_class()
    for number in range(2):
        world.a_node(f"node-{number}")
    world.a_slice("fabric", a_device(), allNodes=True)
    world.a_claim()
    world.a_pod("first", "claim", nodeSelector=on("node-0"))
    world.a_pod("second", "claim", nodeSelector=on("node-1"))
    assert [world.node_of("first"), world.node_of("second")] == ["node-0", "node-1"]
    assert "nodeSelector" not in world.claim()["status"]["allocation"]


@pytest.mark.needs("DRAPartitionableDevices")
def test_devices_of_one_slice_that_are_on_different_nodes_are_given_there(world: World) -> None:
    world.a_class()
    for number in range(2):
        world.a_node(f"node-{number}")
    devices = [a_device(f"gpu-{number}", nodeName=f"node-{number}") for number in range(2)]
    world.a_slice("rack", *devices, perDeviceNodeSelection=True)
    for number in (1, 0):
        world.a_claim(f"claim-{number}")
        world.a_pod(f"pod-{number}", f"claim-{number}", nodeSelector=on(f"node-{number}"))
        assert world.devices_of(f"pod-{number}") == [f"rack/gpu-{number}"]


def test_devices_of_an_older_generation_are_not_given(world: World) -> None:
    world.a_class()
    world.a_node()
    old = world.a_slice("node-0", a_device("old"))
    new = pool("node-0", generation=2)
    world.api.create(
        {**old, "metadata": {"name": "newer"}, "spec": {**old["spec"], "pool": new, "devices": [a_device("new")]}}
    )
    world.a_claim()
    world.a_claim("other")
    world.a_pod("pod", "claim")
    assert world.devices_of() == ["node-0/new"]
    world.a_pod("other", "other")
    assert NO_DEVICES in world.refused("other")["message"]


def test_devices_of_a_pool_that_is_not_complete_are_not_given_until_it_is(world: World) -> None:
    world.a_class()
    world.a_node()
    first = world.a_slice("node-0", a_device(), pool=pool("node-0", slices=2))
    world.a_claim()
    world.a_pod("pod", "claim")
    world.refused("pod", NO_DEVICES)
    world.api.create(
        {**first, "metadata": {"name": "second"}, "spec": {**first["spec"], "devices": [a_device("gpu-1")]}}
    )
    assert world.devices_of() == ["node-0/gpu-0"]


def test_devices_that_are_published_later_wake_the_pod_that_waits_for_them(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_claim("two", a_request(count=2))
    world.a_pod("pod", "two")
    assert world.refused("pod")["message"].startswith(f"0/1 nodes are available: 1 {NO_DEVICES}.")
    slice_ = world.a_slice("node-0", a_device())
    world.refused("pod", "the most is 1")
    grown = {**slice_["spec"], "pool": pool("node-0", generation=2), "devices": some_devices(2)}
    world.api.replace({**slice_, "spec": grown})
    assert world.devices_of() == ["node-0/gpu-0", "node-0/gpu-1"]


def test_node_that_comes_later_wakes_the_pod_that_waits_for_its_devices(world: World) -> None:
    world.a_class()
    world.a_slice("node-0", a_device())
    world.a_claim()
    world.a_pod("pod", "claim")
    assert world.refused("pod")["message"] == "no nodes available to schedule pods"
    world.a_node()
    assert world.devices_of() == ["node-0/gpu-0"]


def test_devices_that_are_withdrawn_are_not_given_any_more(world: World) -> None:
    world.a_cluster(nodes=2)
    world.api.delete(SLICE, f"node-0.{DRIVER}")
    world.a_claim()
    world.a_pod("pod", "claim")
    assert world.devices_of() == ["node-1/gpu-0"]


def test_node_that_goes_is_not_used_any_more(world: World) -> None:
    world.a_cluster(nodes=2)
    world.api.delete(NODE, "node-0")
    world.a_claim()
    world.a_pod("pod", "claim")
    assert world.devices_of() == ["node-1/gpu-0"]


@pytest.mark.parametrize(("kind", "name"), [(NODE, "node-0"), (SLICE, f"node-0.{DRIVER}")])
def test_what_goes_while_a_claim_is_written_is_not_given_after_all(world: World, kind: Kind, name: str) -> None:
    world.a_cluster(nodes=2)
    world.a_claim()
    hold = Hold()
    rule = world.proxy.on("PUT", r"/resourceclaims/claim$", hold)
    world.a_pod("pod", "claim")
    rule.met.wait()
    world.api.delete(kind, name)
    world.await_seen()
    hold.release()
    assert world.devices_of() == ["node-1/gpu-0"]


def test_claim_of_a_pod_that_waits_for_room_stays_free(world: World) -> None:
    world.a_cluster()
    world.a_claim()
    world.a_pod("pod", "claim", requests={"cpu": "97"})
    assert world.refused("pod")["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert is_free(world.claim())
    node = world.api.get(NODE, "node-0")
    room = {**node["status"]["allocatable"], "cpu": "128"}
    world.api.replace_status({**node, "status": {**node["status"], "allocatable": room, "capacity": room}})
    assert reported(world.bound()) is None


def on(node: str) -> Json:
    """The node selector of a pod for that node alone."""
    return {"kubernetes.io/hostname": node}


def pool(name: str, generation: int = 1, slices: int = 1) -> Json:
    return {"name": name, "generation": generation, "resourceSliceCount": slices}


def allocate_by_hand(world: World, node: str, claim: str = "claim") -> None:
    """The claim gets gpu-0 of the node, as another scheduler leaves it that did not come further."""
    stored = world.claim(claim)
    stored = world.api.replace({**stored, "metadata": {**stored["metadata"], "finalizers": [FINALIZER]}})
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": "gpu-0"}]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
    allocation = {"devices": {"results": results}, "nodeSelector": selector}
    world.api.replace_status({**stored, "status": {"allocation": allocation}})

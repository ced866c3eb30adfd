"""The life of claims and of the pods that use them, from the first to the last."""

import pytest

from tests.controlplane.rest import CLAIM, Json
from tests.integration.live.world import (
    FINALIZER,
    NAMESPACE,
    SCHEDULER,
    World,
    a_device,
    a_request,
    an_object,
    claims_of,
    is_allocated,
    is_free,
    results_of,
    some_devices,
    users_of,
)

MOST = 256
SCHEDULERS = {"theirs": "default-scheduler", "ours": SCHEDULER}
OTHER = "nic.example"


def test_pod_with_a_manual_claim_gets_a_node_and_a_device(world: World) -> None:
    world.a_cluster()
    world.a_claim()
    pod = world.a_pod("pod", "claim")
    assert world.node_of() == "node-0"
    claim = world.claim()
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "pod", "uid": pod["metadata"]["uid"]}]
    allocation = claim["status"]["allocation"]
    assert allocation["devices"]["results"] == [
        {"request": "r", "driver": "gpu.example", "pool": "node-0", "device": "gpu-0"}
    ]
    assert allocation["nodeSelector"]["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}
    ]
    (event,) = world.events("pod", "Scheduled")
    assert event["note"] == f"Successfully assigned {NAMESPACE}/pod to node-0"
    assert event["reportingController"] == SCHEDULER


def test_pod_waits_for_the_claim_of_its_template(world: World) -> None:
    world.a_cluster()
    world.a_template()
    world.a_pod("pod", template="template")
    pod = world.bound()
    (name,) = claims_of(pod)
    assert name.startswith("pod-made-")
    assert users_of(world.claim(name)) == ["pod"]


def test_template_that_is_created_late_is_waited_for_at_the_gate(world: World) -> None:
    world.a_cluster()
    world.a_pod("pod", template="template")
    waiting = world.await_queue("pod", queue="gated")
    assert waiting["gate"] == f'pod "{NAMESPACE}/pod": ResourceClaim not created yet'
    assert waiting["attempts"] == 0
    world.a_template()
    assert world.devices_of() == ["node-0/gpu-0"]
    assert world.events("pod", "FailedResourceClaimCreation")


def test_entry_whose_claim_turns_out_not_to_be_needed_is_skipped(world: World) -> None:
    world.a_node()
    world.a_pod("pod", template="template")
    world.await_queue("pod", queue="gated")
    world.update_pod("pod", lambda pod: {**pod["status"], "resourceClaimStatuses": [{"name": "made"}]})
    assert world.node_of() == "node-0"
    assert world.api.list(CLAIM, NAMESPACE) == []


def test_claim_of_a_template_that_is_deleted_and_made_anew_serves_the_pod(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_template()
    world.a_pod("pod", template="template")
    world.refused("pod", "cannot allocate all claims")
    (first,) = claims_of(world.pod())
    world.api.delete(CLAIM, first, NAMESPACE)
    make_anew(world, world.pod(), "pod-made-again")
    world.a_slice("node-0", a_device())
    assert world.devices_of() == ["node-0/gpu-0"]
    assert users_of(world.claim("pod-made-again")) == ["pod"]


def make_anew(world: World, pod: Json, name: str) -> None:
    """As the controller does, which believes for a minute that a claim that it has made is still there."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": pod["metadata"]["uid"], "controller": True}
    claim = an_object(CLAIM, name, {"devices": {"requests": [a_request()]}}, NAMESPACE)
    annotations = {"resource.kubernetes.io/pod-claim-name": "made"}
    world.api.create(
        {**claim, "metadata": {**claim["metadata"], "annotations": annotations, "ownerReferences": [owner]}}
    )
    made = [{"name": "made", "resourceClaimName": name}]
    world.update_pod("pod", lambda pod: {**pod["status"], "resourceClaimStatuses": made})


def test_claim_that_was_made_for_another_pod_is_not_used(world: World) -> None:
    world.a_cluster()
    world.a_claim("foreign")
    world.a_pod("pod", template="absent")
    world.await_queue("pod", queue="gated")
    foreign = [{"name": "made", "resourceClaimName": "foreign"}]
    world.update_pod("pod", lambda pod: {**pod["status"], "resourceClaimStatuses": foreign})
    gate = f"ResourceClaim {NAMESPACE}/foreign was not created for Pod {NAMESPACE}/pod (Pod is not owner)"
    assert world.await_queue("pod", queue="gated", gate=gate)["attempts"] == 0
    assert not is_allocated(world.claim("foreign"))


def test_claim_that_is_being_deleted_is_not_used_and_a_new_one_of_its_name_is(world: World) -> None:
    world.a_cluster()
    claim = world.a_claim()
    claim = world.api.replace({**claim, "metadata": {**claim["metadata"], "finalizers": ["other.example/keep"]}})
    world.api.delete(CLAIM, "claim", NAMESPACE)
    world.a_pod("pod", "claim")
    world.await_queue("pod", queue="gated", gate='resourceclaim "claim" is being deleted')
    claim = world.claim()
    world.api.replace({**claim, "metadata": {**claim["metadata"], "finalizers": []}})
    world.await_queue("pod", queue="gated", gate=f'could not find ResourceClaim "{NAMESPACE}/claim"')
    world.a_claim()
    assert world.devices_of() == ["node-0/gpu-0"]


def test_pod_with_two_claims_of_two_drivers_is_where_both_are(world: World) -> None:
    world.a_class("gpu")
    world.a_class("nic", OTHER)
    for name in ("node-0", "node-1", "node-2"):
        world.a_node(name)
    world.a_slice("node-0", a_device())
    world.a_slice("node-1", a_device(), a_device("gpu-1"))
    world.a_slice("node-1", a_device("nic-0"), driver=OTHER)
    world.a_slice("node-2", a_device("nic-0"), driver=OTHER)
    world.a_claim("two", a_request(count=2))
    world.a_claim("one", a_request(deviceClassName="nic"))
    world.a_pod("pod", "two", "one")
    assert world.node_of() == "node-1"
    assert world.devices_of() == ["node-1/gpu-0", "node-1/gpu-1", "node-1/nic-0"]


def test_devices_of_a_pod_that_succeeded_go_to_the_next_and_its_claim_is_deleted(world: World) -> None:
    world.a_cluster()
    world.a_template()
    world.a_pod("first", template="template")
    (claim,) = claims_of(world.bound("first"))
    world.a_pod("second", template="template")
    world.refused("second", "cannot allocate all claims")
    world.end_pod("first")
    assert world.devices_of("second") == ["node-0/gpu-0"]
    world.gone(CLAIM, claim)


def test_manual_claim_of_a_deleted_pod_is_deallocated_and_its_device_goes_to_the_next(world: World) -> None:
    world.a_cluster()
    world.a_claim("first")
    world.a_claim("second")
    world.a_pod("first", "first")
    world.bound("first")
    world.a_pod("second", "second")
    world.refused("second", "cannot allocate all claims")
    world.delete_pod("first")
    assert world.devices_of("second") == ["node-0/gpu-0"]
    assert world.claim_when("first", is_free)["metadata"].get("finalizers") is None


def test_pods_that_share_a_claim_are_on_its_node_and_all_reserve_it(world: World) -> None:
    world.a_cluster(nodes=3)
    world.a_claim()
    for name in ("a", "b", "c"):
        world.a_pod(name, "claim")
    assert len({world.node_of(name) for name in ("a", "b", "c")}) == 1
    claim = world.claim()
    assert sorted(users_of(claim)) == ["a", "b", "c"]
    assert len(results_of(claim)) == 1


def test_pod_beyond_the_limit_of_a_claim_waits_until_there_is_room(world: World) -> None:
    world.a_cluster()
    world.a_claim()
    world.a_pod("first", "claim")
    world.bound("first")
    reserve_for_others(world, MOST - 1)
    world.a_claim("later")  # a pod comes when it has been seen, and so what was written of the first before
    world.a_pod("late", "claim")
    refusal = world.refused("late")
    assert refusal["message"].startswith(
        f"0/1 nodes are available: resourceclaim {NAMESPACE}/claim is reserved for 256 pods already"
    )
    reserve_for_others(world, MOST - 2)
    assert world.node_of("late") == "node-0"
    assert len(world.claim()["status"]["reservedFor"]) == MOST


def reserve_for_others(world: World, number: int) -> None:
    """So many consumers of the claim besides the first, which no controller knows and takes away."""
    claim = world.claim()
    others = [
        {"apiGroup": "other.example", "resource": "things", "name": f"t{n}", "uid": f"t{n}"} for n in range(number)
    ]
    reserved = [claim["status"]["reservedFor"][0], *others]
    world.api.replace_status({**claim, "status": {**claim["status"], "reservedFor": reserved}})


@pytest.mark.parametrize("theirs_is_first", [True, False])
def test_claim_is_shared_with_a_pod_of_kube_scheduler(world: World, *, theirs_is_first: bool) -> None:
    world.a_cluster(nodes=3)
    world.a_claim()
    names = ["theirs", "ours"] if theirs_is_first else ["ours", "theirs"]
    kube_scheduler = world.plane.start_scheduler({})
    try:
        for name in names:
            world.a_pod(name, "claim", schedulerName=SCHEDULERS[name])
            world.bound(name)
    finally:
        kube_scheduler.stop()
    assert world.node_of("ours") == world.node_of("theirs")
    assert users_of(world.claim()) == names


def test_claim_that_is_deleted_in_use_stays_for_its_pod_and_is_given_to_no_other(world: World) -> None:
    world.a_cluster()
    world.a_claim()
    world.a_pod("first", "claim")
    world.bound("first")
    world.api.delete(CLAIM, "claim", NAMESPACE)
    world.a_pod("second", "claim")
    world.await_queue("second", queue="gated", gate='resourceclaim "claim" is being deleted')
    assert users_of(world.claim()) == ["first"]
    world.end_pod("first")
    world.gone(CLAIM, "claim")
    world.await_queue("second", queue="gated", gate=f'could not find ResourceClaim "{NAMESPACE}/claim"')


def test_pod_that_came_with_its_node_is_counted_there_and_its_claim_left_alone(world: World) -> None:
    world.a_class()
    world.a_node("node-0", allocatable={"cpu": "4"})
    world.a_slice("node-0", *some_devices(2))
    world.a_claim("first")
    world.a_claim("second")
    world.a_pod("prescheduled", "first", requests={"cpu": "3"}, nodeName="node-0")
    world.await_metric("dra_scheduler_prescheduled_pods", 1)
    world.a_pod("too-large", requests={"cpu": "2"})
    assert world.refused("too-large")["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    world.a_pod("small", "second", requests={"cpu": "1"})
    world.bound("small")
    assert not is_allocated(world.claim("first"))


def test_every_write_that_replaces_says_on_which_version_it_builds(world: World) -> None:
    world.a_cluster(devices=2)
    world.a_claim("first")
    world.a_claim("second")
    world.a_pod("first", "first", "second")
    world.bound("first")
    world.a_pod("second", "second")
    world.bound("second")
    replaced = [one for one in world.proxy.writes() if one.method == "PUT"]
    assert len(replaced) == 5
    assert all(one.sent["metadata"]["resourceVersion"] for one in replaced)

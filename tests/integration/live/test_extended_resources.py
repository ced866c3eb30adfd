"""Extended resources that device classes stand for: their claim is made, and what is left of another is taken away."""

from collections.abc import Sequence
from http import HTTPStatus

import pytest

from scheduler.attempt.claim_objects import ANNOTATION
from scheduler.core_v1.pod import Pod
from scheduler.state.pod_resources import claim_name
from tests.controlplane.faults import CutAndGoOn, Hold
from tests.controlplane.rest import CLAIM, CLASS, Json
from tests.integration.attempt.scene import CLAIMS, Landing
from tests.integration.live.world import (
    FINALIZER,
    NAMESPACE,
    World,
    a_device,
    is_allocated,
    is_free,
    place,
    reported,
    results_of,
    some_devices,
    users_of,
)

pytestmark = pytest.mark.needs("DRAExtendedResource")

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
REQUEST = "container-0-request-0"
READY, BROKEN = "example.com/attached", "example.com/broken"
GATES = [{"name": "example.com/wait"}]


def a_gpu_cluster(world: World, nodes: int = 1, devices: int = 1) -> None:
    """Nodes with so many devices each, and a class of them that stands for the resource."""
    world.a_class(extendedResourceName=GPU)
    for number in range(nodes):
        world.a_node(f"node-{number}")
        world.a_slice(f"node-{number}", *some_devices(devices))


def a_gpu_pod(
    world: World,
    name: str = "pod",
    *claims: str,
    count: int = 1,
    resource: str = GPU,
    gates: Sequence[Json] = (),
) -> Json:
    """A pod whose container asks for so many of the resource."""
    amounts = {resource: str(count)}
    container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return world.a_pod(name, *claims, containers=[container], schedulingGates=list(gates))


def claims_made_for(world: World, pod: Json) -> list[Json]:
    """The claims that the pod owns."""
    uid = pod["metadata"]["uid"]
    return [
        claim
        for claim in world.api.list(CLAIM, NAMESPACE)
        if any(owner["uid"] == uid for owner in claim["metadata"].get("ownerReferences", ()))
    ]


def devices_of(world: World, name: str = "pod") -> list[str]:
    """The devices of the only claim that the pod owns, which its status names, once it is bound."""
    pod = world.bound(name)
    (claim,) = claims_made_for(world, pod)
    assert pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == claim["metadata"]["name"]
    assert users_of(claim) == [name]
    return [place(one) for one in results_of(claim)]


def name_for(pod: Json) -> str:
    """The name of the claim that the scheduler makes for the pod."""
    metadata = pod["metadata"]
    return claim_name(Pod(metadata["namespace"], metadata["name"], metadata["uid"]))


def ungate(world: World, name: str = "pod") -> None:
    """Let the pod be tried, once our scheduler has seen what there is."""
    world.await_seen()
    pod = world.pod(name)
    world.api.replace({**pod, "spec": {**pod["spec"], "schedulingGates": []}})


def test_pod_that_asks_for_an_extended_resource_gets_its_devices_by_a_claim(world: World) -> None:
    a_gpu_cluster(world, devices=2)
    pod = a_gpu_pod(world, count=2)
    bound = world.bound()
    assert bound["spec"]["nodeName"] == "node-0"
    (claim,) = world.api.list(CLAIM, NAMESPACE)
    metadata, uid = claim["metadata"], pod["metadata"]["uid"]
    assert metadata["name"] == name_for(pod)
    assert metadata["annotations"].keys() == {EXTENDED, ANNOTATION}
    assert metadata["annotations"][EXTENDED] == "true"
    assert metadata["finalizers"] == [FINALIZER]
    assert metadata["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": uid, "controller": True}
    ]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    assert claim["spec"] == {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "pod", "uid": uid}]
    assert [(one["request"], place(one)) for one in results_of(claim)] == [
        (REQUEST, "node-0/gpu-0"),
        (REQUEST, "node-0/gpu-1"),
    ]
    assert bound["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": metadata["name"],
        "requestMappings": [{"containerName": "c", "resourceName": GPU, "requestName": REQUEST}],
    }


def test_class_stands_for_a_resource_of_its_own_name(world: World) -> None:
    world.a_cluster()
    a_gpu_pod(world, resource=IMPLICIT)
    assert devices_of(world) == ["node-0/gpu-0"]


def test_node_whose_device_plugin_offers_the_resource_needs_no_claim(world: World) -> None:
    world.a_class(extendedResourceName=GPU)
    world.a_node(allocatable={GPU: "1"})
    a_gpu_pod(world, "first")
    assert world.node_of("first") == "node-0"
    a_gpu_pod(world, "second")
    assert f"Insufficient {GPU}" in world.refused("second")["message"]
    assert world.api.list(CLAIM, NAMESPACE) == []
    assert "extendedResourceClaimStatus" not in world.pod("first")["status"]


def test_some_nodes_give_it_by_their_plugin_and_others_by_claim(world: World) -> None:
    world.a_class(extendedResourceName=GPU)
    world.a_node("plugin-0", allocatable={GPU: "1"})
    world.a_node("node-0")
    world.a_slice("node-0", a_device())
    for name in ("first", "second", "third"):
        a_gpu_pod(world, name)
    world.refused("third")
    pods = [world.bound(name) for name in ("first", "second")]
    by_node = {pod["spec"]["nodeName"]: pod for pod in pods}
    assert by_node.keys() == {"plugin-0", "node-0"}
    assert claims_made_for(world, by_node["plugin-0"]) == []
    assert devices_of(world, by_node["node-0"]["metadata"]["name"]) == ["node-0/gpu-0"]


def test_pod_with_a_claim_of_its_own_gets_both_on_one_node(world: World) -> None:
    a_gpu_cluster(world, nodes=2, devices=2)
    world.a_claim("own")
    world.a_pod("holder", "own", nodeSelector={"kubernetes.io/hostname": "node-1"})
    world.bound("holder")
    a_gpu_pod(world, "pod", "own")
    assert world.node_of() == "node-1"
    assert devices_of(world) == ["node-1/gpu-1"]
    assert users_of(world.claim("own")) == ["holder", "pod"]


def test_devices_of_plain_claims_and_of_extended_resources_are_the_same_devices(world: World) -> None:
    a_gpu_cluster(world)
    world.a_claim()
    world.a_pod("plain", "claim")
    world.bound("plain")
    a_gpu_pod(world)
    world.refused("pod", "cannot allocate all claims")
    assert claims_made_for(world, world.pod()) == []
    world.delete_pod("plain")
    assert devices_of(world) == ["node-0/gpu-0"]


def test_pod_that_got_no_device_gets_that_of_one_that_is_deleted(world: World) -> None:
    a_gpu_cluster(world)
    first = a_gpu_pod(world, "first")
    world.bound("first")
    a_gpu_pod(world, "second")
    assert "1 cannot allocate all claims" in world.refused("second")["message"]
    assert claims_made_for(world, world.pod("second")) == []
    world.delete_pod("first")
    assert devices_of(world, "second") == ["node-0/gpu-0"]
    world.gone(CLAIM, name_for(first))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_claim_of_a_pod_that_has_ended_goes_and_its_device_is_given_to_the_next(world: World, phase: str) -> None:
    a_gpu_cluster(world)
    first = a_gpu_pod(world, "first")
    world.bound("first")
    a_gpu_pod(world, "second")
    world.refused("second")
    world.end_pod("first", phase)
    assert devices_of(world, "second") == ["node-0/gpu-0"]
    world.gone(CLAIM, name_for(first))


def test_device_that_has_to_be_made_ready_is_awaited_and_another_one_taken_where_it_fails(world: World) -> None:
    world.a_class(extendedResourceName=GPU)
    world.a_node()
    conditions = {"bindsToNode": True, "bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}
    world.a_slice("node-0", a_device("slow-0", **conditions), a_device("slow-1", **conditions))
    name = name_for(a_gpu_pod(world))
    world.claim_when(name, lambda claim: [place(one) for one in results_of(claim)] == ["node-0/slow-0"])
    world.report(name, BROKEN)
    world.claim_when(name, lambda claim: [place(one) for one in results_of(claim)] == ["node-0/slow-1"])
    assert "nodeName" not in world.pod()["spec"]
    world.report(name, READY)
    assert devices_of(world) == ["node-0/slow-1"]


def test_claim_whose_making_lands_late_is_not_made_twice(world: World) -> None:
    a_gpu_cluster(world)
    landing = Landing()
    hold = Hold(landing)
    world.proxy.on("POST", CLAIMS, CutAndGoOn(hold))
    a_gpu_pod(world)
    assert devices_of(world) == ["node-0/gpu-0"]
    hold.release()
    assert landing.status() == HTTPStatus.CONFLICT
    assert devices_of(world) == ["node-0/gpu-0"]


def test_claim_that_is_made_when_its_pod_is_gone_goes_and_its_device_is_given_to_the_next(world: World) -> None:
    a_gpu_cluster(world)
    hold = Hold()
    rule = world.proxy.on("POST", CLAIMS, hold)
    first = a_gpu_pod(world, "first")
    rule.met.wait()
    world.delete_pod("first")
    hold.release()
    a_gpu_pod(world, "second")
    assert devices_of(world, "second") == ["node-0/gpu-0"]
    world.gone(CLAIM, name_for(first))


@pytest.mark.parametrize("path", [r"/resourceclaims/[^/]+/status$", r"/pods/first/binding$"])
def test_pod_that_is_deleted_in_the_middle_leaves_its_device_to_the_next(world: World, path: str) -> None:
    a_gpu_cluster(world)
    hold = Hold()
    rule = world.proxy.on("POST" if "binding" in path else "PUT", path, hold)
    first = a_gpu_pod(world, "first")
    rule.met.wait()
    world.delete_pod("first")
    hold.release()
    a_gpu_pod(world, "second")
    assert devices_of(world, "second") == ["node-0/gpu-0"]
    world.gone(CLAIM, name_for(first))


def test_class_that_comes_later_than_the_pod_brings_it_its_devices(world: World) -> None:
    world.a_node()
    world.a_slice("node-0", a_device())
    a_gpu_pod(world)
    assert f"Insufficient {GPU}" in world.refused()["message"]
    world.a_class(extendedResourceName=GPU)
    assert devices_of(world) == ["node-0/gpu-0"]


def test_class_that_comes_to_stand_for_the_resource_brings_it_its_devices(world: World) -> None:
    world.a_cluster()
    a_gpu_pod(world)
    world.refused()
    found = {"apiVersion": CLASS.api_version, "kind": CLASS.kind, **world.api.get(CLASS, "gpu")}
    world.api.replace({**found, "spec": {**found["spec"], "extendedResourceName": GPU}})
    assert devices_of(world) == ["node-0/gpu-0"]


def test_device_that_comes_later_than_the_pod_is_given(world: World) -> None:
    world.a_class(extendedResourceName=GPU)
    world.a_node()
    a_gpu_pod(world)
    world.refused("pod", "cannot allocate all claims")
    world.a_slice("node-0", a_device())
    assert devices_of(world) == ["node-0/gpu-0"]


def test_pod_whose_plugin_comes_to_offer_the_resource_is_bound_without_a_claim(world: World) -> None:
    world.a_class(extendedResourceName=GPU)
    node = world.a_node()
    a_gpu_pod(world)
    world.refused("pod", "cannot allocate all claims")
    room = {**node["status"]["allocatable"], GPU: "1"}
    world.api.replace_status({**node, "status": {**node["status"], "allocatable": room, "capacity": room}})
    world.bound()
    assert world.api.list(CLAIM, NAMESPACE) == []


# -- what is left of an attempt before


def a_left_claim(
    world: World, pod: Json, finalizers: Sequence[str] = (), *, name: str = "", is_allocated: bool = False
) -> Json:
    """A claim for the pod's extended resources, as an attempt leaves it; with the only device if it is allocated."""
    uid = pod["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid, "controller": True}
    metadata: Json = {"name": name or name_for(pod), "namespace": NAMESPACE, "ownerReferences": [owner]}
    metadata |= {"annotations": {EXTENDED: "true"}, "finalizers": list(finalizers)}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}
    kind = {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind}
    stored = world.api.create({**kind, "metadata": metadata, "spec": spec})
    if not is_allocated:
        return stored
    result = {"request": REQUEST, "driver": "gpu.example", "pool": "node-0", "device": "gpu-0"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod["metadata"]["name"], "uid": uid}],
    }
    return world.api.replace_status({**stored, "status": status})


@pytest.mark.parametrize("name", ["", "as-kube-scheduler-names-it"])
@pytest.mark.parametrize("finalizers", [(), (FINALIZER,)], ids=["plain", "protected"])
@pytest.mark.parametrize("is_allocated", [False, True], ids=["bare", "allocated"])
def test_claim_that_is_left_of_an_attempt_is_deleted_and_the_pod_bound_with_its_own(
    world: World, name: str, finalizers: Sequence[str], *, is_allocated: bool
) -> None:
    a_gpu_cluster(world)
    pod = a_gpu_pod(world, gates=GATES)
    left = a_left_claim(world, pod, finalizers, name=name, is_allocated=is_allocated)
    ungate(world)
    assert devices_of(world) == ["node-0/gpu-0"]
    (claim,) = world.api.list(CLAIM, NAMESPACE)
    assert claim["metadata"]["uid"] != left["metadata"]["uid"]


def test_left_claim_that_somebody_protects_keeps_its_pod_waiting_until_it_is_gone(world: World) -> None:
    a_gpu_cluster(world)
    pod = a_gpu_pod(world, gates=GATES)
    left = a_left_claim(world, pod, [FINALIZER, "other.example/keep"], is_allocated=True)
    name = left["metadata"]["name"]
    ungate(world)
    world.claim_when(name, lambda claim: is_free_but_for(claim, "other.example/keep"))
    world.refused("pod", f"ResourceClaim {NAMESPACE}/{name} of an earlier attempt must be deleted first")
    world.await_queue("pod", queue="unschedulable")
    assert "nodeName" not in world.pod()["spec"]
    kept = world.claim(name)
    world.api.replace({**kept, "metadata": {**kept["metadata"], "finalizers": []}})
    assert devices_of(world) == ["node-0/gpu-0"]


def is_free_but_for(claim: Json, finalizer: str) -> bool:
    """Whether the claim is being deleted, and only this keeps it."""
    metadata = claim["metadata"]
    return bool(metadata.get("deletionTimestamp")) and metadata.get("finalizers") == [finalizer]


def test_claim_of_somebody_else_in_the_way_is_waited_for(world: World) -> None:
    a_gpu_cluster(world)
    pod = a_gpu_pod(world, gates=GATES)
    foreign = world.a_claim(name_for(pod))
    ungate(world)
    refusal = world.refused("pod", f"ResourceClaim {NAMESPACE}/{name_for(pod)} was not created for Pod {NAMESPACE}/pod")
    assert refusal["reason"] == "Unschedulable"
    world.await_queue("pod", queue="unschedulable")
    assert world.claim(name_for(pod)) == foreign
    world.api.delete(CLAIM, name_for(pod), NAMESPACE)
    assert devices_of(world) == ["node-0/gpu-0"]


def test_left_claim_in_use_by_a_pod_that_is_bound_stays(world: World) -> None:
    a_gpu_cluster(world)
    a_gpu_pod(world, "first")
    world.bound("first")
    before = world.api.list(CLAIM, NAMESPACE)
    a_gpu_pod(world, "second")
    world.refused("second")
    assert world.api.list(CLAIM, NAMESPACE) == before


def test_pod_that_has_been_bound_is_shown_nothing_of_what_came_before(world: World) -> None:
    a_gpu_cluster(world)
    a_gpu_pod(world)
    pod = world.bound()
    assert reported(pod) is None
    assert [is_allocated(claim) and not is_free(claim) for claim in world.api.list(CLAIM, NAMESPACE)] == [True]

"""Pods that are promised a node in `status.nominatedNodeName`: by us before a long binding, or by somebody else."""

from collections.abc import Iterator, Sequence

import pytest

from tests.controlplane.faults import Hold
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.proxy import Request
from tests.controlplane.rest import POD, Json
from tests.integration.live.storage import MADE, Storage
from tests.integration.live.world import NAMESPACE, PRIORITY, SCHEDULER, World, a_device, an_object, reported

MANY = 100
GATE = {"name": "example.com/not-yet"}
CONDITIONS: Json = {"bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


@pytest.fixture
def high(world: World) -> Iterator[str]:
    """A class of pods that go before others."""
    world.a_priority("high", 100)
    yield "high"
    world.api.delete(PRIORITY, "high")


def nominate(world: World, name: str, node: str) -> None:
    """As kube-scheduler does after preemption, or Cluster Autoscaler for a node that it adds."""
    world.update_pod(name, lambda pod: {**pod["status"], "nominatedNodeName": node})


def a_promised_pod(world: World, name: str, node: str) -> None:
    """A pod of nobody's that takes all of the node and is not there yet."""
    world.a_pod(name, schedulerName="nobody", requests={"cpu": "96"})
    nominate(world, name, node)


def a_refused_pod(world: World, name: str = "waiting") -> None:
    """A pod for which there is no room while another is promised the node."""
    world.a_pod(name, requests={"cpu": "1"})
    world.refused(name, "1 Insufficient cpu")
    world.await_queue(name, queue="unschedulable")


@pytest.mark.needs("DRADeviceBindingConditions", "ClearingNominatedNodeNameAfterBinding")
def test_pod_says_where_it_goes_and_for_what_it_waits_and_its_claim_is_not_read_meanwhile(world: World) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device(**CONDITIONS))
    world.a_claim()
    world.a_pod("pod", "claim")
    promised = world.pod_when("pod", lambda pod: pod["status"].get("nominatedNodeName") == "node-0")
    assert "nodeName" not in promised["spec"]
    condition = reported(promised)
    assert condition is not None
    assert condition["reason"] == "BindingPending"
    assert condition["message"] == "waiting for binding conditions of devices gpu.example/node-0/gpu-0"
    world.await_metric('scheduler_pending_pods{queue="in_flight"}', 1)
    world.report("claim", "ready")
    assert "nominatedNodeName" not in world.bound()["status"]
    assert not [
        one for one in world.proxy.requests if one.method == "GET" and one.path.endswith("/resourceclaims/claim")
    ]


@pytest.mark.needs("DRADeviceBindingConditions")
def test_many_pods_that_wait_for_their_devices_cost_one_read_each_and_none_while_they_wait(world: World) -> None:
    world.a_class()
    world.a_node(allocatable={"pods": str(MANY)})
    world.a_slice("node-0", *(a_device(f"gpu-{number}", **CONDITIONS) for number in range(MANY)))
    names = [f"many-{number}" for number in range(MANY)]
    for name in names:
        world.a_claim(name)
    world.await_seen()
    for name in names:
        world.api.create(an_object(POD, name, a_spec(name), NAMESPACE))
    world.api.await_all(POD, lambda pods: len(waiting(pods)) == MANY, NAMESPACE)
    poll_until(lambda known: known >= MANY, lambda: len(reads(world.proxy.requests)), "each pod is read")
    asked = len(world.proxy.requests)
    for name in names:
        world.report(name, "ready")
        world.bound(name)
    assert reads(world.proxy.requests[asked:]) == []
    assert sorted(reads(world.proxy.requests)) == sorted(f"/api/v1/namespaces/{NAMESPACE}/pods/{one}" for one in names)


def a_spec(claim: str) -> Json:
    claims = [{"name": "claim", "resourceClaimName": claim}]
    return {"schedulerName": SCHEDULER, "containers": [{"name": "c", "image": "none"}], "resourceClaims": claims}


def waiting(pods: Sequence[Json]) -> list[Json]:
    return [pod for pod in pods if (reported(pod) or {}).get("reason") == "BindingPending"]


def reads(requests: Sequence[Request]) -> list[str]:
    """The pods and claims that were read, each as often as it was."""
    asked = [one.path for one in requests if one.method == "GET" and not one.is_watch]
    return [path for path in asked if f"/namespaces/{NAMESPACE}/" in path]


@pytest.mark.needs("ClearingNominatedNodeNameAfterBinding")
def test_pod_says_where_it_goes_while_what_is_written_before_its_binding_takes_long(world: World) -> None:
    world.a_cluster()
    world.a_claim()
    storage = Storage(world)
    storage.a_claim("v", MADE)
    hold = Hold()
    rule = world.proxy.on("PATCH", r"/persistentvolumeclaims/v$", hold)
    storage.a_pod("pod", "v", claims=["claim"])
    rule.met.wait()
    promised = world.pod()
    assert promised["status"]["nominatedNodeName"] == "node-0"
    assert "nodeName" not in promised["spec"]
    hold.release()
    storage.make()
    assert "nominatedNodeName" not in world.bound()["status"]


def test_pod_that_is_promised_a_node_and_deleted_leaves_its_room_to_the_one_that_waits(world: World) -> None:
    world.a_node()
    a_promised_pod(world, "promised", "node-0")
    a_refused_pod(world)
    world.delete_pod("promised")
    assert world.node_of("waiting") == "node-0"


def test_promise_that_is_taken_back_leaves_the_room_to_the_pod_that_waits(world: World) -> None:
    world.a_node()
    a_promised_pod(world, "promised", "node-0")
    a_refused_pod(world)
    nominate(world, "promised", "")
    assert world.node_of("waiting") == "node-0"


def test_promise_of_ours_ends_with_its_pod(world: World) -> None:
    world.a_node()
    storage = Storage(world)
    storage.a_claim("v", MADE)
    storage.a_pod("promised", "v", requests={"cpu": "96"})
    storage.asked_for()
    a_refused_pod(world)
    world.delete_pod("promised")
    world.gone(POD, "promised")
    assert world.node_of("waiting") == "node-0"


@pytest.mark.needs("ClearingNominatedNodeNameAfterBinding")
def test_node_that_a_pod_is_promised_from_outside_is_taken_though_another_is_better(world: World) -> None:
    for number in range(2):
        world.a_node(f"node-{number}")
    world.a_pod("large", schedulerName="nobody", nodeName="node-0", requests={"cpu": "90"})
    world.a_pod("other")
    assert world.node_of("other") == "node-1"
    world.a_pod("pod", schedulingGates=[GATE])
    nominate(world, "pod", "node-0")
    world.leave_gates()
    assert world.node_of() == "node-0"
    assert "nominatedNodeName" not in world.pod()["status"]


def test_pod_goes_elsewhere_where_the_node_that_it_is_promised_cannot_take_it(world: World) -> None:
    for number in range(2):
        world.a_node(f"node-{number}")
    world.a_pod("large", schedulerName="nobody", nodeName="node-0", requests={"cpu": "96"})
    world.a_pod("pod", requests={"cpu": "1"}, schedulingGates=[GATE])
    nominate(world, "pod", "node-0")
    world.leave_gates()
    assert world.node_of() == "node-1"


def test_room_that_kube_scheduler_makes_by_preemption_is_left_to_its_pod(
    world: World, plane: ControlPlane, high: str
) -> None:
    """Ours is tried when the victim has gone, while kube-scheduler is away and its pod still waits."""
    world.a_node()
    plane.start_scheduler({})
    world.a_pod("victim", schedulerName="nobody", nodeName="node-0", requests={"cpu": "96"})
    theirs = {"schedulerName": "default-scheduler", "priorityClassName": high}
    world.a_pod("theirs", requests={"cpu": "96"}, **theirs)
    world.pod_when("theirs", lambda pod: pod["status"].get("nominatedNodeName") == "node-0")
    plane.stop("kube-scheduler")
    a_refused_pod(world)
    attempts = world.queue()["waiting"]["attempts"]
    world.delete_pod("victim")
    world.await_queue("waiting", queue="unschedulable", attempts=attempts + 1)
    plane.start_scheduler({})
    assert world.node_of("theirs") == "node-0"
    plane.stop("kube-scheduler")


def test_promised_pod_keeps_nothing_from_one_of_higher_priority(world: World, high: str) -> None:
    world.a_node()
    a_promised_pod(world, "promised", "node-0")
    a_refused_pod(world)
    world.a_pod("important", requests={"cpu": "1"}, priorityClassName=high)
    assert world.node_of("important") == "node-0"
    assert world.api.get(POD, "promised", NAMESPACE)["status"]["nominatedNodeName"] == "node-0"

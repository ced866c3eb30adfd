"""Answers that are lost, come too late or never: a pod is bound once and whole, or not at all, and in the end it is."""

import pytest

from tests.controlplane.faults import Fault, HangUp, Hold, cut_before, lose_answer, refuse
from tests.controlplane.proxy import Request
from tests.controlplane.rest import POD, Json
from tests.integration.extender.beside import Beside, an_entry
from tests.integration.extender.between import Between, bind
from tests.integration.live.crowd import BIND, W1, W2
from tests.integration.live.world import NAMESPACE, is_free, reported, users_of

SHORT_S = 1
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


@pytest.fixture(scope="module")
def entry(way: Between) -> Json:
    """It talks to the extender through somebody who loses answers, and waits for them a short time."""
    return an_entry(way.url, httpTimeout=f"{SHORT_S}s")


def test_binding_whose_answer_is_lost_is_done_all_the_same(world: Beside, between: Between) -> None:
    world.a_cluster()
    world.a_claim()
    lost = between.lose_answer("bind")
    world.a_pod("pod", "claim")
    lost.wait()
    assert world.devices_of() == ["node-0/gpu-0"]
    # Until it sees the pod bound, kube-scheduler may ask again.
    assert all(one.answer == {"Error": ""} for one in between.await_calls("bind", "pod"))
    assert bind(world.door, world.pod()) == ""
    assert users_of(world.claim()) == ["pod"]


def test_pod_that_is_bound_already_is_bound_again_to_the_same_node_only(world: Beside) -> None:
    world.a_cluster()
    world.a_node("node-1")
    world.a_claim()
    world.a_pod("pod", "claim")
    pod = world.bound()
    version = world.claim()["metadata"]["resourceVersion"]
    assert [bind(world.door, pod) for _ in range(3)] == ["", "", ""]
    assert "is on node node-0 already" in bind(world.door, pod, "node-1")
    assert world.claim()["metadata"]["resourceVersion"] == version


def test_binding_that_takes_longer_than_kube_scheduler_waits_is_done_in_the_end(world: Beside) -> None:
    """The API server holds its answer back until kube-scheduler has hung up, and asks for the pod's next attempt."""
    world.a_cluster()
    world.a_claim()
    hold = Hold()
    world.proxy.on(*W2, hold)
    changes = world.api.changes(POD, NAMESPACE)  # the next attempt says something else
    world.a_pod("pod", "claim")
    conditions = (found for change in changes if (found := reported(change["object"])))
    assert next(one["reason"] for one in conditions if "deadline exceeded" in one["message"]) == "SchedulerError"
    assert "nodeName" not in world.pod()["spec"]
    hold.release()
    assert world.devices_of() == ["node-0/gpu-0"]


def test_while_a_pod_is_being_bound_it_is_not_decided_again(world: Beside, between: Between) -> None:
    world.a_cluster(nodes=2)
    world.a_claim()
    hold = Hold()
    world.proxy.on(*W2, hold)
    world.a_pod("pod", "claim")
    world.refused("pod", "is being bound")
    hold.release()
    node = world.node_of()
    assert {one.request["Node"] for one in between.await_calls("bind", "pod")} == {node}
    assert any("is being bound" in one.answer["Error"] for one in between.of("filter", "pod"))


@pytest.mark.parametrize("write", [W1, W2, BIND], ids=["mark", "allocate", "bind"])
@pytest.mark.parametrize(
    "fault",
    [lose_answer, HangUp(2, is_done=True), cut_before, refuse(500, "InternalError"), refuse(409, "Conflict")],
    ids=["lost", "withheld", "cut", "500", "409"],
)
def test_write_that_goes_wrong_once_costs_no_pod(world: Beside, write: tuple[str, str], fault: Fault) -> None:
    world.a_cluster(devices=2)
    for name in ("first", "second"):
        world.a_claim(name)
    world.proxy.on(*write, fault)
    for name in ("first", "second"):
        world.a_pod(name, name)
    devices = [*world.devices_of("first"), *world.devices_of("second")]
    assert sorted(devices) == ["node-0/gpu-0", "node-0/gpu-1"]


def test_write_that_is_refused_for_a_while_leaves_nothing_and_is_done_later(world: Beside) -> None:
    world.a_cluster()
    world.a_claim()
    world.proxy.on(*BIND, refuse(403, "Forbidden"), times=None)
    world.a_pod("pod", "claim")
    assert world.refused("pod", "Forbidden")["reason"] == "SchedulerError"
    world.claim_when("claim", is_free)
    world.proxy.forget_rules()
    assert world.devices_of() == ["node-0/gpu-0"]


def test_right_that_is_missing_makes_it_unready_until_a_pod_is_bound_again(world: Beside) -> None:
    world.a_cluster()
    world.a_claim()
    denied = refuse(403, "Forbidden", 'it is forbidden: User "dra" cannot update resource "resourceclaims"')
    world.proxy.on(*W1, denied, times=None)
    world.a_pod("pod", "claim")
    assert world.refused("pod", "it is forbidden")["reason"] == "SchedulerError"
    world.program.await_ready(lambda: "[-]writes failed" in world.program.reported("/readyz"))
    world.proxy.forget_rules()
    world.bound()
    world.program.await_readyz()


@pytest.mark.needs("WatchList")
def test_nothing_is_decided_while_lost_changes_are_listed_anew(world: Beside) -> None:
    world.a_cluster()
    world.a_claim()
    held = Hold()
    world.proxy.on("GET", "/resourceslices", refuse(410, "Expired"), where=is_resumed)
    listing = world.proxy.on("GET", "/resourceslices", held, where=lists)
    assert world.proxy.cut_watches("/resourceslices")
    listing.met.wait()
    world.a_pod("pod", "claim")
    assert world.refused("pod", "missed changes")["reason"] == "SchedulerError"
    held.release()
    assert world.devices_of() == ["node-0/gpu-0"]


def is_resumed(request: Request) -> bool:
    """Whether it is a watch that goes on from a version."""
    return request.is_watch and not lists(request)


def lists(request: Request) -> bool:
    """Whether it is a watch that begins with all there is."""
    return "sendInitialEvents" in request.query


def test_pod_that_is_deleted_while_it_is_bound_leaves_its_device_to_the_next(world: Beside) -> None:
    world.a_cluster()
    for name in ("first", "second"):
        world.a_claim(name)
    hold = Hold()
    rule = world.proxy.on(*BIND, hold)
    world.a_pod("first", "first")
    rule.met.wait()
    world.delete_pod("first")
    hold.release()
    world.a_pod("second", "second")
    assert world.devices_of("second") == ["node-0/gpu-0"]
    world.claim_when("first", is_free)


@pytest.mark.needs("DRAExtendedResource")
def test_pod_of_another_scheduler_is_bound_with_what_that_one_has_shown_it_of_its_devices(world: Beside) -> None:
    world.a_node()
    container = {"name": "c", "image": "none", "resources": {"limits": {IMPLICIT: "1"}}}
    world.a_pod("pod", schedulerName="theirs", containers=[container])
    mapping = {"containerName": "c", "resourceName": IMPLICIT, "requestName": "container-0-request-0"}
    reported = {"resourceClaimName": "made-by-theirs", "requestMappings": [mapping]}
    world.update_pod("pod", lambda pod: {**pod["status"], "extendedResourceClaimStatus": reported})
    assert bind(world.door, world.pod()) == ""
    assert world.pod()["status"]["extendedResourceClaimStatus"] == reported

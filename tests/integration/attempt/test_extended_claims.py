"""The claim for a pod's extended resources: made, told to the pod, and gone again where the pod is bound without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from scheduler.attempt.claim_objects import (
    ANNOTATION,
    ClaimRef,
    Intent,
    allocation_of,
    consumers_of,
    intent_of,
    is_made_for,
    key_of,
)
from scheduler.attempt.claim_step import deallocate_one
from scheduler.attempt.decision import (
    AttemptOutcome,
    Bound,
    BoundElsewhere,
    Decision,
    ExtendedPlan,
    Fatal,
    Gone,
    Retry,
)
from scheduler.attempt.run import bind_pod
from scheduler.client.connection import Api
from scheduler.repair import recover
from scheduler.state.claims import FINALIZER
from scheduler.state.pod_resources import claim_name
from tests.controlplane.faults import Fault, Hold, cut_before, lose_answer, meanwhile, refuse, send_twice
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, ApiError, Json, Kind
from tests.integration.attempt.scene import (
    BINDING,
    CLAIM_ITSELF,
    CLAIMS,
    GPU,
    NAMESPACE,
    NODE,
    POD_ITSELF,
    POD_STATUS,
    SCHEDULER,
    STATUS,
    Killed,
    Landing,
    Mortal,
    Scene,
    a_container,
    a_rival,
    allocation_json,
    bind_to,
    cancel_at,
    decoded,
    gets,
    is_untouched,
    keeps,
    makes,
    reservation,
)

pytestmark = pytest.mark.needs("DRAExtendedResource")

EXTENDED = "resource.kubernetes.io/extended-resource-claim"
QUOTA = Kind("v1", "ResourceQuota")
COUNT = "count/resourceclaims.resource.k8s.io"
REQUEST = "container-0-request-0"

WRITES = {
    "make": ("POST", CLAIMS),
    "allocate": ("PUT", STATUS),
    "tell": ("PATCH", POD_STATUS),
    "bind": ("POST", BINDING),
}
FAULTS = {
    "409": refuse(409, "Conflict"),
    "500": refuse(500, "InternalError"),
    "429": refuse(429, "TooManyRequests", retry_after_s=0),
    "not done": cut_before,
    "done and lost": lose_answer,
    "done, then 409": send_twice(409, "Conflict"),
    "done, then 500": send_twice(500, "InternalError"),
}


def all_claims(scene: Scene) -> list[Json]:
    return scene.api.list(CLAIM, NAMESPACE)


def the_claim(scene: Scene) -> Json:
    (claim,) = all_claims(scene)
    return claim


def name_for(pod: Json) -> str:
    return claim_name(decoded(pod))


def reported(scene: Scene) -> Json | None:
    found: Json | None = scene.pod()["status"].get("extendedResourceClaimStatus")
    return found


def is_complete(scene: Scene) -> bool:
    """Whether the pod is bound, and the only claim there is its own, with devices, and told to it."""
    claim, pod = the_claim(scene), scene.pod()
    named = (reported(scene) or {}).get("resourceClaimName")
    is_reserved = consumers_of(claim) == (pod["metadata"]["uid"],)
    return bool(
        pod["spec"].get("nodeName") and allocation_of(claim) and is_reserved and named == claim["metadata"]["name"]
    )


def change_pod(scene: Scene) -> None:
    """Somebody writes a condition, which moves the pod's version."""
    pod = scene.pod()
    condition = {"type": "Example", "status": "True"}
    scene.api.replace_status({**pod, "status": {**pod["status"], "conditions": [condition]}})


def test_claim_is_made_then_allocated_then_reported_to_the_pod_then_the_pod_is_bound(scene: Scene) -> None:
    pod = scene.a_gpu_pod(count=2)
    name, uid = name_for(pod), pod["metadata"]["uid"]
    plan = makes(pod, "gpu-0", "gpu-1")
    assert scene.bind(scene.a_decision(pod, extended=plan)) == Bound(NODE)
    assert scene.calls() == [
        ("POST", "resourceclaims", 201),
        ("PUT", f"resourceclaims/{name}/status", 200),
        ("PATCH", "pods/pod/status", 200),
        ("POST", "pods/pod/binding", 201),
    ]
    claim = the_claim(scene)
    metadata = claim["metadata"]
    assert metadata["name"] == name
    assert metadata["finalizers"] == [FINALIZER]
    assert metadata["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": uid, "controller": True}
    ]
    assert metadata["annotations"].keys() == {EXTENDED, ANNOTATION}
    assert metadata["annotations"][EXTENDED] == "true"
    assert intent_of(claim) == Intent(SCHEDULER, 1, "1", uid, NODE, 1)
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    assert claim["spec"] == {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}
    results = [{**one, "request": REQUEST} for one in allocation_json("gpu-0", "gpu-1")["devices"]["results"]]
    assert claim["status"] == {
        "allocation": {"devices": {"results": results}, "allocationTimestamp": "2026-01-01T00:00:00Z"},
        "reservedFor": [reservation(pod)],
    }
    assert reported(scene) == {
        "resourceClaimName": name,
        "requestMappings": [{"containerName": "c", "resourceName": GPU, "requestName": REQUEST}],
    }
    assert scene.pod()["spec"]["nodeName"] == NODE
    assert scene.watched.makes == {plan.claim.claim.uid: ClaimRef(NAMESPACE, name, metadata["uid"])}
    assert scene.watched.writes == [(name, int(metadata["resourceVersion"]))]


def test_requests_are_named_by_container_and_resource_and_init_containers_use_those_of_later_ones(
    scene: Scene,
) -> None:
    prepare, main = a_container("prepare", {GPU: "1"}), a_container("main", {"cpu": "1", GPU: "2"})
    side = a_container("side", {GPU: "1"})
    pod = scene.a_pod(initContainers=[prepare], containers=[main, side])
    assert scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0", "gpu-1"))) == Bound(NODE)
    requests = the_claim(scene)["spec"]["devices"]["requests"]
    assert [(one["name"], one["exactly"]["count"]) for one in requests] == [
        ("container-1-request-1", 2),
        ("container-2-request-0", 1),
    ]
    found = reported(scene)
    assert found is not None
    mappings = [(one["containerName"], one["requestName"]) for one in found["requestMappings"]]
    assert sorted(mappings) == [
        ("main", "container-1-request-1"),
        ("prepare", "container-1-request-1"),
        ("side", "container-2-request-0"),
    ]


def test_claim_is_made_when_all_the_pods_own_claims_are_allocated(scene: Scene) -> None:
    own, pod = scene.a_claim("own"), scene.a_gpu_pod("own")
    decision = scene.a_decision(pod, gets(own, "nic-0"), extended=makes(pod, "gpu-0"))
    assert scene.bind(decision) == Bound(NODE)
    assert [path for _, path, _ in scene.calls()] == [
        "resourceclaims/own",
        "resourceclaims/own/status",
        "resourceclaims",
        f"resourceclaims/{name_for(pod)}/status",
        "pods/pod/status",
        "pods/pod/binding",
    ]
    uid = pod["metadata"]["uid"]
    assert [consumers_of(claim) for claim in all_claims(scene)] == [(uid,), (uid,)]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_on_the_way_leaves_the_pod_bound_with_one_claim(scene: Scene, write: str, fault: str) -> None:
    pod = scene.a_gpu_pod()
    rule = scene.proxy.on(*WRITES[write], FAULTS[fault])
    assert scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0"))) == Bound(NODE)
    assert rule.matched >= 1
    assert is_complete(scene)


@pytest.mark.parametrize("fault", ["500", "not done"])
def test_claim_that_is_not_made_in_five_tries_ends_the_attempt(scene: Scene, fault: str) -> None:
    pod = scene.a_gpu_pod()
    rule = scene.proxy.on("POST", CLAIMS, FAULTS[fault], times=None)
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert outcome == Retry(f"claim work/{name_for(pod)} could not be created in 5 attempts")
    assert rule.matched == 5
    assert all_claims(scene) == []


@pytest.mark.parametrize("fault", ["done and lost", "done, then 409", "done, then 500"])
def test_claim_that_was_made_is_found_though_no_answer_ever_says_so(scene: Scene, fault: str) -> None:
    pod = scene.a_gpu_pod()
    rule = scene.proxy.on("POST", CLAIMS, FAULTS[fault], times=None)
    assert scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0"))) == Bound(NODE)
    assert rule.matched == 1
    assert is_complete(scene)


def test_claim_of_somebody_else_that_has_the_name_is_left_alone(scene: Scene) -> None:
    own, pod = scene.a_claim("own"), scene.a_gpu_pod("own")
    foreign = scene.a_claim(name_for(pod))
    decision = scene.a_decision(pod, gets(own, "nic-0"), extended=makes(pod, "gpu-0"))
    assert scene.bind(decision) == Retry(f"claim work/{name_for(pod)} already exists", is_lost=True)
    assert scene.claim(name_for(pod)) == foreign
    assert is_untouched(scene.claim("own"))
    assert "nodeName" not in scene.pod()["spec"]


def test_claim_that_another_attempt_for_the_pod_has_made_is_left_to_it(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    die(scene, scene.a_decision(pod, extended=makes(pod, "gpu-0")), writes=1)
    before = the_claim(scene)
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert outcome == Retry(f"claim work/{name_for(pod)} already exists", is_lost=True)
    assert the_claim(scene) == before


@contextmanager
def a_full_quota(scene: Scene) -> Iterator[None]:
    """Nobody may make a claim any more; as the controller of quotas tells it."""
    full = {COUNT: str(len(all_claims(scene)))}
    metadata = {"name": "full", "namespace": NAMESPACE}
    quota = {"apiVersion": QUOTA.api_version, "kind": QUOTA.kind, "metadata": metadata, "spec": {"hard": full}}
    stored = scene.api.create(quota)
    scene.api.replace_status({**quota, **stored, "status": {"hard": full, "used": full}})
    try:
        poll_until(lambda why: "exceeded quota" in why, lambda: refusal_of_one_more(scene), "the quota in force")
        yield
    finally:
        scene.api.delete(QUOTA, "full", NAMESPACE)
        poll_until(lambda why: not why, lambda: refusal_of_one_more(scene), "the quota gone")


def refusal_of_one_more(scene: Scene) -> str:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    metadata = {"name": "one-more", "namespace": NAMESPACE}
    one = {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": metadata, "spec": spec}
    try:
        scene.api.create(one, is_dry=True)
    except ApiError as error:
        return error.message
    return ""


def test_quota_that_permits_no_further_claim_refuses_the_pod_with_its_words(scene: Scene) -> None:
    own, pod = scene.a_claim("own"), scene.a_gpu_pod("own")
    with a_full_quota(scene):
        decision = scene.a_decision(pod, gets(own, "nic-0"), extended=makes(pod, "gpu-0"))
        outcome = scene.bind(decision)
    assert isinstance(outcome, Retry)
    assert outcome.is_denied
    assert f"exceeded quota: full, requested: {COUNT}=1" in outcome.reason
    assert is_untouched(the_claim(scene))


def test_missing_right_to_make_claims_is_fatal(scene: Scene) -> None:
    words = 'resourceclaims.resource.k8s.io is forbidden: User "ours" cannot create resource "resourceclaims"'
    scene.proxy.on("POST", CLAIMS, refuse(403, "Forbidden", words))
    pod = scene.a_gpu_pod()
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert isinstance(outcome, Fatal)
    assert "cannot create" in outcome.reason
    assert all_claims(scene) == []


def test_claim_is_deallocated_unprotected_and_deleted_where_the_pod_cannot_be_bound(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("POST", BINDING, refuse(400, "BadRequest"))
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert isinstance(outcome, Retry)
    assert all_claims(scene) == []
    name = name_for(pod)
    assert scene.calls()[4:] == [
        ("PUT", f"resourceclaims/{name}/status", 200),
        ("PUT", f"resourceclaims/{name}", 200),
        ("DELETE", f"resourceclaims/{name}", 200),
    ]
    assert scene.reported[-1] == "rolled back"


def test_claim_whose_devices_somebody_else_took_first_is_deleted(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.watched.others = [a_rival(NAMESPACE, "rival", 1)]
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert isinstance(outcome, Retry)
    assert "took its devices first" in outcome.reason
    assert all_claims(scene) == []


def test_decision_that_stops_to_hold_once_the_claim_is_made_is_taken_back(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("POST", CLAIMS, meanwhile(lambda: setattr(scene.watched, "reason", "the pool has changed")))
    assert scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0"))) == Retry("the pool has changed")
    assert scene.proxy.writes(STATUS) == []
    assert all_claims(scene) == []


@pytest.mark.parametrize("fault", [FAULTS["500"], lose_answer], ids=["500", "lost"])
def test_rollback_goes_on_until_the_claim_is_gone(scene: Scene, fault: Fault) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("POST", BINDING, refuse(400, "BadRequest"))
    scene.proxy.on("PUT", STATUS, fault, nth=2)
    scene.proxy.on("PUT", CLAIM_ITSELF, fault)
    scene.proxy.on("DELETE", CLAIM_ITSELF, fault, times=3)
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert isinstance(outcome, Retry)
    assert all_claims(scene) == []


def test_claim_that_somebody_else_protects_is_deleted_and_left_to_them(scene: Scene) -> None:
    pod = scene.a_gpu_pod()

    def protect() -> None:
        claim = the_claim(scene)
        finalizers = [*claim["metadata"]["finalizers"], "other.example/keep"]
        scene.api.replace({**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}})

    scene.proxy.on("PATCH", POD_STATUS, meanwhile(protect))
    scene.proxy.on("POST", BINDING, refuse(400, "BadRequest"))
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert isinstance(outcome, Retry)
    left = the_claim(scene)
    assert left["metadata"]["deletionTimestamp"]
    assert left["metadata"]["finalizers"] == ["other.example/keep"]
    assert allocation_of(left) is None
    scene.api.replace({**left, "metadata": {**left["metadata"], "finalizers": []}})


def test_pod_that_is_deleted_while_its_claim_is_allocated_leaves_none(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("PUT", STATUS, meanwhile(scene.delete_pod))
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert isinstance(outcome, Gone | Retry)
    assert scene.api.await_all(CLAIM, lambda claims: not claims, NAMESPACE) == []


def test_pod_that_is_deleted_before_it_is_bound_leaves_no_claim(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("POST", BINDING, meanwhile(scene.delete_pod))
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert outcome == Gone("pod work/pod no longer exists")
    assert scene.api.await_all(CLAIM, lambda claims: not claims, NAMESPACE) == []


def test_claim_of_a_pod_that_is_gone_when_it_is_made_is_taken_away(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.delete_pod()
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert isinstance(outcome, Gone | Retry)
    assert scene.api.await_all(CLAIM, lambda claims: not claims, NAMESPACE) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_claim_goes_once_its_pod_has_ended(scene: Scene, phase: str) -> None:
    pod = scene.a_gpu_pod()
    assert scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0"))) == Bound(NODE)
    pod = scene.pod()
    scene.api.replace_status({**pod, "status": {**pod["status"], "phase": phase}})
    assert scene.api.await_all(CLAIM, lambda claims: not claims, NAMESPACE) == []


# -- the pod's version moves


def test_pod_that_changes_before_it_is_shown_is_reported_and_bound_in_its_new_version(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    change_pod(scene)
    assert scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0"))) == Bound(NODE)
    assert scene.calls()[2:] == [
        ("PATCH", "pods/pod/status", 409),
        ("PUT", f"resourceclaims/{name_for(pod)}", 200),
        ("PATCH", "pods/pod/status", 200),
        ("POST", "pods/pod/binding", 201),
    ]
    assert is_complete(scene)


def test_pod_that_changes_once_it_is_reported_is_bound_in_its_new_version(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("POST", BINDING, meanwhile(lambda: change_pod(scene)))
    assert scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0"))) == Bound(NODE)
    assert [status for *_, status in scene.calls()[3:]] == [409, 200, 200, 201]
    assert is_complete(scene)
    assert {one["type"] for one in scene.pod()["status"]["conditions"]} == {"Example", "PodScheduled"}


def test_what_an_attempt_before_reported_the_pod_is_replaced(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    tell(scene, "left-over", "container-0-request-9", "container-0-request-8")
    decision = scene.a_decision(scene.pod(), extended=makes(pod, "gpu-0"))
    assert scene.bind(decision) == Bound(NODE)
    found = reported(scene)
    assert found is not None
    assert (found["resourceClaimName"], len(found["requestMappings"])) == (name_for(pod), 1)


def tell(scene: Scene, name: str, *requests: str) -> None:
    """As an attempt does whose claim has that name."""
    pod = scene.pod()
    mappings = [{"containerName": "c", "resourceName": GPU, "requestName": request} for request in requests]
    fields = {"resourceClaimName": name, "requestMappings": mappings}
    scene.api.replace_status({**pod, "status": {**pod["status"], "extendedResourceClaimStatus": fields}})


@pytest.mark.parametrize("is_seen", [True, False])
def test_pod_that_needs_no_claim_names_none_when_it_is_bound(scene: Scene, *, is_seen: bool) -> None:
    """Whether what an attempt before has left was seen by the decision, or came after it."""
    pod = scene.a_gpu_pod()
    tell(scene, "left-over", REQUEST)
    decision = scene.a_decision(scene.pod() if is_seen else pod)
    assert scene.bind(decision) == Bound(NODE)
    assert reported(scene) is None


# -- somebody else binds the pod


@pytest.mark.parametrize("node", ["elsewhere", NODE])
def test_claim_that_the_pod_was_not_shown_of_goes_where_somebody_else_binds_it(scene: Scene, node: str) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("PATCH", POD_STATUS, meanwhile(lambda: bind_to(scene, node)))
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert outcome == BoundElsewhere(node)
    assert all_claims(scene) == []
    assert reported(scene) is None


def test_claim_that_is_not_allocated_yet_goes_where_somebody_else_binds_the_pod(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("PUT", STATUS, refuse(400, "BadRequest"))
    scene.proxy.on("POST", CLAIMS, meanwhile(lambda: bind_to(scene, "elsewhere")))
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert outcome == BoundElsewhere("elsewhere")
    assert all_claims(scene) == []


@pytest.mark.parametrize(("on", "is_kept"), [("", True), (NODE, False)], ids=["reached", "not reached"])
def test_claim_that_the_pod_was_shown_of_stays_where_it_reaches_the_node_that_somebody_else_chose(
    scene: Scene, on: str, *, is_kept: bool
) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("POST", BINDING, meanwhile(lambda: bind_to(scene, "elsewhere")))
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0", on=on)))
    assert outcome == BoundElsewhere("elsewhere")
    assert [consumers_of(claim) for claim in all_claims(scene)] == [(pod["metadata"]["uid"],)] * is_kept


def test_pod_that_somebody_else_binds_to_its_node_keeps_the_claim_that_it_was_reported_of(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("POST", BINDING, meanwhile(lambda: bind_to(scene, NODE)))
    assert scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0", on=NODE))) == Bound(NODE)
    assert is_complete(scene)


def test_claim_that_the_pod_was_shown_of_by_an_attempt_before_stays(scene: Scene) -> None:
    """Each attempt for the pod gives its claim the same name."""
    pod = scene.a_gpu_pod()
    tell(scene, name_for(pod), REQUEST)
    scene.proxy.on("PATCH", POD_STATUS, meanwhile(lambda: bind_to(scene, "elsewhere")))
    outcome = scene.bind(scene.a_decision(scene.pod(), extended=makes(pod, "gpu-0")))
    assert outcome == BoundElsewhere("elsewhere")
    assert is_complete(scene)


# -- cancelled


def test_cancelled_while_the_claim_is_made_it_leaves_at_most_one_that_was_never_allocated(scene: Scene) -> None:
    """It lands after everything: nothing can prevent that, and the next attempt takes it away."""
    pod = scene.a_gpu_pod()
    landing = Landing()
    held = Hold(landing)
    decision = scene.a_decision(pod, extended=makes(pod, "gpu-0"))
    assert cancel_at(scene, decision, scene.proxy.on("POST", CLAIMS, held)) is None
    assert all_claims(scene) == []
    held.release()
    assert landing.status() == HTTPStatus.CREATED
    left = the_claim(scene)
    assert allocation_of(left) is None
    take_away(scene, pod, left)
    assert all_claims(scene) == []


def test_cancelled_before_it_hears_that_the_claim_was_made_it_takes_it_back(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("POST", CLAIMS, lose_answer)
    held = Hold()
    decision = scene.a_decision(pod, extended=makes(pod, "gpu-0"))
    assert cancel_at(scene, decision, scene.proxy.on("GET", CLAIM_ITSELF, held)) is None
    held.release()
    assert all_claims(scene) == []


@pytest.mark.parametrize("write", ["allocate", "tell", "bind"])
def test_cancelled_write_that_is_still_under_way_can_never_land_and_no_claim_is_left(scene: Scene, write: str) -> None:
    pod = scene.a_gpu_pod()
    landing = Landing()
    held = Hold(landing)
    decision = scene.a_decision(pod, extended=makes(pod, "gpu-0"))
    assert cancel_at(scene, decision, scene.proxy.on(*WRITES[write], held)) is None
    assert all_claims(scene) == []
    held.release()
    assert landing.status() in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}
    assert all_claims(scene) == []
    assert "nodeName" not in scene.pod()["spec"]


def test_cancelled_after_the_binding_has_landed_it_keeps_the_claim(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    scene.proxy.on("POST", BINDING, lose_answer)
    held = Hold()
    decision = scene.a_decision(pod, extended=makes(pod, "gpu-0"))
    assert cancel_at(scene, decision, scene.proxy.on("GET", POD_ITSELF, held)) == Bound(NODE)
    held.release()
    assert is_complete(scene)


# -- a process that ends, and what is left of an attempt before


def die(scene: Scene, decision: Decision, writes: int) -> None:
    """Carry the decision out in a process that ends after so many writes."""

    def mortal(api: Api) -> Api:
        return Mortal(api, writes)

    with pytest.raises(Killed):
        scene.run(lambda binder: bind_pod(binder, decision), api=mortal)


def start_again(scene: Scene) -> int:
    """What the next process does first."""

    def is_bound(_: str) -> bool:
        return bool(scene.pod()["spec"].get("nodeName"))

    return scene.run(lambda binder: recover(binder, all_claims(scene), is_bound), epoch=2)


def take_away(scene: Scene, pod: Json, left: Json) -> ClaimRef | None:
    """What the next process does with a claim that is left."""
    decision = scene.a_decision(pod, keeps(left))
    found = scene.run(lambda binder: deallocate_one(binder, decision), epoch=2)
    return key_of(found) if found else None


def bind_in_second_epoch(scene: Scene, plan: ExtendedPlan) -> AttemptOutcome:
    decision = scene.a_decision(scene.pod(), extended=plan)
    return scene.run(lambda binder: bind_pod(binder, decision), epoch=2)


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_killed_at_any_write_before_the_binding_the_pod_is_bound_with_a_claim_made_anew(
    scene: Scene, writes: int
) -> None:
    pod = scene.a_gpu_pod()
    die(scene, scene.a_decision(pod, extended=makes(pod, "gpu-0")), writes)
    assert start_again(scene) == 1
    left = the_claim(scene)
    assert take_away(scene, scene.pod(), left) == key_of(left)
    assert all_claims(scene) == []
    assert bind_in_second_epoch(scene, makes(pod, "gpu-0")) == Bound(NODE)
    assert the_claim(scene)["metadata"]["uid"] != left["metadata"]["uid"]
    assert is_complete(scene)


def test_killed_after_the_binding_nothing_is_left_to_do(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    die(scene, scene.a_decision(pod, extended=makes(pod, "gpu-0")), writes=4)
    assert start_again(scene) == 0
    assert is_complete(scene)


def a_left_claim(
    scene: Scene, pod: Json, *finalizers: str, is_allocated: bool = False, is_reserved: bool = False
) -> Json:
    """A claim as an attempt makes it, which has come so far."""
    plan = makes(pod, "gpu-0")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": pod["metadata"]["uid"], "controller": True}
    metadata: Json = {"name": plan.claim.claim.name, "namespace": NAMESPACE, "ownerReferences": [owner]}
    metadata |= {"annotations": {EXTENDED: "true"}, "finalizers": list(finalizers)}
    kind = {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind}
    stored = scene.api.create({**kind, "metadata": metadata, "spec": plan.claim.spec})
    if not is_allocated:
        return {**kind, **stored}
    results = [{**one, "request": REQUEST} for one in allocation_json("gpu-0")["devices"]["results"]]
    reserved = {"reservedFor": [reservation(pod)]} if is_reserved else {}
    return scene.api.replace_status({**stored, "status": {"allocation": {"devices": {"results": results}}, **reserved}})


@pytest.mark.parametrize("finalizers", [(), (FINALIZER,)], ids=["plain", "protected"])
@pytest.mark.parametrize(
    ("is_allocated", "is_reserved"),
    [(False, False), (True, False), (True, True)],
    ids=["bare", "allocated", "reserved"],
)
def test_claim_that_is_left_of_an_attempt_is_deleted(
    scene: Scene, finalizers: tuple[str, ...], *, is_allocated: bool, is_reserved: bool
) -> None:
    pod = scene.a_gpu_pod()
    left = a_left_claim(scene, pod, *finalizers, is_allocated=is_allocated, is_reserved=is_reserved)
    assert is_made_for(left, pod["metadata"]["uid"])
    assert take_away(scene, pod, left) == key_of(left)
    assert all_claims(scene) == []


def test_left_claim_that_is_gone_by_then_is_no_trouble(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    left = a_left_claim(scene, pod)
    scene.api.delete(CLAIM, left["metadata"]["name"], NAMESPACE)
    assert take_away(scene, pod, left) == key_of(left)


def test_left_claim_that_is_being_deleted_and_kept_by_its_finalizer_goes(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    left = a_left_claim(scene, pod, FINALIZER, is_allocated=True, is_reserved=True)
    scene.api.delete(CLAIM, left["metadata"]["name"], NAMESPACE)
    assert take_away(scene, pod, the_claim(scene)) == key_of(left)
    assert all_claims(scene) == []


def test_left_claim_that_others_keep_from_being_deleted_is_waited_for(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    left = a_left_claim(scene, pod, FINALIZER, "other.example/keep")
    assert take_away(scene, pod, left) == key_of(left)
    kept = the_claim(scene)
    assert kept["metadata"]["deletionTimestamp"]
    assert kept["metadata"]["finalizers"] == ["other.example/keep"]
    before = scene.calls()
    assert take_away(scene, pod, kept) is None
    assert scene.calls() == before
    scene.api.replace({**kept, "metadata": {**kept["metadata"], "finalizers": []}})


def test_left_claim_of_a_pod_that_was_bound_meanwhile_stays(scene: Scene) -> None:
    pod = scene.a_gpu_pod()
    assert scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0"))) == Bound(NODE)
    assert take_away(scene, pod, the_claim(scene)) is None
    assert is_complete(scene)


def test_attempt_whose_claim_another_process_takes_away_does_not_bind_the_pod(scene: Scene) -> None:
    pod = scene.a_gpu_pod()

    def second_takes_it_away() -> None:
        assert take_away(scene, scene.pod(), the_claim(scene)) is not None

    scene.proxy.on("PATCH", POD_STATUS, meanwhile(second_takes_it_away), nth=1)
    outcome = scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert isinstance(outcome, Retry)
    assert all_claims(scene) == []
    assert "nodeName" not in scene.pod()["spec"]
    assert bind_in_second_epoch(scene, makes(pod, "gpu-0")) == Bound(NODE)
    assert is_complete(scene)


def test_claim_of_another_process_survives_the_end_of_the_attempt_that_it_replaced(scene: Scene) -> None:
    """The second process takes the first one's claim away and binds the pod with its own, of the same name."""
    pod = scene.a_gpu_pod()

    def second_binds() -> None:
        take_away(scene, scene.pod(), the_claim(scene))
        assert bind_in_second_epoch(scene, makes(pod, "gpu-1", on="elsewhere")) == Bound(NODE)

    rule = scene.proxy.on("POST", BINDING, meanwhile(second_binds))
    scene.bind(scene.a_decision(pod, extended=makes(pod, "gpu-0")))
    assert rule.matched >= 1
    assert is_complete(scene)
    intent = intent_of(the_claim(scene))
    assert intent is not None
    assert intent.epoch == 2

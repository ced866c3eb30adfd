"""Writes that somebody else's cross, that the server refuses, or whose answer never comes."""

from collections.abc import Callable, Iterator

import pytest

from allocator.model import Allocation, DeviceResult, Requirement, Term
from scheduler.attempt.claim_objects import ANNOTATION, Intent, allocation_of, consumers_of
from scheduler.attempt.decision import Bound, BoundElsewhere, ClaimPlan, Fatal, Gone, Retry, Unschedulable
from tests.controlplane.contents import clear
from tests.controlplane.faults import Fault, Hold, cut_before, lose_answer, meanwhile, refuse
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import CLAIM, Cause, Json, Kind
from tests.controlplane.rest import NAMESPACE as NAMESPACES
from tests.integration.attempt.conftest import await_right, grant_and_await
from tests.integration.attempt.scene import (
    BINDING,
    CLAIM_ITSELF,
    DRIVER,
    NAMESPACE,
    NODE,
    POD_ITSELF,
    POOL,
    SCHEDULER,
    STATUS,
    Landing,
    Scene,
    allocation_json,
    bind_to,
    cancel_at,
    gets,
    is_untouched,
    keeps,
    reservation,
)

ROLE = Kind("rbac.authorization.k8s.io/v1", "ClusterRole")
ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
INJECTED_409 = refuse(409, "Conflict")
INJECTED_500 = refuse(500, "InternalError")
PUT_OFF = refuse(429, "TooManyRequests", retry_after_s=0)


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", CLAIM_ITSELF), ("PUT", STATUS), ("POST", BINDING)], ids=["W1", "W2", "bind"]
)
@pytest.mark.parametrize(
    "fault",
    [INJECTED_409, INJECTED_500, PUT_OFF, cut_before, lose_answer],
    ids=["409", "500", "429", "not applied", "applied and lost"],
)
def test_one_fault_on_the_way_does_not_end_the_attempt(scene: Scene, method: str, path: str, fault: Fault) -> None:
    claim, pod = scene.a_claim(), scene.a_pod("claim")
    rule = scene.proxy.on(method, path, fault)
    assert scene.bind(scene.a_decision(pod, gets(claim, "gpu-0"))) == Bound(NODE)
    assert rule.matched >= 1
    assert consumers_of(scene.claim()) == (pod["metadata"]["uid"],)
    assert allocation_of(scene.claim()) is not None


def test_claim_that_others_changed_before_the_first_write_is_read_again(scene: Scene) -> None:
    claim = scene.a_claim()
    label(scene, "changed")
    assert scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0"))) == Bound(NODE)
    assert scene.claim()["metadata"]["labels"] == {"changed": "yes"}


def test_claim_that_others_change_between_the_two_writes_is_read_again(scene: Scene) -> None:
    claim = scene.a_claim()
    scene.proxy.on("PUT", STATUS, meanwhile(lambda: label(scene, "changed")))
    assert scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0"))) == Bound(NODE)
    assert [status for _, path, status in scene.calls() if path.endswith("/status")] == [409, 200]


def label(scene: Scene, name: str) -> Json:
    claim = scene.claim()
    return scene.api.replace({**claim, "metadata": {**claim["metadata"], "labels": {name: "yes"}}})


def test_five_conflicts_in_a_row_end_the_attempt_and_leave_nothing(scene: Scene) -> None:
    claim = scene.a_claim()
    rule = scene.proxy.on("PUT", STATUS, INJECTED_409, times=None)
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert outcome == Retry("claim work/claim changed or did not respond 5 times in a row")
    assert rule.matched == 5
    assert is_untouched(scene.claim())


def test_claim_that_is_allocated_elsewhere_between_the_two_writes_is_left_to_its_new_owner(scene: Scene) -> None:
    claim, other = scene.a_claim(), scene.a_pod("claim", name="other")

    def allocate_elsewhere() -> None:
        current = scene.claim()
        status = {"allocation": allocation_json("gpu-7"), "reservedFor": [reservation(other)]}
        scene.api.replace_status({**current, "status": status})

    scene.proxy.on("PUT", STATUS, meanwhile(allocate_elsewhere))
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert outcome == Retry("claim work/claim was allocated by another client", is_lost=True, is_taken=True)
    left = scene.claim()
    assert left["status"] == {"allocation": allocation_json("gpu-7"), "reservedFor": [reservation(other)]}
    assert ANNOTATION not in left["metadata"].get("annotations", {})
    assert left["metadata"]["finalizers"]


def test_claim_that_another_attempt_has_just_marked_is_left_to_it(scene: Scene) -> None:
    """The other one's intent is kept, so that it is not disturbed; one that was there at the decision is replaced."""
    pod, claim = scene.a_pod("claim"), scene.a_claim()
    other = {ANNOTATION: str(Intent(SCHEDULER, 7, "7", pod["metadata"]["uid"], NODE, 1))}

    def mark_as_another_process() -> None:
        current = scene.claim()
        scene.api.replace({**current, "metadata": {**current["metadata"], "annotations": other}})

    scene.proxy.on("PUT", CLAIM_ITSELF, meanwhile(mark_as_another_process))
    outcome = scene.bind(scene.a_decision(pod, gets(claim, "gpu-0")))
    assert outcome == Retry("claim work/claim is being allocated by another attempt", is_lost=True)
    assert scene.claim()["metadata"]["annotations"] == other
    assert scene.bind(scene.a_decision(pod, gets(scene.claim(), "gpu-0"))) == Bound(NODE)


def test_second_claim_that_fails_takes_back_the_first(scene: Scene) -> None:
    first, second = scene.a_claim("a"), scene.a_claim("b")
    scene.api.delete(CLAIM, "b", NAMESPACE)
    outcome = scene.bind(scene.a_decision(scene.a_pod("a", "b"), gets(first, "gpu-0"), gets(second, "gpu-1")))
    assert outcome == Retry("claim work/b no longer exists")
    assert is_untouched(scene.claim("a"))


def test_recreated_claim_of_the_same_name_is_another_claim(scene: Scene) -> None:
    claim = scene.a_claim()
    scene.api.delete(CLAIM, "claim", NAMESPACE)
    scene.a_claim()
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert outcome == Retry("claim work/claim no longer exists")
    assert is_untouched(scene.claim())


def test_claim_that_is_deleted_between_the_two_writes_is_not_allocated(scene: Scene) -> None:
    claim = scene.a_claim()
    scene.proxy.on("PUT", STATUS, meanwhile(lambda: scene.api.delete(CLAIM, "claim", NAMESPACE)))
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert isinstance(outcome, Retry)
    assert scene.api.await_all(CLAIM, lambda claims: not claims, NAMESPACE) == []


def test_claim_that_is_being_deleted_is_not_reserved(scene: Scene) -> None:
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    allocated = scene.claim()
    scene.api.delete(CLAIM, "claim", NAMESPACE)
    late = scene.a_pod("claim", name="late")
    assert scene.bind(scene.a_decision(late, keeps(allocated))) == Retry("claim work/claim is being deleted")
    assert scene.bind(scene.a_decision(late, keeps(scene.claim()))) == Retry("claim work/claim is being deleted")
    assert late["metadata"]["uid"] not in consumers_of(scene.claim())


def test_shared_claim_that_was_deallocated_meanwhile_is_decided_anew(scene: Scene) -> None:
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    allocated = scene.claim()
    scene.api.replace_status({**allocated, "status": {}})
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim", name="late"), keeps(allocated)))
    assert outcome == Retry("claim work/claim was deallocated")


@pytest.mark.needs("DRAResourceClaimGranularStatusAuthorization")
def test_missing_right_to_bind_claims_is_fatal_though_it_comes_as_an_invalid_claim(
    scene: Scene, take_right: Callable[[str], None]
) -> None:
    take_right("binding")
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    assert isinstance(outcome, Fatal)
    assert "422 Invalid" in outcome.reason
    assert 'requires resource="resourceclaims/binding"' in outcome.reason
    assert is_untouched(scene.claim())


def test_missing_right_to_write_the_status_is_fatal(scene: Scene, take_right: Callable[[str], None]) -> None:
    take_right("status")
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    assert isinstance(outcome, Fatal)
    assert "403 Forbidden" in outcome.reason


@pytest.fixture
def take_right(scene: Scene, plane: ControlPlane) -> Iterator[Callable[[str], None]]:
    """Takes the right to one subresource of claims from our roles, until the test ends."""

    def take(subresource: str) -> None:
        resource = f"resourceclaims/{subresource}"
        for role in scene.api.list(ROLE):
            rules = [
                {**rule, "resources": [one for one in rule["resources"] if one != resource]} for rule in ours(role)
            ]
            if rules:
                scene.api.replace({**role, "rules": [rule for rule in rules if rule["resources"]]})
        await_right(scene.ours, resource="resourceclaims", subresource=subresource, is_given=False)

    yield take
    clear(plane)
    grant_and_await(plane)


def ours(role: Json) -> list[Json]:
    is_ours = role["metadata"]["name"].startswith("dra-scheduler")
    return [rule for rule in role.get("rules") or () if "resources" in rule] if is_ours else []


def test_policy_that_denies_the_allocation_refuses_the_pod_with_its_words(scene: Scene) -> None:
    denial = "ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request: not your driver"
    scene.proxy.on("PUT", STATUS, refuse(403, "Forbidden", denial, [Cause("", "", denial)]))
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    assert isinstance(outcome, Retry)
    assert outcome.is_denied
    assert "not your driver" in outcome.reason
    assert is_untouched(scene.claim())


def test_admin_access_whose_namespace_lost_its_label_is_refused_with_the_reason(scene: Scene) -> None:
    label_namespace(scene, {ADMIN_ACCESS: "true"})
    claim = scene.a_claim(adminAccess=True)
    label_namespace(scene, {})
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0", admin_access=True)))
    assert isinstance(outcome, Unschedulable)
    assert f"{ADMIN_ACCESS}: true" in outcome.reason
    assert is_untouched(scene.claim())


def test_admin_access_in_a_labelled_namespace_is_written(scene: Scene) -> None:
    label_namespace(scene, {ADMIN_ACCESS: "true"})
    claim = scene.a_claim(adminAccess=True)
    decision = scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0", admin_access=True))
    assert scene.bind(decision) == Bound(NODE)
    (result,) = scene.claim()["status"]["allocation"]["devices"]["results"]
    assert result["adminAccess"] is True
    label_namespace(scene, {})


def label_namespace(scene: Scene, labels: Json) -> None:
    namespace = scene.api.get(NAMESPACES, NAMESPACE)
    scene.api.replace({**namespace, "metadata": {**namespace["metadata"], "labels": labels}})


def test_decision_that_no_longer_holds_is_not_written(scene: Scene) -> None:
    claim = scene.a_claim()
    scene.watched.reason = "device gpu.example/pool-0/gpu-0 is no longer published"
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert outcome == Retry("device gpu.example/pool-0/gpu-0 is no longer published")
    assert scene.calls() == []


def test_decision_that_stops_to_hold_between_the_two_writes_is_taken_back(scene: Scene) -> None:
    claim = scene.a_claim()
    scene.proxy.on("PUT", CLAIM_ITSELF, meanwhile(lambda: setattr(scene.watched, "reason", "the pool has changed")))
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert outcome == Retry("the pool has changed")
    assert scene.proxy.writes(STATUS) == []
    assert is_untouched(scene.claim())


def test_pod_that_changed_since_the_decision_is_bound_in_its_new_version(scene: Scene) -> None:
    pod = scene.a_pod()
    condition = {"type": "Example", "status": "True"}
    scene.api.replace_status({**pod, "status": {**pod["status"], "conditions": [condition]}})
    assert scene.bind(scene.a_decision(pod)) == Bound(NODE)
    assert [status for _, _, status in scene.calls()] == [409, 201]


def test_pod_that_is_deleted_meanwhile_is_let_go_and_its_claim_freed(scene: Scene) -> None:
    claim, pod = scene.a_claim(), scene.a_pod("claim")
    scene.proxy.on("POST", BINDING, meanwhile(scene.delete_pod))
    outcome = scene.bind(scene.a_decision(pod, gets(claim, "gpu-0")))
    assert outcome == Gone("pod work/pod no longer exists")
    assert is_untouched(scene.claim())


def test_pod_that_somebody_else_binds_elsewhere_keeps_a_claim_that_reaches_it(scene: Scene) -> None:
    claim, pod = scene.a_claim(), scene.a_pod("claim")
    scene.proxy.on("POST", BINDING, meanwhile(lambda: bind_to(scene, "elsewhere")))
    assert scene.bind(scene.a_decision(pod, gets(claim, "gpu-0"))) == BoundElsewhere("elsewhere")
    assert consumers_of(scene.claim()) == (pod["metadata"]["uid"],)


def test_pod_whose_entry_gets_another_claim_meanwhile_is_not_bound_with_the_first_one(scene: Scene) -> None:
    scene.a_claim("second")
    entry = {"name": "made", "resourceClaimTemplateName": "template"}
    first, pod = scene.a_claim("first"), scene.a_pod(resourceClaims=[entry])

    def use_the_second() -> None:
        current = scene.pod()
        statuses = [{"name": "made", "resourceClaimName": "second"}]
        scene.api.replace_status({**current, "status": {**current["status"], "resourceClaimStatuses": statuses}})

    scene.proxy.on("POST", BINDING, meanwhile(use_the_second))
    outcome = scene.bind(scene.a_decision(pod, gets(first, "gpu-0")))
    assert outcome == Retry("pod work/pod uses claim second now, which is not part of the decision")
    assert is_untouched(scene.claim("first"))
    assert not scene.pod()["spec"].get("nodeName")


def test_claim_of_a_pod_that_somebody_else_binds_where_it_does_not_reach_is_freed(scene: Scene) -> None:
    on_node = (Term(fields=(Requirement("metadata.name", "In", (NODE,)),)),)
    allocation = Allocation((DeviceResult("r", DRIVER, POOL, "gpu-0"),), node_selector=on_node)
    claim, pod = scene.a_claim(), scene.a_pod("claim")
    scene.proxy.on("POST", BINDING, meanwhile(lambda: bind_to(scene, "elsewhere")))
    assert scene.bind(scene.a_decision(pod, ClaimPlan(claim, allocation))) == BoundElsewhere("elsewhere")
    assert is_untouched(scene.claim())


def test_claim_that_many_nodes_reach_stays_with_its_pod_where_a_second_attempt_finds_the_pod_bound(
    scene: Scene,
) -> None:
    """The second one was decided on what was there before the first one's binding."""
    claim, pod = scene.a_claim(), scene.a_pod("claim")
    assert scene.bind(scene.a_decision(pod, gets(claim, "nic-0"))) == Bound(NODE)
    second = scene.a_decision(pod, keeps(scene.claim()), node="elsewhere")
    assert scene.bind(second) == BoundElsewhere(NODE)
    assert consumers_of(scene.claim()) == (pod["metadata"]["uid"],)


def test_pod_that_is_on_the_node_already_is_bound(scene: Scene) -> None:
    pod = scene.a_pod()
    bind_to(scene, NODE)
    assert scene.bind(scene.a_decision(pod)) == Bound(NODE)


def test_binding_that_is_never_taken_is_given_up_and_the_claim_freed(scene: Scene) -> None:
    claim = scene.a_claim()
    rule = scene.proxy.on("POST", BINDING, INJECTED_500, times=None)
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert isinstance(outcome, Retry)
    assert "was not bound in 4 tries" in outcome.reason
    assert rule.matched == 4
    assert is_untouched(scene.claim())


def test_rollback_goes_on_until_the_server_answers(scene: Scene) -> None:
    claim = scene.a_claim()
    scene.proxy.on("POST", BINDING, refuse(400, "BadRequest"))
    scene.proxy.on("GET", CLAIM_ITSELF, INJECTED_500, times=7)
    scene.proxy.on("PUT", STATUS, INJECTED_500, nth=2, times=3)
    scene.proxy.on("PUT", CLAIM_ITSELF, lose_answer, nth=2)
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert isinstance(outcome, Retry)
    assert is_untouched(scene.claim())


@pytest.mark.parametrize("path", [CLAIM_ITSELF, STATUS], ids=["W1", "W2"])
def test_cancelled_write_that_is_still_under_way_can_never_land(scene: Scene, path: str) -> None:
    decision = scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0"))
    landing = Landing()
    held = Hold(landing)
    assert cancel_at(scene, decision, scene.proxy.on("PUT", path, held)) is None
    held.release()
    assert landing.status() == 409
    assert is_untouched(scene.claim())


def test_cancelled_reservation_that_is_still_under_way_can_never_land(scene: Scene) -> None:
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    before = scene.claim()
    landing = Landing()
    held = Hold(landing)
    rule = scene.proxy.on("PUT", STATUS, held)
    cancel_at(scene, scene.a_decision(scene.a_pod("claim", name="late"), keeps(before)), rule)
    held.release()
    assert landing.status() == 409
    after = scene.claim()
    assert after["status"] == before["status"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]


def test_cancelled_binding_that_is_still_under_way_can_never_land(scene: Scene) -> None:
    decision = scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0"))
    landing = Landing()
    held = Hold(landing)
    assert cancel_at(scene, decision, scene.proxy.on("POST", BINDING, held)) is None
    held.release()
    assert landing.status() == 409
    assert "nodeName" not in scene.pod()["spec"]
    assert is_untouched(scene.claim())


def test_cancelled_after_the_binding_has_landed_keeps_the_claim(scene: Scene) -> None:
    pod = scene.a_pod("claim")
    decision = scene.a_decision(pod, gets(scene.a_claim(), "gpu-0"))
    scene.proxy.on("POST", BINDING, lose_answer)
    held = Hold()
    assert cancel_at(scene, decision, scene.proxy.on("GET", POD_ITSELF, held)) == Bound(NODE)
    held.release()
    assert scene.pod()["spec"]["nodeName"] == NODE
    assert consumers_of(scene.claim()) == (pod["metadata"]["uid"],)
    assert scene.pod()["status"]["conditions"][0]["status"] == "True"

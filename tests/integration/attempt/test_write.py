"""What is written on the way from a decision to a bound pod, when nothing goes wrong."""

import asyncio
import json
from http import HTTPStatus

import pytest

from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import ANNOTATION, Intent, consumers_of, intent_of
from scheduler.attempt.decision import AttemptOutcome, Bound, Unschedulable
from scheduler.attempt.run import bind_pod
from scheduler.plugins.dynamic_resources import CLAIMS
from scheduler.state.claims import FINALIZER
from tests.controlplane.rest import CLAIM, POD, TEMPLATE, Json, Kind
from tests.integration.attempt.scene import (
    DRIVER,
    NAMESPACE,
    NODE,
    POOL,
    SCHEDULER,
    Scene,
    allocation_json,
    gets,
    keeps,
    reservation,
)


def test_pod_without_claims_is_bound_by_one_write(scene: Scene) -> None:
    assert scene.bind(scene.a_decision(scene.a_pod())) == Bound(NODE)
    assert scene.calls() == [("POST", "pods/pod/binding", 201)]


def test_claim_is_marked_then_allocated_and_reserved_at_once_then_the_pod_is_bound(scene: Scene) -> None:
    claim, pod = scene.a_claim(), scene.a_pod("claim")
    assert scene.bind(scene.a_decision(pod, gets(claim, "gpu-0"))) == Bound(NODE)
    assert scene.calls() == [
        ("PUT", "resourceclaims/claim", 200),
        ("PUT", "resourceclaims/claim/status", 200),
        ("POST", "pods/pod/binding", 201),
    ]
    stored = scene.claim()
    assert stored["metadata"]["finalizers"] == [FINALIZER]
    assert intent_of(stored) == Intent(SCHEDULER, 1, "1", pod["metadata"]["uid"], NODE, 1)
    assert stored["status"] == {
        "allocation": {**allocation_json("gpu-0"), "allocationTimestamp": "2026-01-01T00:00:00Z"},
        "reservedFor": [reservation(pod)],
    }
    assert scene.watched.writes == [("claim", int(stored["metadata"]["resourceVersion"]))]
    assert scene.pod()["spec"]["nodeName"] == NODE


def test_intent_is_an_annotation_that_a_person_can_read(scene: Scene) -> None:
    claim, pod = scene.a_claim(), scene.a_pod("claim")
    scene.bind(scene.a_decision(pod, gets(claim, "gpu-0")))
    assert json.loads(scene.claim()["metadata"]["annotations"][ANNOTATION]) == {
        "scheduler": SCHEDULER,
        "epoch": 1,
        "process": "1",
        "podUID": pod["metadata"]["uid"],
        "node": NODE,
        "attempt": 1,
    }


def test_every_put_carries_the_version_that_it_builds_on(scene: Scene) -> None:
    first, second = scene.a_claim("a"), scene.a_claim("b")
    scene.bind(scene.a_decision(scene.a_pod("a", "b"), gets(first, "gpu-0"), gets(second, "gpu-1")))
    sent = [one.sent["metadata"] for one in scene.proxy.writes()]
    assert len(sent) == 5
    assert all(metadata["resourceVersion"] and metadata["uid"] for metadata in sent)


def test_claims_of_two_drivers_are_written_in_the_order_of_their_names(scene: Scene) -> None:
    plans = [gets(scene.a_claim(name), "dev-0", driver=f"{name}.example") for name in ("b", "a")]
    assert scene.bind(scene.a_decision(scene.a_pod("b", "a"), *plans)) == Bound(NODE)
    written = [path for _, path, _ in scene.calls()]
    assert written[:4] == [
        "resourceclaims/a",
        "resourceclaims/a/status",
        "resourceclaims/b",
        "resourceclaims/b/status",
    ]


def test_claim_of_a_template_is_allocated_and_deleted_once_the_pod_has_succeeded(scene: Scene) -> None:
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}
    named = {"name": "template", "namespace": NAMESPACE}
    scene.api.create({"apiVersion": TEMPLATE.api_version, "kind": TEMPLATE.kind, "metadata": named, "spec": spec})
    scene.a_pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "template"}])
    (claim,) = scene.api.await_all(CLAIM, lambda claims: len(claims) == 1, NAMESPACE)
    pods = scene.api.await_all(POD, lambda pods: all("resourceClaimStatuses" in pod["status"] for pod in pods))
    assert scene.bind(scene.a_decision(pods[0], gets(claim, "gpu-0"))) == Bound(NODE)
    pod = scene.pod()
    scene.api.replace_status({**pod, "status": {**pod["status"], "phase": "Succeeded"}})
    assert scene.api.await_all(CLAIM, lambda claims: not claims, NAMESPACE) == []


def test_manual_claim_is_deallocated_by_the_controller_when_its_pod_is_deleted(scene: Scene) -> None:
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    scene.delete_pod()
    freed = scene.become("claim", lambda claim: "allocation" not in claim.get("status", {}))
    freed = scene.become("claim", lambda claim: not claim["metadata"].get("finalizers"))
    assert intent_of(freed) is not None


def test_deleted_claim_in_use_stays_until_its_pod_has_gone(scene: Scene) -> None:
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    scene.api.delete(CLAIM, "claim", NAMESPACE)
    assert scene.claim()["metadata"]["finalizers"] == [FINALIZER]
    scene.delete_pod()
    assert scene.api.await_all(CLAIM, lambda claims: not claims, NAMESPACE) == []


def test_shared_claim_is_only_reserved_for_the_pods_that_come_later(scene: Scene) -> None:
    plan = gets(scene.a_claim(), "gpu-0")
    pods = [scene.a_pod("claim", name=f"pod-{index}") for index in range(3)]
    for pod in pods:
        assert scene.bind(scene.a_decision(pod, plan)) == Bound(NODE)
        plan = keeps(scene.claim())
    assert consumers_of(scene.claim()) == tuple(pod["metadata"]["uid"] for pod in pods)
    assert [path for _, path, _ in scene.calls()].count("resourceclaims/claim") == 1
    assert [path for _, path, _ in scene.calls()].count("resourceclaims/claim/status") == 3


def test_pods_that_share_a_claim_and_are_bound_at_once_do_not_conflict(scene: Scene) -> None:
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    plan = keeps(scene.claim())
    decisions = [scene.a_decision(scene.a_pod("claim", name=f"pod-{index}"), plan) for index in range(8)]

    async def bind_all(binder: Binder) -> list[AttemptOutcome]:
        return await asyncio.gather(*(bind_pod(binder, decision) for decision in decisions))

    assert scene.run(bind_all) == [Bound(NODE)] * 8
    assert len(consumers_of(scene.claim())) == 9
    assert [call for call in scene.calls() if call[2] == HTTPStatus.CONFLICT] == []


def test_pod_beyond_the_256th_of_a_claim_is_refused_until_there_is_room(scene: Scene) -> None:
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    full = full_of_others(scene)
    late = scene.a_pod("claim", name="late")
    refused = scene.bind(scene.a_decision(late, keeps(full)))
    assert refused == Unschedulable("claim work/claim is reserved for 256 pods, the maximum", CLAIMS)
    assert late["metadata"]["uid"] not in consumers_of(scene.claim())
    status = {**full["status"], "reservedFor": full["status"]["reservedFor"][:-1]}
    roomy = scene.api.replace_status({**full, "status": status})
    assert scene.bind(scene.a_decision(late, keeps(roomy))) == Bound(NODE)
    assert len(consumers_of(scene.claim())) == 256


def test_claim_that_fills_up_meanwhile_refuses_as_well(scene: Scene) -> None:
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(scene.a_claim(), "gpu-0")))
    observed = scene.claim()
    full_of_others(scene)
    refused = scene.bind(scene.a_decision(scene.a_pod("claim", name="late"), keeps(observed)))
    assert isinstance(refused, Unschedulable)
    assert "256 pods" in refused.reason


def full_of_others(scene: Scene) -> Json:
    """The claim, reserved for 255 consumers more, which no controller knows and takes away."""
    claim = scene.claim()
    others = [{"apiGroup": "other.example", "resource": "things", "name": f"t{n}", "uid": f"t{n}"} for n in range(255)]
    status = {**claim["status"], "reservedFor": [*claim["status"]["reservedFor"], *others]}
    return scene.api.replace_status({**claim, "status": status})


@pytest.mark.needs("DRAResourceClaimDeviceStatus")
def test_what_others_wrote_into_the_claim_is_sent_back(scene: Scene) -> None:
    claim = scene.a_claim()
    metadata = {**claim["metadata"], "labels": {"team": "a"}, "finalizers": ["other.example/keep"]}
    claim = scene.api.replace({**claim, "metadata": metadata})
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    allocated = scene.claim()
    reported = {"driver": DRIVER, "pool": POOL, "device": "gpu-0", "data": {"speed": 9}}
    allocated = scene.api.replace_status({**allocated, "status": {**allocated["status"], "devices": [reported]}})
    second = scene.a_pod("claim", name="second")
    assert scene.bind(scene.a_decision(second, keeps(allocated))) == Bound(NODE)
    stored = scene.claim()
    assert stored["status"]["devices"] == [{**reported, "conditions": None}]
    assert stored["metadata"]["labels"] == {"team": "a"}
    assert stored["metadata"]["finalizers"] == ["other.example/keep", FINALIZER]
    scene.api.replace({**stored, "metadata": {**stored["metadata"], "finalizers": [FINALIZER]}})


@pytest.mark.needs("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2")
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_older_versions_of_the_api_take_the_same_writes(scene: Scene, version: str) -> None:
    scene.a_claim()
    claim = scene.api.get(Kind(f"resource.k8s.io/{version}", "ResourceClaim"), "claim", NAMESPACE)
    decision = scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0"))
    assert scene.run(lambda binder: bind_pod(binder, decision), version=version) == Bound(NODE)
    assert scene.claim()["spec"] == claim_spec_v1(scene)
    assert scene.claim()["status"]["allocation"]["devices"] == allocation_json("gpu-0")["devices"]


def claim_spec_v1(scene: Scene) -> object:
    """What the server stores of the same claim that nobody has written to."""
    return scene.a_claim("same")["spec"]


@pytest.mark.needs("DRAConsumableCapacity")
def test_share_of_a_device_is_written_with_its_id_and_capacity(scene: Scene) -> None:
    claim = scene.a_claim()
    share = "4d3a2c1b-0000-4000-8000-000000000000"
    scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0", share_id=share)))
    (result,) = scene.claim()["status"]["allocation"]["devices"]["results"]
    assert result["shareID"] == share


def test_assigned_pod_gets_its_claims_and_no_binding(scene: Scene) -> None:
    claim, pod = scene.a_claim(), scene.a_pod("claim", nodeName=NODE)
    assert scene.bind(scene.a_decision(pod, gets(claim, "gpu-0"), is_assigned=True)) == Bound(NODE)
    assert consumers_of(scene.claim()) == (pod["metadata"]["uid"],)
    assert [path for _, path, _ in scene.calls()] == ["resourceclaims/claim", "resourceclaims/claim/status"]

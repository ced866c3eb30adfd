"""What the guard makes of what comes to it."""

import json
from http import HTTPStatus
from typing import Any

import pytest

from scheduler.guard import reviewer
from scheduler.runtime.server import Malformed

Json = dict[str, Any]


def a_claim(*devices: str, **metadata: object) -> Json:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}} if results else {}
    named = {"namespace": "ns", "name": "claim", "uid": "u", "resourceVersion": "7", **metadata}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": named, "status": status}


def a_body(new: object, old: object, **request: object) -> bytes:
    asked = {"uid": "q", "operation": "UPDATE", "subResource": "status", "object": new, "oldObject": old, **request}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


def test_update_builds_on_the_version_of_the_old_object() -> None:
    found = reviewer.read(a_body(a_claim("a", resourceVersion="9"), a_claim()))
    assert found.update is not None
    assert (found.uid, found.update.version, found.is_dry, found.error) == ("q", 7, False, "")
    assert found.update.claim.allocation is not None
    assert [result.device for result in found.update.claim.allocation.results] == ["a"]


@pytest.mark.parametrize(("new", "old"), [((), ()), ((), ("a",)), (("a",), ("a",)), (("a",), ("a", "b"))])
def test_what_adds_no_device_is_not_judged(new: tuple[str, ...], old: tuple[str, ...]) -> None:
    assert reviewer.read(a_body(a_claim(*new), a_claim(*old))).update is None


def test_device_that_is_there_once_more_is_judged() -> None:
    """The API server lets nobody change an allocation; if it did, this would add one."""
    assert reviewer.read(a_body(a_claim("a", "a"), a_claim("a"))).update is not None


V1 = [{"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}, {"name": "s", "exactly": {}}]
V1BETA1 = [{"name": "r", "deviceClassName": "c", "adminAccess": True}, {"name": "s", "deviceClassName": "c"}]


@pytest.mark.parametrize(("version", "requests"), [("v1", V1), ("v1beta2", V1), ("v1beta1", V1BETA1)])
def test_requests_are_read_where_a_result_has_admin_access(version: str, requests: list[Json]) -> None:
    claim = {**a_claim("a"), "apiVersion": f"resource.k8s.io/{version}", "spec": {"devices": {"requests": requests}}}
    plain = reviewer.read(a_body(claim, a_claim())).update
    assert plain is not None
    assert plain.claim.requests == ()
    claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    found = reviewer.read(a_body(claim, a_claim())).update
    assert found is not None
    admin = {one.name: one.admin_access for request in found.claim.requests for one in request.alternatives}
    assert admin == {"r": True, "s": None}


def test_admin_access_of_a_claim_whose_requests_cannot_be_read_is_refused() -> None:
    claim = {**a_claim("a"), "spec": {"devices": {"requests": 5}}}
    assert reviewer.read(a_body(claim, a_claim())).error == ""
    claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert "spec.devices.requests" in reviewer.read(a_body(claim, a_claim())).error


def test_error_is_a_status_whose_message_the_api_server_shows() -> None:
    found = json.loads(reviewer.error_result("too large"))
    assert (found["kind"], found["apiVersion"], found["status"]) == ("Status", "v1", "Failure")
    assert found["message"] == "too large"


def test_largest_claim_as_json_fits_twice() -> None:
    """etcd stores 1.5 MiB; of text, the API server makes up to six bytes of each."""
    largest = json.dumps("\x01" * (3 << 19))
    assert 2 * len(largest) + 10**6 < reviewer.LARGEST_REVIEW


def test_dry_run_is_told() -> None:
    assert reviewer.read(a_body(a_claim("a"), a_claim(), dryRun=True)).is_dry


def test_claim_that_cannot_be_read_is_refused_with_the_field() -> None:
    broken = a_claim("a")
    broken["status"]["allocation"]["devices"]["results"][0]["device"] = 5
    found = reviewer.read(a_body(broken, a_claim()))
    assert found.update is None
    assert "status.allocation.devices.results[0].device" in found.error


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_claim_without_a_kind_is_refused(field: str) -> None:
    found = reviewer.read(a_body({**a_claim("a"), field: None}, a_claim()))
    assert field in found.error
    nameless = {name: value for name, value in a_claim("a").items() if name != field}
    assert field in reviewer.read(a_body(nameless, a_claim())).error


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b"[]", "the body must be a JSON object"),
        (b"null", "the body must be a JSON object (got null)"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "request: is required"),
        (a_body(a_claim("a"), None), "request.oldObject"),
        (a_body(a_claim("a"), {}), "request.oldObject.metadata: must be an object"),
        (a_body(a_claim("a"), a_claim(resourceVersion="")), "request.oldObject.metadata.resourceVersion"),
        (a_body(a_claim("a"), a_claim(resourceVersion="9" * 5000)), "request.oldObject.metadata.resourceVersion"),
        (a_body(a_claim("a", uid=""), a_claim()), "request.object.metadata.uid"),
        (a_body(a_claim("a"), a_claim(), operation="DELETE"), "request.operation: must be UPDATE"),
        (a_body(a_claim("a"), a_claim(), subResource=""), "request.subResource: must be status"),
        (
            b'{"apiVersion": "v2", "kind": "AdmissionReview", "request": '
            + json.dumps(json.loads(a_body(a_claim(), a_claim()))["request"]).encode()
            + b"}",
            "apiVersion: must be admission.k8s.io/v1",
        ),
    ],
)
def test_what_is_no_question_is_malformed(body: bytes, told: str) -> None:
    with pytest.raises(Malformed, match="^" + told.replace("(", r"\(").replace(")", r"\)").replace("[", r"\[")):
        reviewer.read(body)


def test_refusal_is_a_status_that_says_when_to_ask_again() -> None:
    answer = json.loads(reviewer.refused("q", HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", "not now"))
    said = {"status": "Failure", "code": 503, "reason": "ServiceUnavailable", "message": "not now"}
    assert answer["response"] == {"uid": "q", "allowed": False, "status": {**said, "details": {"retryAfterSeconds": 1}}}
    assert json.loads(reviewer.allowed("q"))["response"] == {"uid": "q", "allowed": True}

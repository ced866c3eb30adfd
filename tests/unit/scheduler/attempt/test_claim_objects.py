"""Edits of raw claims: what is asked for changes, and nothing else."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from allocator.api.versions import Json
from allocator.model import Claim
from allocator.pod_resources import CountRequest
from scheduler.attempt import claim_objects
from scheduler.attempt.claim_objects import ANNOTATION, RawClaim, intent_of, is_same_allocation
from scheduler.kinds import claim_of
from scheduler.state.claims import FINALIZER
from scheduler.state.pod_resources import ExtendedClaim
from tests.unit.scheduler.attempt.raw_claims import OURS, a_raw_claim, an_allocation

TYPE = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
UNKNOWN = {"futureField": {"empty": {}, "list": [], "zero": 0}}


def with_unknown_fields(claim: Json) -> Json:
    """The claim with fields that this version does not know, in each of its parts."""
    metadata, status = {**claim["metadata"], **UNKNOWN}, {**claim.get("status", {}), **UNKNOWN}
    return {**claim, **UNKNOWN, "metadata": metadata, "spec": {**claim["spec"], **UNKNOWN}, "status": status}


ALLOCATED = with_unknown_fields(
    a_raw_claim(
        intent=OURS, allocation=an_allocation("gpu-0"), reserved_for=["pod-uid"], statuses=[{"device": "gpu-0"}]
    )
)
EDITS: dict[str, Callable[[RawClaim], Json]] = {
    "marked": lambda claim: claim_objects.marked(claim, OURS),
    "unmarked": claim_objects.unmarked,
    "fenced": lambda claim: claim_objects.fenced(claim, "text"),
    "unfenced": claim_objects.unfenced,
    "allocated": lambda claim: claim_objects.allocated(claim, an_allocation("gpu-1"), "pod", "uid"),
    "reserved": lambda claim: claim_objects.reserved(claim, "pod", "uid"),
    "released": lambda claim: claim_objects.released(claim, "pod-uid"),
    "deallocated": claim_objects.deallocated,
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_every_edit_keeps_unknown_fields_and_leaves_its_input_alone(edit: Callable[[RawClaim], Json]) -> None:
    before = copy.deepcopy(ALLOCATED)
    edited = edit(ALLOCATED)
    assert before == ALLOCATED
    parts = (edited, edited["metadata"], edited["spec"], edited["status"])
    assert all(part["futureField"] == UNKNOWN["futureField"] for part in parts)


def test_marking_adds_finalizer_and_intent_beside_what_is_there() -> None:
    claim = a_raw_claim(finalizers=["other.example/keep"])
    claim["metadata"]["annotations"] = {"other": "kept"}
    marked = claim_objects.marked(claim, OURS)
    assert marked["metadata"]["finalizers"] == ["other.example/keep", FINALIZER]
    assert marked["metadata"]["annotations"] == {"other": "kept", ANNOTATION: str(OURS)}
    assert claim_objects.is_marked(marked, OURS)


def test_marking_twice_does_not_add_the_finalizer_twice() -> None:
    once = claim_objects.marked(a_raw_claim(finalizers=[]), OURS)
    assert claim_objects.marked(once, OURS) == once


def test_unmarking_keeps_the_finalizer_of_an_allocated_claim() -> None:
    assert FINALIZER in claim_objects.unmarked(ALLOCATED)["metadata"]["finalizers"]
    unmarked = claim_objects.unmarked(a_raw_claim(intent=OURS))
    assert "finalizers" not in unmarked["metadata"]
    assert "annotations" not in unmarked["metadata"]


def test_allocation_and_reservation_are_one_edit() -> None:
    status = claim_objects.allocated(a_raw_claim(), an_allocation("gpu-0"), "pod", "uid")["status"]
    assert status == {
        "allocation": an_allocation("gpu-0"),
        "reservedFor": [{"resource": "pods", "name": "pod", "uid": "uid"}],
    }


def test_releasing_takes_one_reservation() -> None:
    claim = a_raw_claim(allocation=an_allocation("gpu-0"), reserved_for=["a", "b"])
    assert claim_objects.consumers_of(claim_objects.released(claim, "a")) == ("b",)


def test_deallocating_takes_allocation_reservations_and_device_status() -> None:
    assert claim_objects.deallocated(ALLOCATED)["status"] == UNKNOWN


def test_allocations_are_the_same_by_time_and_devices() -> None:
    one = an_allocation("gpu-0", "gpu-1")
    stored = {**one, "devices": {**one["devices"], "config": []}, "nodeSelector": {"nodeSelectorTerms": []}}
    assert is_same_allocation(one, stored)
    assert not is_same_allocation(one, an_allocation("gpu-0"))
    assert not is_same_allocation(one, an_allocation("gpu-0", "gpu-1", timestamp="2026-01-01T00:00:01Z"))
    assert not is_same_allocation(one, an_allocation("gpu-0", "gpu-1", more={"shareID": "s"}))
    assert is_same_allocation({}, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        "{}",
        '{"scheduler": "s", "epoch": "1", "process": "p", "podUID": "u", "node": "n", "attempt": 1}',
        str(replace(OURS, node="n" * 5000)),
    ],
)
def test_annotation_that_is_no_intent_is_none(text: str) -> None:
    assert intent_of(a_raw_claim(intent=text)) is None


def test_intent_comes_back_as_it_was_written_whatever_newer_versions_add() -> None:
    assert intent_of(a_raw_claim(intent=OURS)) == OURS
    assert intent_of(a_raw_claim(intent=str(OURS)[:-1] + ',"more":1}')) == OURS
    assert intent_of(a_raw_claim()) is None


def test_work_of_another_process_is_its_intent_or_its_reservation_for_the_pod() -> None:
    def work(claim: claim_objects.RawClaim, pod_uid: str = OURS.podUID, process: str = "another") -> str:
        return claim_objects.work_of_another(claim_of({**TYPE, **claim}), pod_uid, process)

    marked = claim_objects.marked(a_raw_claim(), OURS)
    assert work(marked) == str(OURS)
    assert work(marked, process=OURS.process) == ""
    assert work(marked, pod_uid="other-uid") == ""
    reserved = claim_objects.allocated(marked, an_allocation("gpu-0"), "other", "other-uid")
    assert work(reserved, pod_uid="other-uid") == "reserved"
    assert work(a_raw_claim()) == ""


SENT = ExtendedClaim(
    Claim("ns", "made", "made-up"),
    (CountRequest("container-0-request-0", "gpu", 1), CountRequest("container-1-request-0", "nic", 2)),
    (),
)


def _with(stored: Json, path: str, value: object) -> Json:
    *way, last = path.split("/")
    place: Any = stored
    for step in way:
        place = place[int(step) if step.isdecimal() else step]
    place[int(last) if last.isdecimal() else last] = value
    return stored


RESULT, RESERVATION = "status/allocation/devices/results/0", "status/reservedFor/0"


@pytest.mark.parametrize(
    ("path", "value", "is_kept"),
    [
        (f"{RESULT}/tolerations", [{"operator": "Exists"}], True),
        ("status/allocation/devices/config", [], True),
        (f"{RESULT}/adminAccess", False, True),
        (f"{RESULT}/consumedCapacity", {"memory": "1024Mi"}, True),
        (f"{RESULT}/consumedCapacity", {"memory": "1Mi"}, False),
        (f"{RESULT}/consumedCapacity", {}, False),
        (f"{RESULT}/adminAccess", True, False),
        (f"{RESULT}/device", "gpu-1", False),
        ("status/allocation/nodeSelector", None, False),
        ("status/allocation/nodeSelector/nodeSelectorTerms/0/matchFields/0/values/0", "another", False),
        (f"{RESERVATION}/name", "another", False),
        (f"{RESERVATION}/uid", "another", False),
        (f"{RESERVATION}/resource", "podgroups", False),
        (f"{RESERVATION}/apiGroup", "example.com", False),
        ("status/reservedFor", [], False),
        ("status/allocation", None, False),
    ],
)
def test_claim_is_allocated_whatever_stands_beside_what_was_sent(path: str, value: object, *, is_kept: bool) -> None:
    """With less of a capacity, with admin access or for other nodes, others would get what the pod has."""
    wanted = an_allocation("gpu-0", more={"consumedCapacity": {"memory": "1Gi"}})
    fields = [{"key": "metadata.name", "operator": "In", "values": ["node"]}]
    wanted["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
    sent = claim_objects.allocated(a_raw_claim(), copy.deepcopy(wanted), "pod", "pod-uid")
    assert claim_objects.is_allocated(sent, wanted, "pod", "pod-uid")
    assert claim_objects.is_allocated(_with(sent, path, value), wanted, "pod", "pod-uid") == is_kept


@pytest.mark.parametrize(
    ("path", "value", "is_kept"),
    [
        ("spec/devices/requests/0/exactly/tolerations", [], True),
        ("spec/devices/config", [], True),
        ("metadata/labels", {"a": "b"}, True),
        ("metadata/ownerReferences", [], False),
        ("metadata/ownerReferences/0/uid", "another", False),
        ("metadata/ownerReferences/0/controller", False, False),
        ("metadata/annotations", {}, False),
        ("spec/devices/requests/0/name", "another", False),
        ("spec/devices/requests/1/exactly/count", 3, False),
        ("spec/devices/requests/1/exactly/deviceClassName", "another", False),
        ("spec/devices/requests/1", {"name": "container-1-request-0", "firstAvailable": []}, False),
        ("spec/devices/requests", [], False),
        ("spec", None, False),
    ],
)
def test_claim_is_as_made_whatever_stands_beside_what_was_sent(path: str, value: object, *, is_kept: bool) -> None:
    """The API server adds defaults, and labels are the user's; with other requests it would not be what was decided."""
    stored = copy.deepcopy(claim_objects.made(SENT, "pod", "pod-uid", OURS))
    assert claim_objects.is_as_made(stored, SENT, "pod-uid")
    assert claim_objects.is_as_made(_with(stored, path, value), SENT, "pod-uid") == is_kept

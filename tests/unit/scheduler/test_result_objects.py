from typing import Any

import pytest

from allocator.api import decode
from scheduler.output.placement_report import PlacementReport
from scheduler.output.report import object_of
from scheduler.state.claims import FINALIZER
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    an_allocated_claim,
)
from tests.unit.scheduler.scenario import run


def listed(*objects: Json) -> list[Any]:
    scenario = run(*objects)
    found = object_of(PlacementReport(scenario.results, scenario.placement.claims))
    assert isinstance(found, dict)
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    items = found["items"]
    assert isinstance(items, list)
    return items


def claim_and_pod(*objects: Json) -> tuple[Any, Any]:
    claim, pod = listed(*a_cluster(), *objects)
    assert (claim["kind"], pod["kind"]) == ("ResourceClaim", "Pod")
    return claim, pod


def test_claims_come_before_pods_each_by_namespace_and_name() -> None:
    objects = [*a_cluster(count=9), a_template(namespace="b")]
    pods = [a_pod(name, template="one", namespace=space) for space, name in (("b", "a"), ("default", "z"), ("b", "c"))]
    items = listed(*objects, *pods, a_claim("unused"))
    keys = [(item["kind"], item["metadata"]["namespace"], item["metadata"]["name"]) for item in items]
    assert [kind for kind, _, _ in keys] == ["ResourceClaim"] * 4 + ["Pod"] * 3
    assert keys[:4] == sorted(keys[:4])
    assert keys[4:] == sorted(keys[4:])


def test_an_allocated_claim_has_its_devices_consumers_and_finalizer() -> None:
    claim, _ = claim_and_pod(a_claim("c"), a_pod("p", claim="c", metadata={"uid": "u"}))
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "u"}]
    allocation = claim["status"]["allocation"]
    result = {"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": "gpu-0"}
    assert allocation["devices"] == {"results": [result]}
    fields = [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]
    assert allocation["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": fields}]}


def test_a_claim_keeps_what_else_the_api_server_holds_of_it() -> None:
    metadata = {"uid": "u", "resourceVersion": "7", "labels": {"a": "b"}, "finalizers": ["other.example/x"]}
    claim, _ = claim_and_pod(a_claim("c", metadata=metadata), a_pod("p", claim="c"))
    assert claim["metadata"] == {
        "name": "c",
        "namespace": "default",
        **metadata,
        "finalizers": ["other.example/x", FINALIZER],
    }


def test_a_finalizer_that_is_there_is_not_added_again() -> None:
    claim, _ = claim_and_pod(a_claim("c", metadata={"finalizers": [FINALIZER]}), a_pod("p", claim="c"))
    assert claim["metadata"]["finalizers"] == [FINALIZER]


def test_a_claim_of_an_older_version_is_written_in_v1() -> None:
    request = {"name": "gpu", "deviceClassName": "gpu"}
    old = {**a_claim("c", version="resource.k8s.io/v1beta1"), "spec": {"devices": {"requests": [request]}}}
    claim, _ = claim_and_pod(old, a_pod("p", claim="c"))
    assert claim["apiVersion"] == "resource.k8s.io/v1"
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert claim["spec"]["devices"]["requests"] == [{"name": "gpu", "exactly": exactly}]


def test_an_allocation_that_was_there_stays_as_it_came() -> None:
    held = an_allocated_claim("c", "gpu-1", reserved_for=[{"resource": "pods", "name": "q", "uid": "uq"}])
    held["status"]["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:00Z"
    claim, _ = claim_and_pod(held, a_pod("p", claim="c", metadata={"uid": "up"}))
    assert claim["status"]["allocation"] == held["status"]["allocation"]
    assert [consumer["uid"] for consumer in claim["status"]["reservedFor"]] == ["uq", "up"]


def test_a_pod_that_a_claim_is_reserved_for_is_not_added_again() -> None:
    held = an_allocated_claim("c", "gpu-1", reserved_for=[{"resource": "pods", "name": "p", "uid": "u"}])
    claim, _ = claim_and_pod(held, a_pod("p", claim="c", metadata={"uid": "u"}))
    assert len(claim["status"]["reservedFor"]) == 1


def test_all_pods_that_share_a_claim_are_its_consumers() -> None:
    items = listed(*a_cluster(), a_claim("c"), a_pod("a", claim="c"), a_pod("b", claim="c"))
    assert [consumer["name"] for consumer in items[0]["status"]["reservedFor"]] == ["a", "b"]


def test_a_claim_that_got_nothing_is_written_without_status_or_finalizer() -> None:
    claim, pod = claim_and_pod(a_claim("c", a_request(count=9)), a_pod("p", claim="c"))
    assert "finalizers" not in claim["metadata"]
    assert claim["status"] == {}
    assert "nodeName" not in pod["spec"]


def test_a_placed_pod_is_as_it_came_with_its_node() -> None:
    raw = a_pod("p", claim="c", metadata={"uid": "u", "labels": {"a": "b"}}, containers=[{"name": "main"}])
    _, pod = claim_and_pod(a_claim("c"), raw)
    assert pod == {**raw, "spec": {**raw["spec"], "nodeName": "node-1"}}


@pytest.mark.parametrize("uid", ["u", ""])
def test_a_pod_says_which_claim_was_made_for_it(uid: str) -> None:
    claim, pod = claim_and_pod(a_pod("p", template="one", metadata={"uid": uid}, status={"phase": "Pending"}))
    assert pod["status"] == {
        "phase": "Pending",
        "resourceClaimStatuses": [{"name": "dev", "resourceClaimName": claim["metadata"]["name"]}],
    }
    owner = claim["metadata"]["ownerReferences"][0]
    assert (owner["name"], owner["uid"]) == ("p", pod["metadata"]["uid"])


def test_an_entry_that_needs_no_claim_keeps_saying_so() -> None:
    status = {"resourceClaimStatuses": [{"name": "dev"}]}
    (pod,) = listed(*a_cluster(), a_pod("p", template="one", status=status))
    assert pod["status"] == status


def test_a_pod_with_claims_by_name_gets_no_status() -> None:
    _, pod = claim_and_pod(a_claim("c"), a_pod("p", claim="c"))
    assert "status" not in pod


def test_objects_without_uid_and_namespace_get_them() -> None:
    claim, pod = claim_and_pod(a_claim("c", namespace=""), a_pod("p", claim="c", namespace=""))
    assert claim["metadata"]["namespace"] == pod["metadata"]["namespace"] == "default"
    assert claim["metadata"]["uid"]
    assert claim["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]


def test_configuration_of_class_and_claim_is_written_for_the_driver() -> None:
    def opaque(value: int) -> Json:
        return {"opaque": {"driver": DRIVER, "parameters": {"value": value}}}

    claim = a_claim("c")
    claim["spec"]["devices"]["config"] = [opaque(2)]
    items = listed(a_node(), a_class(config=[opaque(1)]), a_slice(), claim)
    assert items[0]["status"]["allocation"]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["gpu"], **opaque(1)},
        {"source": "FromClaim", **opaque(2)},
    ]


def test_a_device_that_every_node_reaches_gives_no_node_selector() -> None:
    items = listed(a_node(), a_class(), a_slice(allNodes=True), a_claim("c"))
    assert "nodeSelector" not in items[0]["status"]["allocation"]


def test_every_claim_of_the_list_is_one_that_the_api_would_take() -> None:
    objects = [*a_cluster(count=4), a_claim("c", a_request(count=2)), a_pod("p", claim="c"), a_pod("q", template="one")]
    claims = [item for item in listed(*objects) if item["kind"] == "ResourceClaim"]
    assert len(claims) == 2
    for claim in claims:
        decoded = decode(claim)
        assert (decoded.errors, decoded.warnings) == ((), ())
        assert decoded.object is not None


def test_what_is_written_is_not_part_of_what_was_read() -> None:
    claim, pod = a_claim("c"), a_pod("p", claim="c")
    claim_and_pod(claim, pod)
    assert "status" not in claim
    assert "nodeName" not in pod["spec"]


def condition_of(*objects: Json) -> list[Json]:
    (pod,) = [item for item in listed(*objects) if item["kind"] == "Pod"]
    found = pod["status"]["conditions"]
    assert isinstance(found, list)
    return found


def test_a_pod_that_is_not_placed_carries_the_reason() -> None:
    stale = {"conditions": [{"type": "Other", "status": "True"}, {"type": "PodScheduled", "status": "Unknown"}]}
    assert condition_of(*a_cluster(), a_pod("p", claim="none", status=stale)) == [
        {"type": "Other", "status": "True"},
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "claim default/none does not exist (the input contains no ResourceClaim at all)",
        },
    ]


def test_a_pod_that_is_gated_says_so() -> None:
    (condition,) = condition_of(*a_cluster(), a_pod("p", template="one", schedulingGates=[{"name": "example.com/g"}]))
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")


def test_a_placed_pod_is_scheduled_whatever_was_said_before() -> None:
    stale = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "too late"}]}
    found = condition_of(*a_cluster(), a_pod("p", template="one", status=stale))
    assert found == [{"type": "PodScheduled", "status": "True"}]


def test_managed_fields_are_not_printed() -> None:
    fields = {"managedFields": [{"manager": "kubectl"}]}
    claim = a_claim("c")
    claim["metadata"] = {**claim["metadata"], **fields}
    for found in claim_and_pod(claim, a_pod("p", claim="c", metadata=fields)):
        assert "managedFields" not in found["metadata"]
        assert found["metadata"]["name"] in ("c", "p")

"""What is kept of each kind that is watched."""

import pytest

from scheduler.client.watch_states import Undecodable
from scheduler.kinds import MANAGER, claim_of, namespace_of, node_of, pod_of, slice_of
from tests.unit.allocator.api.raw_objects import a_slice_of

Raw = dict[str, object]


def a_claim(version: str = "v1", **more: object) -> Raw:
    request = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    named = {"name": "r", "exactly": request} if version == "v1" else {"name": "r", **request}
    metadata = {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "8"}
    spec = {"devices": {"requests": [named]}}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec,
    } | more


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_claim_keeps_its_raw_form_in_the_version_that_it_came_in(version: str) -> None:
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    raw = a_claim(version, status={"reservedFor": [consumer], "unknown": {"kept": True}})
    found = claim_of(raw)
    assert found.raw == raw
    assert found.claim.requests == claim_of(a_claim()).claim.requests
    assert (found.metadata.resource_version, found.reserved_for[0].name) == ("8", "p")


def test_managed_fields_are_not_kept() -> None:
    raw = a_claim(metadata={"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "8", "managedFields": [{}]})
    assert "managedFields" not in claim_of(raw).raw["metadata"]


def test_limits_are_left_to_the_api_server() -> None:
    many = [{"name": f"d{number}"} for number in range(1000)]
    raw = a_slice_of()
    spec = raw["spec"]
    assert isinstance(spec, dict)
    assert len(slice_of({**raw, "spec": {**spec, "devices": many}}).devices) == 1000


def test_pod_is_kept_without_its_raw_form() -> None:
    pod = pod_of({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "n"}})
    assert (str(pod), pod.node_name, pod.raw) == ("ns/p", "n", {})


def owned_by(manager: str, *entries: str) -> Raw:
    """What a manager owns of these entries of a pod's status: nothing but their names."""
    keys: Raw = {f'k:{{"name":"{entry}"}}': {".": {}, "f:name": {}} for entry in entries}
    fields = {"f:status": {"f:resourceClaimStatuses": keys}}
    return {"manager": manager, "operation": "Apply", "subresource": "status", "fieldsV1": fields}


def test_entry_without_a_claim_that_is_there_only_because_it_was_put_back_needs_one() -> None:
    statuses = [{"name": "hollow"}, {"name": "needless"}, {"name": "made", "resourceClaimName": "p-made-x"}]
    managed = [
        {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:metadata": {}}},
        owned_by("somebody", "needless"),
        owned_by(MANAGER, "hollow", "made"),
    ]
    raw = {
        "metadata": {"name": "p", "managedFields": managed},
        "spec": {},
        "status": {"resourceClaimStatuses": statuses},
    }
    assert pod_of(raw).claim_statuses == {"hollow": "", "needless": None, "made": "p-made-x"}


def test_nodes_and_namespaces_are_kept_by_their_labels() -> None:
    raw = {"metadata": {"name": "n", "labels": {"a": "b"}}}
    assert node_of(raw).labels == namespace_of(raw).labels == {"a": "b"}


def test_what_cannot_be_used_is_named_by_field_and_value() -> None:
    with pytest.raises(Undecodable, match=r"spec\.nodeName: must be a string \(got 7\)"):
        pod_of({"metadata": {"name": "p"}, "spec": {"nodeName": 7}})
    with pytest.raises(Undecodable, match=r"spec\.devices: must be an object"):
        claim_of(a_claim(spec={"devices": 7}))


@pytest.mark.parametrize(
    "entry",
    [
        7,
        {"manager": MANAGER},
        {"manager": MANAGER, "fieldsV1": [7]},
        {"manager": MANAGER, "fieldsV1": {"f:status": {"f:resourceClaimStatuses": ["k:"]}}},
        {"manager": MANAGER, "fieldsV1": {"f:status": {"f:resourceClaimStatuses": {"k:{": 7, 'k:["name"]': 7}}}},
        {"manager": MANAGER, "fieldsV1": {"f:status": {"f:resourceClaimStatuses": {'k:{"name":7}': 7}}}},
    ],
)
def test_managed_fields_of_another_form_own_nothing(entry: object) -> None:
    raw: Raw = {"metadata": {"name": "p", "managedFields": [entry, owned_by(MANAGER, "hollow")]}, "spec": {}}
    raw["status"] = {"resourceClaimStatuses": [{"name": "hollow"}]}
    assert pod_of(raw).claim_statuses == {"hollow": ""}


def test_claim_without_a_namespace_cannot_be_used() -> None:
    with pytest.raises(Undecodable, match=r"metadata\.namespace: is required"):
        claim_of(a_claim(metadata={"name": "c", "uid": "u", "resourceVersion": "8"}))


def test_claim_that_could_not_be_written_back_cannot_be_used() -> None:
    deep: object = 1
    for _ in range(300):
        deep = {"a": deep}
    with pytest.raises(Undecodable, match="it cannot be serialized: Recursion limit reached"):
        claim_of(a_claim(status={"unknown": deep}))

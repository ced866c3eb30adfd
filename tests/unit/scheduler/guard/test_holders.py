"""What the guard keeps of a claim."""

from typing import Any

import pytest

from scheduler.client.watch_states import Undecodable
from scheduler.decision.cluster import Cluster
from scheduler.guard.reviewer import holder_of
from scheduler.kinds import WatchedClaim, claim_of
from scheduler.state.claims import FINALIZER
from tests.builders import kubernetes

RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "a", "shareID": "s", "consumedCapacity": {"m": "1Gi"}}


def an_object(status: object, **fields: object) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": "claim", "uid": "u", "resourceVersion": "7", "annotations": {"a": "b"}}
    named = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    return {**named, "status": status, **fields}


def holding(*results: object, **fields: object) -> dict[str, Any]:
    return {"allocation": {"devices": {"results": list(results), "config": []}, "nodeSelector": {}}, **fields}


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
def test_devices_are_those_of_the_whole_claim(version: str) -> None:
    admin = {**RESULT, "device": "b", "adminAccess": True}
    raw = an_object(holding(RESULT, admin), apiVersion=f"resource.k8s.io/{version}")
    kept, whole = holder_of(raw).claim, claim_of(raw).claim
    assert kept.allocation is not None
    assert whole.allocation is not None
    assert kept.allocation.results == whole.allocation.results
    assert (kept.namespace, kept.name, kept.uid) == (whole.namespace, whole.name, whole.uid)


@pytest.mark.parametrize("status", [None, {}, {"allocation": None}, {"allocation": {}}, {"reservedFor": [{}]}])
def test_claim_without_devices_holds_none(status: object) -> None:
    claim = holder_of(an_object(status)).claim
    assert not (claim.allocation and claim.allocation.results)


def test_claims_that_differ_in_their_names_are_decoded_once() -> None:
    one, other = (
        holder_of(an_object(holding(RESULT), metadata={"namespace": "ns", "name": name, "uid": f"uid-{name}"})).claim
        for name in ("one", "other")
    )
    assert one.allocation is other.allocation
    assert [(claim.namespace, claim.name, claim.uid) for claim in (one, other)] == [
        ("ns", "one", "uid-one"),
        ("ns", "other", "uid-other"),
    ]


def test_a_claim_with_much_at_its_devices_is_not_remembered() -> None:
    status = holding(*({**RESULT, "device": f"{one}-" + "d" * 1000} for one in range(32)))
    one, again = (holder_of(an_object(status)).claim for _ in range(2))
    assert one == again
    assert one.allocation is not again.allocation


@pytest.mark.parametrize("finalizers", [[], [FINALIZER]])
def test_nothing_is_kept_of_what_a_tenant_writes_beside_the_devices(finalizers: list[str]) -> None:
    """Else some hundred claims, as large as they may be, are more than the memory of the program."""

    def kept(number: int) -> WatchedClaim:
        many = [*(f"example.com/{one}" for one in range(number)), *finalizers]
        metadata = {"namespace": "ns", "name": "claim", "uid": "u"}
        more = {"annotations": {"a": "b" * number}, "labels": {f"l{one}": "" for one in range(number)}}
        spec = {"devices": {"config": [{"opaque": {"parameters": {"a": "b" * number}}}]}}
        return holder_of(an_object(holding(RESULT), metadata={**metadata, **more, "finalizers": many}, spec=spec))

    assert kept(1000).data == kept(0).data
    assert kept(1000).claim == kept(0).claim


def test_devices_that_are_nested_too_deeply_are_refused() -> None:
    status: object = {}
    for _ in range(100_000):
        status = [status]
    with pytest.raises(Undecodable, match=r"^status\.allocation\.devices\.results"):
        holder_of(an_object(holding(status)))


def test_claim_without_a_namespace_is_refused() -> None:
    with pytest.raises(Undecodable, match=r"^metadata.namespace: is required$"):
        holder_of(an_object({}, metadata={"name": "claim", "uid": "u"}))


def test_requests_that_cannot_be_read_keep_no_device_from_being_known() -> None:
    raw = an_object(holding(RESULT), spec={"devices": "odd"})
    assert holder_of(raw).claim.allocation is not None


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ([], "status"),
        ({"allocation": 3}, "status.allocation"),
        ({"allocation": {"devices": []}}, "status.allocation.devices"),
        ({"allocation": {"devices": {"results": {}}}}, "status.allocation.devices.results"),
        (holding({**RESULT, "device": 5}), r"status.allocation.devices.results\[0\].device"),
    ],
)
def test_devices_that_cannot_be_read_are_named(status: object, field: str) -> None:
    with pytest.raises(Undecodable, match=f"^{field}: "):
        holder_of(an_object(status))


@pytest.mark.parametrize(("finalizers", "told"), [([FINALIZER], 0), ([], 1)])
def test_protected_claim_breaks_no_invariant(finalizers: list[str], told: int) -> None:
    raw = an_object(holding(RESULT))
    raw["metadata"]["finalizers"] = finalizers
    cluster = Cluster(kubernetes(), is_ours=lambda _: False)
    cluster.set_claim(holder_of({**raw, "status": {}}), 6)
    cluster.set_claim(holder_of(raw), 7)
    assert len(cluster.violations()) == told

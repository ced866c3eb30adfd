"""With manifests/guard the API server itself keeps allocators to their own drivers."""

from collections.abc import Iterator

import pytest

from tests.controlplane.contents import ensure_namespace, manifests, restore
from tests.controlplane.identities import OURS, STOCK, Identity
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, ApiError, Json, Kind, RestClient
from tests.controlplane.rights import grant
from tests.integration.conftest import ROOT

GUARD = ROOT / "manifests" / "guard"
ADMISSION = "admissionregistration.k8s.io/v1"
POLICY = Kind(ADMISSION, "ValidatingAdmissionPolicy")
BINDING = Kind(ADMISSION, "ValidatingAdmissionPolicyBinding")
NAME = "dra-scheduler-drivers"
NAMESPACE = "guarded"
OWN, OTHER = "gpu.example.com", "net.example.com"


def create_claim(api: RestClient) -> None:
    """A claim that nobody has allocated, in a namespace where admin access is permitted."""
    ensure_namespace(api, NAMESPACE)
    namespace = api.get(Kind("v1", "Namespace"), NAMESPACE)
    namespace["metadata"]["labels"]["resource.kubernetes.io/admin-access"] = "true"
    api.replace(namespace)
    exactly = {"deviceClassName": "any"}
    requests = [
        {"name": "own", "exactly": exactly},
        {"name": "watched", "exactly": {**exactly, "adminAccess": True, "allocationMode": "All"}},
    ]
    metadata = {"name": "claim", "namespace": NAMESPACE, "finalizers": ["resource.kubernetes.io/delete-protection"]}
    spec = {"devices": {"requests": requests}}
    api.create({"apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": metadata, "spec": spec})


@pytest.fixture(autouse=True)
def guard(plane: ControlPlane, api: RestClient) -> Iterator[None]:
    """The guard, from when it is in force until it is no more."""
    grant(api)
    create_claim(api)
    restore(api, manifests(GUARD / "policy.yaml"))
    await_refusal(plane, STOCK, OWN, is_refused=True)
    yield
    api.delete(BINDING, NAME)
    api.delete(POLICY, NAME)
    for identity in (OURS, STOCK):  # whatever drivers the test gave them: others are on this control plane next
        for driver in (OWN, OTHER):
            await_refusal(plane, identity, driver, is_refused=False)


def await_refusal(plane: ControlPlane, identity: Identity, driver: str, *, is_refused: bool) -> None:
    """A policy comes into force, and goes, some time after it was written."""
    poll_until(
        lambda reported: bool(reported) is is_refused,
        lambda: refusal(plane, identity, a_result(driver)),
        f"refusal of {driver} to {identity.user} is {is_refused}",
    )


def a_result(driver: str, **fields: object) -> Json:
    return {"request": "own", "driver": driver, "pool": "pool", "device": "device", **fields}


def allocated(plane: ControlPlane, *results: Json) -> Json:
    """The claim as it is, with these devices."""
    current = plane.client().get(CLAIM, "claim", NAMESPACE)
    return {**current, "status": {"allocation": {"devices": {"results": list(results)}}}}


def refusal(plane: ControlPlane, identity: Identity, *results: Json) -> str:
    """What the server says to the identity that would allocate so; empty where it would let it."""
    try:
        plane.client(identity).replace_status(allocated(plane, *results), is_dry=True)
    except ApiError as error:
        if POLICY.kind not in error.message:
            raise
        return error.message
    return ""


def test_each_allocator_has_its_own_drivers(plane: ControlPlane) -> None:
    assert refusal(plane, OURS, a_result(OWN)) == ""
    assert refusal(plane, STOCK, a_result(OTHER)) == ""
    own, other = refusal(plane, OURS, a_result(OTHER)), refusal(plane, STOCK, a_result(OWN))
    assert f"{OURS.user} does not allocate devices of {OTHER}" in own
    assert f"{STOCK.user} does not allocate devices of {OWN}" in other


def test_one_foreign_device_is_enough_to_refuse_a_claim(plane: ControlPlane) -> None:
    for identity in (OURS, STOCK):
        assert refusal(plane, identity, a_result(OWN), a_result(OTHER)) != ""


def test_admin_access_is_free_for_everybody(plane: ControlPlane) -> None:
    watched = a_result(OTHER, request="watched", adminAccess=True)
    assert refusal(plane, OURS, a_result(OWN), watched) == ""


def test_controllers_release_what_nobody_uses_any_more(plane: ControlPlane, api: RestClient) -> None:
    taken = allocated(plane, a_result(OWN))
    taken["status"]["reservedFor"] = [{"resource": "pods", "name": "gone", "uid": "gone"}]
    plane.client(OURS).replace_status(taken)
    assert api.await_all(CLAIM, lambda claims: not any(map(is_held, claims)))


def is_held(claim: Json) -> bool:
    """Whether the controller has more to write: first it takes the allocation away, and then the finalizer."""
    return bool(claim.get("status", {}).get("allocation") or claim["metadata"].get("finalizers"))


def test_list_of_drivers_takes_effect_when_it_changes(plane: ControlPlane, api: RestClient) -> None:
    policy = {"apiVersion": POLICY.api_version, "kind": POLICY.kind, **api.get(POLICY, NAME)}
    (allocators,) = (one for one in policy["spec"]["variables"] if one["name"] == "allocators")
    allocators["expression"] = allocators["expression"].replace(OWN, OTHER)
    api.replace(policy)
    await_refusal(plane, STOCK, OWN, is_refused=False)
    assert refusal(plane, OURS, a_result(OTHER)) == ""
    assert refusal(plane, OURS, a_result(OWN)) != ""

"""What the tests of the guard share: its webhook at a door, a fleet of two kinds of devices, and who writes."""

from collections.abc import Sequence
from typing import Any

from tests.controlplane.contents import ensure_namespace
from tests.controlplane.door import Door
from tests.controlplane.guarded import WEBHOOK
from tests.controlplane.ours import Guard
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, SLICE, ApiError, Json, RestClient

REQUEST_TIMEOUT_S = 10
NAMESPACE = "guarded"
OTHER_NAMESPACE = "elsewhere"
DRIVER, POOL = "gpu.example.com", "pool"
FINALIZER = "resource.kubernetes.io/delete-protection"


PATIENT = """\
apiVersion: dra-scheduler.dev/v1alpha1
kind: DraGuardConfiguration
leaderElection: {leaseDurationSeconds: 20, renewDeadlineSeconds: 18}
"""
"""The configuration of a guard that is not to lose its lease."""


def serve(plane: ControlPlane, way: Door, port: int, *options: str, **how: Any) -> Guard:
    """A guard, to which the door leads from now on. how: further arguments of `Guard`. Any: of their types."""
    timeout = f"--request-timeout={REQUEST_TIMEOUT_S}"
    guard = Guard(plane, port, [f"--publish-certificate={WEBHOOK}", timeout, *options], **how)
    guard.await_readyz()
    way.lead_to(port)
    return guard


def await_answers(plane: ControlPlane) -> None:
    """Return once the API server asks the guard, and gets answers."""
    api = plane.client()
    ensure_namespace(api, NAMESPACE)
    probe = a_claim(api, "probe")
    poll_until(lambda told: "does not publish it" in told, lambda: refusal(api, probe, a_result("nowhere")), "answers")
    api.delete(CLAIM, "probe", NAMESPACE)


def publish(api: RestClient, *devices: Json, name: str = "slice", slices: int = 1, **fields: object) -> None:
    """A slice of the pool, of so many; one without devices has something else."""
    pool = {"name": POOL, "generation": 1, "resourceSliceCount": slices}
    shown = {"devices": list(devices)} if devices else {}
    spec = {"driver": DRIVER, "allNodes": True, "pool": pool, **shown, **fields}
    api.create({"apiVersion": SLICE.api_version, "kind": SLICE.kind, "metadata": {"name": name}, "spec": spec})


def a_claim(api: RestClient, name: str, namespace: str = NAMESPACE, *, is_admin: bool = False) -> Json:
    """A claim that nobody has allocated."""
    exactly = {"deviceClassName": "any", **({"adminAccess": True} if is_admin else {})}
    metadata = {"name": name, "namespace": namespace, "finalizers": [FINALIZER]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return api.create({"apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": metadata, "spec": spec})


def a_result(device: str, **fields: object) -> Json:
    return {"request": "r", "driver": DRIVER, "pool": POOL, "device": device, **fields}


def with_devices(claim: Json, *results: Json) -> Json:
    """The claim with these devices, in use by something of which no controller knows whether it still is."""
    user = {"apiGroup": "example.com", "resource": "users", "name": "user", "uid": claim["metadata"]["name"]}
    return {**claim, "status": {"allocation": {"devices": {"results": list(results)}}, "reservedFor": [user]}}


def give(api: RestClient, claim: Json, *results: Json) -> Json:
    """The claim as stored with these devices. Raises ApiError."""
    return api.replace_status(with_devices(claim, *results))


def refusal(api: RestClient, claim: Json, *results: Json, is_dry: bool = True) -> str:
    """Why the claim cannot have these devices; empty where it can."""
    try:
        api.replace_status(with_devices(claim, *results), is_dry=is_dry)
    except ApiError as error:
        return error.message
    return ""


def holders(claims: Sequence[Json]) -> dict[str, list[str]]:
    """The claims by device."""
    found: dict[str, list[str]] = {}
    for claim in claims:
        allocation = claim.get("status", {}).get("allocation") or {}
        for result in allocation.get("devices", {}).get("results", ()):
            found.setdefault(f"{result['pool']}/{result['device']}", []).append(claim["metadata"]["name"])
    return found

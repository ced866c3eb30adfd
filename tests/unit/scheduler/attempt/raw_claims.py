"""Claims as the API server gives them, for tests of what is done to them."""

from collections.abc import Mapping, Sequence

from allocator.api.versions import Json
from scheduler.attempt.claim_objects import ANNOTATION, Intent
from scheduler.state.claims import FINALIZER

OURS = Intent("dra-scheduler", 2, "2", "pod-uid", "node-0", 7)
TIME = "2026-01-01T00:00:00Z"


def an_allocation(*devices: str, timestamp: str = TIME, more: Mapping[str, object] | None = None) -> Json:
    """Of devices of one driver. more: further fields of each result."""
    driver = {"request": "r", "driver": "gpu.example", "pool": "pool-0"}
    results = [{**driver, "device": name, **(more or {})} for name in devices]
    return {"devices": {"results": results}, "allocationTimestamp": timestamp}


def a_raw_claim(
    *,
    intent: Intent | str | None = None,
    allocation: Json | None = None,
    reserved_for: Sequence[str] = (),
    finalizers: Sequence[str] = (FINALIZER,),
    statuses: Sequence[Mapping[str, object]] = (),
    version: int = 10,
    name: str = "claim",
) -> Json:
    """A claim. reserved_for: uids of pods. statuses: of devices."""
    metadata: Json = {"namespace": "work", "name": name, "uid": f"{name}-uid", "resourceVersion": str(version)}
    if intent is not None:
        metadata["annotations"] = {ANNOTATION: str(intent)}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    claim: Json = {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "r"}]}}}
    reservations = [{"resource": "pods", "name": uid, "uid": uid} for uid in reserved_for]
    fields = {"allocation": allocation, "reservedFor": reservations, "devices": list(statuses)}
    if status := {key: value for key, value in fields.items() if value}:
        claim["status"] = status
    return claim

"""Reads and writes one claim: PUT of the object or its status, always under the version that was read.

Parameters and device data are opaque JSON that the API server compares as text. They are sent back unchanged
(`scheduler.client.raw_json`), but the server may show them differently than it stores them (`<` as a number). It then
rejects the PUT because the field is immutable, and a patch is sent, which names only the changed fields.
"""

from collections.abc import Mapping

from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import FENCE, Claim, ClaimKey, Json, key_of, version_of
from scheduler.attempt.decision import AttemptEnded
from scheduler.attempt.intent import ANNOTATION
from scheduler.attempt.write_outcome import outcome_of
from scheduler.client.connection import MERGE
from scheduler.client.errors import ApiError, ApiErrorKind, CallFailed

_SPEC = frozenset({"spec"})
_TEXTS_OF_STATUS = ("status.allocation", "status.devices")


async def find(binder: Binder, namespace: str, name: str) -> Json | None:
    """The claim that has the name, as it is stored; None where none has it. Raises CallFailed."""
    try:
        return await binder.api.request("GET", binder.claims.path(namespace, name))
    except ApiError as error:
        if error.kind is ApiErrorKind.MISSING:
            return None
        raise


async def get(binder: Binder, key: ClaimKey) -> Json | None:
    """The claim as it is stored; None once it is gone, even if another has its name. Raises CallFailed."""
    found = await find(binder, key.namespace, key.name)
    return found if found and key_of(found) == key else None


async def found(binder: Binder, namespace: str, name: str, subject: str) -> Json | None:
    """The same, for an attempt that ends where it cannot be read. Raises AttemptEnded."""
    try:
        return await find(binder, namespace, name)
    except CallFailed as error:
        raise AttemptEnded(outcome_of(error, subject)) from error


async def create(binder: Binder, claim: Claim) -> Json:
    """The claim as stored, which was not there before. Raises CallFailed."""
    body = {**claim, "apiVersion": binder.claims.api_version, "kind": "ResourceClaim"}
    return await binder.api.request("POST", binder.claims.path(claim["metadata"]["namespace"]), body=body)


async def delete(binder: Binder, claim: Claim) -> Json:
    """Nothing: the claim is to be read again, since finalizers may keep it. Raises CallFailed."""
    guard = {"uid": claim["metadata"]["uid"], "resourceVersion": version_of(claim)}
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": guard}
    await binder.api.request("DELETE", _path(binder, claim, ""), body=body)
    return {}


async def put(binder: Binder, claim: Claim) -> Json:
    """The claim as stored, of which our annotations and the finalizers are taken. Raises CallFailed."""
    try:
        return await _put(binder, claim, "")
    except ApiError as error:
        if {cause.field for cause in error.causes} != _SPEC:
            raise
    metadata = claim["metadata"]
    annotations = metadata.get("annotations") or {}
    ours = {name: annotations.get(name) for name in (ANNOTATION, FENCE)}
    return await _patch(binder, claim, "", {"annotations": ours, "finalizers": metadata.get("finalizers")}, {})


async def put_status(binder: Binder, claim: Claim) -> Json:
    """The claim as stored, of which the status is taken and nothing else. Raises CallFailed."""
    return await _put(binder, claim, "status")


async def put_consumers(binder: Binder, claim: Claim) -> Json:
    """The claim, which keeps its allocation, as stored; of its status the reservations are taken. Raises CallFailed."""
    try:
        return await _put(binder, claim, "status")
    except ApiError as error:
        if not error.causes or not all(cause.field.startswith(_TEXTS_OF_STATUS) for cause in error.causes):
            raise
    return await _patch(binder, claim, "status", {}, {"reservedFor": claim["status"].get("reservedFor")})


async def _put(binder: Binder, claim: Claim, subresource: str) -> Json:
    # Without managedFields the server keeps those that it has, and neither side spends time on them.
    metadata = {name: value for name, value in claim["metadata"].items() if name != "managedFields"}
    body = {**claim, "apiVersion": binder.claims.api_version, "kind": "ResourceClaim", "metadata": metadata}
    return await binder.api.request("PUT", _path(binder, claim, subresource), body=body)


async def _patch(
    binder: Binder, claim: Claim, subresource: str, metadata: Mapping[str, object], status: Mapping[str, object]
) -> Json:
    guard = {"uid": claim["metadata"]["uid"], "resourceVersion": version_of(claim)}
    body = {"metadata": {**metadata, **guard}, **({"status": status} if status else {})}
    return await binder.api.request("PATCH", _path(binder, claim, subresource), body=body, content_type=MERGE)


def _path(binder: Binder, claim: Claim, subresource: str) -> str:
    # Without a version the server would take the write as it is, whatever happened in between.
    assert version_of(claim), f"claim {key_of(claim)} has no resourceVersion"
    return binder.claims.path(claim["metadata"]["namespace"], claim["metadata"]["name"], subresource)

"""Reads and writes one claim: PUT of the object or its status, always under the version that was read.

Parameters and device data are opaque JSON that the API server compares as text. They are sent back unchanged
(`scheduler.client.raw_json`), but the server may show them differently than it stores them (`<` as a number). It then
rejects the PUT because the field is immutable, and a patch is sent, which names only the changed fields.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from allocator.api.versions import Json
from scheduler.attempt.binder import Binder, pause_s
from scheduler.attempt.claim_objects import ANNOTATION, FENCE, ClaimRef, RawClaim, key_of, version_of
from scheduler.attempt.decision import AttemptEnded
from scheduler.attempt.write_outcome import may_pass, outcome_of
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


async def get(binder: Binder, key: ClaimRef) -> Json | None:
    """The claim as it is stored; None once it is gone, even if another has its name. Raises CallFailed."""
    stored = await find(binder, key.namespace, key.name)
    return stored if stored and key_of(stored) == key else None


async def found(binder: Binder, namespace: str, name: str, subject: str) -> Json | None:
    """The same, for an attempt that ends where it cannot be read. Raises AttemptEnded."""
    try:
        return await find(binder, namespace, name)
    except CallFailed as error:
        raise AttemptEnded(outcome_of(error, subject)) from error


async def create(binder: Binder, claim: RawClaim) -> Json:
    """The claim as stored, which was not there before. Raises CallFailed."""
    body = {**claim, "apiVersion": binder.claims.api_version, "kind": "ResourceClaim"}
    return await binder.api.request("POST", binder.claims.path(claim["metadata"]["namespace"]), body=body)


async def delete(binder: Binder, claim: RawClaim) -> Json:
    """Nothing: the claim is to be read again, since finalizers may keep it. Raises CallFailed."""
    guard = {"uid": claim["metadata"]["uid"], "resourceVersion": version_of(claim)}
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": guard}
    await binder.api.request("DELETE", _path(binder, claim, ""), body=body)
    return {}


async def put(binder: Binder, claim: RawClaim) -> Json:
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


async def put_status(binder: Binder, claim: RawClaim) -> Json:
    """The claim as stored, of which the status is taken and nothing else. Raises CallFailed."""
    return await _put(binder, claim, "status")


async def put_consumers(binder: Binder, claim: RawClaim) -> Json:
    """The claim, which keeps its allocation, as stored; of its status the reservations are taken. Raises CallFailed."""
    try:
        return await _put(binder, claim, "status")
    except ApiError as error:
        if not error.causes or not all(cause.field.startswith(_TEXTS_OF_STATUS) for cause in error.causes):
            raise
    return await _patch(binder, claim, "status", {}, {"reservedFor": claim["status"].get("reservedFor")})


async def _put(binder: Binder, claim: RawClaim, subresource: str) -> Json:
    # Without managedFields the server keeps those that it has, and neither side spends time on them.
    metadata = {name: value for name, value in claim["metadata"].items() if name != "managedFields"}
    body = {**claim, "apiVersion": binder.claims.api_version, "kind": "ResourceClaim", "metadata": metadata}
    return await binder.api.request("PUT", _path(binder, claim, subresource), body=body)


async def _patch(
    binder: Binder, claim: RawClaim, subresource: str, metadata: Mapping[str, object], status: Mapping[str, object]
) -> Json:
    guard = {"uid": claim["metadata"]["uid"], "resourceVersion": version_of(claim)}
    body = {"metadata": {**metadata, **guard}, **({"status": status} if status else {})}
    return await binder.api.request("PATCH", _path(binder, claim, subresource), body=body, content_type=MERGE)


def _path(binder: Binder, claim: RawClaim, subresource: str) -> str:
    # Without a version the server would take the write as it is, whatever happened in between.
    assert version_of(claim), f"claim {key_of(claim)} has no resourceVersion"
    return binder.claims.path(claim["metadata"]["namespace"], claim["metadata"]["name"], subresource)


# Edits a claim repeatedly, each time as its current state requires, until nothing is left to do.
#
# After a conflict or a lost answer, the claim is read again: the edit is stored, or is sent again for the same version,
# or can no longer be stored.


Send = Callable[[Binder, RawClaim], Awaitable[Json]]

Next = Callable[[RawClaim], tuple[Send, Json] | None]
"""The next write to a claim, as the call and what it sends; None once nothing is left to do."""

Before = Callable[[RawClaim, Send], Awaitable[None]]
"""What has to be done before a write, with the claim as it was read."""

Answer = TypeVar("Answer")

EDITS_MAX = 10
"""Edits of one claim that are stored, though four are all that any needs: webhooks and users may change it back."""

PAUSE_MAX_S = 10.0
"""The longest pause between two tries."""

_LOG = logging.getLogger(__name__)


async def nothing_before(_claim: RawClaim, _send: Send) -> None:
    """The write needs nothing before it."""


async def edit_until_done(  # noqa: PLR0913 - what is edited, and how
    binder: Binder,
    key: ClaimRef,
    following: Next,
    known: RawClaim | None = None,
    *,
    before: Before = nothing_before,
    tries_max: int | None = None,
    for_pod: str = "",
) -> bool:
    """Write until `following` has nothing more; False where the claim stays as it is, which is logged.

    known: the claim if it was read already. A claim that is gone is done. before: is awaited before each write.
    While the API server does not answer it goes on trying, tries_max times if that is given: until then nobody knows
    what is stored. for_pod: as for `until_answered`.
    """
    current = known

    async def write_next() -> bool:
        nonlocal current
        read, current = current, None
        claim = read or await get(binder, key)
        write = claim and following(claim)
        if not claim or not write:
            return True
        send, edited = write
        await before(claim, send)
        # For this call alone: attempts that held a place while they waited for another would wait for each other.
        async with binder.repairs.of(key.namespace):
            current = await send(binder, edited)
        return False

    try:
        for _ in range(EDITS_MAX):
            if await until_answered(binder, write_next, tries_max, for_pod=for_pod):
                return True
    except CallFailed as error:
        _LOG.warning("cannot update claim %s: %s", key, error)
    else:
        _LOG.warning("cannot update claim %s: it was changed back after each of %d edits", key, EDITS_MAX)
    return False


async def edit_alone(
    binder: Binder, key: ClaimRef, following: Next, known: RawClaim | None = None, *, tries_max: int | None = None
) -> bool:
    """The same, for one of many claims: whatever goes wrong with it is logged, and costs no other one."""
    try:
        return await edit_until_done(binder, key, following, known, tries_max=tries_max)
    except Exception:  # noqa: BLE001 - as it says
        _LOG.exception("cannot update claim %s", key)
        return False


async def until_answered(
    binder: Binder, act: Callable[[], Awaitable[Answer]], tries_max: int | None = None, *, for_pod: str = ""
) -> Answer:
    """What `act` gives, tried again while the API server does not answer, or is in trouble.

    for_pod: the uid of the pod whose attempt waits for it. Raises CallFailed for what is refused for good, and after
    tries_max.
    """
    tries = 0
    while True:
        try:
            return await act()
        except CallFailed as error:
            tries += 1
            binder.progress.failed(for_pod, error)
            if not may_pass(error) or tries == tries_max:
                raise
        await binder.time.sleep(pause_s(tries, binder.time, most_s=PAUSE_MAX_S))

"""What a preemption writes: the preemptor's record and nomination, then the conditions and the end of its victims.

The record is written before the first victim goes, so that a process that starts later knows what was begun. All but
the least important victim go at the same time. That one goes last, and only if no call before it has failed: until then
another decision loses little.
Source: kube-scheduler's framework/preemption, executor.go; KEP-5690 for the claims of victims.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from allocator.api.versions import Json
from scheduler.attempt import claim_calls, claim_objects, pod_calls
from scheduler.attempt.binder import Binder, pause_s
from scheduler.attempt.claim_objects import RawClaim
from scheduler.client.api_resources import PODS
from scheduler.client.connection import MERGE, STRATEGIC_MERGE
from scheduler.client.errors import ApiError, ApiErrorKind, CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import DISRUPTION_TARGET, Condition
from scheduler.preemption.eviction_writes import PreemptionWrite
from scheduler.preemption.records import PreemptionRecord

NOMINATION = "dra-scheduler.dev/nomination"
"""The annotation of a preemptor that holds its record."""

AT_ONCE = 16
"""So many victims of a preemption are evicted at the same time: hundreds would keep calls for other pods waiting.

Source: kube-scheduler's default parallelism.
"""

TRIES = 3
"""How often the record is written to a pod that changes meanwhile, and how often one is read that cannot be."""

READ_AGAIN_S = 1.0
"""Before a record is read again; twice as long before the next time."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """The record as its annotation has it: without names, since victims may be in other namespaces.

    Each member of a group has what is on its own node; all that goes for it may be thousands of victims, more than
    an annotation has room for.
    """

    node: str
    devices: Mapping[str, Sequence[str]]
    """What the pod's claims are to get, by uid."""
    victims: frozenset[str]
    """Uids of pods."""
    released: frozenset[str]
    """Uids of claims."""
    tries: int = 0
    """Preemptions that ended without a place for the pod."""

    @staticmethod
    def of(record: PreemptionRecord) -> "StoredRecord":
        """As the record is written."""
        allocated = ((claim.uid, claim.allocation) for claim in record.claims)
        devices = {uid: [str(one.id) for one in found.results] for uid, found in allocated if found is not None}
        victims, released = record.here or (record.victims, record.released)
        return StoredRecord(record.node, devices, victims, released, record.tries)

    def __str__(self) -> str:
        values = {"node": self.node, "devices": self.devices, "tries": self.tries}
        uids = {"victims": sorted(self.victims), "released": sorted(self.released)}
        return orjson.dumps({**values, **uids}).decode()


def stored_record(pod: Mapping[str, Any]) -> StoredRecord | None:
    """The record on the pod, if its status names the same node; users write the one, and not the other.

    None as well for what is not of our form: the annotation is text that anybody may write.
    """
    text = (pod["metadata"].get("annotations") or {}).get(NOMINATION)
    try:
        fields = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return None
    match fields:
        case {"node": str(node), "victims": list(victims), "released": list(released), "tries": int(tries)}:
            is_promised = node and (pod.get("status") or {}).get("nominatedNodeName") == node
            return StoredRecord(node, {}, _texts(victims), _texts(released), tries) if is_promised else None
        case _:
            return None


def _texts(values: Iterable[object]) -> frozenset[str]:
    return frozenset(one for one in values if isinstance(one, str))


# The preemptor


async def nominate(binder: Binder, pod: Pod, record: PreemptionRecord, condition: Condition) -> bool:
    """Write the record, then the node and why the pod waits; False where it is bound, or ends. Raises CallFailed."""
    text, version = str(StoredRecord.of(record)), pod.resource_version
    status = {"nominatedNodeName": record.node}
    for tries in range(TRIES):
        try:
            stored = await _annotated(binder, pod, version, text)
            said = pod_calls.status_with(condition, pod_calls.current_of(stored), binder.time.now())
            await pod_calls.patch_status(binder.api, stored, {**status, **said})
        except ApiError as error:
            if error.kind is ApiErrorKind.MISSING:
                return False
            if error.kind is not ApiErrorKind.CONFLICT or tries == TRIES - 1:
                raise
        else:
            return True
        current = await _waiting(binder, pod)
        if current is None:
            return False
        version = current["metadata"]["resourceVersion"]
    return False


async def _annotated(binder: Binder, pod: Pod, version: str, text: str) -> Json:
    """The pod with its record; as it is where we have no right to write it."""
    metadata = {"uid": pod.uid, "resourceVersion": version, "annotations": {NOMINATION: text}}
    path = PODS.path(pod.namespace, pod.name)
    try:
        return await binder.api.request("PATCH", path, body={"metadata": metadata}, content_type=MERGE)
    except ApiError as error:
        if error.kind is not ApiErrorKind.FORBIDDEN:
            raise
        _LOG.warning("pod %s: its record is in memory only: %s", pod, error)
    stored = await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)
    if stored is None:
        raise CallFailed(f"pod {pod}", "it is gone", is_ambiguous=False)
    return stored


async def _waiting(binder: Binder, pod: Pod) -> Json | None:
    """The pod as it is stored; None where it has a node, ends, or is gone."""
    stored = await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)
    is_over = stored is None or stored["spec"].get("nodeName") or stored["metadata"].get("deletionTimestamp")
    return None if is_over else stored


async def clear_nomination(binder: Binder, pod: Pod) -> None:
    """No node is promised to the pod any more. Raises CallFailed."""
    body, path = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": None}}, _status_path(pod)
    await _is_there(binder.api.request("PATCH", path, body=body, content_type=MERGE))


# The victims


@dataclass(frozen=True, slots=True)
class Evicted:
    """Who is told of victims. cancelled: whether the attempt to bind a victim could be ended; it is not deleted then.

    deleted: is called with each victim once it is deleted.
    """

    cancelled: Callable[[Pod], bool]
    deleted: Callable[[Pod], None]


async def evict(binder: Binder, writes: Sequence[PreemptionWrite], evicted: Evicted) -> None:
    """Carry out the writes of a preemption.

    Raises CallFailed, the first of them, with the least important victim left where it is.
    """
    failed: list[CallFailed] = []
    places = asyncio.Semaphore(AT_ONCE)

    async def carry_out(one: Sequence[PreemptionWrite]) -> None:
        async with places:
            try:
                await _written(binder, one, evicted)
            except CallFailed as error:
                failed.append(error)

    victims = _by_victim(one for one in writes if not one.clears_nomination)
    cleared = [[one] for one in writes if one.clears_nomination]
    await asyncio.gather(*map(carry_out, [*cleared, *victims[:-1]]))
    if not failed:
        await asyncio.gather(*map(carry_out, victims[-1:]))
    if failed:
        raise failed[0]


def _by_victim(writes: Iterable[PreemptionWrite]) -> list[list[PreemptionWrite]]:
    by_victim: dict[str, list[PreemptionWrite]] = {}
    for write in writes:
        by_victim.setdefault(write.pod.uid, []).append(write)
    return list(by_victim.values())


async def _written(binder: Binder, writes: Sequence[PreemptionWrite], evicted: Evicted) -> None:
    for write in writes:
        if write.clears_nomination:
            await clear_nomination(binder, write.pod)
        elif evicted.cancelled(write.pod):
            return
        elif write.is_delete:
            if await _delete(binder, write.pod):
                evicted.deleted(write.pod)
        elif not await _write_condition(binder, write):
            return


async def _write_condition(binder: Binder, write: PreemptionWrite) -> bool:
    """Write the condition of a victim; False where it is gone. Raises CallFailed."""
    pod, condition = write.pod, write.condition
    assert condition is not None, "there is nothing to tell"
    standing = next((one for one in pod.conditions if one.type == DISRUPTION_TARGET), None)
    status, path = pod_calls.status_with(condition, standing, binder.time.now()), _status_path(pod)
    body = {"metadata": {"uid": pod.uid}, "status": status}
    return await _is_there(binder.api.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE))


async def _delete(binder: Binder, pod: Pod) -> bool:
    """Delete the victim; False where it was gone. Raises CallFailed, also where another pod has its name by now."""
    # Differs from kube-scheduler, which deletes whatever pod has the name.
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
    return await _is_there(binder.api.request("DELETE", PODS.path(pod.namespace, pod.name), body=body))


def _status_path(pod: Pod) -> str:
    return PODS.path(pod.namespace, pod.name, "status")


async def _is_there(call: Awaitable[Json]) -> bool:
    """Whether the object of the call was there; one that is gone needs it no more. Raises CallFailed."""
    try:
        await call
    except ApiError as error:
        if error.kind is not ApiErrorKind.MISSING:
            raise
        return False
    return True


# What victims leave behind


async def deallocate(binder: Binder, claim: RawClaim) -> bool:
    """Deallocate a claim that is reserved for pods alone that are gone; False where one is there. Raises CallFailed.

    As kube-controller-manager does, which may be the first to do it: then the version of the claim is another. While
    the object of a pod is there, its kubelet may not have unprepared the devices yet.
    """
    metadata, users = claim["metadata"], (claim.get("status") or {}).get("reservedFor") or ()
    for user in users:
        is_pod = not user.get("apiGroup") and user["resource"] == "pods"
        if not is_pod or await pod_calls.get(binder.api, metadata["namespace"], user["name"], user["uid"]) is not None:
            return False
    stored = await claim_calls.put_status(binder, claim_objects.deallocated(claim))
    if claim_objects.is_protected_in_vain(stored):  # kube-controller-manager takes that only with the allocation
        await claim_calls.put(binder, claim_objects.unmarked(stored))
    return True


async def records_of(binder: Binder, pods: Sequence[Pod]) -> list[tuple[Pod, StoredRecord]]:
    """The records on these pods, as they are stored. One that cannot be read is left out: no other pod waits for it."""
    places = asyncio.Semaphore(AT_ONCE)

    async def record_on(pod: Pod) -> StoredRecord | None:
        async with places:
            return await _record_on(binder, pod)

    records = await asyncio.gather(*map(record_on, pods))
    return [(pod, record) for pod, record in zip(pods, records, strict=True) if record is not None]


async def _record_on(binder: Binder, pod: Pod) -> StoredRecord | None:
    for tries in range(1, TRIES + 1):
        try:
            raw = await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)
        except CallFailed as error:
            _LOG.warning("pod %s: cannot read the record of its preemption: %s", pod, error)
            if tries < TRIES:
                await binder.time.sleep(pause_s(tries, binder.time, first_s=READ_AGAIN_S))
        else:
            return stored_record(raw) if raw is not None else None
    return None

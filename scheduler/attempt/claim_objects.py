"""Edits a raw ResourceClaim: JSON in, a changed copy out, unknown fields included.

Unknown fields are sent back unchanged: without them, a PUT of the status would delete another writer's device status,
or be rejected. The status has the same fields in v1, v1beta2 and v1beta1.
Source: k8s.io/api resource/v1 ResourceClaim; KEP-4381 for the finalizer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from allocator.api.versions import Json
from cel.values.quantity import Quantity
from scheduler.state.claims import FINALIZER, ClaimObject, is_of_extended_resources
from scheduler.state.pod_resources import ExtendedClaim, annotations

# The intent: an annotation on a claim that says who is allocating it, and for which pod.
#
# It is written before the allocation and stays as long as the allocation does. After a crash it shows what was begun.
# An attempt that finds the intent of another attempt for its pod leaves the claim alone: it has been taken over.


ANNOTATION = "dra-scheduler.dev/intent"

_LONGEST = 4096
"""Characters of an intent; anybody may write an annotation of a quarter of a million."""


@dataclass(frozen=True, slots=True)
class Intent:
    """One attempt for one pod."""

    scheduler: str
    """The name of the scheduler."""
    epoch: int
    """When the process began to write: not smaller than the epoch of any process before it."""
    process: str
    """Which process it is of those that have begun at the same time."""
    podUID: str  # noqa: N815 - as the annotation spells it
    """The pod that the claim is for."""
    node: str
    """The node that the claim is for."""
    attempt: int
    """The number of the attempt within the process."""
    renewal: int = field(default=0, compare=False)
    """How often the attempt has written it again, to see whether the claim is still its own; it is no part of the
    identity.
    """

    def __str__(self) -> str:
        values = {name: getattr(self, name) for name in self.__slots__ if name != "renewal" or self.renewal}
        return orjson.dumps(values).decode()


def intent_of(claim: Mapping[str, Any]) -> Intent | None:
    """The intent that stands on the claim; None where there is none, or none that can be read."""
    return intent_in(claim["metadata"].get("annotations") or {})


def intent_in(annotations: Mapping[str, Any]) -> Intent | None:
    """The intent among a claim's annotations; None as for `intent_of`."""
    text = annotations.get(ANNOTATION)
    try:
        decoded = orjson.loads(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    except orjson.JSONDecodeError:
        return None
    return _typed(decoded) if isinstance(decoded, dict) else None


def _typed(found: Mapping[str, object]) -> Intent | None:
    """The annotation is text that anybody may write: what is not of our form is no intent."""
    match found:
        case {
            "scheduler": str() as scheduler,
            "epoch": int() as epoch,
            "process": str() as process,
            "podUID": str() as uid,
            "node": str() as node,
            "attempt": int() as attempt,
        }:
            renewal = found.get("renewal")
            return Intent(scheduler, epoch, process, uid, node, attempt, renewal if isinstance(renewal, int) else 0)
        case _:
            return None


def is_of_another_attempt(claim: Mapping[str, Any], intent: Intent) -> bool:
    """Whether another attempt for the same pod has taken the claim over."""
    present = intent_of(claim)
    return present is not None and present.podUID == intent.podUID and present != intent


RawClaim = Mapping[str, Any]

FENCE = "dra-scheduler.dev/fence"
"""An annotation with no other use than to move the resourceVersion of a claim."""


class ClaimRef(NamedTuple):
    """Where a claim is, and which one of that name it is."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def key_of(claim: RawClaim) -> ClaimRef:
    """The claim's key."""
    metadata = claim["metadata"]
    return ClaimRef(metadata["namespace"], metadata["name"], metadata["uid"])


def version_of(claim: RawClaim) -> str:
    """The resourceVersion."""
    return str(claim["metadata"]["resourceVersion"])


def is_deleting(claim: RawClaim) -> bool:
    """True once it was deleted, even if a finalizer keeps it."""
    return bool(claim["metadata"].get("deletionTimestamp"))


def allocation_of(claim: RawClaim) -> Json | None:
    """status.allocation."""
    allocation: Json | None = (claim.get("status") or {}).get("allocation")
    return allocation


def consumers_of(claim: RawClaim) -> tuple[str, ...]:
    """The uids in status.reservedFor."""
    return tuple(consumer["uid"] for consumer in _reserved_for(claim))


def work_of_another(claim: ClaimObject, pod_uid: str, process: str) -> str:
    """What shows that another process works on the claim for the pod; empty where nothing does."""
    other = intent_in(claim.metadata.annotations)
    if other is not None and other.podUID == pod_uid:
        return "" if other.process == process else str(other)
    return "reserved" if any(one.uid == pod_uid for one in claim.reserved_for) else ""


def results_of(allocation: Mapping[str, Any]) -> list[Json]:
    """The allocated devices."""
    return (allocation.get("devices") or {}).get("results") or []


def is_same_allocation(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both are one and the same allocation, by its time and devices.

    Quantities and empty fields may be spelled differently once the API server has stored them. One that does not know
    binding conditions stores no time.
    """
    times = {one.get("allocationTimestamp"), other.get("allocationTimestamp")} - {None, ""}
    return len(times) <= 1 and _devices(one) == _devices(other)


def _devices(allocation: Mapping[str, Any]) -> list[tuple[str, ...]]:
    fields = ("request", "driver", "pool", "device", "shareID")
    return [tuple(result.get(field) or "" for field in fields) for result in results_of(allocation)]


def made(extended: ExtendedClaim, pod_name: str, pod_uid: str, intent: Intent) -> Json:
    """The claim for a pod's extended resources as it is sent: the pod's, with the finalizer and the intent."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": pod_uid, "controller": True}
    metadata = {
        "name": extended.claim.name,
        "namespace": extended.claim.namespace,
        "annotations": {**annotations(), ANNOTATION: str(intent)},
        "finalizers": [FINALIZER],
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": extended.spec}


def is_as_made(claim: RawClaim, extended: ExtendedClaim, pod_uid: str) -> bool:
    """True once `made` is stored: without an owner, the claim would stay when the pod goes."""
    return is_made_for(claim, pod_uid) and _has_all(claim.get("spec"), extended.spec)


def _has_all(stored: object, sent: object) -> bool:
    """Whether the fields that were sent are stored; the API server adds others by default."""
    if isinstance(sent, dict):
        return isinstance(stored, dict) and all(_has_all(stored.get(name), value) for name, value in sent.items())
    if isinstance(sent, list):
        return isinstance(stored, list) and len(stored) == len(sent) and all(map(_has_all, stored, sent))
    return stored == sent


def is_made_for(claim: RawClaim, pod_uid: str) -> bool:
    """Whether the claim was made for the pod's extended resources."""
    metadata = claim["metadata"]
    owners = metadata.get("ownerReferences") or ()
    is_pods = any(owner.get("controller") and owner.get("uid") == pod_uid for owner in owners)
    return is_pods and is_of_extended_resources(metadata.get("annotations") or {})


def marked(claim: RawClaim, intent: Intent) -> Json:
    """With the finalizer and the intent: what protects an allocation, before there is one."""
    finalizers = claim["metadata"].get("finalizers") or []
    kept = finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]
    return _annotated(_with_metadata(claim, finalizers=kept), ANNOTATION, str(intent))


def unmarked(claim: RawClaim) -> Json:
    """Without the intent, and without the finalizer unless there is an allocation to protect."""
    finalizers = claim["metadata"].get("finalizers") or []
    kept = finalizers if allocation_of(claim) else [name for name in finalizers if name != FINALIZER]
    return _annotated(_with_metadata(claim, finalizers=kept), ANNOTATION, "")


def is_marked(claim: RawClaim, intent: Intent) -> bool:
    """True once `marked` is stored."""
    return FINALIZER in (claim["metadata"].get("finalizers") or ()) and intent_of(claim) == intent


def is_protected_in_vain(claim: RawClaim) -> bool:
    """Whether the finalizer stands though there is no allocation to protect."""
    return FINALIZER in (claim["metadata"].get("finalizers") or ()) and allocation_of(claim) is None


def fenced(claim: RawClaim, text: str) -> Json:
    """With the annotation `FENCE`."""
    return _annotated(claim, FENCE, text)


def unfenced(claim: RawClaim) -> Json:
    """Without that annotation."""
    return _annotated(claim, FENCE, "")


def is_fenced(claim: RawClaim) -> bool:
    """True while that annotation stands."""
    return FENCE in (claim["metadata"].get("annotations") or ())


def allocated(claim: RawClaim, allocation: Mapping[str, Any], pod_name: str, pod_uid: str) -> Json:
    """With the allocation and the pod's reservation, which belong into one write."""
    return _with_status(reserved(claim, pod_name, pod_uid), allocation=dict(allocation))


def reserved(claim: RawClaim, pod_name: str, pod_uid: str) -> Json:
    """With the pod's reservation."""
    return _with_status(claim, reservedFor=[*_reserved_for(claim), _reservation(pod_name, pod_uid)])


def _reservation(pod_name: str, pod_uid: str) -> Json:
    return {"resource": "pods", "name": pod_name, "uid": pod_uid}


def is_allocated(claim: RawClaim, allocation: Mapping[str, Any], pod_name: str, pod_uid: str) -> bool:
    """True once `allocated` is stored, and all of it that decides who else can get the devices, or reach them.

    What the API server of a release does not know it does not store, such as tolerations.
    """
    stored = allocation_of(claim)
    return (
        stored is not None
        and is_same_allocation(stored, allocation)
        and stored.get("nodeSelector") == allocation.get("nodeSelector")
        and list(map(_use, results_of(stored))) == list(map(_use, results_of(allocation)))
        and is_reserved(claim, pod_name, pod_uid)
    )


def _use(result: Mapping[str, Any]) -> tuple[bool, Mapping[str, Quantity]]:
    consumed = result.get("consumedCapacity") or {}
    return bool(result.get("adminAccess")), {name: Quantity.parse(amount) for name, amount in consumed.items()}


def is_reserved(claim: RawClaim, pod_name: str, pod_uid: str) -> bool:
    """True once `reserved` is stored: kube-controller-manager takes a reservation back whose pod it does not find."""
    return _reservation(pod_name, pod_uid) in _reserved_for(claim)


def released(claim: RawClaim, pod_uid: str) -> Json:
    """Without the pod's reservation."""
    return _with_status(claim, reservedFor=[entry for entry in _reserved_for(claim) if entry["uid"] != pod_uid])


def deallocated(claim: RawClaim) -> Json:
    """Without allocation, reservations, and the devices' status, which describes allocated devices only."""
    return _with_status(claim, allocation=None, reservedFor=None, devices=None)


def _reserved_for(claim: RawClaim) -> list[Json]:
    return (claim.get("status") or {}).get("reservedFor") or []


def _with_status(claim: RawClaim, **fields: object) -> Json:
    return {**claim, "status": _changed(claim.get("status") or {}, fields)}


def _with_metadata(claim: RawClaim, **fields: object) -> Json:
    return {**claim, "metadata": _changed(claim["metadata"], fields)}


def _annotated(claim: RawClaim, key: str, value: str) -> Json:
    return _with_metadata(claim, annotations=_changed(claim["metadata"].get("annotations") or {}, {key: value}))


def _changed(holder: Mapping[str, Any], fields: Mapping[str, object]) -> Json:
    """The object with these fields, of which the empty ones go, as the API server leaves them out."""
    kept = {name: value for name, value in holder.items() if name not in fields}
    return {**kept, **{name: value for name, value in fields.items() if value}}

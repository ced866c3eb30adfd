"""Results as API objects: claims with their status and pods with their node, as they would be written.

Timestamps of allocations and conditions are omitted, because nothing has been written. A pod that is not placed has the
reason in its condition PodScheduled.
Source: KEP-4381 (finalizer, reservedFor); the resource claim controller (resourceClaimStatuses).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from allocator.api import allocation_to_v1
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import POD_SCHEDULED
from scheduler.input.inventory import InputClaim
from scheduler.offline.input_claims import Claims, statuses_of, uid_of_pod
from scheduler.offline.placement import PlacedPod, Result
from scheduler.output.table import reason_of
from scheduler.state.claim_index import FINALIZER
from scheduler.state.pod_claims import Waiting


def list_of(results: Sequence[Result], claims: Claims) -> object:
    """A v1 List: the claims of the results by namespace and name, then the pods likewise."""
    wanted = {(claim.namespace, claim.name) for result in results for claim in result.claims}
    items: list[object] = [claim_object(claims.objects[key]) for key in sorted(wanted)]
    pods = [(result.pod, result) for result in results if result.pod]
    pods.sort(key=lambda pair: (pair[0].namespace, pair[0].name))
    items.extend(pod_object(pod, result, claims) for pod, result in pods)
    return {"apiVersion": "v1", "kind": "List", "items": items}


def claim_object(found: InputClaim) -> dict[str, object]:
    """The claim with its allocation, reserved for its consumers, and protected from deletion once allocated."""
    raw, claim = found.raw, found.claim
    metadata = {**_shown(raw["metadata"]), "namespace": claim.namespace, "uid": claim.uid}
    status = dict(raw.get("status") or {})
    if claim.allocation is not None:
        if "allocation" not in status:
            status["allocation"] = allocation_to_v1(claim.allocation)
        metadata["finalizers"] = list(dict.fromkeys([*(metadata.get("finalizers") or ()), FINALIZER]))
    reserved = list(status.get("reservedFor") or ())
    reserved += [{"resource": one.resource, "name": one.name, "uid": one.uid} for one in found.consumers]
    if reserved:
        status["reservedFor"] = reserved
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": metadata, **_rest(raw), "status": status}


def pod_object(pod: Pod, result: Result, claims: Claims) -> dict[str, object]:
    """The pod with its node, where it has one, and with the names of its generated claims."""
    raw = dict(pod.raw)
    metadata, spec, status = raw.get("metadata"), raw.get("spec"), raw.get("status")
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    raw["metadata"] = {**_shown(metadata), "namespace": pod.namespace, "uid": uid_of_pod(pod)}
    if isinstance(result, PlacedPod):
        raw["spec"] = {**spec, "nodeName": result.node}
    before = status if isinstance(status, dict) else {}
    if reported := {**_reported(pod, result, claims), **_conditions(before, pod, result)}:
        raw["status"] = {**before, **reported}
    return raw


def _conditions(status: Mapping[str, object], pod: Pod, result: Result) -> dict[str, object]:
    """The pod's conditions, where PodScheduled is another one than it was."""
    before = status.get("conditions")
    conditions = before if isinstance(before, list) else []
    others = [one for one in conditions if not (isinstance(one, dict) and one.get("type") == POD_SCHEDULED)]
    if isinstance(result, PlacedPod):
        if len(others) == len(conditions):
            return {}
        return {"conditions": [*others, {"type": POD_SCHEDULED, "status": "True"}]}
    reason = "SchedulingGated" if pod.gates else "Unschedulable"
    own = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": reason_of(result)}
    return {"conditions": [*others, own]}


def _reported(pod: Pod, result: Result, claims: Claims) -> dict[str, object]:
    """The fields of pod.status that name generated claims."""
    statuses = _claim_statuses(pod, claims)
    reported: dict[str, object] = {"resourceClaimStatuses": statuses} if statuses else {}
    if isinstance(result, PlacedPod) and result.extended:
        reported["extendedResourceClaimStatus"] = result.extended.status
    return reported


def _claim_statuses(pod: Pod, claims: Claims) -> list[dict[str, object]]:
    found = claims.of(pod)
    if isinstance(found, Waiting):
        return []
    names = statuses_of(pod, found)
    return [
        {"name": entry.name, **({"resourceClaimName": names[entry.name]} if names[entry.name] else {})}
        for entry in pod.claims
        if entry.name in names
    ]


def _shown(metadata: Mapping[str, Any]) -> dict[str, Any]:  # Any: fields of whoever wrote them
    """The metadata without managedFields, which kubectl does not print either, and a dump does not contain."""
    return {key: value for key, value in metadata.items() if key != "managedFields"}


def _rest(raw: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in raw.items() if key not in ("apiVersion", "kind", "metadata", "status")}

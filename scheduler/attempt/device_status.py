"""What the status of a pod says of its devices, for its kubelet: written right before the pod is bound.

The claim that was made for its extended resources, and what its devices take of the node. What an attempt that came to
nothing has left there goes.
Source: KEP-5004, KEP-5517; kube-scheduler's DynamicResources plugin, PreBind.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.attempt import pod_calls
from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder
from scheduler.attempt.decision import Decision
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import EXTENDED_STATUS, TAKEN_STATUSES
from scheduler.decision.decide import Placed

Status = Mapping[str, object]
"""Fields of pod.status; None takes one away."""


def device_status(pod: Pod, placed: Placed) -> Status:
    """The fields that have to be written; none for a pod that has none and needs none."""
    fields: dict[str, object] = dict.fromkeys(pod.device_fields, None)
    if placed.extended:
        fields[EXTENDED_STATUS] = placed.extended.status
    if used := [one for one in placed.by_claims if one.containers]:
        fields[TAKEN_STATUSES] = [
            {
                "resourceClaimName": one.claim,
                "containers": list(one.containers),
                "resources": {name: amount.text for name, amount in one.resources.items()},
            }
            for one in used
        ]
    return fields


def of_pod_now(decision: Decision, pod: Mapping[str, Any]) -> Status:
    """The fields that have to be written to the pod as it is now: another attempt may have left some since."""
    if decision.pod_status is None:
        return {}
    found = pod.get("status") or {}
    left: dict[str, object] = dict.fromkeys(name for name in (EXTENDED_STATUS, TAKEN_STATUSES) if found.get(name))
    return {**left, **decision.pod_status}


def names_claim(pod: Mapping[str, Any], decision: Decision) -> bool:
    """Whether the pod's status names the claim that the decision makes."""
    told = (pod.get("status") or {}).get(EXTENDED_STATUS) or {}
    return decision.extended is not None and told.get("resourceClaimName") == decision.extended.claim.claim.name


async def write(binder: Binder, attempt: Attempt, version: str, status: Status) -> str:
    """Write the pod's status under that version, where there is anything to write; its version then.

    Raises CallFailed. Nothing can have happened to the pod between the two versions.
    """
    if not status:
        return version
    was_told, attempt.is_told = attempt.is_told, attempt.is_told or bool(status.get(EXTENDED_STATUS))
    try:
        stored = await pod_calls.replace_status(binder.api, attempt.decision.pod, version, status)
    except CallFailed as error:
        if not error.is_ambiguous:
            attempt.is_told = was_told
        raise
    return str(stored["metadata"]["resourceVersion"])

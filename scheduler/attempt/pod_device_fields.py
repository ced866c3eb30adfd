"""The device fields of a pod's status, which its kubelet reads.

They name the claim for extended resources, and the resources that devices take from the node. Fields that a failed
attempt left behind are removed.
Source: KEP-5004, KEP-5517; kube-scheduler's DynamicResources plugin, PreBind.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.attempt.decision import Decision
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import EXTENDED_STATUS, TAKEN_STATUSES
from scheduler.decision.schedule_result import Placed

Status = Mapping[str, object]
"""Fields of pod.status; None takes one away."""


def device_status(pod: Pod, placed: Placed) -> Status:
    """The fields that have to be written; none for a pod that has none and needs none."""
    fields: dict[str, object] = dict.fromkeys(pod.device_fields, None)
    if placed.extended:
        fields[EXTENDED_STATUS] = placed.extended.status
    # The API server knows no claim here that the pod does not name, such as that for extended resources.
    generated = placed.extended and placed.extended.claim.name
    if named := [one for one in placed.by_claims if one.claim != generated]:
        fields[TAKEN_STATUSES] = [
            {"resourceClaimName": one.claim, "containers": list(one.containers), **one.fields} for one in named
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
    status = (pod.get("status") or {}).get(EXTENDED_STATUS) or {}
    return decision.extended is not None and status.get("resourceClaimName") == decision.extended.claim.claim.name

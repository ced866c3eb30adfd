"""The condition PodScheduled=False: why a pod has no node, where users and autoscalers look for it.

Source: k8s.io/api core/v1 PodCondition; kube-scheduler's handling of a failed attempt; KEP-5067 for observedGeneration.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from scheduler.attempt.claim_objects import Json
from scheduler.attempt.timestamps import in_seconds
from scheduler.core_v1.pod_status import POD_SCHEDULED, Condition

Reason = Literal["Unschedulable", "SchedulerError", "BindingPending"]
"""The first two are kube-scheduler's. The third: a node is chosen, and what the binding needs takes long."""


def not_scheduled(reason: Reason, message: str, generation: int) -> Condition:
    """The condition of a pod that got no node."""
    return Condition(POD_SCHEDULED, "False", reason, message, generation)


def current(conditions: Sequence[Condition]) -> Condition | None:
    """The current condition."""
    return next((one for one in conditions if one.type == POD_SCHEDULED), None)


def current_of(pod: Mapping[str, Any]) -> Condition | None:
    """The same of a raw pod."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one["type"] == POD_SCHEDULED:
            said = one.get("reason") or "", one.get("message") or "", one.get("observedGeneration") or 0
            return Condition(POD_SCHEDULED, one["status"], *said)
    return None


def status_with(condition: Condition, standing: Condition | None, now: datetime) -> Json:
    """The part of a status that a strategic merge patch needs; the time is kept while the status stays the same."""
    fields: Json = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }
    if condition.observed_generation:
        fields["observedGeneration"] = condition.observed_generation
    if standing is None or standing.status != condition.status:
        fields["lastTransitionTime"] = in_seconds(now)
    return {"conditions": [fields]}

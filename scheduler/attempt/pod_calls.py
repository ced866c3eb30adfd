"""Reads one pod, and patches its status under the version that was read."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from allocator.api.versions import Json
from scheduler.attempt.decision import Decision, PodKey
from scheduler.client.api_resources import PODS
from scheduler.client.connection import APPLY, MERGE, STRATEGIC_MERGE, Api
from scheduler.client.errors import ApiError, ApiErrorKind
from scheduler.core_v1.object_fields import in_seconds
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import EXTENDED_STATUS, POD_SCHEDULED, TAKEN_STATUSES, Condition
from scheduler.decision.schedule_result import Placed
from scheduler.terminal_text import printable


async def get(api: Api, namespace: str, name: str, uid: str) -> Json | None:
    """The pod as it is stored; None once it is gone, even if another has its name. Raises CallFailed."""
    try:
        pod = await api.request("GET", PODS.path(namespace, name))
    except ApiError as error:
        if error.kind is ApiErrorKind.MISSING:
            return None
        raise
    return pod if pod["metadata"]["uid"] == uid else None


async def patch_status(api: Api, pod: Mapping[str, Any], status: Mapping[str, object]) -> Json:
    """The pod with these fields of its status merged in, if it is still the one that was read. Raises CallFailed."""
    metadata = pod["metadata"]
    guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    path = PODS.path(metadata["namespace"], metadata["name"], "status")
    body = {"metadata": guard, "status": status}
    return await api.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE)


async def replace_status(api: Api, pod: PodKey, version: str, status: Mapping[str, object]) -> Json:
    """The pod with these fields of its status in place of what they were; None takes one away. Raises CallFailed."""
    body = {"metadata": {"uid": pod.uid, "resourceVersion": version}, "status": status}
    path = PODS.path(pod.namespace, pod.name, "status")
    return await api.request("PATCH", path, body=body, content_type=MERGE)


async def apply_status(api: Api, pod: Pod, status: Mapping[str, object], manager: str) -> Json:
    """The pod with these fields of its status, if it is still the one that was observed. Raises CallFailed.

    The manager owns them from then on, together with all who do, so that no other one alone takes them away.
    """
    guard = {"uid": pod.uid, "resourceVersion": pod.resource_version}
    metadata = {"name": pod.name, "namespace": pod.namespace, **guard}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}
    query = {"fieldManager": manager, "force": "true"}
    path = PODS.path(pod.namespace, pod.name, "status")
    return await api.request("PATCH", path, query=query, body=body, content_type=APPLY)


# The condition PodScheduled=False: why a pod has no node, where users and autoscalers look for it.
#
# Source: k8s.io/api core/v1 PodCondition; kube-scheduler's handling of a failed attempt; KEP-5067 for
# observedGeneration.


Reason = Literal["Unschedulable", "SchedulerError", "BindingPending", "SchedulingGated"]
"""The first two are kube-scheduler's. The third: a node is chosen, and what the binding needs takes long. The last one,
which the API server writes for gates, also means a pod that waits for others of its group.
"""


def not_scheduled(reason: Reason, message: str, generation: int) -> Condition:
    """The condition of a pod that got no node. message: what others wrote may be in it; it steers no terminal."""
    return Condition(POD_SCHEDULED, "False", reason, printable(message), generation)


def current(conditions: Sequence[Condition]) -> Condition | None:
    """The current condition."""
    return next((one for one in conditions if one.type == POD_SCHEDULED), None)


def current_of(pod: Mapping[str, Any]) -> Condition | None:
    """The same of a raw pod."""
    condition = _standing(pod)
    if condition is None:
        return None
    said = condition.get("reason") or "", condition.get("message") or "", condition.get("observedGeneration") or 0
    return Condition(POD_SCHEDULED, condition["status"], *said)


def _standing(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == POD_SCHEDULED), None)


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


def status_anew(condition: Condition, pod: Mapping[str, Any], now: datetime) -> Json:
    """The same for a raw pod, whose version it moves even where the condition stands there: as of another time."""
    status = status_with(condition, current_of(pod), now)
    stood = (_standing(pod) or {}).get("lastProbeTime")
    times = (in_seconds(now), in_seconds(now + timedelta(seconds=1)))
    status["conditions"][0]["lastProbeTime"] = next(one for one in times if one != stood)
    return status


# The device fields of a pod's status, which its kubelet reads.
#
# They name the claim for extended resources, and the resources that devices take from the node. Fields that a failed
# attempt left behind are removed. Source: KEP-5004, KEP-5517; kube-scheduler's DynamicResources plugin, PreBind.


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
    stored = pod.get("status") or {}
    left: dict[str, object] = dict.fromkeys(name for name in (EXTENDED_STATUS, TAKEN_STATUSES) if stored.get(name))
    return {**left, **decision.pod_status}


def names_claim(pod: Mapping[str, Any], decision: Decision) -> bool:
    """Whether the pod's status names the claim that the decision makes."""
    status = (pod.get("status") or {}).get(EXTENDED_STATUS) or {}
    return decision.extended is not None and status.get("resourceClaimName") == decision.extended.claim.claim.name

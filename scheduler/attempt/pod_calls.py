"""Reads one pod, and patches its status under the version that was read."""

from collections.abc import Mapping
from typing import Any

from scheduler.attempt.claim_objects import Json
from scheduler.attempt.decision import PodKey
from scheduler.client.api import Api
from scheduler.client.api_resources import PODS
from scheduler.client.connection import APPLY, MERGE, STRATEGIC_MERGE
from scheduler.client.errors import ApiError, ApiErrorKind
from scheduler.core_v1.pod import Pod


async def get(api: Api, namespace: str, name: str, uid: str) -> Json | None:
    """The pod as it is stored; None once it is gone, even if another has its name. Raises CallFailed."""
    try:
        found = await api.request("GET", PODS.path(namespace, name))
    except ApiError as error:
        if error.kind is ApiErrorKind.MISSING:
            return None
        raise
    return found if found["metadata"]["uid"] == uid else None


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

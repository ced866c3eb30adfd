"""What a control plane holds: objects of a dump or of manifests restored into it, and everything cleared again.

A restored object gets a new uid, so what refers to others by uid is left out and made anew by whoever makes it: the
claims of templates and the pods of workloads by their controllers, `reservedFor` by nobody.
"""

import http.client
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scheduler.input.documents import Finding, read
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import TIMEOUT_S, PollTimeoutError
from tests.controlplane.rest import (
    ATTACHMENT,
    CLAIM,
    CLASS,
    CSI_CAPACITY,
    CSI_DRIVER,
    CSI_NODE,
    NAMESPACE,
    NODE,
    POD,
    SERVICE,
    SLICE,
    STORAGE_CLASS,
    TEMPLATE,
    VOLUME,
    VOLUME_CLAIM,
    ApiError,
    Json,
    Kind,
    RestClient,
)

READY = {
    "allocatable": {"cpu": "96", "memory": "1Ti", "pods": "110"},
    "capacity": {"cpu": "96", "memory": "1Ti", "pods": "110"},
    "conditions": [{"type": "Ready", "status": "True"}],
}
"""What the kubelet would write into the status of a node, where its manifest does not say it."""

_WORKLOADS = tuple(Kind("apps/v1", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"))
_RBAC = ("ClusterRoleBinding", "ClusterRole", "RoleBinding", "Role")
_POLICIES = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")
_RIGHTS = (
    *(Kind("admissionregistration.k8s.io/v1", kind) for kind in _POLICIES),
    *(Kind("rbac.authorization.k8s.io/v1", kind) for kind in _RBAC),
)
_TAINT_RULE = Kind("resource.k8s.io/v1beta2", "DeviceTaintRule")  # not in every profile
_STORAGE = (VOLUME_CLAIM, VOLUME, STORAGE_CLASS, CSI_DRIVER, CSI_CAPACITY, CSI_NODE, ATTACHMENT)
_CLEARED = (*_WORKLOADS, Kind("batch/v1", "Job"), POD, CLAIM, TEMPLATE, SLICE, CLASS, NODE, *_STORAGE, SERVICE)
_OF_ETCD = {NODE: "minions"}
"""The resources that etcd keeps under another name."""

_OF_THE_SERVER = frozenset({"kubernetes.io/bootstrapping", "component"})
"""Labels of what the server keeps for itself: its rights, and the Service that leads to it."""

_STAYING = frozenset({NAMESPACE.kind, "ServiceAccount"})  # the controllers have some, and would miss them
_RESTORED_FIRST = (NAMESPACE.kind, CLASS.kind, NODE.kind, SLICE.kind, TEMPLATE.kind, CLAIM.kind)
_KEPT = frozenset({"name", "namespace", "labels", "annotations", "finalizers"})


def manifests(*paths: Path) -> list[Mapping[str, Any]]:
    """The objects in the files and folders. Raises ValueError for what is none."""
    found = list(read([str(path) for path in paths]))
    if wrong := [str(finding) for finding in found if isinstance(finding, Finding)]:
        raise ValueError("\n".join(wrong))
    return [found_object.raw for found_object in found if not isinstance(found_object, Finding)]


def restore(api: RestClient, objects: Iterable[Mapping[str, Any]]) -> None:
    """Create the objects and their namespaces, with the status of nodes and the allocation of claims."""
    restored = [obj for obj in objects if not _is_made_by_a_controller(obj)]
    for name in sorted({obj["metadata"].get("namespace", "") for obj in restored} - {""}):
        ensure_namespace(api, name)
    for obj in sorted(restored, key=_rank):
        if obj["kind"] in _STAYING:
            _ensure(api, obj)
        else:
            _restore(api, obj)


def ensure_namespace(api: RestClient, name: str) -> None:
    """Create the namespace unless it is there."""
    _ensure(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _ensure(api: RestClient, obj: Mapping[str, Any]) -> None:
    try:
        _restore(api, obj)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def clear(plane: ControlPlane, *, with_rights: bool = True) -> None:
    """Delete all that tests put there, save namespaces and accounts. PollTimeoutError where something does not go away.

    with_rights: also what anybody was granted, which a program that goes on needs.
    """
    api = plane.client()
    kinds = (*_CLEARED, *([_TAINT_RULE] if api.serves(_TAINT_RULE) else []), *(_RIGHTS if with_rights else []))
    deadline = time.monotonic() + TIMEOUT_S
    while left := list(_delete_all(api, _those_stored(plane, kinds))):
        if time.monotonic() > deadline:
            raise PollTimeoutError(f"still there after {TIMEOUT_S:.0f} s: {left[:5]}")


def _restore(api: RestClient, obj: Mapping[str, Any]) -> None:
    metadata = {key: value for key, value in obj["metadata"].items() if key in _KEPT}
    stored = api.create({**{key: obj[key] for key in obj if key != "status"}, "metadata": metadata})
    status = _status(obj)
    if status:
        api.replace_status({**stored, "status": status})


def _status(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    if obj["kind"] == NODE.kind:
        own = obj.get("status") or {}
        return {**READY, **{key: own[key] for key in READY if key in own}}
    if obj["kind"] == CLAIM.kind and (allocation := obj.get("status", {}).get("allocation")):
        return {"allocation": allocation}
    return {}


def _is_made_by_a_controller(obj: Mapping[str, Any]) -> bool:
    return any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences", ()))


def _rank(obj: Mapping[str, Any]) -> int:
    kind = obj["kind"]
    return _RESTORED_FIRST.index(kind) if kind in _RESTORED_FIRST else len(_RESTORED_FIRST)


def _those_stored(plane: ControlPlane, kinds: Iterable[Kind]) -> Sequence[Kind]:
    """Those of which there are objects. One question to etcd: of most kinds there are none, and a list takes time."""
    api, stored = plane.client(), plane.stored()
    return [kind for kind in kinds if _OF_ETCD.get(kind, api.resource(kind)) in stored]


def _delete_all(api: RestClient, kinds: Iterable[Kind]) -> Iterator[str]:
    """Delete what is there and name it; controllers may need another round."""
    for kind in kinds:
        for metadata in (obj["metadata"] for obj in api.list(kind)):
            if _OF_THE_SERVER & metadata.get("labels", {}).keys():
                continue
            yield f"{kind.kind} {metadata.get('namespace', '')}/{metadata['name']}"
            _delete(api, kind, metadata)


def _delete(api: RestClient, kind: Kind, metadata: Mapping[str, Any]) -> None:
    """Delete one object; that somebody else changed or deleted it meanwhile is no error."""
    name, namespace = metadata["name"], metadata.get("namespace", "")
    try:
        if metadata.get("finalizers"):
            current = api.get(kind, name, namespace)
            api.replace({**current, "metadata": {**current["metadata"], "finalizers": []}})
        api.delete(kind, name, namespace)  # again where a controller has deleted it and left a pod its grace
    except ApiError as error:
        if error.status not in (http.client.NOT_FOUND, http.client.CONFLICT):
            raise


def of_kind(objects: Sequence[Mapping[str, Any]], kind: Kind) -> list[Json]:
    """The objects of the kind, in any version."""
    return [dict(obj) for obj in objects if obj["kind"] == kind.kind]

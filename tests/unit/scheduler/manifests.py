"""Raw objects as a person writes them, the one place for builders of manifests; a field that a case varies is named."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
"""An object of an API, whose shape is the API's."""

DRIVER = "gpu.example"
RESOURCE = "resource.k8s.io/v1"


def an_object(
    version: str, kind: str, name: str, namespace: str = "", metadata: Mapping[str, Any] | None = None
) -> Json:
    about = {"name": name, **({"namespace": namespace} if namespace else {}), **(metadata or {})}
    return {"apiVersion": version, "kind": kind, "metadata": about}


def a_node(name: str = "node-1", *, labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    return {**an_object("v1", "Node", name, metadata={"labels": dict(labels or {})}), "spec": spec}


def a_namespace(name: str = "default", *, labels: Mapping[str, str] | None = None) -> Json:
    return an_object("v1", "Namespace", name, metadata={"labels": dict(labels or {})})


def a_slice(
    name: str = "",
    *,
    node: str = "node-1",
    count: int = 2,
    devices: Sequence[Json] | None = None,
    driver: str = DRIVER,
    version: str = RESOURCE,
    **spec: Any,
) -> Json:
    """A slice of one node, which is the whole pool of that node, with `count` devices `gpu-0`, `gpu-1` ..."""
    listed = [{"name": f"gpu-{number}"} for number in range(count)] if devices is None else list(devices)
    reach = {} if {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": node}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        **an_object(version, "ResourceSlice", name or f"{node}-{driver}"),
        "spec": {"driver": driver, "pool": pool, **reach, "devices": listed, **spec},
    }


def a_class(name: str = "gpu", *, expressions: Sequence[str] = (), **spec: Any) -> Json:
    """A class; without expressions it takes every device."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {**an_object(RESOURCE, "DeviceClass", name), "spec": {"selectors": selectors, **spec}}


def a_request(name: str = "gpu", *, device_class: str = "gpu", **exactly: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": device_class, **exactly}}


def devices_of(*requests: Json, **devices: Any) -> Json:
    """The spec of a claim: one device of the class `gpu` unless requests are given."""
    return {"devices": {"requests": list(requests) or [a_request()], **devices}}


def a_claim(
    name: str = "claim-1",
    *requests: Json,
    namespace: str = "default",
    metadata: Mapping[str, Any] | None = None,
    status: Json | None = None,
    version: str = RESOURCE,
) -> Json:
    claim = {**an_object(version, "ResourceClaim", name, namespace, metadata), "spec": devices_of(*requests)}
    return claim if status is None else {**claim, "status": status}


def an_allocation(*devices: str, node: str = "node-1", is_local: bool = True) -> Json:
    """The allocation of these devices of the node's pool; a local one is reached from that node alone."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": device} for device in devices]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    selector = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}} if is_local else {}
    return {"devices": {"results": results}, **selector}


def an_allocated_claim(name: str, *devices: str, node: str = "node-1", reserved_for: Sequence[Json] = ()) -> Json:
    allocation = an_allocation(*devices, node=node)
    return a_claim(name, status={"allocation": allocation, "reservedFor": list(reserved_for)})


def a_template(name: str = "one", *requests: Json, namespace: str = "default", **metadata: Any) -> Json:
    spec = {"spec": devices_of(*requests), **({"metadata": metadata} if metadata else {})}
    return {**an_object(RESOURCE, "ResourceClaimTemplate", name, namespace), "spec": spec}


def a_pod(
    name: str = "pod-1",
    *,
    claim: str = "",
    template: str = "",
    entries: Sequence[Json] | None = None,
    namespace: str = "default",
    metadata: Mapping[str, Any] | None = None,
    status: Json | None = None,
    **spec: Any,
) -> Json:
    """A pod with one entry `dev` for the claim or the template, or with the entries given."""
    named = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    own = [{"name": "dev", **named}] if claim or template else []
    pod = {
        **an_object("v1", "Pod", name, namespace, metadata),
        "spec": {"resourceClaims": own if entries is None else list(entries), **spec},
    }
    return pod if status is None else {**pod, "status": status}


def owned_by(kind: str, name: str, uid: str = "") -> Json:
    """metadata of an object that such an owner controls."""
    owner = {"apiVersion": "v1" if kind in ("Pod", "Node") else "apps/v1", "kind": kind, "name": name, "uid": uid}
    return {"ownerReferences": [{**owner, "controller": True}]}


def a_pod_template(template: str = "one", **spec: Any) -> Json:
    entries = [{"name": "dev", "resourceClaimTemplateName": template}]
    return {"metadata": {"labels": {"app": "test"}}, "spec": {"resourceClaims": entries, **spec}}


def a_workload(kind: str, name: str = "work", *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> Json:
    """A workload of the kind whose pods use the template `one`."""
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    body = {"template": a_pod_template(), **spec}
    if kind == "CronJob":
        body = {"jobTemplate": {"spec": body}}
    return {**an_object(group, kind, name, "default", metadata), "spec": body}


def a_list(*items: Any, kind: str = "List", version: str = "v1") -> Json:
    return {"apiVersion": version, "kind": kind, "items": list(items)}


def a_cluster(*nodes: str, count: int = 2) -> list[Json]:
    """Nodes with `count` devices each, the class `gpu`, which takes all of them, and the template `one`."""
    names = nodes or ("node-1",)
    slices = [a_slice(node=name, count=count) for name in names]
    return [*(a_node(name) for name in names), *slices, a_class(), a_template()]


def text_of(*objects: Any) -> str:
    """The objects as YAML documents: JSON is YAML too."""
    return "".join(f"---\n{json.dumps(one, ensure_ascii=False)}\n" for one in objects)


def a_storage_class(name: str = "w", *, provisioner: str = "d.io", mode: str = "WaitForFirstConsumer") -> Json:
    found = an_object("storage.k8s.io/v1", "StorageClass", name)
    return {**found, "provisioner": provisioner, "volumeBindingMode": mode}


def a_volume(name: str = "pv", *, node: str = "", phase: str = "Available", **spec: Any) -> Json:
    """A PersistentVolume of the class `w`, reached from the node of that hostname or from all."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    usual = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "w"}
    about = {**usual, **({"nodeAffinity": affinity} if node else {}), **spec}
    return {**an_object("v1", "PersistentVolume", name), "spec": about, "status": {"phase": phase}}


def a_volume_claim(name: str = "data", *, volume: str = "", **spec: Any) -> Json:
    """A PersistentVolumeClaim of the class `w`, bound to the volume where one is given."""
    usual = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "w"}
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    found = an_object("v1", "PersistentVolumeClaim", name, "default", {"uid": name, "annotations": annotations})
    return {**found, "spec": {**usual, **({"volumeName": volume} if volume else {}), **spec}}


def volumes_of(*claims: str) -> list[Json]:
    """The volumes of a pod, one for each claim."""
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]

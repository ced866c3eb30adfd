"""One object of each kind that is watched, with all its fields, and odd values to stand in place of each of them.

Objects are texts: what is nested too deep, too large or no JSON could not be written otherwise.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Json = dict[str, Any]
Path = tuple[str | int, ...]

DRIVER = "odd.example"
"""Not the driver of anything good: where a claim's devices cannot be named, nobody gets any of their driver."""

DEVICE = "odd-gpu"
DEPTHS = (1, 100, *range(240, 261), *range(1000, 1031), 5000, 9000)
_MARK = "\x00here"

VALUES: Mapping[str, str] = {
    "null": "null",
    "true": "true",
    "0": "0",
    "-1": "-1",
    "2^63": str(2**63),
    "2^64": str(2**64),
    "1e308": "1e308",
    "1.5": "1.5",
    "empty text": '""',
    "text": '"odd \\u00e9 \\u0000 / .. \\\\ % { value"',
    "empty list": "[]",
    "list": '[null, 0, "", {}, []]',
    "empty object": "{}",
    "object": '{"": null, "a": 0, "b": "", "c": {}, "d": []}',
    "objects": '[{"name": 0, "key": {}, "uid": []}]',
}
"""JSON of each shape, by its name."""

QUANTITIES = ('"1"', '"0.5"', '"1e3"', '"9E"', '"1n"', '"99999999999999999999Ei"', '"-1"', "4294967296")
"""Amounts that a field may take or not, as JSON."""

BROKEN: Mapping[str, str] = {
    "lone surrogate": '"\\ud800"',
    "no UTF-8": '"\udcff"',
    "number beyond all": "1e400",
    "word": "nil",
}
"""What is no JSON, or none that orjson reads; a surrogate stands for a byte that is no UTF-8."""


def nested(depth: int) -> str:
    """An object with lists and objects in each other, so many levels of them."""
    levels = ['{"a":' if level % 2 else "[" for level in range(1, depth + 1)]
    return "".join(levels) + "1" + "".join("}" if level == '{"a":' else "]" for level in reversed(levels))


def large() -> Iterator[str]:
    """A text of 1 MiB, and a list and an object of 10,000 entries."""
    yield json.dumps("x" * 2**20)
    yield json.dumps(["x"] * 10_000)
    yield json.dumps({f"x-{number}": "x" for number in range(10_000)})


class Kind(NamedTuple):
    """A kind and its odd object. free: where JSON stands that users and drivers write for each other."""

    api_version: str
    kind: str
    object: Json
    free: tuple[Path, ...] = ()


def fields(found: object, path: Path = ()) -> Iterator[Path]:
    """The path of every value of an object, the object itself left out."""
    if path:
        yield path
    steps: Iterator[tuple[str | int, object]] = iter(())
    if isinstance(found, dict):
        steps = iter(found.items())
    elif isinstance(found, list):
        steps = iter(enumerate(found))
    for step, value in steps:
        yield from fields(value, (*path, step))


def replaced(found: Json, path: Path, value: str) -> bytes:
    """The object's text with the value at the path, which is text of JSON or of what is none."""
    return json.dumps(_put(found, path)).replace(json.dumps(_MARK), value).encode(errors="surrogateescape")


def _put(found: Any, path: Path) -> Any:
    if not path:
        return _MARK
    copy = found.copy()
    copy[path[0]] = _put(found[path[0]], path[1:])
    return copy


def _metadata(name: str, namespace: str = "") -> Json:
    return {
        "name": name,
        "generateName": "odd-",
        **({"namespace": namespace} if namespace else {}),
        "uid": f"uid-of-{name}",
        "resourceVersion": "1000",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"a": "b"},
        "annotations": {"a": "b", "dra-scheduler.dev/intent": '{"scheduler": "dra-scheduler", "epoch": 1}'},
        "finalizers": ["a.example/b"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
        "managedFields": [
            {
                "manager": "dra-scheduler.dev/claim-statuses",
                "operation": "Apply",
                "subresource": "status",
                "fieldsV1": {"f:status": {"f:resourceClaimStatuses": {'k:{"name":"made"}': {"f:name": {}}}}},
            }
        ],
    }


_EXPRESSION = {"key": "a", "operator": "In", "values": ["b"]}
_SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [_EXPRESSION]}
_TERM = {"matchExpressions": [_EXPRESSION], "matchFields": [{**_EXPRESSION, "key": "metadata.name"}]}
_RESOURCES = {
    "requests": {"cpu": "1", "example.com/a": "1"},
    "limits": {"cpu": "2", "example.com/a": "1"},
    "claims": [{"name": "made", "request": "r"}],
}
_OPAQUE = {"requests": ["r"], "opaque": {"driver": DRIVER, "parameters": {"a": 1.50}}}
_CEL = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
_TOLERATION = {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}

NODE = Kind(
    "v1",
    "Node",
    {
        "metadata": _metadata("odd-node"),
        "spec": {"unschedulable": False, "taints": [{"key": "a", "value": "b", "effect": "PreferNoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": "8"},
            "declaredFeatures": ["a"],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    },
)

_CONTAINER = {
    "name": "c",
    "image": "i",
    "restartPolicy": "Always",
    "resources": _RESOURCES,
    "ports": [{"containerPort": 1, "hostPort": 1, "protocol": "TCP", "hostIP": "10.0.0.1"}],
}

POD = Kind(
    "v1",
    "Pod",
    {
        "metadata": _metadata("odd-pod", "default"),
        "spec": {
            "schedulerName": "dra-scheduler",
            "nodeName": "odd-node",
            "nodeSelector": {"a": "b"},
            "priority": 1,
            "priorityClassName": "a",
            "preemptionPolicy": "Never",
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": _TERM}],
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "a",
                            "namespaces": ["odd"],
                            "labelSelector": _SELECTOR,
                            "namespaceSelector": _SELECTOR,
                        }
                    ]
                },
            },
            "tolerations": [_TOLERATION],
            "schedulingGates": [{"name": "a.example/b"}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
            "resourceClaims": [
                {"name": "made", "resourceClaimTemplateName": "t"},
                {"name": "own", "resourceClaimName": "odd-claim"},
            ],
            "hostNetwork": True,
            "initContainers": [_CONTAINER],
            "containers": [{**_CONTAINER, "name": "d"}],
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
            "overhead": {"cpu": "1m"},
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
        "status": {
            "phase": "Pending",
            "nominatedNodeName": "odd-node",
            "conditions": [
                {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "m"},
                {"type": "PodScheduled", "status": "False", "observedGeneration": 1},
            ],
            "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "odd-claim"}, {"name": "none"}],
            "containerStatuses": [{"name": "d", "resources": _RESOURCES, "allocatedResources": {"cpu": "1"}}],
            "initContainerStatuses": [{"name": "c", "resources": _RESOURCES, "allocatedResources": {"cpu": "1"}}],
            "resources": {"requests": {"cpu": "1"}},
            "allocatedResources": {"cpu": "1"},
        },
    },
)

CLAIM = Kind(
    "resource.k8s.io/v1",
    "ResourceClaim",
    {
        "metadata": _metadata("odd-claim", "default"),
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "r",
                        "exactly": {
                            "deviceClassName": "odd-class",
                            "selectors": [_CEL],
                            "allocationMode": "ExactCount",
                            "count": 1,
                            "adminAccess": False,
                            "tolerations": [_TOLERATION],
                            "capacity": {"requests": {"memory": "1"}},
                        },
                    },
                    {
                        "name": "s",
                        "firstAvailable": [{"name": "t", "deviceClassName": "odd-class", "selectors": [_CEL]}],
                    },
                ],
                "constraints": [{"requests": ["r"], "matchAttribute": f"{DRIVER}/a"}],
                "config": [_OPAQUE],
            }
        },
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {
                            "request": "r",
                            "driver": DRIVER,
                            "pool": "odd-node",
                            "device": DEVICE,
                            "adminAccess": False,
                            "tolerations": [_TOLERATION],
                            "bindingConditions": ["a"],
                            "bindingFailureConditions": ["b"],
                            "shareID": "00000000-0000-4000-8000-000000000000",
                            "consumedCapacity": {"memory": "1"},
                        }
                    ],
                    "config": [{"source": "FromClaim", **_OPAQUE}],
                },
                "nodeSelector": {"nodeSelectorTerms": [_TERM]},
                "allocationTimestamp": "2026-01-01T00:00:00Z",
            },
            "reservedFor": [{"resource": "pods", "name": "odd-pod", "uid": "uid-of-odd-pod"}],
            "devices": [
                {
                    "driver": DRIVER,
                    "pool": "odd-node",
                    "device": DEVICE,
                    "data": {"a": 1.50},
                    "conditions": [{"type": "a", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                    "networkData": {"interfaceName": "i", "ips": ["10.0.0.1/24"], "hardwareAddress": "h"},
                }
            ],
        },
    },
    free=(
        ("spec", "devices", "config", 0, "opaque", "parameters"),
        ("status", "allocation", "devices", "config", 0, "opaque", "parameters"),
        ("status", "devices", 0, "data"),
    ),
)

CLASS = Kind(
    "resource.k8s.io/v1",
    "DeviceClass",
    {
        "metadata": _metadata("odd-class"),
        "spec": {
            "selectors": [_CEL],
            "config": [{"opaque": _OPAQUE["opaque"]}],
            "extendedResourceName": "example.com/odd",
        },
    },
    free=(("spec", "config", 0, "opaque", "parameters"),),
)

_COUNTERS = {"memory": {"value": "80Gi"}}

SLICE = Kind(
    "resource.k8s.io/v1",
    "ResourceSlice",
    {
        "metadata": _metadata("odd-slice"),
        "spec": {
            "driver": DRIVER,
            "pool": {"name": "odd-node", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "odd-node",
            "perDeviceNodeSelection": False,
            "sharedCounters": [{"name": "set", "counters": _COUNTERS}],
            "devices": [
                {
                    "name": DEVICE,
                    "attributes": {
                        "a": {"string": "b"},
                        "b": {"int": 1},
                        "c": {"bool": True},
                        "d": {"version": "1.0.0"},
                    },
                    "capacity": {"memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi"}}},
                    "consumesCounters": [{"counterSet": "set", "counters": _COUNTERS}],
                    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
                    "bindsToNode": True,
                    "bindingConditions": ["a"],
                    "bindingFailureConditions": ["b"],
                    "allowMultipleAllocations": True,
                }
            ],
        },
    },
)

NAMESPACE = Kind(
    "v1",
    "Namespace",
    {"metadata": _metadata("odd-namespace"), "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
)

TAINT_RULE = Kind(
    "resource.k8s.io/v1",
    "DeviceTaintRule",
    {
        "metadata": _metadata("odd-rule"),
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "odd-node", "device": DEVICE},
            "taint": {"key": "a", "value": "b", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"},
        },
        "status": {"conditions": [{"type": "a", "status": "True"}]},
    },
)

VOLUME = Kind(
    "v1",
    "PersistentVolume",
    {
        "metadata": _metadata("odd-volume"),
        "spec": {
            "storageClassName": "odd-class",
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "volumeAttributesClassName": "a",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [_TERM]}},
            "claimRef": {"namespace": "default", "name": "odd-claim", "uid": "u"},
            "csi": {"driver": DRIVER, "volumeHandle": "h"},
        },
        "status": {"phase": "Available"},
    },
)

MIGRATED_VOLUME = Kind(
    "v1",
    "PersistentVolume",
    {
        "metadata": _metadata("odd-migrated-volume"),
        "spec": {
            "capacity": {"storage": "1Gi"},
            "gcePersistentDisk": {"pdName": "d", "partition": 1, "readOnly": True},
            "awsElasticBlockStore": {"volumeID": "v"},
        },
        "status": {"phase": "Available"},
    },
)

VOLUME_CLAIM = Kind(
    "v1",
    "PersistentVolumeClaim",
    {
        "metadata": _metadata("c", "default"),
        "spec": {
            "storageClassName": "odd-class",
            "volumeName": "odd-volume",
            "accessModes": ["ReadWriteOncePod"],
            "volumeMode": "Filesystem",
            "volumeAttributesClassName": "a",
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": _SELECTOR,
        },
        "status": {"phase": "Bound"},
    },
)

STORAGE_CLASS = Kind(
    "storage.k8s.io/v1",
    "StorageClass",
    {
        "metadata": _metadata("odd-class"),
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}],
    },
)

CSI_NODE = Kind(
    "storage.k8s.io/v1",
    "CSINode",
    {
        "metadata": _metadata("odd-node"),
        "spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "topologyKeys": ["a"], "allocatable": {"count": 1}}]},
    },
)

CSI_DRIVER = Kind("storage.k8s.io/v1", "CSIDriver", {"metadata": _metadata(DRIVER), "spec": {"storageCapacity": True}})

CSI_CAPACITY = Kind(
    "storage.k8s.io/v1",
    "CSIStorageCapacity",
    {
        "metadata": _metadata("odd-capacity", "default"),
        "storageClassName": "odd-class",
        "nodeTopology": _SELECTOR,
        "capacity": "1Gi",
        "maximumVolumeSize": "1Gi",
    },
)

ATTACHMENT = Kind(
    "storage.k8s.io/v1",
    "VolumeAttachment",
    {
        "metadata": _metadata("odd-attachment"),
        "spec": {"attacher": DRIVER, "nodeName": "odd-node", "source": {"persistentVolumeName": "odd-volume"}},
    },
)

SERVICE = Kind("v1", "Service", {"metadata": _metadata("odd-service", "default"), "spec": {"selector": {"a": "b"}}})

REPLICATION_CONTROLLER = Kind(
    "v1",
    "ReplicationController",
    {"metadata": _metadata("odd-controller", "default"), "spec": {"selector": {"a": "b"}}},
)

REPLICA_SET, STATEFUL_SET = (
    Kind("apps/v1", kind, {"metadata": _metadata("odd-set", "default"), "spec": {"selector": _SELECTOR}})
    for kind in ("ReplicaSet", "StatefulSet")
)

STORAGE = (VOLUME, MIGRATED_VOLUME, VOLUME_CLAIM, STORAGE_CLASS, CSI_NODE, CSI_DRIVER, CSI_CAPACITY, ATTACHMENT)
SELECTORS = (SERVICE, REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)
KINDS = (NODE, POD, CLAIM, CLASS, SLICE, NAMESPACE, TAINT_RULE, *STORAGE, *SELECTORS)

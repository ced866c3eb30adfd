"""A valid object of each kind that is watched, or that stands for pods, with the fields that are read of it."""

from tests.controlplane.profiles import RELEASE
from tests.controlplane.rest import Json

_EXPRESSION = {"key": "a", "operator": "In", "values": ["b"]}
_NUMBER = {"key": "n", "operator": "Gt", "values": ["7"]}
_LABELS = {"matchLabels": {"a": "b"}, "matchExpressions": [_EXPRESSION]}
_TERM = {"matchExpressions": [_EXPRESSION, _NUMBER], "matchFields": [{**_EXPRESSION, "key": "metadata.name"}]}
_RESOURCES = {
    "requests": {"cpu": "1", "example.com/a": "1", "hugepages-2Mi": "2Mi"},
    "limits": {"cpu": "2", "example.com/a": "1", "hugepages-2Mi": "2Mi"},
    "claims": [{"name": "made", "request": "r"}],
}
_CONTAINER = {
    "name": "c",
    "image": "i",
    "resources": _RESOURCES,
    "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"}],
}
_APART = {"topologyKey": "zone", "namespaces": ["b"], "labelSelector": _LABELS, "namespaceSelector": _LABELS}
_APART |= {"matchLabelKeys": ["c"], "mismatchLabelKeys": ["d"]}
_BOTH = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_APART],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": _APART}],
}
_TOLERATIONS = [
    {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
    {"operator": "Exists"},
]
_META = {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a.example/b"]}
_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "p", "uid": "u", "controller": True}

_POD_SPEC = {"containers": [{"name": "c", "image": "i"}]}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": _POD_SPEC}
_JOB_TEMPLATE = {**_TEMPLATE, "spec": {**_POD_SPEC, "restartPolicy": "Never"}}
_JOB = {"parallelism": 1, "completions": 2, "template": _JOB_TEMPLATE}
_VOLUME = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

OBJECTS: tuple[Json, ...] = (
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "odd", "namespace": "ml", **_META, "ownerReferences": [_OWNER]},
        "spec": {
            "schedulerName": "dra-scheduler",
            "nodeSelector": {"a": "b"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": _TERM}],
                },
                "podAffinity": _BOTH,
                "podAntiAffinity": _BOTH,
            },
            "tolerations": _TOLERATIONS,
            "schedulingGates": [{"name": "a.example/b"}],
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": _LABELS,
                    "matchLabelKeys": ["c"],
                    "minDomains": 2,
                    "nodeAffinityPolicy": "Honor",
                    "nodeTaintsPolicy": "Ignore",
                }
            ],
            "resourceClaims": [
                {"name": "made", "resourceClaimTemplateName": "t"},
                {"name": "own", "resourceClaimName": "c"},
            ],
            "initContainers": [{**_CONTAINER, "name": "i", "restartPolicy": "Always"}],
            "containers": [_CONTAINER],
            "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}},
            "terminationGracePeriodSeconds": 7,
            "volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
                {
                    "name": "e",
                    "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": _VOLUME}},
                },
                {"name": "g", "gcePersistentDisk": {"pdName": "d", "partition": 1, "readOnly": True}},
                {"name": "b", "awsElasticBlockStore": {"volumeID": "v"}},
                {"name": "r", "rbd": {"monitors": ["m"], "image": "i", "pool": "p"}},
                {"name": "s", "iscsi": {"targetPortal": "t", "iqn": "iqn.2001-04.com.example:s", "lun": 0}},
            ],
        },
        "status": {
            "phase": "Pending",
            "nominatedNodeName": "node",
            "conditions": [
                {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "m"},
                {"type": "PodScheduled", "status": "False", "observedGeneration": 1},
            ],
            "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "c"}],
            "extendedResourceClaimStatus": {
                "resourceClaimName": "c",
                "requestMappings": [{"containerName": "c", "resourceName": "example.com/a", "requestName": "r"}],
            },
            "containerStatuses": [
                {
                    "name": "c",
                    "image": "i",
                    "imageID": "i",
                    "ready": False,
                    "restartCount": 0,
                    "resources": {"requests": {"cpu": "1"}},
                    "allocatedResources": {"cpu": "1"},
                }
            ],
            "resources": {"requests": {"cpu": "1"}},
            "allocatedResources": {"cpu": "1"},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "odd", **_META},
        "spec": {"unschedulable": True, "taints": [{"key": "a", "value": "b", "effect": "PreferNoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110", "example.com/a": "1"},
            "capacity": {"cpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "declaredFeatures": ["A"],
            "images": [{"names": ["i"], "sizeBytes": 7}],
        },
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "odd", **_META},
        "spec": {
            "storageClassName": "a",
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [_EXPRESSION]}]}},
            "claimRef": {"namespace": "ml", "name": "c", "uid": "u"},
            "csi": {"driver": "d.example", "volumeHandle": "h", "readOnly": True},
        },
        "status": {"phase": "Available"},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "spec": {
            "storageClassName": "a",
            "volumeName": "v",
            "accessModes": ["ReadWriteOncePod"],
            "volumeMode": "Filesystem",
            "volumeAttributesClassName": "a",
            "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}},
            "selector": _LABELS,
        },
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "odd", **_META},
        "provisioner": "d.example",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}],
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "odd", **_META},
        "spec": {"drivers": [{"name": "d.e", "nodeID": "n", "topologyKeys": ["a"], "allocatable": {"count": 1}}]},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "odd", **_META},
        "spec": {"storageCapacity": True, "attachRequired": True},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "storageClassName": "a",
        "nodeTopology": _LABELS,
        "capacity": "1Gi",
        "maximumVolumeSize": "1Gi",
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "odd", **_META},
        "spec": {"attacher": "d.e", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "odd", **_META},
        "value": 7,
        "globalDefault": False,
        "preemptionPolicy": "Never",
        "description": "d",
    },
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "spec": {"selector": _LABELS, "minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {
            "disruptionsAllowed": 1,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "disruptedPods": {"p": "2026-01-01T00:00:00Z"},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]},
    },
    {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "spec": {"selector": {"a": "b"}, "replicas": 1, "template": _TEMPLATE},
    },
    *(
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": "odd", "namespace": "ml", **_META},
            "spec": {"selector": _LABELS, "replicas": 1, "template": _TEMPLATE},
        }
        for kind in ("ReplicaSet", "StatefulSet")
    ),
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "spec": {
            "selector": _LABELS,
            "replicas": 1,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
            "template": _TEMPLATE,
        },
    },
    {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "spec": {"selector": _LABELS, "template": _TEMPLATE},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "spec": {**_JOB, "completionMode": "Indexed", "backoffLimit": 7, "suspend": True},
        "status": {"active": 1, "ready": 0, "startTime": "2026-01-01T00:00:00Z"},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "spec": {"schedule": "1 2 * * *", "suspend": False, "jobTemplate": {"spec": _JOB}},
    },
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "odd", **_META}},
    {
        "apiVersion": f"scheduling.k8s.io/{'v1alpha2' if RELEASE == '1.36' else 'v1beta1'}",
        "kind": "PodGroup",
        "metadata": {"name": "odd", "namespace": "ml", **_META},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "zone"}]},
            "resourceClaims": [{"name": "made", "resourceClaimTemplateName": "t"}],
        },
        "status": {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "c"}]},
    },
)
"""But for those of resource.k8s.io."""

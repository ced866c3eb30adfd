"""What is placed, and on what: nodes with ten devices each, pods that want one; the same on every run.

Pods are of apps of a hundred. They may ask for more than a device, by which the filters and scores of kube-scheduler
have something to do: to be spread over zones, apart from their app, near another one, and a volume of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Json = dict[str, Any]  # an object of the API

DRIVER = "gpu.example.com"
CLASS = "gpu"
TEMPLATE = "one-gpu"
REQUEST = "gpu"
NAMESPACE = "default"
SCHEDULER = "measured"
"""What the pods name in `spec.schedulerName`, whoever is measured alone: the load is the same for all."""

DEVICES_OF_NODE = 10

APP, ZONE, HOSTNAME = "app", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PODS_OF_APP = 100
ZONES = ("zone-a", "zone-b", "zone-c")
DISK_DRIVER = "disk.example.com"
DISKS_OF_NODE = 39
STORAGE_CLASS = "disk"


class Asks(NamedTuple):
    """What each pod asks for beside processors and memory.

    spread: over zones, as evenly as its app can be. apart: no other pod of its app on its node. near: rather a zone
    with pods of the app before its own. volume: a claim with a volume, which all zones reach.
    """

    name: str
    device: bool = False
    spread: bool = False
    apart: bool = False
    near: bool = False
    volume: bool = False


PLAIN = Asks("a claim", device=True)
EVERY_FILTER = Asks("every filter", device=True, spread=True, apart=True, near=True, volume=True)


class Size(NamedTuple):
    """How much of it."""

    nodes: int
    pods: int

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.pods:,} pods"


class Load(NamedTuple):
    """What a run is about. asks: each of its pods."""

    size: Size
    asks: Asks = PLAIN

    def __str__(self) -> str:
        return f"{self.size}, {self.asks.name}"


SIZES = (Size(100, 1000), Size(500, 2500), Size(2000, 2000), Size(5000, 1000))
"""Those that are measured if nobody says otherwise."""


def size_of(text: str) -> Size:
    """The size that is written as NODES:PODS. Raises ValueError."""
    nodes, _, pods = text.partition(":")
    size = Size(int(nodes), int(pods))
    if not 2 <= size.pods <= size.nodes * DEVICES_OF_NODE:
        raise ValueError(f"{text}: {size.nodes} nodes have devices for 2 to {size.nodes * DEVICES_OF_NODE} pods")
    return size


class Taken(NamedTuple):
    """A device of a node; the node's pool has its name."""

    node: str
    device: str


def place(number: int, nodes: int) -> Taken:
    """A place for the pod of that number, so that no two have the same: node after node, then the next device."""
    return Taken(node_name(number % nodes), device_name(number // nodes))


def node_name(number: int) -> str:
    """A node's name."""
    return f"node-{number:05d}"


def number_of(name: str) -> int:
    """The number of the node or the pod of that name."""
    return int(name.rpartition("-")[2])


def device_name(index: int) -> str:
    """A device's name."""
    return f"gpu-{index}"


def zone_of(node: int) -> str:
    """The zone of the node of that number."""
    return ZONES[node % len(ZONES)]


def app_of(pod: int) -> str:
    """The app of the pod of that number."""
    return _app(pod // PODS_OF_APP)


def _app(number: int) -> str:
    return f"app-{number:03d}"


def nodes(size: Size) -> Iterator[Json]:
    """The nodes, with what a kubelet would report of them."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    for number in range(size.nodes):
        name = node_name(number)
        metadata = {"name": name, "labels": {HOSTNAME: name, ZONE: zone_of(number)}}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def csi_nodes(size: Size) -> Iterator[Json]:
    """What the driver of volumes says of each node."""
    for name in map(node_name, range(size.nodes)):
        driver = {"name": DISK_DRIVER, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": DISKS_OF_NODE}}
        spec = {"drivers": [driver]}
        yield {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": spec}


def storage_class() -> Json:
    """The class of all volumes."""
    named = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": STORAGE_CLASS}}
    return {**named, "provisioner": DISK_DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}


def volumes(size: Size) -> Iterator[Json]:
    """A volume for each pod, which is bound to its claim."""
    zones = {"key": ZONE, "operator": "In", "values": list(ZONES)}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}}
    for name in map(pod_name, range(size.pods)):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": name},
            "csi": {"driver": DISK_DRIVER, "volumeHandle": name},
            "nodeAffinity": affinity,
            "storageClassName": STORAGE_CLASS,
        }
        yield {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def volume_claims(size: Size) -> Iterator[Json]:
    """The claims of these volumes."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
        "storageClassName": STORAGE_CLASS,
    }
    for name in map(pod_name, range(size.pods)):
        annotations = {"pv.kubernetes.io/bind-completed": "yes"}
        metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations}
        own = {**spec, "volumeName": name}
        yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": own}


def slices(size: Size) -> Iterator[Json]:
    """One slice for each node."""
    devices = [_device(index) for index in range(DEVICES_OF_NODE)]
    for name in map(node_name, range(size.nodes)):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        yield _resource("ResourceSlice", {"name": name}, spec)


def _device(index: int) -> Json:
    attributes = {
        "type": {"string": "gpu"},
        "index": {"int": index},
        "model": {"string": "H200"},
        "driverVersion": {"version": "1.2.3"},
    }
    return {"name": device_name(index), "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def device_class() -> Json:
    """The class that selects all devices of the driver."""
    expression = f'device.driver == "{DRIVER}"'
    return _resource("DeviceClass", {"name": CLASS}, {"selectors": [{"cel": {"expression": expression}}]})


def template() -> Json:
    """The template of claims for one device."""
    request = {"name": REQUEST, "exactly": {"deviceClassName": CLASS}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    return _resource("ResourceClaimTemplate", {"name": TEMPLATE, "namespace": NAMESPACE}, spec)


def _resource(kind: str, metadata: Json, spec: Json) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def pod_name(number: int) -> str:
    """A pod's name, which is also that of its volume and of the claim for it."""
    return f"pod-{number:05d}"


def pods(size: Size, schedulers: Sequence[str] = (SCHEDULER,), asks: Asks = PLAIN) -> Iterator[Json]:
    """The pods. schedulers: what they name, by turns."""
    for number in range(size.pods):
        metadata = {"name": pod_name(number), "namespace": NAMESPACE, "labels": {APP: app_of(number)}}
        named = {"schedulerName": schedulers[number % len(schedulers)]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**named, **_spec(number, asks)}}


def _spec(number: int, asks: Asks) -> Json:
    resources: Json = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    spec: Json = {"containers": [{"name": "main", "image": "registry.example.com/main:1", "resources": resources}]}
    if asks.device:
        resources["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}]
    if affinity := _affinity(number // PODS_OF_APP, asks):
        spec["affinity"] = affinity
    if asks.spread:
        selector = _selector(number // PODS_OF_APP)
        how = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        spec["topologySpreadConstraints"] = [how]
    if asks.volume:
        spec["volumes"] = [{"name": "disk", "persistentVolumeClaim": {"claimName": pod_name(number)}}]
    return spec


def _affinity(app: int, asks: Asks) -> Json:
    affinity: Json = {}
    if asks.apart:
        own = {"labelSelector": _selector(app), "topologyKey": HOSTNAME}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [own]}
    if asks.near:
        other = {"labelSelector": _selector(max(app - 1, 0)), "topologyKey": ZONE}
        preferred = [{"weight": 10, "podAffinityTerm": other}]
        affinity["podAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return affinity


def _selector(app: int) -> Json:
    return {"matchLabels": {APP: _app(app)}}

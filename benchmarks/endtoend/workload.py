"""What is placed, and on what: nodes with ten devices each, pods that want one; the same on every run."""

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


class Size(NamedTuple):
    """How much of it."""

    nodes: int
    pods: int

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.pods:,} pods"


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


def device_name(index: int) -> str:
    """A device's name."""
    return f"gpu-{index}"


def nodes(size: Size) -> Iterator[Json]:
    """The nodes, with what a kubelet would report of them."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    for name in map(node_name, range(size.nodes)):
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


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


def pods(size: Size, schedulers: Sequence[str] = (SCHEDULER,)) -> Iterator[Json]:
    """The pods. schedulers: what they name, by turns."""
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "claims": [{"name": "gpu"}]}
    spec = {
        "containers": [{"name": "main", "image": "registry.example.com/main:1", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}],
    }
    for number in range(size.pods):
        metadata = {"name": f"pod-{number:05d}", "namespace": NAMESPACE}
        named = {"schedulerName": schedulers[number % len(schedulers)], **spec}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": named}

"""Generates the objects of a fleet and of a workload one at a time, so that memory does not limit their number."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from scheduler.synthetic.devices import Host, Json, PublishedDevices
from scheduler.synthetic.draw import Draw, Mix
from scheduler.synthetic.machines import Machine
from scheduler.synthetic.shapes import CLASSES, PodShape

API = "resource.k8s.io/v1"
ZONES = 3

_COUNTER_SETS_OF_SLICE = 8
_DEVICES_OF_SLICE = 128
_DEVICES_OF_COUNTERS = 64
"""What the API server takes."""

_CPU, _MEMORY_GI = 20, 240
"""Of a node, for each of its devices, beside what it has without any."""

_LEAST_CPU, _LEAST_MEMORY_GI = 32, 128

_DRIVER_VERSIONS = Mix({"570.86.15": 9, "565.57.1": 1})
"""As in a fleet that is being updated."""

T = TypeVar("T")


def classes(machines: Mix[Machine], shapes: Mix[PodShape]) -> Iterator[Json]:
    """The classes of what machines have and of what shapes ask for."""
    wanted = {name for machine in machines.weights for name in machine.classes}
    wanted |= {name for shape in shapes.weights for name in shape.classes}
    for name in sorted(wanted):
        selectors = [{"cel": {"expression": CLASSES[name]}}]
        yield {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}}


def hosts(seed: int, machines: Mix[Machine], nodes: int, devices: int) -> Iterator[tuple[Machine, Host]]:
    """The nodes: a smaller fleet of the same seed is the beginning of a larger one. devices: of each kind on a node."""
    draw = Draw(seed, "nodes")
    for number in range(nodes):
        machine, version = machines.draw(draw), _DRIVER_VERSIONS.draw(draw)
        yield machine, Host(f"node-{number:06}", devices, version)


def node(number: int, machine: Machine, host: Host) -> Json:
    """The node of that number, as its kubelet reports it."""
    labels = {
        "kubernetes.io/hostname": host.name,
        "node.kubernetes.io/instance-type": machine.name,
        "topology.kubernetes.io/zone": f"zone-{'abc'[number % ZONES]}",
    }
    cpu, memory_gi = _LEAST_CPU + _CPU * host.number, _LEAST_MEMORY_GI + _MEMORY_GI * host.number
    room = {"cpu": str(cpu), "memory": f"{memory_gi}Gi", "pods": "110"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.name, "labels": labels}, "status": status}


def slices(machine: Machine, host: Host) -> Iterator[Json]:
    """The slices of a node: a pool for each driver, counter sets in slices of their own."""
    for driver in machine.drivers:
        yield from _pool(host, driver(host))


def _pool(host: Host, published: PublishedDevices) -> Iterator[Json]:
    most = _DEVICES_OF_COUNTERS if published.counter_sets else _DEVICES_OF_SLICE
    contents = [{"sharedCounters": part} for part in _chunks(published.counter_sets, _COUNTER_SETS_OF_SLICE)]
    contents += [{"devices": part} for part in _chunks(published.devices, most)]
    pool = {"name": host.name, "generation": 1, "resourceSliceCount": len(contents)}
    for number, content in enumerate(contents):
        metadata = {"name": f"{host.name}-{published.driver}-{number}"}
        spec = {"driver": published.driver, "pool": pool, "nodeName": host.name, **content}
        yield {"apiVersion": API, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _chunks(things: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    return (things[start : start + most] for start in range(0, len(things), most))


def templates(shapes: Mix[PodShape], namespace: str) -> Iterator[Json]:
    """The claim templates of the shapes that have devices."""
    for shape in shapes.weights:
        if shape.requests:
            metadata = {"name": shape.name, "namespace": namespace}
            spec = {"spec": {"devices": shape.devices}}
            yield {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def pod_shapes(seed: int, shapes: Mix[PodShape], pods: int) -> Iterator[tuple[int, PodShape]]:
    """(number, shape) of each pod: fewer pods of the same seed are the first of more."""
    draw = Draw(seed, "pods")
    return ((number, shapes.draw(draw)) for number in range(pods))


def claim(number: int, shape: PodShape, namespace: str) -> Json:
    """The claim of the pod of that number, where it has its own."""
    metadata = {"name": _pod_name(number, shape), "namespace": namespace}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": shape.devices}}


def pod(number: int, shape: PodShape, namespace: str, *, owns_claim: bool = False) -> Json:
    """The pod of that number. owns_claim: it names a claim of its own name, in place of the template of its shape."""
    name = _pod_name(number, shape)
    source = {"resourceClaimName": name} if owns_claim else {"resourceClaimTemplateName": shape.name}
    resources: Json = {"requests": {"cpu": str(shape.cpu), "memory": f"{shape.memory_gi}Gi"}}
    if shape.requests:
        resources["claims"] = [{"name": "devices"}]
    spec: Json = {"containers": [{"name": "main", "image": "registry.example.com/main:1", "resources": resources}]}
    if shape.requests:
        spec["resourceClaims"] = [{"name": "devices", **source}]
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _pod_name(number: int, shape: PodShape) -> str:
    """Names sort by number, so that pods of all shapes are placed in the order in which they were drawn."""
    return f"pod-{number:07}-{shape.name}"

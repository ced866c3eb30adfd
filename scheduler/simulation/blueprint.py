"""What to generate, and the generated objects: one at a time, so that memory does not limit their number."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from allocator.api.versions import Json
from allocator.words import counted, did_you_mean
from scheduler.simulation.catalogue import (
    CLASSES,
    MACHINES,
    WHOLE,
    Draw,
    Machine,
    Mix,
    PodShape,
    Preset,
    Weights,
    shapes,
)
from scheduler.simulation.devices import Host, PublishedDevices

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

Item = TypeVar("Item")


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


def _chunks(things: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
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


LEAST_GAP_S, MOST_GAP_S = 0.001, 1e9
"""Times have three decimals, and are floats for any number of pods."""


class InvalidLoad(ValueError):
    """A load that is not possible with the fleet, the shapes and the duration."""


def gap_s(shapes: Mix[PodShape], gpus: int, load: float, duration_s: float) -> float:
    """The mean time between arrivals at which this share of the GPUs is in use if every pod starts at once.

    Raises InvalidLoad.
    """
    requested = sum(weight * shape.milli_gpus for shape, weight in shapes.weights.items()) / shapes.total / WHOLE
    if not gpus:
        raise InvalidLoad("the fleet has no GPUs to load")
    if not requested:
        raise InvalidLoad("no shape requests GPUs")
    gap = duration_s * requested / load / gpus
    if not LEAST_GAP_S <= gap <= MOST_GAP_S:
        raise InvalidLoad(
            f"pods would arrive every {gap:g} s on average; from {LEAST_GAP_S:g} to {MOST_GAP_S:g} s is possible"
        )
    return gap


def arrivals(
    seed: int, pods: Iterable[tuple[int, PodShape]], namespace: str, mean_gap_s: float, mean_duration_s: float
) -> Iterator[Json]:
    """The lines of a trace for `dra simulate`, in the order of time: a Poisson process, exponential durations.

    The first pod of a shape is whole, others refer to it (`like`).
    """
    gaps, durations = Draw(seed, "arrivals"), Draw(seed, "durations")
    first: dict[PodShape, str] = {}
    now = 0.0
    for number, shape in pods:
        now += mean_gap_s * gaps.exponential()
        arriving = pod(number, shape, namespace)
        name = arriving["metadata"]["name"]
        like = first.setdefault(shape, name)
        what = {"pod": arriving} if like == name else {"like": f"{namespace}/{like}", "name": name}
        yield {"time": round(now, 3), **what, "duration": round(mean_duration_s * durations.exponential(), 3)}


class InvalidMix(ValueError):
    """Weights with an unknown name, or of which nothing remains."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A fleet and a workload."""

    seed: int
    machines: Mix[Machine]
    """The machines of the nodes, and how often each comes."""
    nodes: int
    """How many nodes there are."""
    devices: int
    """How many devices of each kind a node has."""
    shapes: Mix[PodShape]
    """The shapes of the pods, and how often each comes."""
    pods: int
    """How many pods there are."""
    namespace: str
    own_claims: bool = False
    """Each pod has a claim of its own in place of its shape's template."""

    def objects(self) -> Iterator[Json]:
        """The fleet if it has nodes, then the workload if it has pods."""
        if self.nodes:
            yield from self.fleet()
        if self.pods:
            yield from self.workload()

    def fleet(self) -> Iterator[Json]:
        """The classes, then the nodes, each with its slices."""
        yield from classes(self.machines, self.shapes)
        for number, (machine, host) in enumerate(self._hosts()):
            yield node(number, machine, host)
            yield from slices(machine, host)

    def workload(self) -> Iterator[Json]:
        """The templates, then the pods; or each pod after its own claim."""
        if not self.own_claims:
            yield from self.templates()
        for number, shape in self._pod_shapes():
            if self.own_claims and shape.requests:
                yield claim(number, shape, self.namespace)
            yield pod(number, shape, self.namespace, owns_claim=self.own_claims)

    def templates(self) -> Iterator[Json]:
        """The claim templates of the shapes."""
        return templates(self.shapes, self.namespace)

    def trace(self, load: float, duration_s: float) -> Iterator[Json]:
        """The arrivals of the pods, which use the templates. duration_s: for how long they run on average.

        load: the share of the fleet's GPUs that they request on average. Raises InvalidLoad.
        """
        nodes = sum(bool(machine.drivers) for machine, _ in self._hosts())
        mean_gap_s = gap_s(self.shapes, nodes * self.devices, load, duration_s)
        return arrivals(self.seed, self._pod_shapes(), self.namespace, mean_gap_s, duration_s)

    def _hosts(self) -> Iterator[tuple[Machine, Host]]:
        return hosts(self.seed, self.machines, self.nodes, self.devices)

    def _pod_shapes(self) -> Iterator[tuple[int, PodShape]]:
        return pod_shapes(self.seed, self.shapes, self.pods)


def machines_of(preset: Preset, weights: Weights) -> Mix[Machine]:
    """The machines of the preset, or of the weights by name where there are any. Raises InvalidMix."""
    return _mix("machine", MACHINES, weights or preset.machines)


def shapes_of(preset: Preset, weights: Weights, devices: int) -> Mix[PodShape]:
    """The shapes likewise, for nodes with so many devices; of a preset those that such nodes can hold."""
    fitting = shapes(devices)
    chosen = weights or {name: weight for name, weight in preset.shapes.items() if name in fitting}
    return _mix("shape", fitting, chosen, f" for nodes with {counted(devices, 'device')}")


def _mix(kind: str, known: Mapping[str, Item], weights: Weights, where: str = "") -> Mix[Item]:
    for name in weights:
        if name not in known:
            raise InvalidMix(f"{name!r}: no such {kind}{where}{did_you_mean(name, known)}")
    if not any(weights.values()):
        raise InvalidMix(f"no {kind} has a weight above 0")
    return Mix({known[name]: weight for name, weight in weights.items() if weight})

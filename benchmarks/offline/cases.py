"""The input of the offline benchmark: nodes with eight devices each, and pods that wait, each with a claim of its own.

There are two models of devices and twelve kinds of pods. The objects are the same on every run.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.endtoend.workload import CLASS, DRIVER, Json, Size, device_class, device_name, node_name, nodes

DEVICES_OF_NODE = 8
NAMESPACES = 20
MODELS = ("L40", "H200")
COUNTS = (1, 1, 1, 2, 4, 8)
"""Devices that pods of one model want by turns; four of them have to be of one NUMA node."""

COUNTS_THAT_FIT = (1, 1, 1, 2, 4, 4)
"""The same without whole nodes: however pods are spread, each takes devices of one more NUMA node, of which a node has
two. Whole nodes run out early where each pod goes to the node with the most processors left."""

LEAST_PODS = 100
"""With fewer pods, a tenth of them is too small a number to be met."""

MOST_PODS_OF_NODE = 2
"""With more pods for each node, some of `COUNTS_THAT_FIT` may be left over."""

_PART_THERE = 0.55
"""Of what is wanted of a model that runs out: first of whole nodes, then of NUMA nodes, then of devices. A refused pod
of eight leaves room for others: far fewer than 45 % of these pods are refused in the end."""

_ATTRIBUTES = f'device.attributes["{DRIVER}"]'
_MEMORY = f'device.capacity["{DRIVER}"].memory'


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured.

    requests: `spec.devices` of the claims, by turns. first_model: from a size to the number of nodes with devices of
    the first model; the others have the second. least, most: the part of the pods that has to be refused.
    """

    title: str
    requests: Sequence[Json]
    first_model: Callable[[Size], int]
    least: float
    most: float


def _request(expression: str, *counts: int, match: str = "") -> Json:
    """A claim with a request for each count, all of devices that the selector passes."""
    selectors = [{"cel": {"expression": expression}}]
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "selectors": selectors}
    requests = [{"name": f"gpus-{n}", "exactly": {**exactly, "count": count}} for n, count in enumerate(counts)]
    return {"requests": requests, **({"constraints": [{"matchAttribute": f"{DRIVER}/{match}"}]} if match else {})}


def _is_model(model: str) -> str:
    return f'{_ATTRIBUTES}.model == "{model}"'


def _possible(model: str, counts: Sequence[int]) -> list[Json]:
    return [_request(_is_model(model), count, match="numa" if count == 4 else "") for count in counts]


def _impossible(model: str) -> list[Json]:
    """One request for each reason to refuse a pod on a node without any device in use."""
    ours = _is_model(model)
    return [
        _request(ours, DEVICES_OF_NODE + 1),
        _request(ours, 6, 3),
        _request(f'{ours} && {_ATTRIBUTES}.uuid == "GPU-of-no-node"', 1),
        _request(f'{ours} && {_MEMORY}.compareTo(quantity("141Gi")) >= 0', 1),
        _request(ours, DEVICES_OF_NODE // 2 + 1, match="numa"),
        _request(ours, 2, match="uuid"),
    ]


def _half(size: Size) -> int:
    return size.nodes // 2


def _too_few(size: Size) -> int:
    """Nodes with a part of the devices that half of the pods want in all."""
    return round(_PART_THERE * sum(COUNTS) / len(COUNTS) * size.pods / len(MODELS) / DEVICES_OF_NODE)


_THAT_FIT = [request for model in MODELS for request in _possible(model, COUNTS_THAT_FIT)]
_WITH_WHOLE_NODES = [request for model in MODELS for request in _possible(model, COUNTS)]
_IMPOSSIBLE = [request for model in MODELS for request in _impossible(model)]

CASES: Mapping[str, Case] = {
    "none": Case("none refused", _THAT_FIT, _half, 0, 0),
    "tenth": Case("a tenth refused", _WITH_WHOLE_NODES, _too_few, 0.05, 0.2),
    "all": Case("all refused", _IMPOSSIBLE, _half, 1, 1),
}
"""By a name for flags."""


def write(case: Case, size: Size, file: Path) -> None:
    """All objects as a v1 List in JSON."""
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects(case, size))}))


def objects(case: Case, size: Size) -> Iterator[Json]:
    """All objects, in the order of a dump: kind after kind."""
    yield device_class()
    yield from nodes(size)
    yield from (_slice(number, _model(case, size, number)) for number in range(size.nodes))
    yield from (_claim(size, number, case.requests[number % len(case.requests)]) for number in range(size.pods))
    yield from (_pod(size, number) for number in range(size.pods))


def _model(case: Case, size: Size, number: int) -> str:
    """The model of a node's devices; the nodes of the first model are spread evenly over all."""
    first = case.first_model(size)
    return MODELS[0] if number * first % size.nodes < first else MODELS[1]


def _slice(number: int, model: str) -> Json:
    name = node_name(number)
    devices = [_device(number, index, model) for index in range(DEVICES_OF_NODE)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def _device(node: int, index: int, model: str) -> Json:
    attributes = {
        "model": {"string": model},
        "numa": {"int": index * 2 // DEVICES_OF_NODE},
        # Real devices have one: no two nodes are alike, so no answer about one can be used for another as it is.
        "uuid": {"string": f"GPU-{node:05d}-{index}"},
    }
    return {"name": device_name(index), "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def _claim(size: Size, number: int, request: Json) -> Json:
    metadata = {"name": f"claim-{number:05d}", "namespace": _namespace(size, number)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": request},
    }


def _pod(size: Size, number: int) -> Json:
    resources = {"requests": {"cpu": str(1 + number % len(COUNTS))}, "claims": [{"name": "gpus"}]}
    spec = {
        "containers": [{"name": "main", "image": "registry.example.com/main:1", "resources": resources}],
        "resourceClaims": [{"name": "gpus", "resourceClaimName": f"claim-{number:05d}"}],
    }
    metadata = {"name": f"pod-{number:05d}", "namespace": _namespace(size, number)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _namespace(size: Size, number: int) -> str:
    """Pods are placed by namespace, then by name: this way that is the order of their numbers, all kinds by turns."""
    return f"team-{number * NAMESPACES // size.pods:02d}"

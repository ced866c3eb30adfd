"""The input of the benchmark of `dra defrag`, and what it has to answer.

Nodes with eight devices each, and pods that leave each of them three. One pod waits for more than any node has free.
The pods that would be the cheapest to move are kept on their nodes by a selector, so that the search has to go on.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.endtoend.workload import (
    CLASS,
    DRIVER,
    HOSTNAME,
    NAMESPACE,
    REQUEST,
    Json,
    Size,
    device_class,
    device_name,
    node_name,
    nodes,
)

DEVICES_OF_NODE = 8
PINNED = 20
"""On so many nodes the pods have the lowest priority, and may be nowhere else."""

TARGET = "wanting"

OWNER: Json = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "work", "uid": "uid-work", "controller": True}


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured. devices: of each pod of a node; wanted: of the target. limit_s: what it has to stay under."""

    title: str
    nodes: int
    devices: Sequence[int]
    wanted: int
    moves: int
    limit_s: float

    @property
    def size(self) -> Size:
        """How much there is."""
        return Size(self.nodes, self.nodes * len(self.devices))

    def is_right(self, found: Any) -> bool:  # Any: JSON
        """Whether the plan is the best, of as many moves as are needed, and none of a pod that cannot move."""
        from_nodes = {one["from"]["node"] for one in found["moves"]}
        pinned = {node_name(number) for number in range(min(PINNED, self.nodes // 2))}
        return bool(found["isBest"] and len(found["moves"]) == self.moves and not from_nodes & pinned)


CASES: Mapping[str, Case] = {
    "one": Case("one move", 5000, (2, 3), 5, 1, 5.0),
    "three": Case("three moves", 500, (1, 1, 1, 2), 6, 3, 20.0),
}
"""By a name for flags."""


def write(case: Case, file: Path) -> None:
    """All objects as a v1 List in JSON."""
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects(case))}))


def objects(case: Case) -> Iterator[Json]:
    """All objects. The largest pod of each node has no controller, and stays."""
    yield device_class()
    yield from nodes(case.size)
    for number in range(case.nodes):
        yield node_slice(node_name(number))
    for number in range(case.nodes):
        is_pinned = number < min(PINNED, case.nodes // 2)
        for pod, count in zip(running(number, case.devices), case.devices, strict=True):
            yield from pod.objects(is_pinned=is_pinned, has_owner=count != max(case.devices))
    claim = _claim(f"{TARGET}-claim", TARGET, case.wanted)
    yield claim
    yield _pod(TARGET, claim["metadata"]["name"], 5)


def node_slice(node: str) -> Json:
    """The devices of a node."""
    devices = [{"name": device_name(index)} for index in range(DEVICES_OF_NODE)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def _claim(name: str, pod: str, count: int) -> Json:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"uid-{pod}", "controller": True}
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "ownerReferences": [owner]}
    spec = {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod of a node that has devices."""

    name: str
    node: int
    devices: Sequence[str]

    def objects(self, *, is_pinned: bool = False, has_owner: bool = True) -> Iterator[Json]:
        """It and its claim. is_pinned: it may be nowhere else, and has the lowest priority. has_owner: a controller."""
        node = node_name(self.node)
        results = [{"request": REQUEST, "driver": DRIVER, "pool": node, "device": one} for one in self.devices]
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
        claim = _claim(f"{self.name}-claim", self.name, len(self.devices))
        claim["status"] = {
            "allocation": {"devices": {"results": results}, "nodeSelector": selector},
            "reservedFor": [{"resource": "pods", "name": self.name, "uid": f"uid-{self.name}"}],
        }
        yield claim
        pod = _pod(self.name, f"{self.name}-claim", 0 if is_pinned else 1)
        if has_owner:
            pod["metadata"]["ownerReferences"] = [OWNER]
        pod["spec"]["nodeName"] = node
        if is_pinned:
            pod["spec"]["nodeSelector"] = {HOSTNAME: node}
        started = f"2026-11-01T{self.node % 24:02}:{self.node % 60:02}:00Z"
        pod["status"] |= {"phase": "Running", "startTime": started}
        yield pod


def running(node: int, devices: Sequence[int]) -> Iterator[RunningPod]:
    """The pods of the node of that number. devices: of each, one pod's after the other's."""
    first = 0
    for place, count in enumerate(devices):
        names = [device_name(index) for index in range(first, first + count)]
        first += count
        yield RunningPod(f"pod-{node:05d}-{place}", node, names)


def _pod(name: str, claim: str, priority: int) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    entry = {"name": REQUEST, "resourceClaimTemplateName": "gpus"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"},
        "spec": {"priority": priority, "containers": [container], "resourceClaims": [entry]},
        "status": {"resourceClaimStatuses": [{"name": REQUEST, "resourceClaimName": claim}]},
    }

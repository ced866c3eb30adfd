"""What is asked, and of which cluster: nodes of which some devices are in use, pods with several different claims.

And what changes meanwhile: claims get devices and give them back, as if other pods were bound and ended. All of it as
objects of the API, the same on every run.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from benchmarks.endtoend.workload import (
    CLASS,
    DEVICES_OF_NODE,
    DRIVER,
    NAMESPACE,
    SCHEDULER,
    Json,
    Size,
    Taken,
    device_name,
    node_name,
)

PODS = 240
"""Those that are asked about, again and again, as pods are that no node can take."""

CHANGED = 64
"""Claims that get a device and give it back by turns."""

_FINALIZER = "resource.kubernetes.io/delete-protection"
_STRIDE = 7
_ATTRIBUTES = f'device.attributes["{DRIVER}"]'


class Case(NamedTuple):
    """A cluster. in_use: from a node's number to the devices of it that are in use, bit by bit."""

    name: str
    nodes: int
    in_use: Callable[[int], int]

    @property
    def size(self) -> Size:
        """As the end-to-end benchmark makes nodes and slices."""
        return Size(self.nodes, PODS)


def packed(number: int) -> int:
    """The first ones, from none to all: as they are where the first free one is always taken."""
    return (1 << number % (DEVICES_OF_NODE + 1)) - 1


def scattered(number: int) -> int:
    """Every combination: as they are when pods have come and gone for long."""
    return number % (1 << DEVICES_OF_NODE)


CASES: Mapping[str, Case] = {
    "packed": Case("5,000 nodes in 11 states", 5000, packed),
    "scattered": Case("5,000 nodes in 1,024 states", 5000, scattered),
}
"""Those that are measured, by a name for flags."""


def _exactly(count: int, expression: str = "") -> Json:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count, "selectors": selectors}


def _request(count: int, expression: str = "") -> Json:
    return {"name": "gpu", "exactly": _exactly(count, expression)}


def _first_available(*counts: int) -> Json:
    return {"name": "gpu", "firstAvailable": [{"name": f"of-{count}", **_exactly(count)} for count in counts]}


SHAPES: Sequence[Json] = (
    {"requests": [_request(1)]},
    {"requests": [_request(4)]},
    {"requests": [_request(8)]},
    {"requests": [_request(2, f"{_ATTRIBUTES}.index >= 4")], "constraints": [{"matchAttribute": f"{DRIVER}/model"}]},
    {"requests": [_first_available(8, 2)]},
    {"requests": [_request(1, f'{_ATTRIBUTES}.model == "B200"')]},
)
"""The specs of the pods' claims; no device of any node is of the last one's model."""


def held_claims(case: Case) -> Iterator[Json]:
    """An allocated claim for each node of which devices are in use."""
    for number in range(case.nodes):
        mask = case.in_use(number)
        places = [Taken(node_name(number), device_name(index)) for index in range(DEVICES_OF_NODE) if mask >> index & 1]
        if places:
            spec = {"requests": [_request(len(places))]}
            yield allocated(_claim(f"held-{number:05d}", spec), places)


def asked_claims() -> Iterator[Json]:
    """The claims of the pods that are asked about."""
    return (_claim(f"asked-{number:05d}", SHAPES[number % len(SHAPES)]) for number in range(PODS))


def changed_claims() -> Iterator[Json]:
    """The claims that change, as they are before."""
    return (_changed_claim(number) for number in range(CHANGED))


def change(case: Case, number: int) -> Json:
    """A claim as it is after the change of that number: allocated on one turn, free on the next."""
    turn, claim = divmod(number, CHANGED)
    stored = _changed_claim(claim)
    if turn % 2:
        return stored
    free = _with_room(case)
    node = free[(turn // 2 * CHANGED + claim) * _STRIDE % len(free)]
    mask = case.in_use(node)
    first_free = (~mask & mask + 1).bit_length() - 1
    return allocated(stored, [Taken(node_name(node), device_name(first_free))])


@cache
def _with_room(case: Case) -> Sequence[int]:
    """The nodes of which not all devices are in use."""
    return [number for number in range(case.nodes) if case.in_use(number).bit_count() < DEVICES_OF_NODE]


def _changed_claim(number: int) -> Json:
    return _claim(f"changed-{number:05d}", {"requests": [_request(1)]})


def _claim(name: str, devices: Json) -> Json:
    metadata = {"name": name, "namespace": NAMESPACE, "finalizers": [_FINALIZER]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": devices},
    }


def allocated(claim: Json, places: Sequence[Taken]) -> Json:
    """The claim with these devices."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": place.node, "device": place.device} for place in places]
    return {**claim, "status": {"allocation": {"devices": {"results": results}}}}


def pod(number: int) -> Json:
    """A pod as kube-scheduler sends it."""
    name = f"pod-{number:05d}"
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "claims": [{"name": "gpu"}]}
    container = {
        "name": "main",
        "image": "registry.example.com/main:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": resources,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    spec = {
        "schedulerName": SCHEDULER,
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": f"asked-{number:05d}"}],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": {"app": "asked"}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}


def names(case: Case) -> Sequence[str]:
    """The names of all nodes."""
    return [node_name(number) for number in range(case.nodes)]


def body(case: Case, number: int) -> bytes:
    """A call of filter, about one pod and all nodes."""
    return json.dumps({"Pod": pod(number), "Nodes": None, "NodeNames": names(case)}, separators=(",", ":")).encode()

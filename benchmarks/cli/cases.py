"""The input of the benchmark of subcommands, and what each of them has to answer about it.

A dump of a cluster: nodes with eight devices each, pods with a claim each, most of which have their devices, and some
that wait. The objects are the same on every run.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.endtoend.workload import DRIVER, Json, Size, device_name, node_name
from benchmarks.offline.cases import CASES, DEVICES_OF_NODE, objects

WAITING = 10
"""One of so many pods waits; the others are bound, and have one device."""

FINALIZER = "resource.kubernetes.io/delete-protection"


def dump(size: Size) -> Iterator[Json]:
    """All objects. Pods and claims take turns through the nodes, so that each node has some devices in use."""
    for one in objects(CASES["none"], size):
        number = _number(one)
        is_bound = number is not None and number % WAITING != 0
        if one["kind"] == "ResourceClaim" and is_bound:
            yield _allocated(one, number or 0, size)
        elif one["kind"] == "Pod":
            yield _bound(one, number or 0, size) if is_bound else _with_uid(one)
        else:
            yield one


def write(size: Size, file: Path) -> None:
    """All objects as a v1 List in JSON."""
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(dump(size))}))


def bound(size: Size) -> int:
    """Pods that have their devices."""
    return sum(number % WAITING != 0 for number in range(size.pods))


def _number(one: Json) -> int | None:
    return int(one["metadata"]["name"].rpartition("-")[2]) if one["kind"] in ("Pod", "ResourceClaim") else None


def _place(number: int, size: Size) -> tuple[str, str]:
    """Node and device of the pod of that number."""
    return node_name(number % size.nodes), device_name(number // size.nodes)


def _with_uid(pod: Json) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "uid": f"uid-{pod['metadata']['name']}"}}


def _bound(pod: Json, number: int, size: Size) -> Json:
    node, _ = _place(number, size)
    return {**_with_uid(pod), "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}}


def _allocated(claim: Json, number: int, size: Size) -> Json:
    node, device = _place(number, size)
    request = claim["spec"]["devices"]["requests"][0]["name"]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    allocation = {
        "devices": {"results": [{"request": request, "driver": DRIVER, "pool": node, "device": device}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    user = {"resource": "pods", "name": f"pod-{number:05d}", "uid": f"uid-pod-{number:05d}"}
    status = {"allocation": allocation, "reservedFor": [user]}
    return {**claim, "metadata": {**claim["metadata"], "finalizers": [FINALIZER]}, "status": status}


@dataclass(frozen=True, slots=True)
class Case:
    """A subcommand. limit_s: what it has to stay under. is_right: whether its JSON is the answer."""

    title: str
    arguments: Sequence[str]
    limit_s: float
    is_right: Callable[[Any, Size], bool]


def _status(found: Any, size: Size) -> bool:
    [driver] = found["drivers"]
    return (driver["devices"], driver["allocated"]) == (size.nodes * DEVICES_OF_NODE, bound(size))


def _claims(found: Any, size: Size) -> bool:
    return len(found["items"]) == size.pods


def _no_findings(found: Any, _size: Size) -> bool:
    return not found["items"]


def _no_errors(found: Any, _size: Size) -> bool:
    return all(one["level"] != "error" for one in found["items"])


def _fit(found: Any, _size: Size) -> bool:
    return bool(found["copies"] > 0 and found["next"])


def _whatif(found: Any, size: Size) -> bool:
    both = (found["before"], found["after"])
    return all(one["placed"] + one["notPlaced"] == size.pods for one in both) and bool(found["items"])


def cases(size: Size) -> Mapping[str, Case]:
    """By subcommand."""
    drained = ("--overlay", f"drain:{node_name(1)}", "--overlay", f"drain:{node_name(2)}")
    last = size.pods - size.pods % WAITING - WAITING
    claim = next(one for one in objects(CASES["none"], size) if _number(one) == last and one["kind"] == "ResourceClaim")
    subject = f"claim/{claim['metadata']['namespace']}/{claim['metadata']['name']}"
    listed = (
        Case("status", (), 5.0, _status),
        Case("claims", (), 5.0, _claims),
        Case("lint", (), 5.0, _no_errors),
        Case("audit", (), 5.0, _no_findings),
        Case("fit", (subject,), 10.0, _fit),
        Case("whatif", drained, 15.0, _whatif),
    )
    return {one.title: one for one in listed}

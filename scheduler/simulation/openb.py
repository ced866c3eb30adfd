"""The openb trace of Alibaba (2023) as objects: nodes and GPUs with models, pods that take parts of GPUs or several.

A GPU is a device that allows multiple allocations, with a capacity `milli` of 1,000 and an attribute `model`; a pod has
a claim from a template with `count` devices of so many `milli` each, and the models as a selector. cpu and memory are
the pod's own requests. Files: nodes.csv (sn, cpu_milli, memory_mib, gpu, model), a CSV for each workload (name,
cpu_milli, memory_mib, num_gpu, gpu_milli and, where it matters, gpu_spec with the permitted models, `A|B`), and the
order of arrivals and of equal nodes for each seed in orders/WORKLOAD.jsonl.
Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from allocator.api import decode
from allocator.gates import Features
from allocator.model import Claim
from scheduler.core_v1.pod import Pod
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.simulation.orders import DrawnOrder, orders

DRIVER = "gpu.openb.example"
CLASS = "gpu"
NAMESPACE = "default"
WHOLE = 1000
"""The capacity of a GPU, in `milli`."""

MOST_PODS = "10000"
"""What the trace does not limit."""

_API = "resource.k8s.io/v1"


class InvalidTrace(ValueError):
    """A file of the trace cannot be used; the text names file, line, column and value."""


@dataclass(frozen=True, slots=True)
class OpenbNode:
    """A row of nodes.csv."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class OpenbShape:
    """What a pod asks for. gpus: how many, of `milli` each. models: the permitted ones; empty: all."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def amount(self) -> int:
        """Of all its GPUs, in thousandths of one."""
        return self.gpus * self.milli

    @property
    def template(self) -> str:
        """The name of its claim template."""
        return "-".join(["gpu", str(self.gpus), str(self.milli), *self.models]).lower()


class Openb:
    """One workload of the trace. folder: with nodes.csv, the workload's CSV and orders/."""

    def __init__(self, folder: Path, workload: str) -> None:
        self.workload = workload
        self.nodes = [_node(row) for row in _some_rows(folder / "nodes.csv")]
        self.shapes = [_shape(row) for row in _some_rows(folder / f"{workload}.csv")]
        self._orders = folder / "orders" / f"{workload}.jsonl"

    @property
    def capacity(self) -> int:
        """Of all GPUs, in thousandths."""
        return WHOLE * sum(node.gpus for node in self.nodes)

    def orders(self) -> Mapping[int, DrawnOrder]:
        """The draws by seed. Raises InvalidLine."""
        return orders(self._orders, len(self.shapes), len(self.nodes))

    def inventory(self, features: Features) -> Inventory:
        """The cluster: nodes, slices, the class, and the templates of all shapes. Raises InvalidTrace."""
        found = take_inventory((RawObject(Place("openb"), raw) for raw in self._objects()), features=features)
        if found.errors:
            raise InvalidTrace(f"{found.errors[0]}")
        return found

    def arrivals(self, order: DrawnOrder) -> Iterator[tuple[Pod, OpenbShape]]:
        """The pods in the order of their arrival, each with a name of its own: a row may arrive more than once."""
        for number, row in enumerate(order.pods):
            shape = self.shapes[row]
            name = f"openb-{number:05}"
            yield replace(self._pods[shape], name=name, uid=f"uid-{name}"), shape

    def population(self) -> Iterator[tuple[Pod, tuple[Claim, ...]]]:
        """All pods of the workload with their claims, to describe the workload; nothing allocates these claims."""
        for shape in self.shapes:
            yield self._pods[shape], self._claims[shape]

    @cached_property
    def _pods(self) -> Mapping[OpenbShape, Pod]:
        return {shape: _pod(shape) for shape in dict.fromkeys(self.shapes)}

    @cached_property
    def _claims(self) -> Mapping[OpenbShape, tuple[Claim, ...]]:
        return {shape: (_claim(shape),) if shape.gpus else () for shape in dict.fromkeys(self.shapes)}

    def _objects(self) -> Iterator[Mapping[str, object]]:
        yield {"apiVersion": _API, "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {}}
        for node in self.nodes:
            yield _node_object(node)
            if node.gpus:
                yield _slice_object(node)
        for shape in {shape.template: shape for shape in self.shapes if shape.gpus}.values():
            metadata = {"name": shape.template, "namespace": NAMESPACE}
            spec = {"spec": _claim_spec(shape)}
            yield {"apiVersion": _API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def _pod(shape: OpenbShape) -> Pod:
    from scheduler.core_v1.pod import decode_pod

    requests = {"cpu": f"{shape.cpu_milli}m", "memory": f"{shape.memory_mib}Mi"}
    container = {"name": "main", "image": "openb", "resources": {"requests": requests}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": shape.template}] if shape.gpus else []
    metadata = {"name": "openb", "namespace": NAMESPACE}
    pod, errors = decode_pod({"metadata": metadata, "spec": {"containers": [container], "resourceClaims": claims}})
    assert pod is not None, errors
    return pod


def _claim(shape: OpenbShape) -> Claim:
    metadata = {"name": "openb", "namespace": NAMESPACE}
    decoded = decode({"apiVersion": _API, "kind": "ResourceClaim", "metadata": metadata, "spec": _claim_spec(shape)})
    assert isinstance(decoded.object, Claim), decoded.errors
    return decoded.object


def _claim_spec(shape: OpenbShape) -> Mapping[str, object]:
    exactly: dict[str, object] = {
        "deviceClassName": CLASS,
        "count": shape.gpus,
        "capacity": {"requests": {"milli": str(shape.milli)}},
    }
    if shape.models:
        models = json.dumps("|".join(shape.models))
        exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model in {models}.split("|")'}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def _node_object(node: OpenbNode) -> Mapping[str, object]:
    allocatable = {"cpu": f"{node.cpu_milli}m", "memory": f"{node.memory_mib}Mi", "pods": MOST_PODS}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name},
        "status": {"allocatable": allocatable},
    }


def _slice_object(node: OpenbNode) -> Mapping[str, object]:
    policy = {"default": str(WHOLE), "validRange": {"min": "1", "max": str(WHOLE), "step": "1"}}
    devices = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "attributes": {"model": {"string": node.model}},
            "capacity": {"milli": {"value": str(WHOLE), "requestPolicy": policy}},
        }
        for number in range(node.gpus)
    ]
    pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node.name, "devices": devices}
    return {"apiVersion": _API, "kind": "ResourceSlice", "metadata": {"name": node.name}, "spec": spec}


@dataclass(frozen=True, slots=True)
class _Row:
    file: Path
    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        found = self.cells.get(column)
        if found is None:
            raise InvalidTrace(f"{self.file}, line {self.line}: column {column} is missing")
        return found

    def number(self, column: str) -> int:
        text = self.text(column)
        if not text.isascii() or not text.isdigit():
            raise InvalidTrace(f"{self.file}, line {self.line}: {column}: {text!r} is not a whole number")
        return int(text)


def _some_rows(file: Path) -> Sequence[_Row]:
    found = list(_rows(file))
    if not found:
        raise InvalidTrace(f"{file}: has no rows")
    return found


def _rows(file: Path) -> Iterator[_Row]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            for number, cells in enumerate(csv.DictReader(lines), 2):
                yield _Row(file, number, cells)
    except OSError as error:
        raise InvalidTrace(f"{file}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidTrace(f"{file}: is not CSV: {error}") from error


def _node(row: _Row) -> OpenbNode:
    cpu, memory = row.number("cpu_milli"), row.number("memory_mib")
    return OpenbNode(row.text("sn"), cpu, memory, row.number("gpu"), row.text("model"))


def _shape(row: _Row) -> OpenbShape:
    gpus = row.number("num_gpu")
    milli = row.number("gpu_milli") if gpus else 0
    if milli > WHOLE or (gpus and not milli):
        raise InvalidTrace(f"{row.file}, line {row.line}: gpu_milli: {milli} is not between 1 and {WHOLE}")
    models = tuple(filter(None, (row.cells.get("gpu_spec") or "").split("|"))) if gpus else ()
    return OpenbShape(row.number("cpu_milli"), row.number("memory_mib"), gpus, milli, models)

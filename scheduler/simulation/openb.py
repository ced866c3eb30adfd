"""The openb trace of Alibaba (2023) as objects: nodes and GPUs with models, pods that take parts of GPUs or several.

A GPU is a device that allows multiple allocations, with a capacity `milli` of 1,000 and an attribute `model`; a pod has
a claim from a template with `count` devices of so many `milli` each, and the models as a selector. cpu and memory are
the pod's own requests. Files: nodes.csv (sn, cpu_milli, memory_mib, gpu, model), a CSV for each workload (name,
cpu_milli, memory_mib, num_gpu, gpu_milli and, where it matters, gpu_spec with the permitted models, `A|B`). Only some
workloads have times, in seconds: creation_time, scheduled_time and deletion_time.
Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocator.gates import CONSUMABLE_CAPACITY, Features
from allocator.words import whole_number
from scheduler.core_v1.pod import Pod
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.simulation.jobs import LATEST_S, Job

DRIVER = "gpu.openb.example"
CLASS = "gpu"
NAMESPACE = "default"
WHOLE = 1000
"""The capacity of a GPU, in `milli`."""

MOST_PODS = "10000"
"""What the trace does not limit."""

GATES = {CONSUMABLE_CAPACITY: True}
"""What GPUs in parts need."""

_CREATED, _SCHEDULED, _DELETED = "creation_time", "scheduled_time", "deletion_time"
_API = "resource.k8s.io/v1"

_MOST = 10**15
"""Of whatever is counted: an exabyte of memory is less."""

_MOST_GPUS = 128
"""Of a node, whose slice holds no more; and of a pod."""

_LATEST = int(LATEST_S)


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
    """What a pod asks for."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    """How many GPUs, `milli` of each."""
    milli: int
    models: tuple[str, ...] = ()
    """The permitted models; empty for all."""

    @property
    def template(self) -> str:
        """The name of its claim template."""
        return "-".join(["gpu", str(self.gpus), str(self.milli), *self.models]).lower()


class Openb:
    """One workload of the trace. folder: with nodes.csv and the workload's CSV. Raises InvalidTrace."""

    def __init__(self, folder: Path, workload: str) -> None:
        self.nodes = [_node(row) for row in _some_rows(folder / "nodes.csv")]
        self._rows = _some_rows(folder / f"{workload}.csv")
        self._shapes = [_shape(row) for row in self._rows]

    def inventory(self, features: Features) -> Inventory:
        """The cluster: nodes, slices, the class, and the templates of all shapes. Raises InvalidTrace."""
        inventory = take_inventory((RawObject(Place("openb"), raw) for raw in self._objects()), features=features)
        if inventory.errors:
            raise InvalidTrace(f"{inventory.errors[0]}")
        return inventory

    def jobs(self) -> list[Job]:
        """The pods at their times; of a workload without times, one after the other. Raises InvalidTrace.

        A pod runs from the moment it was scheduled, or else created, to its deletion; without that it stays.
        """
        specs = {shape: _pod(shape) for shape in dict.fromkeys(self._shapes)}
        is_timed = _CREATED in self._rows[0].cells
        return [
            Job(specs[shape], *(_time_and_duration(row) if is_timed else (float(number), None)), f"openb-{number:05}")
            for number, (shape, row) in enumerate(zip(self._shapes, self._rows, strict=True))
        ]

    def _objects(self) -> Iterator[Mapping[str, object]]:
        yield {"apiVersion": _API, "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": {}}
        for node in self.nodes:
            yield _node_object(node)
            if node.gpus:
                yield _slice_object(node)
        for shape in {shape.template: shape for shape in self._shapes if shape.gpus}.values():
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
        cell = self.cells.get(column)
        if cell is None:
            raise InvalidTrace(f"{self.file}, line {self.line}: column {column} is missing")
        return cell

    def number(self, column: str, most: int = _MOST) -> int:
        text = self.text(column)
        number = whole_number(text, most)
        if number is None:
            raise self.not_whole(column, text, most)
        return number

    def time_s(self, column: str) -> float | None:
        text = self.cells.get(column) or ""
        number = whole_number(text.removesuffix(".0"), _LATEST)
        if text and number is None:
            raise self.not_whole(column, text, _LATEST)
        return None if number is None else float(number)

    def not_whole(self, column: str, text: str, most: int) -> InvalidTrace:
        return InvalidTrace(f"{self.file}, line {self.line}: {column}: {text!r:.80} is not a whole number up to {most}")


def _some_rows(file: Path) -> Sequence[_Row]:
    rows = list(_rows(file))
    if not rows:
        raise InvalidTrace(f"{file}: has no rows")
    return rows


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
    return OpenbNode(row.text("sn"), cpu, memory, row.number("gpu", _MOST_GPUS), row.text("model"))


def _shape(row: _Row) -> OpenbShape:
    gpus = row.number("num_gpu", _MOST_GPUS)
    milli = row.number("gpu_milli") if gpus else 0
    if milli > WHOLE or (gpus and not milli):
        raise InvalidTrace(f"{row.file}, line {row.line}: gpu_milli: {milli} is not between 1 and {WHOLE}")
    models = tuple(filter(None, (row.cells.get("gpu_spec") or "").split("|"))) if gpus else ()
    return OpenbShape(row.number("cpu_milli"), row.number("memory_mib"), gpus, milli, models)


def _time_and_duration(row: _Row) -> tuple[float, float | None]:
    created = row.time_s(_CREATED)
    if created is None:
        raise row.not_whole(_CREATED, "", _LATEST)
    start, end = row.time_s(_SCHEDULED), row.time_s(_DELETED)
    return created, None if end is None else max(0.0, end - (created if start is None else start))

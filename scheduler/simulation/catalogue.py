"""The known kinds of pods and of nodes, and mixes of both, to be drawn from.

A shape of a pod says what it requests: counts, selectors, constraints, alternatives, partitions, amounts of capacity.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

from allocator.api.versions import Json
from scheduler.simulation.devices import (
    A100,
    GPU_DRIVER,
    H100,
    H100_80GB,
    LARGE_A100,
    MEMORY_SLICES,
    MODELS,
    NIC_DRIVER,
    NUMA_NODE,
    PCIE_ROOT,
    GpuModel,
    Host,
    MigProfile,
    PublishedDevices,
    partitioned_gpus,
    shared_gpus,
    shared_nics,
    whole_gpus,
    whole_nics,
)

GPU = "gpu.example.com"
MIG = "mig.example.com"
SHARED_GPU = "shared-gpu.example.com"
NIC = "nic.example.com"
RDMA = "rdma.example.com"
SHARED_NIC = "shared-nic.example.com"

WHOLE = 1000
"""A GPU, in thousandths."""

GPU_ATTRIBUTES = f'device.attributes["{GPU_DRIVER}"]'
NIC_ATTRIBUTES = f'device.attributes["{NIC_DRIVER}"]'


def _of_type(driver: str, type_: str) -> str:
    return f'device.driver == "{driver}" && device.attributes["{driver}"].type == "{type_}"'


CLASSES: Mapping[str, str] = {
    GPU: _of_type(GPU_DRIVER, "gpu"),
    MIG: _of_type(GPU_DRIVER, "mig"),
    SHARED_GPU: _of_type(GPU_DRIVER, "shared-gpu"),
    NIC: _of_type(NIC_DRIVER, "nic"),
    RDMA: f"{_of_type(NIC_DRIVER, 'nic')} && {NIC_ATTRIBUTES}.rdma",
    SHARED_NIC: _of_type(NIC_DRIVER, "shared-nic"),
}
"""The expression of each class by its name."""


@dataclass(frozen=True, slots=True, eq=False)
class PodShape:
    """A kind of pod."""

    name: str
    summary: str
    cpu: int
    """The CPUs that the pod itself requests."""
    memory_gi: int
    """The memory that the pod itself requests."""
    milli_gpus: int = 0
    """What it takes of GPUs, in thousandths of one."""
    requests: Sequence[Json] = ()
    """The requests of its claim; it has none without requests."""
    constraints: Sequence[Json] = ()
    """The constraints of its claim."""
    least_devices: int = 1
    """How many devices a node has to have for it."""

    @property
    def devices(self) -> Json:
        """`spec.devices` of its claim."""
        constraints = {"constraints": self.constraints} if self.constraints else {}
        return {"requests": self.requests, **constraints}

    @property
    def classes(self) -> Iterator[str]:
        """The names of the classes that it asks for."""
        for request in self.requests:
            for alternative in request.get("firstAvailable") or (request["exactly"],):
                yield alternative["deviceClassName"]


_ON_NUMA = [{"matchAttribute": NUMA_NODE}]
_ON_ROOT = [{"matchAttribute": PCIE_ROOT}]
_ON_ONE_GPU = [{"matchAttribute": f"{GPU_DRIVER}/parentUUID"}]
_ROOTS_APART = [{"distinctAttribute": PCIE_ROOT}]
_GPUS_APART = [{"distinctAttribute": f"{GPU_DRIVER}/uuid"}]

_COMPUTE_SLICES = 7
"""Of a GPU that MIG partitions."""

_MIG_MILLI = {1: 143, 2: 286, 3: 500, 7: WHOLE}
"""Compute slices of a partition -> the larger of its parts of compute and memory, in thousandths of a GPU."""


def shapes(devices: int) -> Mapping[str, PodShape]:
    """All shapes by name. devices: of each kind on a node; what no such node can hold is left out."""
    every = (*_cpu(), *_gpu(devices), *_mig(), *_nic(devices), *_shared())
    return {shape.name: shape for shape in every if shape.least_devices <= devices}


def _cpu() -> Iterator[PodShape]:
    yield PodShape("cpu-4", "4 CPUs", 4, 16)
    yield PodShape("cpu-32", "32 CPUs", 32, 128)


def _gpu(devices: int) -> Iterator[PodShape]:
    half, single = devices // 2, 1
    two, halves = [_exactly("gpus", GPU, 2)], [_exactly("gpus", GPU, half)]
    large = f'device.capacity["{GPU_DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
    either = [_alternative("h100", GPU, _of_model(H100)), _alternative("two-a100", GPU, _of_model(A100), 2)]
    yield _gpus("gpu-1", "one GPU", single, [_exactly("gpu", GPU)])
    yield _gpus("gpu-2", "two GPUs behind one PCIe root", 2, two, _ON_ROOT)
    yield _gpus("gpu-2-apart", "two GPUs behind different PCIe roots", 2, two, _ROOTS_APART, least_devices=3)
    yield _gpus("gpu-half", "half of a node's GPUs, of one NUMA node", half, halves, _ON_NUMA, least_devices=2)
    yield _gpus("gpu-all", "as many GPUs as a node has", devices, [_exactly("gpus", GPU, devices)])
    yield _gpus("gpu-a100", "an A100, by a selector", single, [_exactly("gpu", GPU, 1, _of_model(A100))])
    yield _gpus("gpu-h100", "an H100, by a selector", single, [_exactly("gpu", GPU, 1, _of_model(H100))])
    yield _gpus("gpu-80gi", "a GPU with at least 80Gi, by a selector", single, [_exactly("gpu", GPU, 1, large)])
    yield _gpus("gpu-first", "an H100, or else two A100 (firstAvailable)", single, [_first("gpus", either)])


def _mig() -> Iterator[PodShape]:
    for slices, milli in _MIG_MILLI.items():
        requests = [_exactly("partition", MIG, 1, _of_profile(slices))]
        yield PodShape(
            f"mig-{slices}g", f"a partition of {slices} compute slices", 2 * slices, 8 * slices, milli, requests
        )
    pair = [_exactly("partitions", MIG, 2, _of_profile(1))]
    summary = "two partitions of one compute slice, of one GPU"
    yield PodShape("mig-2x1g", summary, 4, 16, 2 * _MIG_MILLI[1], pair, _ON_ONE_GPU)
    either = [_alternative("large", MIG, _of_profile(3)), _alternative("small", MIG, _of_profile(2))]
    summary = "a partition of 3 compute slices, or else of 2 (firstAvailable)"
    yield PodShape("mig-first", summary, 6, 24, _MIG_MILLI[3], [_first("partition", either)])
    yield from map(_of_one_profile, H100_80GB.profiles)


def _of_one_profile(profile: MigProfile) -> PodShape:
    """A partition of that profile, which all models of 80 GB have."""
    compute, memory = profile.compute, profile.memory
    milli = max(-(-WHOLE * compute // _COMPUTE_SLICES), WHOLE * memory // MEMORY_SLICES)
    requests = [_exactly("partition", MIG, 1, f'{GPU_ATTRIBUTES}.profile == "{profile.name}"')]
    name = f"mig-{profile.name.replace('+', '-')}"
    return PodShape(name, f"a partition {profile.name}, by its name", 2 * compute, 8 * memory, milli, requests)


def _nic(devices: int) -> Iterator[PodShape]:
    half = devices // 2
    either = [_alternative("rdma", RDMA), _alternative("plain", NIC)]
    pair = [_exactly("gpu", GPU), _exactly("nic", RDMA)]
    halves = [_exactly("gpus", GPU, half), _exactly("nics", NIC, half)]
    yield PodShape("nic-1", "a NIC, with RDMA if there is one (firstAvailable)", 2, 8, 0, [_first("nic", either)])
    yield _gpus("gpu-rdma", "a GPU and a NIC with RDMA behind one PCIe root", 1, pair, _ON_ROOT)
    yield _gpus(
        "gpu-half-nic", "half of a node's GPUs and NICs, of one NUMA node", half, halves, _ON_NUMA, least_devices=2
    )
    everything = [_exactly("gpus", GPU, devices), _exactly("nics", NIC, devices)]
    yield _gpus("gpu-all-nic", "as many GPUs and NICs as a node has", devices, everything)


def _shared() -> Iterator[PodShape]:
    for memory_gi, compute in ((8, 10), (20, 30), (40, 50)):
        milli = max(WHOLE * memory_gi // H100.memory_gi, 10 * compute)
        requests = [_share("gpu", memory_gi, compute)]
        yield PodShape(f"share-{memory_gi}gi", f"{memory_gi}Gi of a shared GPU", 2, 16, milli, requests)
    apart = [{"name": "gpus", "exactly": {**_share("gpus", 8, 10)["exactly"], "count": 2}}]
    yield PodShape("share-2-apart", "8Gi of each of two shared GPUs", 4, 32, 200, apart, _GPUS_APART, least_devices=2)
    both = [_share("gpu", 16, 20), _amounts("nic", SHARED_NIC, bandwidth="25G")]
    yield PodShape("share-nic", "parts of a shared GPU and NIC behind one PCIe root", 4, 32, 200, both, _ON_ROOT)


def _gpus(  # noqa: PLR0913, PLR0917 - the fields of a shape
    name: str,
    summary: str,
    gpus: int,
    requests: Sequence[Json],
    constraints: Sequence[Json] = (),
    least_devices: int = 0,
) -> PodShape:
    """With 8 CPUs and 64Gi for each of its GPUs."""
    return PodShape(
        name, summary, 8 * gpus, 64 * gpus, WHOLE * gpus, requests, constraints, least_devices or max(gpus, 1)
    )


def _of_model(model: GpuModel) -> str:
    return f"{GPU_ATTRIBUTES}.productName == {json.dumps(model.product)}"


def _of_profile(slices: int) -> str:
    """Partitions of so many compute slices, of every model."""
    names = [p.name for model in MODELS for p in model.partitioning.profiles if p.compute == slices]
    return f"{GPU_ATTRIBUTES}.profile in {json.dumps(names)}"


def _exactly(name: str, class_: str, count: int = 1, expression: str = "") -> Json:
    return {"name": name, "exactly": _request_fields(class_, expression, count)}


def _alternative(name: str, class_: str, expression: str = "", count: int = 1) -> Json:
    return {"name": name, **_request_fields(class_, expression, count)}


def _first(name: str, alternatives: Sequence[Json]) -> Json:
    return {"name": name, "firstAvailable": alternatives}


def _share(name: str, memory_gi: int, compute: int) -> Json:
    return _amounts(name, SHARED_GPU, memory=f"{memory_gi}Gi", compute=str(compute))


def _amounts(name: str, class_: str, **amounts: str) -> Json:
    return {"name": name, "exactly": {"deviceClassName": class_, "capacity": {"requests": amounts}}}


def _request_fields(class_: str, expression: str, count: int) -> Json:
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {"deviceClassName": class_, **selectors, "count": count}


Weights = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Preset:
    """Weights by name, of machines and of shapes."""

    summary: str
    machines: Weights
    shapes: Weights


_GPU_SHAPES = {"gpu-1": 40, "gpu-2": 15, "gpu-2-apart": 5, "gpu-half": 10, "gpu-all": 5, "gpu-a100": 5, "gpu-h100": 5}
_GPU_SHAPES |= {"gpu-80gi": 5, "gpu-first": 10}
_MIG_SHAPES = {"mig-1g": 45, "mig-2g": 20, "mig-3g": 15, "mig-7g": 4, "mig-2x1g": 4, "mig-first": 8, "gpu-1": 4}
_NIC_SHAPES = {"gpu-rdma": 50, "gpu-1": 15, "gpu-half-nic": 15, "gpu-all-nic": 10, "nic-1": 10}
_SHARED_SHAPES = {"share-8gi": 45, "share-20gi": 25, "share-40gi": 15, "share-2-apart": 5, "share-nic": 10}

PRESETS: Mapping[str, Preset] = {
    "gpu": Preset("whole GPUs of two models", {"gpu-h100": 2, "gpu-a100": 1}, _GPU_SHAPES),
    "mig": Preset("GPUs that MIG partitions", {"mig-a100-80gb": 1, "mig-h100": 1}, _MIG_SHAPES),
    "nic": Preset("GPUs with NICs, aligned by PCIe root and NUMA node", {"nic-h100": 1}, _NIC_SHAPES),
    "shared": Preset("GPUs and NICs that are shared by capacity", {"shared-h100": 1}, _SHARED_SHAPES),
    "mixed": Preset(
        "all of these, and nodes without devices",
        {"gpu-h100": 3, "gpu-a100": 2, "mig-h100": 2, "nic-h100": 2, "shared-h100": 2, "cpu": 1},
        {**_SHARED_SHAPES, **_MIG_SHAPES, **_NIC_SHAPES, **_GPU_SHAPES, "cpu-4": 30, "cpu-32": 5},
    ),
}
"""By name."""

_PROFILES = ("mig-1g.10gb", "mig-1g.20gb", "mig-2g.20gb", "mig-3g.40gb", "mig-4g.40gb", "mig-7g.80gb")

MIXES: Mapping[str, Weights] = {
    "uniform": dict.fromkeys(_PROFILES, 1),
    "skew-small": dict(zip(_PROFILES, (30, 25, 20, 10, 10, 5), strict=True)),
    "skew-big": dict(zip(_PROFILES, (5, 10, 10, 20, 25, 30), strict=True)),
    "bimodal": dict(zip(_PROFILES, (30, 15, 5, 5, 15, 30), strict=True)),
}
"""Shapes by weight that ask for one partition each, from 1g.10gb to 7g.80gb."""


T = TypeVar("T")


class Draw:
    """One stream of random values: the same on every machine and with every version of Python.

    Streams of other names are independent of it: more pods do not change the fleet. Of Python's generator only
    `random()` is used, which alone promises that, and no logarithm, whose last bit depends on the machine's library.
    """

    def __init__(self, seed: int, stream: str) -> None:
        self._next = Random(f"{seed}/{stream}").random  # noqa: S311 - no secret is drawn

    def exponential(self) -> float:
        """A number of exponential distribution with the mean 1.

        Source: J. von Neumann, "Various techniques used in connection with random digits" (1951): additions and
        comparisons alone.
        """
        whole = 0
        while True:
            first = last = self._next()
            falls = 0
            while (following := self._next()) < last:
                last = following
                falls += 1
            if falls % 2 == 0:
                return whole + first
            whole += 1

    def below(self, number: int) -> int:
        """A whole number from 0 to number - 1."""
        return int(self._next() * number)


class Mix(Generic[T]):
    """Things to draw from by weight. weights: whole numbers, at least one above 0."""

    def __init__(self, weights: Mapping[T, int]) -> None:
        self.weights = weights
        self._things: Sequence[T] = tuple(weights)
        self._sums = tuple(accumulate(weights.values()))
        self.total = self._sums[-1]

    def draw(self, draw: Draw) -> T:
        """One of them."""
        return self._things[bisect_right(self._sums, draw.below(self.total))]


Driver = Callable[[Host], PublishedDevices]


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """A kind of node. drivers: publish its devices, if it has any. classes: of these devices."""

    name: str
    summary: str
    drivers: Sequence[Driver] = ()
    classes: Sequence[str] = ()


_ALL_MACHINES = (
    Machine("cpu", "no devices"),
    Machine("gpu-a100", "A100 GPUs of 40 GB", (partial(whole_gpus, model=A100),), (GPU,)),
    Machine("gpu-h100", "H100 GPUs of 80 GB", (partial(whole_gpus, model=H100),), (GPU,)),
    Machine("mig-a100", "A100 GPUs of 40 GB that MIG partitions", (partial(partitioned_gpus, model=A100),), (GPU, MIG)),
    Machine(
        "mig-a100-80gb",
        "A100 GPUs of 80 GB that MIG partitions",
        (partial(partitioned_gpus, model=LARGE_A100),),
        (GPU, MIG),
    ),
    Machine("mig-h100", "H100 GPUs that MIG partitions", (partial(partitioned_gpus, model=H100),), (GPU, MIG)),
    Machine(
        "nic-h100", "H100 GPUs, and a NIC beside each", (partial(whole_gpus, model=H100), whole_nics), (GPU, NIC, RDMA)
    ),
    Machine(
        "shared-h100",
        "H100 GPUs and NICs that are shared by capacity",
        (partial(shared_gpus, model=H100), shared_nics),
        (SHARED_GPU, SHARED_NIC),
    ),
)

MACHINES: Mapping[str, Machine] = {machine.name: machine for machine in _ALL_MACHINES}
"""By name."""

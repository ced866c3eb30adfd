"""The known shapes of pods: with counts, selectors, constraints, alternatives, partitions, and amounts of capacity."""

import json
from collections.abc import Iterator, Mapping, Sequence

from scheduler.synthetic.devices import (
    A100,
    GPU_DRIVER,
    H100,
    MODELS,
    NUMA_NODE,
    PCIE_ROOT,
    GpuModel,
    Json,
)
from scheduler.synthetic.shapes import GPU, GPU_ATTRIBUTES, MIG, NIC, RDMA, SHARED_GPU, SHARED_NIC, WHOLE, PodShape

_ON_NUMA = [{"matchAttribute": NUMA_NODE}]
_ON_ROOT = [{"matchAttribute": PCIE_ROOT}]
_ON_ONE_GPU = [{"matchAttribute": f"{GPU_DRIVER}/parentUUID"}]
_ROOTS_APART = [{"distinctAttribute": PCIE_ROOT}]
_GPUS_APART = [{"distinctAttribute": f"{GPU_DRIVER}/uuid"}]

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
    half, one = devices // 2, 1
    two, halves = [_exactly("gpus", GPU, 2)], [_exactly("gpus", GPU, half)]
    large = f'device.capacity["{GPU_DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
    either = [_alternative("h100", GPU, _of_model(H100)), _alternative("two-a100", GPU, _of_model(A100), 2)]
    yield _gpus("gpu-1", "one GPU", one, [_exactly("gpu", GPU)])
    yield _gpus("gpu-2", "two GPUs behind one PCIe root", 2, two, _ON_ROOT)
    yield _gpus("gpu-2-apart", "two GPUs behind different PCIe roots", 2, two, _ROOTS_APART, least_devices=3)
    yield _gpus("gpu-half", "half of a node's GPUs, of one NUMA node", half, halves, _ON_NUMA, least_devices=2)
    yield _gpus("gpu-all", "as many GPUs as a node has", devices, [_exactly("gpus", GPU, devices)])
    yield _gpus("gpu-a100", "an A100, by a selector", one, [_exactly("gpu", GPU, 1, _of_model(A100))])
    yield _gpus("gpu-h100", "an H100, by a selector", one, [_exactly("gpu", GPU, 1, _of_model(H100))])
    yield _gpus("gpu-80gi", "a GPU with at least 80Gi, by a selector", one, [_exactly("gpu", GPU, 1, large)])
    yield _gpus("gpu-first", "an H100, or else two A100 (firstAvailable)", one, [_first("gpus", either)])


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

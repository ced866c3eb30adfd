"""Hardware for the tests of policies: GPUs that are cut into partitions, and devices on PCIe roots of NUMA nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from allocator.model import Claim, CounterConsumption, CounterSet, Device, Slice
from allocator.policies.hardware import NUMA_NODE, PCIE_ROOT
from cel.values.quantity import Quantity
from tests.builders import a_claim, a_device, a_request, a_result, a_slice, an_allocated_claim, on_node

PLACES: Mapping[str, tuple[int, Sequence[int]]] = {
    "1g": (1, range(7)),
    "2g": (2, (0, 2, 4)),
    "3g": (4, (0, 4)),
    "4g": (4, (0,)),
    "7g": (8, (0,)),
}
"""The partitions of a MIG GPU: how many of its eight memory slices one takes, and where it may begin."""

COMPUTE = {"1g": 1, "2g": 2, "3g": 3, "4g": 4, "7g": 7}
"""How many of its seven compute slices a partition takes."""


def amounts(**counters: int | str) -> dict[str, Quantity]:
    return {name.replace("_", "-"): Quantity.parse(str(amount)) for name, amount in counters.items()}


def a_mig_gpu(number: int) -> tuple[CounterSet, list[Device]]:
    """A GPU that is cut into partitions or given as a whole; partitions have places, which the counters say."""
    name = f"gpu-{number}"
    slots = {f"memory_slice_{slot}": 1 for slot in range(8)}
    counters = CounterSet(name, amounts(compute=7, memory=8, **slots))
    devices = []
    for profile, (width, places) in PLACES.items():
        for place in places:
            own = {f"memory_slice_{slot}": 1 for slot in range(place, place + width)}
            taken = CounterConsumption(name, amounts(compute=COMPUTE[profile], memory=width, **own))
            attributes = {"profile": profile}
            devices.append(a_device(f"{name}-{profile}-{place}", attributes, consumes_counters=(taken,)))
    return counters, devices


def mig_slices(node: str, gpus: int) -> list[Slice]:
    """The pool of a node with so many MIG GPUs."""
    cut = [a_mig_gpu(number) for number in range(gpus)]
    partitions = (device for _, devices in cut for device in devices)
    slices = (
        a_slice(name=f"{node}-counters", counter_sets=tuple(counters for counters, _ in cut)),
        a_slice(*partitions, name=f"{node}-devices"),
    )
    return [homed(slice_, node, slice_count=2) for slice_ in slices]


def homed(slice_: Slice, node: str, slice_count: int = 1) -> Slice:
    """The slice as part of the one pool of a node."""
    devices = tuple(replace(device, pool=node) for device in slice_.devices)
    return replace(slice_, pool=node, reach=on_node(node), slice_count=slice_count, devices=devices)


def gpu_slice(node: str, roots_by_numa: Sequence[Sequence[int]]) -> Slice:
    """The pool of a node: for each NUMA node the numbers of GPUs on its PCIe roots."""
    devices: list[Device] = []
    for numa, roots in enumerate(roots_by_numa):
        for root, gpus in enumerate(roots):
            devices += [placed(f"gpu-{len(devices) + gpu:02}", numa, root) for gpu in range(gpus)]
    return homed(a_slice(*devices, name=f"{node}-devices"), node)


def placed(name: str, numa: int, root: int) -> Device:
    """A device on that PCIe root of that NUMA node; roots are numbered anew on each NUMA node."""
    return a_device(name, {NUMA_NODE: numa, PCIE_ROOT: f"pci{numa}:{root}"})


def a_shared_device(name: str, memory: str = "80Gi") -> Device:
    """A device whose memory several claims may share."""
    return a_device(name, capacity={"memory": memory}, allow_multiple_allocations=True)


def a_partition(name: str, profile: str) -> Claim:
    """A claim for one partition of that size."""
    return a_claim(a_request("partition", 1, f'device.attributes["gpu.example"].profile == "{profile}"'), name=name)


def a_share(memory: str, name: str = "share") -> Claim:
    """A claim for a part of the memory of one device."""
    return a_claim(a_request("share", capacity={"memory": Quantity.parse(memory)}), name=name)


def holding(*devices: str, pool: str = "n", name: str = "holder") -> Claim:
    """A claim that holds these devices of the pool of a node."""
    return an_allocated_claim(*(a_result(device, pool=pool) for device in devices), name=name)


def sharing(device: str, memory: str, name: str = "sharer") -> Claim:
    """A claim that has a share of the device of node `n`."""
    return an_allocated_claim(
        a_result(device, pool="n", share_id=name, consumed_capacity=amounts(memory=memory)), name=name
    )

"""Devices of a node, as drivers would publish them.

Device number i of a node is behind PCIe root i // 2; the first half of the devices is on NUMA node 0, the rest on 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from allocator.api.versions import Json

MEMORY_SLICES = 8


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A kind of partition."""

    name: str
    compute: int
    """Compute slices of the GPU that it takes."""
    memory: int
    """Memory slices of the GPU that it takes."""
    places: Sequence[int]
    """Where its memory may start."""
    copy_engines: int
    decoders: int
    jpeg_engines: int
    optical_flow_engines: int

    @property
    def label(self) -> str:
        """The name as a part of device names."""
        return self.name.replace(".", "").replace("+", "-")

    def counters(self, place: int, slice_gi: int) -> Mapping[str, str]:
        """What a partition at the place takes. slice_gi: memory of one slice."""
        amounts = {
            "compute-slices": self.compute,
            "copy-engines": self.copy_engines,
            "decoders": self.decoders,
            "jpeg-engines": self.jpeg_engines,
            "optical-flow-engines": self.optical_flow_engines,
            **{f"memory-slice-{number}": 1 for number in range(place, place + self.memory)},
        }
        taken = {name: str(amount) for name, amount in amounts.items() if amount}
        return {**taken, "memory": f"{self.memory * slice_gi}Gi"}


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The partitions of a GPU, as MIG has them: every profile at every place, over counters that others share.

    slice_gi: memory of one slice. The last profile is the whole GPU.
    Source: NVIDIA's MIG user guide (profiles and their engines), KEP-4815 (how a driver publishes them).
    """

    slice_gi: int
    profiles: Sequence[MigProfile]

    @property
    def whole(self) -> Mapping[str, str]:
        """The counters of a GPU."""
        return self.profiles[-1].counters(0, self.slice_gi)

    def partitions(self) -> Iterator[tuple[MigProfile, int]]:
        """Each profile at each of its places."""
        for profile in self.profiles:
            for place in profile.places:
                yield profile, place


_ONES = range(7)
_PAIRS = (0, 2, 4, 6)
_THREE_PAIRS = (0, 2, 4)
_HALVES = (0, 4)
_FIRST = (0,)

A100_40GB = Partitioning(
    5,
    (
        MigProfile("1g.5gb", 1, 1, _ONES, 1, 0, 0, 0),
        MigProfile("1g.5gb+me", 1, 1, _ONES, 1, 1, 1, 1),
        MigProfile("1g.10gb", 1, 2, _PAIRS, 1, 1, 0, 0),
        MigProfile("2g.10gb", 2, 2, _THREE_PAIRS, 2, 1, 0, 0),
        MigProfile("3g.20gb", 3, 4, _HALVES, 3, 2, 0, 0),
        MigProfile("4g.20gb", 4, 4, _FIRST, 4, 2, 0, 0),
        MigProfile("7g.40gb", 7, MEMORY_SLICES, _FIRST, 7, 5, 1, 1),
    ),
)

A100_80GB = Partitioning(
    10,
    (
        MigProfile("1g.10gb", 1, 1, _ONES, 1, 0, 0, 0),
        MigProfile("1g.10gb+me", 1, 1, _ONES, 1, 1, 1, 1),
        MigProfile("1g.20gb", 1, 2, _PAIRS, 1, 1, 0, 0),
        MigProfile("2g.20gb", 2, 2, _THREE_PAIRS, 2, 1, 0, 0),
        MigProfile("3g.40gb", 3, 4, _HALVES, 3, 2, 0, 0),
        MigProfile("4g.40gb", 4, 4, _FIRST, 4, 2, 0, 0),
        MigProfile("7g.80gb", 7, MEMORY_SLICES, _FIRST, 7, 5, 1, 1),
    ),
)

H100_80GB = Partitioning(
    10,
    (
        MigProfile("1g.10gb", 1, 1, _ONES, 1, 1, 1, 0),
        MigProfile("1g.10gb+me", 1, 1, _ONES, 1, 1, 1, 1),
        MigProfile("1g.20gb", 1, 2, _PAIRS, 1, 1, 1, 0),
        MigProfile("2g.20gb", 2, 2, _THREE_PAIRS, 2, 2, 2, 0),
        MigProfile("3g.40gb", 3, 4, _HALVES, 3, 3, 3, 0),
        MigProfile("4g.40gb", 4, 4, _FIRST, 4, 4, 4, 0),
        MigProfile("7g.80gb", 7, MEMORY_SLICES, _FIRST, 8, 7, 7, 1),
    ),
)


GPU_DRIVER = "gpu.example.com"
NIC_DRIVER = "nic.example.com"
NUMA_NODE = "resource.kubernetes.io/numaNode"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"

_DEVICES_OF_ROOT = 2


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A model of GPUs."""

    product: str
    architecture: str
    compute_capability: str
    memory_gi: int
    partitioning: Partitioning
    """How a GPU that can be cut is cut."""


A100 = GpuModel("A100-SXM4-40GB", "Ampere", "8.0.0", 40, A100_40GB)
H100 = GpuModel("H100-SXM5-80GB", "Hopper", "9.0.0", 80, H100_80GB)
LARGE_A100 = GpuModel("A100-SXM4-80GB", "Ampere", "8.0.0", 80, A100_80GB)
MODELS = (A100, H100)
"""Whose profiles shapes name; those of LARGE_A100 are called as the H100's."""


@dataclass(frozen=True, slots=True)
class PublishedDevices:
    """What a driver publishes on a node. counter_sets: what the devices are cut from."""

    driver: str
    devices: Sequence[Json]
    counter_sets: Sequence[Json] = field(default=())


@dataclass(frozen=True, slots=True)
class Host:
    """The node of the devices. number: of devices of a kind. driver_version: of its GPUs."""

    name: str
    number: int
    driver_version: str


def whole_gpus(host: Host, model: GpuModel) -> PublishedDevices:
    """GPUs for one claim each."""
    return PublishedDevices(GPU_DRIVER, [_gpu(host, index, model, "gpu") for index in range(host.number)])


def shared_gpus(host: Host, model: GpuModel) -> PublishedDevices:
    """GPUs that several claims share, by memory and compute."""
    capacity = {
        "memory": {"value": f"{model.memory_gi}Gi", "requestPolicy": _range("4Gi", "1Gi")},
        "compute": {"value": "100", "requestPolicy": {"default": "10", "validValues": _TENTHS}},
    }
    sharing = {"allowMultipleAllocations": True, "capacity": capacity}
    return PublishedDevices(GPU_DRIVER, [{**_gpu(host, i, model, "shared-gpu"), **sharing} for i in range(host.number)])


def partitioned_gpus(host: Host, model: GpuModel) -> PublishedDevices:
    """GPUs with MIG: the whole GPU and each partition at each place, over one counter set for each GPU."""
    devices = [device for index in range(host.number) for device in _partitions(host, index, model)]
    whole = _counters(model.partitioning.whole)
    sets = [{"name": f"gpu-{index}", "counters": whole} for index in range(host.number)]
    return PublishedDevices(GPU_DRIVER, devices, sets)


def whole_nics(host: Host) -> PublishedDevices:
    """A NIC beside each GPU; every second has RDMA, that is one behind each PCIe root."""
    return PublishedDevices(NIC_DRIVER, [_nic(host, index, "nic") for index in range(host.number)])


def shared_nics(host: Host) -> PublishedDevices:
    """NICs that several claims share, by bandwidth in bits per second."""
    capacity = {"bandwidth": {"value": "400G", "requestPolicy": _range("1G", "1G")}}
    sharing = {"allowMultipleAllocations": True, "capacity": capacity}
    return PublishedDevices(
        NIC_DRIVER, [{**_nic(host, index, "shared-nic"), **sharing} for index in range(host.number)]
    )


_TENTHS = [str(10 * number) for number in range(1, 11)]


def _range(default: str, step: str) -> Json:
    return {"default": default, "validRange": {"min": step, "step": step}}


def _gpu(host: Host, index: int, model: GpuModel, type_: str) -> Json:
    attributes = {
        "type": {"string": type_},
        "index": {"int": index},
        "uuid": {"string": _uuid(host, index)},
        **_model_attributes(model),
        "driverVersion": {"version": host.driver_version},
        **_place(host, index),
    }
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": _amount(model.memory_gi)}}


def _partitions(host: Host, index: int, model: GpuModel) -> Iterator[Json]:
    partitioning = model.partitioning
    set_ = f"gpu-{index}"
    yield {**_gpu(host, index, model, "gpu"), "consumesCounters": _consumes(set_, partitioning.whole)}
    common = {
        "type": {"string": "mig"},
        "parentUUID": {"string": _uuid(host, index)},
        **_model_attributes(model),
        "driverVersion": {"version": host.driver_version},
        **_place(host, index),
    }
    for profile, place in partitioning.partitions():
        yield {
            "name": f"gpu-{index}-mig-{profile.label}-{place}",
            "attributes": {**common, "profile": {"string": profile.name}},
            "capacity": {"memory": _amount(profile.memory * partitioning.slice_gi)},
            "consumesCounters": _consumes(set_, profile.counters(place, partitioning.slice_gi)),
        }


def _nic(host: Host, index: int, type_: str) -> Json:
    attributes = {
        "type": {"string": type_},
        "interface": {"string": f"eth{index + 1}"},
        "rdma": {"bool": index % _DEVICES_OF_ROOT == 0},
        "speedGbps": {"int": 400},
        **_place(host, index),
    }
    return {"name": f"nic-{index}", "attributes": attributes}


def _model_attributes(model: GpuModel) -> Json:
    return {
        "productName": {"string": model.product},
        "architecture": {"string": model.architecture},
        "cudaComputeCapability": {"version": model.compute_capability},
    }


def _place(host: Host, index: int) -> Json:
    numa, root = index * 2 // host.number, index // _DEVICES_OF_ROOT
    return {NUMA_NODE: {"int": numa}, PCIE_ROOT: {"string": f"pci0000:{root:02x}"}}


def _uuid(host: Host, index: int) -> str:
    return f"GPU-{host.name}-{index}"


def _amount(gi: int) -> Json:
    return {"value": f"{gi}Gi"}


def _consumes(counter_set: str, amounts: Mapping[str, str]) -> list[Json]:
    return [{"counterSet": counter_set, "counters": _counters(amounts)}]


def _counters(amounts: Mapping[str, str]) -> Json:
    return {name: {"value": amount} for name, amount in amounts.items()}

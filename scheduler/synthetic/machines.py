"""Kinds of nodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from scheduler.synthetic.devices import (
    A100,
    H100,
    Host,
    PublishedDevices,
    partitioned_gpus,
    shared_gpus,
    shared_nics,
    whole_gpus,
    whole_nics,
)
from scheduler.synthetic.shapes import GPU, MIG, NIC, RDMA, SHARED_GPU, SHARED_NIC

Driver = Callable[[Host], PublishedDevices]


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """A kind of node. drivers: publish its devices, if it has any. classes: of these devices."""

    name: str
    summary: str
    drivers: Sequence[Driver] = ()
    classes: Sequence[str] = ()


_ALL = (
    Machine("cpu", "no devices"),
    Machine("gpu-a100", "A100 GPUs of 40 GB", (partial(whole_gpus, model=A100),), (GPU,)),
    Machine("gpu-h100", "H100 GPUs of 80 GB", (partial(whole_gpus, model=H100),), (GPU,)),
    Machine("mig-a100", "A100 GPUs that MIG partitions", (partial(partitioned_gpus, model=A100),), (GPU, MIG)),
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

MACHINES: Mapping[str, Machine] = {machine.name: machine for machine in _ALL}
"""By name."""

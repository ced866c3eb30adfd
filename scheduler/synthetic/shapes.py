"""Shapes of pods: what they request, how much of a GPU that is, and the classes that they name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.synthetic.devices import GPU_DRIVER, NIC_DRIVER, Json

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
    """A kind of pod. cpu, memory_gi: its own requests. milli_gpus: what it takes of GPUs, in thousandths of one.

    requests, constraints: of its claim; without requests it has none. least_devices: that a node has to have for it.
    """

    name: str
    summary: str
    cpu: int
    memory_gi: int
    milli_gpus: int = 0
    requests: Sequence[Json] = ()
    constraints: Sequence[Json] = ()
    least_devices: int = 1

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

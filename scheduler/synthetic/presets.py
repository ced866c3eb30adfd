"""Mixes of machines and shapes under one name."""

from collections.abc import Mapping
from dataclasses import dataclass

Weights = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Preset:
    """Weights by name, of machines and of shapes."""

    summary: str
    machines: Weights
    shapes: Weights


_GPU = {"gpu-1": 40, "gpu-2": 15, "gpu-2-apart": 5, "gpu-half": 10, "gpu-all": 5, "gpu-a100": 5, "gpu-h100": 5}
_GPU |= {"gpu-80gi": 5, "gpu-first": 10}
_MIG = {"mig-1g": 45, "mig-2g": 20, "mig-3g": 15, "mig-7g": 4, "mig-2x1g": 4, "mig-first": 8, "gpu-1": 4}
_NIC = {"gpu-rdma": 50, "gpu-1": 15, "gpu-half-nic": 15, "gpu-all-nic": 10, "nic-1": 10}
_SHARED = {"share-8gi": 45, "share-20gi": 25, "share-40gi": 15, "share-2-apart": 5, "share-nic": 10}

PRESETS: Mapping[str, Preset] = {
    "gpu": Preset("whole GPUs of two models", {"gpu-h100": 2, "gpu-a100": 1}, _GPU),
    "mig": Preset("GPUs that MIG partitions", {"mig-h100": 1}, _MIG),
    "nic": Preset("GPUs with NICs, aligned by PCIe root and NUMA node", {"nic-h100": 1}, _NIC),
    "shared": Preset("GPUs and NICs that are shared by capacity", {"shared-h100": 1}, _SHARED),
    "mixed": Preset(
        "all of these, and nodes without devices",
        {"gpu-h100": 3, "gpu-a100": 2, "mig-h100": 2, "nic-h100": 2, "shared-h100": 2, "cpu": 1},
        {**_SHARED, **_MIG, **_NIC, **_GPU, "cpu-4": 30, "cpu-32": 5},
    ),
}
"""By name."""

"""Events of a simulated cluster."""

from dataclasses import dataclass

from allocator.api import TaintRule
from allocator.model import DeviceClass, Node, Slice
from scheduler.core_v1.pod import Pod


@dataclass(frozen=True, slots=True)
class PodArrives:
    """A pod is created. duration_s: how long it runs once it has its node; None: it stays."""

    pod: Pod
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class PodGoes:
    """The pod with that uid is deleted or ends, bound or pending."""

    uid: str


FleetObject = Node | Slice | DeviceClass | TaintRule


@dataclass(frozen=True, slots=True)
class Appears:
    """An object is created, or updated: taints, cordon, allocatable resources of a node, devices of a slice.

    Pods that do not tolerate NoExecute taints of their node or devices, by whatever object these have them, are
    evicted, at once or after their tolerationSeconds.
    """

    found: FleetObject


@dataclass(frozen=True, slots=True)
class Goes:
    """The object is deleted: a node's pods are evicted, those with devices of a slice keep them."""

    found: FleetObject


@dataclass(frozen=True, slots=True)
class NodeDrains:
    """The pods of the node of that name are evicted."""

    name: str


SimulationEvent = PodArrives | PodGoes | Appears | Goes | NodeDrains

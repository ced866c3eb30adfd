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
    """The pod of that uid is deleted, or ends; whether it has its node or waits."""

    uid: str


@dataclass(frozen=True, slots=True)
class NodeAppears:
    """A node joins, or is as described from now on: tainted, cordoned, with more or less to give.

    Pods that do not tolerate its NoExecute taints are evicted at once.
    """

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGoes:
    """The node of that name is gone, and its pods are evicted."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeDrains:
    """The pods of the node of that name are evicted."""

    name: str


@dataclass(frozen=True, slots=True)
class SliceAppears:
    """A driver publishes a slice, or publishes it anew."""

    slice: Slice


@dataclass(frozen=True, slots=True)
class SliceGoes:
    """The slice of that name is gone; pods keep the devices that they have."""

    name: str


@dataclass(frozen=True, slots=True)
class ClassAppears:
    """A class is created, or has changed."""

    device_class: DeviceClass


@dataclass(frozen=True, slots=True)
class RuleAppears:
    """A DeviceTaintRule is created, or has changed; pods keep the devices that they have."""

    rule: TaintRule


Event = (
    PodArrives | PodGoes | NodeAppears | NodeGoes | NodeDrains | SliceAppears | SliceGoes | ClassAppears | RuleAppears
)

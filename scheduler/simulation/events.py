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


@dataclass(frozen=True, slots=True)
class NodeAppears:
    """A node joins, or changes: taints, cordon, allocatable resources.

    Pods on it that do not tolerate its NoExecute taints are evicted, at once or after their tolerationSeconds.
    """

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGoes:
    """The node with that name is removed, and its pods are evicted."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeDrains:
    """The pods of the node of that name are evicted."""

    name: str


@dataclass(frozen=True, slots=True)
class SliceAppears:
    """A driver publishes or updates a slice. Pods that do not tolerate NoExecute taints of its devices are evicted."""

    slice: Slice


@dataclass(frozen=True, slots=True)
class SliceGoes:
    """The slice with that name is deleted; pods keep their devices."""

    name: str


@dataclass(frozen=True, slots=True)
class ClassAppears:
    """A class is created or updated."""

    device_class: DeviceClass


@dataclass(frozen=True, slots=True)
class RuleAppears:
    """A DeviceTaintRule is created or updated. Pods that do not tolerate its effect NoExecute are evicted."""

    rule: TaintRule


@dataclass(frozen=True, slots=True)
class RuleGoes:
    """The DeviceTaintRule with that name is deleted."""

    name: str


Event = (
    PodArrives
    | PodGoes
    | NodeAppears
    | NodeGoes
    | NodeDrains
    | SliceAppears
    | SliceGoes
    | ClassAppears
    | RuleAppears
    | RuleGoes
)

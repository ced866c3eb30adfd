"""Events of a simulated cluster."""

from dataclasses import dataclass

from allocator.model import Node, Slice
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
    """A node joins, or is as told from now on: tainted, cordoned, with more or less to give."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGoes:
    """The node of that name is gone; pods that are on it stay as they are until they go."""

    name: str


@dataclass(frozen=True, slots=True)
class SliceAppears:
    """A driver publishes a slice, or publishes it anew."""

    slice: Slice


@dataclass(frozen=True, slots=True)
class SliceGoes:
    """The slice of that name is gone."""

    name: str


Event = PodArrives | PodGoes | NodeAppears | NodeGoes | SliceAppears | SliceGoes

"""What has changed in the cluster, typed: the object before and after.

old is None for an object that is new, new for one that is gone. What an attempt had taken in memory alone no
watch ever shows, so that its end is an event too.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from allocator.model import Claim, DeviceClass, Node, Slice
from scheduler.core_v1.namespace import Namespace
from scheduler.core_v1.pod import Pod

Object = TypeVar("Object")


@dataclass(frozen=True, slots=True)
class _Changed(Generic[Object]):
    old: Object | None
    new: Object | None


class NodeChanged(_Changed[Node]):
    """A node."""


class PodChanged(_Changed[Pod]):
    """A pod, of any scheduler."""


class ClaimChanged(_Changed[Claim]):
    """A ResourceClaim."""


class SliceChanged(_Changed[Slice]):
    """A ResourceSlice."""


class ClassChanged(_Changed[DeviceClass]):
    """A DeviceClass."""


class NamespaceChanged(_Changed[Namespace]):
    """A namespace."""


@dataclass(frozen=True, slots=True)
class TaintRulesChanged:
    """The DeviceTaintRules, in whatever way."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """An attempt came to nothing: its place on a node and the devices reserved for it are free again.

    pod: whose attempt it was. claims: all that it would have had. node: where it would have gone.
    """

    pod: Pod
    claims: tuple[Claim, ...] = ()
    node: str = ""


Event = (
    NodeChanged
    | PodChanged
    | ClaimChanged
    | SliceChanged
    | ClassChanged
    | NamespaceChanged
    | TaintRulesChanged
    | GivenBack
)

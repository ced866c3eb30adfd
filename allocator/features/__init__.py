"""The features of the API beyond the basic ones, one file each, named like its gate in Kubernetes.

Their order is that of kube-scheduler's checks. `TenantLimits` comes last: Kubernetes has no such thing.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, get_args

from allocator.cluster.pools import NodeView
from allocator.features.admin_access import AdminAccess
from allocator.features.consumable_capacity import ConsumableCapacity
from allocator.features.contract import Feature
from allocator.features.derived_attributes import DerivedAttributes
from allocator.features.device_binding_conditions import DeviceBindingConditions
from allocator.features.device_compatibility_groups import DeviceCompatibilityGroups
from allocator.features.device_taints import DeviceTaints
from allocator.features.optional_node_operations import OptionalNodeOperations
from allocator.features.partitionable_devices import PartitionableDevices
from allocator.features.prioritized_list import PrioritizedList
from allocator.features.tenant_limits import TenantLimits
from allocator.memo import Topic

FEATURES: Final[tuple[Feature, ...]] = (
    PrioritizedList(),
    ConsumableCapacity(),
    DerivedAttributes(),
    AdminAccess(),
    DeviceBindingConditions(),
    OptionalNodeOperations(),
    DeviceCompatibilityGroups(),
    PartitionableDevices(),
    DeviceTaints(),
    TenantLimits(),
)


Hook = Literal["work", "switched_off", "unseen", "unselectable", "unusable", "taken", "failures", "rule", "finish"]
"""A method of `Feature` about devices."""

_SAYING: Final[Topic[Mapping[Hook, Sequence[Feature]]]] = Topic("features that say something")


def _overrides(feature: Feature, hook: Hook) -> bool:
    return getattr(type(feature), hook) is not getattr(Feature, hook)


@lru_cache(maxsize=1 << len(FEATURES))
def _saying(features: tuple[Feature, ...]) -> Mapping[Hook, Sequence[Feature]]:
    """Of these features, those that override each hook; views have few different sets of features."""
    return {hook: tuple([feature for feature in features if _overrides(feature, hook)]) for hook in get_args(Hook)}


def concerned(view: NodeView, hook: Hook) -> Sequence[Feature]:
    """The features that concern the view and override the hook: of most views few.

    Worked out once for each view.
    """
    return view.memo.remember(_SAYING, lambda: _saying_of(view))[hook]


def _saying_of(view: NodeView) -> Mapping[Hook, Sequence[Feature]]:
    return _saying(tuple([feature for feature in FEATURES if feature.concerns(view)]))

"""The plugins of the default profile, in the order of the newest kube-scheduler.

A node has the reasons of the first of them that refuses it.
"""

from collections.abc import Iterable, Sequence

from allocator.gates import Release
from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.plugins.dynamic_resources import DYNAMIC_RESOURCES
from scheduler.plugins.image_locality import IMAGE_LOCALITY
from scheduler.plugins.inter_pod_affinity import INTER_POD_AFFINITY
from scheduler.plugins.node_affinity import NODE_AFFINITY
from scheduler.plugins.node_declared_features import NODE_DECLARED_FEATURES
from scheduler.plugins.node_name import NODE_NAME
from scheduler.plugins.node_ports import NODE_PORTS
from scheduler.plugins.node_resources_balanced_allocation import NODE_RESOURCES_BALANCED_ALLOCATION
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.plugins.node_unschedulable import NODE_UNSCHEDULABLE
from scheduler.plugins.node_volume_limits import NODE_VOLUME_LIMITS
from scheduler.plugins.plugin import NO_NODES, OF_GROUP, UNSUPPORTED, Plugin
from scheduler.plugins.pod_topology_spread import POD_TOPOLOGY_SPREAD
from scheduler.plugins.taint_toleration import TAINT_TOLERATION
from scheduler.plugins.volume_binding import VOLUME_BINDING
from scheduler.plugins.volume_restrictions import VOLUME_RESTRICTIONS
from scheduler.plugins.volume_zone import VOLUME_ZONE

PLUGINS = (
    NODE_NAME,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
    NODE_AFFINITY,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    VOLUME_RESTRICTIONS,
    NODE_VOLUME_LIMITS,
    VOLUME_BINDING,
    VOLUME_ZONE,
    POD_TOPOLOGY_SPREAD,
    INTER_POD_AFFINITY,
    DYNAMIC_RESOURCES,
    NODE_DECLARED_FEATURES,
    NODE_RESOURCES_BALANCED_ALLOCATION,
    IMAGE_LOCALITY,
)

REASONS = (NO_NODES, UNSUPPORTED, OF_GROUP, *(reason for plugin in PLUGINS for reason in plugin.reasons))
"""All that pods are refused for."""


def in_order(plugins: Sequence[Plugin], release: Release) -> tuple[Plugin, ...]:
    """The plugins as the release asks them, which had the first two the other way round up to 1.36."""
    if release.names_node_first:
        return tuple(plugins)
    swapped = {NODE_NAME.name: NODE_UNSCHEDULABLE.name, NODE_UNSCHEDULABLE.name: NODE_NAME.name}
    named = {one.name: one for one in plugins}
    return tuple(named.get(swapped.get(one.name, ""), one) for one in plugins)


def refusal(pod: Pod, node: Node, plugins: Iterable[Plugin] = PLUGINS) -> str:
    """Why the pod cannot be on the node whatever else is there, for a person who asks about this node; "" if it can."""
    asked = (plugin.static.refusal(pod, node) for plugin in plugins if plugin.static)
    return next(filter(None, asked), "")

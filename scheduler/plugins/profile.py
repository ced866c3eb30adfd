"""The plugins of the default profile, in the order of the newest kube-scheduler, and profiles that change it.

A node has the reasons of the first of them that refuses it. A profile says whose pods are placed by which plugins, with
which weights, and by which policy. It is built from the default plugins as kube-scheduler builds its own: `multiPoint`
changes the default list, and the settings of filters or scores override it. Filters run in the resulting order. A
plugin may be enabled at one point and disabled at the other.
Source: kube-scheduler's apis/config/v1 default_plugins.go (mergePluginSet), framework.go (expandMultiPointPlugins).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from allocator.gates import Release
from allocator.model import Node
from allocator.policies.contract import FIRST_FIT, Policy
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
from scheduler.plugins.plugin import NAMESPACE, NO_NODES, OF_GROUP, UNSUPPORTED, Plugin
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

REASONS = (NAMESPACE, NO_NODES, UNSUPPORTED, OF_GROUP, *(reason for plugin in PLUGINS for reason in plugin.reasons))
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


ALL = "*"
"""Stands for every plugin that is on by default."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Places the pods with this `spec.schedulerName`. plugins: filters in their order, then what only scores.

    A plugin is there without its filter, or its score, where that is off.
    """

    scheduler_name: str = ""
    plugins: Sequence[Plugin] = PLUGINS
    policy: Policy = FIRST_FIT


@dataclass(frozen=True, slots=True)
class PluginSet:
    """What is switched on, by name with its weight (0: none is given), and off, at one point or at all."""

    enabled: Mapping[str, int] = field(default_factory=dict)
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PluginSets:
    """What differs from the default at all points, of filters and of scores."""

    multi_point: PluginSet = field(default_factory=PluginSet)
    filter: PluginSet = field(default_factory=PluginSet)
    score: PluginSet = field(default_factory=PluginSet)


class InvalidProfile(ValueError):
    """The resulting set of plugins cannot be used."""


def is_filter(plugin: Plugin) -> bool:
    """Whether the plugin refuses nodes; DynamicResources does so outside of its value, by the allocator."""
    return bool(plugin.static or plugin.dynamic or plugin.pre_filter) or plugin.name == DYNAMIC_RESOURCES.name


FILTERS = frozenset(plugin.name for plugin in PLUGINS if is_filter(plugin))
"""The plugins that refuse nodes, by name."""

SCORES = frozenset(plugin.name for plugin in PLUGINS if plugin.score)
"""The plugins that score nodes, by name."""


def plugins_of(sets: PluginSets, configured: Mapping[str, Sequence[Plugin]]) -> tuple[Plugin, ...]:
    """The plugins of a profile. configured: by name, those with arguments; one may be several values in its place.

    Raises InvalidProfile where devices would not be allocated.
    """
    everywhere = _merged(sets.multi_point)
    filters = _expanded(everywhere, sets.filter, FILTERS)
    weights = _expanded(everywhere, sets.score, SCORES)
    if DYNAMIC_RESOURCES.name not in filters:
        raise InvalidProfile(f"must leave {DYNAMIC_RESOURCES.name} on as a filter: this program allocates devices")
    known = {plugin.name: (plugin,) for plugin in PLUGINS} | dict(configured)
    order = dict.fromkeys((*filters, *weights))
    return tuple(
        _as_switched(plugin, is_on=name in filters or name not in FILTERS, weight=weights.get(name))
        for name in order
        for plugin in known[name]
    )


def _merged(wanted: PluginSet) -> dict[str, int]:
    """The default list as the set changes it, by name with weight, in order."""
    if ALL in wanted.disabled:
        return dict(wanted.enabled)
    kept = {one.name: one.score.weight if one.score else 0 for one in PLUGINS if one.name not in wanted.disabled}
    return kept | dict(wanted.enabled)


def _expanded(everywhere: Mapping[str, int], wanted: PluginSet, having: Iterable[str]) -> dict[str, int]:
    """The plugins at one point, with weights, in order: those that it names of the list, the rest of that, others.

    having: the plugins that do something there.
    """
    if ALL in wanted.disabled:
        return dict(wanted.enabled)
    listed = {name: weight for name, weight in everywhere.items() if name in having and name not in wanted.disabled}
    named = {name: weight for name, weight in wanted.enabled.items() if name in listed}
    return named | {name: listed[name] for name in listed if name not in named} | dict(wanted.enabled)


def _as_switched(plugin: Plugin, *, is_on: bool, weight: int | None) -> Plugin:
    """The plugin as far as it is on. is_on: unless as a filter. weight: of its score, None where that is off.

    A weight of 0 stands for 1.
    """
    score = replace(plugin.score, weight=weight or 1) if plugin.score and weight is not None else None
    if is_on:
        return plugin if score == plugin.score else replace(plugin, score=score)
    return replace(plugin, pre_filter=None, static=None, dynamic=None, score=score)


ONLY_FILTERS = plugins_of(PluginSets(score=PluginSet(disabled=frozenset({ALL}))), {})
"""The default filters without any score: of nodes that the policy finds equal the first is taken."""

"""Single changes after which a plugin would no longer refuse a pod on a node; each of them was tried.

Changes about devices are the allocator's (`allocator.explain.remedies`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allocator.model import Claim, Node
from allocator.search.rules import bits
from scheduler.core_v1.pod import Pod
from scheduler.decision.able import cycle_of
from scheduler.decision.cluster import Cluster
from scheduler.decision.feasibility import rejections
from scheduler.decision.node_answers import requirements_of, requirements_on
from scheduler.plugins.plugin import Change, Plugin, RefusingNode
from scheduler.state.pod_requests import PodRequests


@dataclass(frozen=True, slots=True)
class PluginRefusal:
    """Which plugin refuses a node. remedies: the changes after which no plugin would, in words; devices aside."""

    plugin: str
    remedies: Sequence[str] = ()


def refusing_plugins(cluster: Cluster, pod: Pod, claims: Sequence[Claim]) -> Mapping[str, str]:
    """The plugin that refuses each node, by the node's name, as far as one does for another reason than devices."""
    found: dict[str, str] = {}
    for required in () if pod.node_name else requirements_of(cluster, pod, claims):
        for plugin, one in rejections(cycle_of(cluster, pod, required.requests), cluster.templates_of(pod)):
            names = map(cluster.name_of, bits(one.nodes & required.nodes))
            found.update(dict.fromkeys(names, plugin.name))
    return found


def plugin_refusal(
    cluster: Cluster, pod: Pod, claims: Sequence[Claim], node: Node, number: int
) -> PluginRefusal | None:
    """The plugin that refuses the node for a reason other than devices, and what would help; None if none does.

    Cost: O(pods on nodes) for each change.
    """
    requests = requirements_on(cluster, pod, claims, number).requests
    plugin = _refusing(cluster, pod, requests, number)
    if plugin is None:
        return None
    place = RefusingNode(number, node, tuple(cluster.pods.on_nodes()))
    changes = plugin.changes(cycle_of(cluster, pod, requests), place) if plugin.changes else ()
    return PluginRefusal(plugin.name, tuple(one.text for one in changes if _helps(cluster, pod, requests, one, place)))


def _refusing(cluster: Cluster, pod: Pod, requests: PodRequests, number: int) -> Plugin | None:
    found = rejections(cycle_of(cluster, pod, requests), cluster.templates_of(pod))
    return None if pod.node_name else next((plugin for plugin, one in found if one.nodes >> number & 1), None)


def _helps(cluster: Cluster, pod: Pod, requests: PodRequests, change: Change, place: RefusingNode) -> bool:
    """Whether every plugin lets the node pass then, with the pods that were promised it as well as without."""
    changed, node = change.pod or pod, change.node or place.node
    cycle = cycle_of(cluster, changed, change.requests or requests)
    promised = {number: pods for number, pods in cycle.nominated.items() if number == place.number}

    def passes(plugin: Plugin) -> bool:
        is_refused = bool(plugin.dynamic and plugin.dynamic.refused(cycle) >> place.number & 1)
        return not is_refused and not (plugin.static and plugin.static.refusal(changed, node))

    with cycle.without(change.gone):
        if not all(map(passes, cluster.templates_of(pod).plugins)):
            return False
        with cycle.beside(promised):
            return all(map(passes, cluster.templates_of(pod).plugins))

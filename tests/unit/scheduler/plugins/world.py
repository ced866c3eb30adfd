"""A small cluster, and what one plugin says of a pod there."""

from collections.abc import Iterable

from allocator.bits import bits
from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import ZONE
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.plugins.plugin import Cycle, Plugin, Refusal, RefusedPod
from scheduler.state.cluster_changes import Event
from scheduler.state.masks import numbers_of
from scheduler.state.pods import pod_requests
from tests.builders import a_node, kubernetes

HOST = "kubernetes.io/hostname"

Said = dict[str, tuple[list[str], bool]]
"""By node that is refused: why, and whether the end of other pods may help."""


def in_zone(name: str, zone: str = "", **more: str) -> Node:
    """A node, in no zone where none is given."""
    return a_node(name, {HOST: name, **({ZONE: zone} if zone else {}), **more})


def a_world(
    *more: Node,
    release: str = "1.37",
    is_strict: bool = False,
    unseen: Iterable[str] = (),
    unmade: Iterable[tuple[str, str]] = (),
) -> Cluster:
    """The nodes a1 and a2 in zone A, and b1 in zone B."""
    features = kubernetes(release, is_strict=is_strict)
    cluster = Cluster(features, is_ours=lambda _: True, unseen=frozenset(unseen), unmade=frozenset(unmade))
    for node in (in_zone("a1", "A"), in_zone("a2", "A"), in_zone("b1", "B"), *more):
        cluster.set_node(node)
    return cluster


def cycle_of(cluster: Cluster, pod: Pod) -> Cycle:
    """An attempt at the pod."""
    return PodCycle(cluster, pod, ()).view


def before(plugin: Plugin, cluster: Cluster, pod: Pod) -> str:
    """Why the plugin refuses the pod on every node at once."""
    assert plugin.pre_filter
    return plugin.pre_filter(cycle_of(cluster, pod))


def said(plugin: Plugin, cluster: Cluster, pod: Pod) -> Said:
    """What the plugin says of each node that it refuses."""
    assert plugin.dynamic
    cycle, nodes = cycle_of(cluster, pod), cluster.fleet.all
    found: Said = {}
    for one in plugin.dynamic.rejections(cycle, nodes):
        for number in bits(one.nodes):
            reasons, resolvable = found.setdefault(cluster.name_of(number), ([], True))
            reasons.append(one.reason)
            found[cluster.name_of(number)] = reasons, resolvable and bool(one.resolvable >> number & 1)
    refused = {cluster.name_of(number) for number in bits(plugin.dynamic.refused(cycle) & nodes)}
    assert refused == found.keys(), "the fast answer is the same as the long one"
    return found


def left(plugin: Plugin, cluster: Cluster, pod: Pod) -> list[str]:
    """The nodes that the plugin lets pass."""
    assert not plugin.pre_filter or not before(plugin, cluster, pod)
    refused = said(plugin, cluster, pod)
    return sorted(name for name in cluster.names() if name not in refused)


def scored(plugin: Plugin, cluster: Cluster, pod: Pod) -> dict[str, int] | None:
    """The scores of the nodes, not weighted; None where the plugin has nothing to say of the pod."""
    assert plugin.score
    cycle, nodes = cycle_of(cluster, pod), numbers_of(cluster.fleet.all)
    found = plugin.score.scores(cycle, nodes, cycle.signature.counts_of(plugin.name, nodes))
    return None if found is None else dict(zip(map(cluster.name_of, nodes), map(int, found), strict=True))


def is_helped(plugin: Plugin, pod: Pod, event: Event) -> bool:
    """Whether the pod, which the plugin has refused, is tried again after the event."""
    hint = plugin.reason.hints.get(type(event))
    refusal = Refusal(frozenset({plugin.reason}), pod_requests(pod))
    return bool(hint and hint(RefusedPod(pod, refusal), event))

"""Nodes, pods and namespaces as the watches show them, what decisions assume of pods, and a recount of all of it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hypothesis import strategies as st

from scheduler.core_v1.label_selectors import AffinityTerm, PodAffinity, WeightedTerm, equal_labels
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.schedule_result import Placed
from tests.builders import a_node, a_pod, kubernetes

NODES = ("node-0", "node-1", "node-2", "node-3")
PODS = ("a", "b", "c", "d", "e", "f")
NAMESPACES = ("default", "other")
KEYS = ("zone", "rack")

Labels = Mapping[str, str]
Step = tuple[Any, ...]
"""A method of CountedWorld by name, and its arguments."""


class Meant(NamedTuple):
    """Pods with the label, in a namespace of this name or of that team."""

    app: str
    namespace: str = ""
    team: str = ""

    def term(self, key: str) -> AffinityTerm:
        """The same as a term."""
        names = frozenset({self.namespace}) if self.namespace else frozenset[str]()
        by_team = equal_labels({"team": self.team}) if self.team else None
        return AffinityTerm(key, names, equal_labels({"app": self.app}), by_team)

    def is_met(self, pod: Pod, namespaces: Mapping[str, Labels]) -> bool:
        """Whether the pod is one of them."""
        is_of_team = bool(self.team) and namespaces.get(pod.namespace, {}).get("team") == self.team
        return (pod.namespace == self.namespace or is_of_team) and pod.labels.get("app") == self.app


class Has(NamedTuple):
    """A term of a pod's. weight: 0 for required anti-affinity, else how much it wants to be near, or far below 0."""

    meant: Meant
    key: str
    weight: int


@dataclass
class CountedWorld:
    """The same twice: as the cluster counts it, and as it is. terms: by the uid of a pod, which keeps them."""

    cluster: Cluster = field(default_factory=lambda: Cluster(kubernetes(), is_ours=lambda _: True))
    nodes: dict[str, Labels] = field(default_factory=dict)
    namespaces: dict[str, Labels] = field(default_factory=dict)
    watched: dict[str, Pod] = field(default_factory=dict)
    assumed: dict[str, tuple[Pod, str]] = field(default_factory=dict)
    terms: dict[str, tuple[Has, ...]] = field(default_factory=dict)

    # -- what happens

    def set_node(self, name: str, labels: Labels) -> None:
        self.nodes[name] = labels
        self.cluster.set_node(a_node(name, labels))

    def remove_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self.cluster.remove_node(name)

    def set_namespace(self, name: str, labels: Labels) -> None:
        self.namespaces[name] = labels
        self.cluster.set_namespace(Namespace(name, labels))

    def remove_namespace(self, name: str) -> None:
        self.namespaces.pop(name, None)
        self.cluster.remove_namespace(name)

    def create(self, name: str, namespace: str, labels: Labels, terms: tuple[Has, ...]) -> None:
        uid = f"uid-{name}"
        if uid not in self.watched and uid not in self.assumed:
            self.terms[uid] = terms
            affinity = affinity_of(terms)
            self._show(replace(a_pod(name=name), namespace=namespace, labels=labels, pod_affinity=affinity))

    def bind(self, name: str, node: str) -> None:
        """The watch shows the pod on the node, which is that of the attempt if there is one."""
        pod = self.watched.get(f"uid-{name}")
        if pod is not None and not pod.node_name:
            self._show(replace(pod, node_name=self.assumed.get(pod.uid, (pod, node))[1]))

    def relabel(self, name: str, labels: Labels, deletion: str) -> None:
        if (pod := self.watched.get(f"uid-{name}")) is not None:
            self._show(replace(pod, labels=labels, is_deleting=pod.is_deleting or deletion == "deleting"))

    def remove(self, name: str) -> None:
        """The pod is gone; an attempt in flight for it is withdrawn later."""
        uid = f"uid-{name}"
        self.watched.pop(uid, None)
        self.assumed.pop(uid, None)
        self.cluster.remove_pod(uid)

    def end(self, name: str) -> None:
        if (pod := self.watched.get(f"uid-{name}")) is not None:
            self.cluster.set_pod(replace(pod, phase="Succeeded"))
            del self.watched[pod.uid]
            self.assumed.pop(pod.uid, None)

    def assume(self, name: str, node: str) -> None:
        pod = self.watched.get(f"uid-{name}")
        if pod is not None and not pod.node_name and pod.uid not in self.assumed and node in self.nodes:
            self.assumed[pod.uid] = pod, node
            self.cluster.reserve(pod, Placed(node, (), ()))

    def withdraw(self, name: str) -> None:
        """The attempt came to nothing, whether there was one or not."""
        self.assumed.pop(f"uid-{name}", None)
        self.cluster.unreserve(f"uid-{name}")

    def bound(self, name: str) -> None:
        """The attempt has ended well; the watch may not have shown it yet."""
        self.cluster.bound(f"uid-{name}")

    def _show(self, pod: Pod) -> None:
        self.watched[pod.uid] = pod
        if pod.node_name:
            self.assumed.pop(pod.uid, None)
        self.cluster.set_pod(pod)

    # -- the recount

    def places(self) -> Iterator[tuple[str, Pod]]:
        """Each pod that counts, with its node."""
        placed = [(pod.node_name, pod) for pod in self.watched.values() if pod.uid not in self.assumed]
        for node, pod in (*placed, *((node, pod) for pod, node in self.assumed.values())):
            if node in self.nodes:
                yield node, pod

    def met(self, meant: Iterable[Meant]) -> Counter[str]:
        """How many pods that are all of these are on each node."""
        meant = list(meant)
        return Counter(node for node, pod in self.places() if all(one.is_met(pod, self.namespaces) for one in meant))

    def selected(self, namespace: str, app: str) -> Counter[str]:
        """How many pods that stay are on each node, of the namespace and the app."""
        found = self.places()
        return Counter(node for node, pod in found if Meant(app, namespace).is_met(pod, {}) and not pod.is_deleting)

    def in_domains(self, on_nodes: Mapping[str, int], key: str, beside: str = "") -> dict[str, int]:
        """The sums by the value of the key, of nodes that have the other label, too, if there is one."""
        sums: dict[str, int] = {}
        for node, labels in self.nodes.items():
            if key in labels and (not beside or beside in labels):
                sums[labels[key]] = sums.get(labels[key], 0) + on_nodes.get(node, 0)
        return sums

    def held(self, pod: Pod) -> Iterator[tuple[Has, str]]:
        """The terms of pods on nodes that mean this pod, each with the node."""
        for node, other in self.places():
            yield from ((one, node) for one in self.terms[other.uid] if one.meant.is_met(pod, self.namespaces))

    def are_together(self, key: str, node: str, other: str) -> bool:
        """Whether both nodes are in one domain."""
        found = self.nodes[node].get(key)
        return found is not None and found == self.nodes[other].get(key)

    def kept_from(self, pod: Pod) -> set[str]:
        """The nodes in whose domain a pod is that keeps this one away."""
        away = [(one.key, node) for one, node in self.held(pod) if not one.weight]
        return {name for name in self.nodes if any(self.are_together(key, name, node) for key, node in away)}

    def wanted(self, pod: Pod) -> dict[str, int]:
        """By node, what pods in its domains want of this pod, added up."""
        held = list(self.held(pod))
        return {
            name: sum(one.weight for one, node in held if self.are_together(one.key, name, node)) for name in self.nodes
        }


def affinity_of(terms: Iterable[Has]) -> PodAffinity:
    """The terms as a pod has them."""
    terms = list(terms)
    return PodAffinity(
        preferred=tuple(WeightedTerm(one.weight, one.meant.term(one.key)) for one in terms if one.weight > 0),
        required_anti=tuple(one.meant.term(one.key) for one in terms if not one.weight),
        preferred_anti=tuple(WeightedTerm(-one.weight, one.meant.term(one.key)) for one in terms if one.weight < 0),
    )


apps, teams = st.sampled_from(["web", "db"]), st.sampled_from(["red", "blue"])
meant = st.one_of(
    st.builds(Meant, apps, namespace=st.sampled_from(NAMESPACES)),
    st.builds(Meant, apps, team=teams),
    st.builds(Meant, apps, st.sampled_from(NAMESPACES), teams),
)
_terms = st.lists(
    st.builds(Has, meant, st.sampled_from(KEYS), st.sampled_from([0, 0, 5, -3])), max_size=3, unique=True
).map(tuple)
_zones = st.fixed_dictionaries({}, optional={"zone": st.sampled_from("ab"), "rack": st.sampled_from("xyz")})
_pod_labels = apps.map(lambda app: {"app": app})
_teams = st.fixed_dictionaries({}, optional={"team": teams})
_nodes, _pods, _namespaces = st.sampled_from(NODES), st.sampled_from(PODS), st.sampled_from(NAMESPACES)
_steps: Mapping[str, tuple[st.SearchStrategy[Any], ...]] = {
    "set_node": (_nodes, _zones),
    "remove_node": (_nodes,),
    "set_namespace": (_namespaces, _teams),
    "remove_namespace": (_namespaces,),
    "create": (_pods, _namespaces, _pod_labels, _terms),
    "bind": (_pods, _nodes),
    "relabel": (_pods, _pod_labels, st.sampled_from(["staying", "deleting"])),
    "remove": (_pods,),
    "end": (_pods,),
    "assume": (_pods, _nodes),
    "withdraw": (_pods,),
    "bound": (_pods,),
}
_OFTEN = ("set_node", "create", "create", "assume", "assume", "bind")
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(*(st.tuples(st.just(name), *_steps[name]) for name in (*_steps, *_OFTEN))), min_size=10, max_size=40
)

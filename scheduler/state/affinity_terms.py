"""The pods on nodes that keep others away, found by their terms, and the domains that these others cannot be in.

Pods of one workload share their terms, so that a question costs as much as there are different terms, not pods.
Source: kube-scheduler's plugin InterPodAffinity.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from allocator.model import Node
from allocator.search.rules import Mask
from scheduler.core_v1.affinity_term import AffinityTerm, Labels
from scheduler.core_v1.pod import Pod
from scheduler.state.masks import numbers_of


class AntiAffinity:
    """Who keeps others away, and where. namespaces: the labels of each by its name, as they are at any time."""

    def __init__(self, namespaces: Mapping[str, Labels]) -> None:
        self._namespaces = namespaces
        self._labels: dict[int, Labels] = {}
        self._holders: Counter[tuple[AffinityTerm, int]] = Counter()
        self._nodes: dict[AffinityTerm, Mask] = {}
        self._domains: dict[str, dict[str, Mask]] = {}

    def set_node(self, number: int, node: Node) -> None:
        """The node has this number, and may have changed."""
        if self._labels.get(number) != node.labels:
            self._labels[number] = node.labels
            self._domains.clear()

    def remove_node(self, number: int) -> None:
        """No node has this number any more."""
        self._labels.pop(number, None)
        self._domains.clear()

    def add(self, number: int, terms: Iterable[AffinityTerm]) -> None:
        """A pod on the node has these."""
        for term in terms:
            self._holders[term, number] += 1
            self._nodes[term] = self._nodes.get(term, 0) | 1 << number

    def remove(self, number: int, terms: Iterable[AffinityTerm]) -> None:
        """A pod on the node, which was added, is there no more."""
        for term in terms:
            self._holders[term, number] -= 1
            if not self._holders[term, number]:
                del self._holders[term, number]
                self._nodes[term] &= ~(1 << number)
                if not self._nodes[term]:
                    del self._nodes[term]

    def kept_from(self, pod: Pod) -> Mask:
        """The nodes in whose domains a pod is that keeps this one away.

        Cost: O(different terms, and nodes with a term that matches); O(nodes) more for a topology key when labels of
        nodes have changed.
        """
        if not self._nodes:
            return 0
        kept, namespace_labels = 0, self._namespaces.get(pod.namespace, {})
        for term, nodes in self._nodes.items():
            if term.matches(pod.namespace, pod.labels, namespace_labels):
                kept |= self._domain_of(term.topology_key, nodes)
        return kept

    def _domain_of(self, key: str, nodes: Mask) -> Mask:
        """All nodes that share the label with one of these; a node without it is in no domain."""
        domains = self._by_value(key)
        found = (self._labels.get(number, {}).get(key) for number in numbers_of(nodes).tolist())
        domain = 0
        for value in {value for value in found if value is not None}:
            domain |= domains[value]
        return domain

    def _by_value(self, key: str) -> Mapping[str, Mask]:
        if key not in self._domains:
            domains = self._domains[key] = {}
            for number, labels in self._labels.items():
                if key in labels:
                    domains[labels[key]] = domains.get(labels[key], 0) | 1 << number
        return self._domains[key]

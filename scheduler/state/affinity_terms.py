"""The affinity and anti-affinity terms of pods on nodes, and what they mean for the pod being decided.

Pods of one workload share their terms, so the cost grows with the number of different terms, not of pods.
Source: kube-scheduler's plugin InterPodAffinity.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import numpy as np

from allocator.search.rules import Mask
from scheduler.core_v1.affinity_term import AffinityTerm, PodAffinity, WeightedTerm
from scheduler.core_v1.label_selector import Labels
from scheduler.core_v1.pod import Pod
from scheduler.state.masks import Numbers, mask_of
from scheduler.state.topology import Topology

Term = TypeVar("Term", AffinityTerm, WeightedTerm)


class _Holders(Generic[Term]):
    """How many pods on which node have each term."""

    def __init__(self) -> None:
        self.by_term: dict[Term, Counter[int]] = {}

    def count(self, number: int, terms: Iterable[Term], sign: int) -> None:
        for term in terms:
            holders = self.by_term.setdefault(term, Counter())
            holders[number] += sign
            if not holders[number]:
                del holders[number]
                if not holders:
                    del self.by_term[term]


class HeldTerms:
    """Who has which terms, and where. namespaces: the labels of each by its name, as they are at any time."""

    def __init__(self, namespaces: Mapping[str, Labels], topology: Topology) -> None:
        self._namespaces = namespaces
        self._topology = topology
        self._required: _Holders[AffinityTerm] = _Holders()
        self._required_anti: _Holders[AffinityTerm] = _Holders()
        self._preferred: _Holders[WeightedTerm] = _Holders()

    def add(self, number: int, affinity: PodAffinity) -> None:
        """A pod on the node has these."""
        self._count(number, affinity, 1)

    def remove(self, number: int, affinity: PodAffinity) -> None:
        """A pod on the node, which was added, is there no more."""
        self._count(number, affinity, -1)

    def kept_from(self, pod: Pod) -> Mask:
        """The nodes in whose domains a pod is that keeps this one away.

        Cost: O(different terms), and some array operations for each that matches.
        """
        namespace_labels, kept = self._namespaces.get(pod.namespace, {}), 0
        for term, holders in self._required_anti.by_term.items():
            if term.matches(pod.namespace, pod.labels, namespace_labels):
                kept |= mask_of(self._in_domains(term.topology_key, holders) > 0)
        return kept

    def wanting(self, pod: Pod, *, required_weight: int) -> Iterator[tuple[int, Numbers]]:
        """For each term that matches the pod, its weight and how many pods with it are in each node's domain.

        The weight is below 0 for a term of anti-affinity. required_weight: of required terms of affinity. Cost: as of
        `kept_from`.
        """
        for weighted, holders in self._wanting(pod, required_weight):
            yield weighted.weight, self._in_domains(weighted.term.topology_key, holders)

    def _wanting(self, pod: Pod, required_weight: int) -> Iterator[tuple[WeightedTerm, Counter[int]]]:
        namespace_labels = self._namespaces.get(pod.namespace, {})
        for term, holders in self._required.by_term.items() if required_weight else ():
            if term.matches(pod.namespace, pod.labels, namespace_labels):
                yield WeightedTerm(required_weight, term), holders
        for weighted, holders in self._preferred.by_term.items():
            if weighted.term.matches(pod.namespace, pod.labels, namespace_labels):
                yield weighted, holders

    def _in_domains(self, key: str, holders: Mapping[int, int]) -> Numbers:
        """By node number, how many holders are in the node's domain."""
        domains = self._topology.domains(key)
        counts = np.zeros(len(domains.of_nodes), np.int64)
        counts[list(holders)] = list(holders.values())
        return domains.spread_out(domains.sums(counts))

    def _count(self, number: int, affinity: PodAffinity, sign: int) -> None:
        self._required.count(number, affinity.required, sign)
        self._required_anti.count(number, affinity.required_anti, sign)
        self._preferred.count(number, affinity.preferred, sign)
        self._preferred.count(number, [WeightedTerm(-one.weight, one.term) for one in affinity.preferred_anti], sign)

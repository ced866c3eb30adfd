"""The affinity and anti-affinity terms of pods on nodes, and what they mean for the pod being decided.

Pods of one workload share their terms, and the terms that match pods with certain labels are remembered, so the cost
grows with the number of terms that match. Counts in a topology domain are updated when a pod is added or removed.
Source: kube-scheduler's plugin InterPodAffinity.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Generic, TypeVar

import numpy as np

from allocator.search.rules import Mask
from cel.lru import LruCache
from scheduler.core_v1.affinity_term import NO_POD_AFFINITY, AffinityTerm, PodAffinity, WeightedTerm
from scheduler.core_v1.label_selector import Labels
from scheduler.core_v1.pod import Pod
from scheduler.state.masks import Numbers, mask_of
from scheduler.state.topology_domains import Domains, DomainSums, Topology

MOST_LABELLINGS = 256
"""Kinds of pods for which the matching terms are remembered; beyond, the least recently used one is forgotten."""

MOST_WORDS = 1 << 18
"""Words of the labels of all these kinds."""

Term = TypeVar("Term", AffinityTerm, WeightedTerm)


@dataclass(slots=True, eq=False)
class _Holders:
    """How many pods on which node have a term, and, once requested, in which domain."""

    on_nodes: Counter[int] = field(default_factory=Counter)
    sums: DomainSums | None = None

    def count(self, number: int, sign: int) -> None:
        self.on_nodes[number] += sign
        if not self.on_nodes[number]:
            del self.on_nodes[number]
        if self.sums is not None:
            self.sums.add(number, sign)

    def in_domains(self, domains: Domains) -> Numbers:
        """By domain. Cost: O(nodes), where these have changed since it was asked for."""
        if self.sums is None or not self.sums.are_of(domains):
            counts = np.zeros(len(domains.of_nodes), np.int64)
            counts[list(self.on_nodes)] = list(self.on_nodes.values())
            self.sums = DomainSums.of(domains, counts)
        return self.sums.by_domain


class _EqualPods:
    """Pods of a namespace that have the same labels: to terms they are alike. namespace_labels: as they are now."""

    def __init__(self, pod: Pod, namespace_labels: Labels) -> None:
        self.namespace, self.labels, self.namespace_labels = pod.namespace, pod.labels, namespace_labels

    @cached_property
    def key(self) -> Hashable:
        """Equal for equal kinds. Most pods are of a cluster without terms, and never asked for it."""
        return self.namespace, frozenset(self.labels.items()), frozenset(self.namespace_labels.items())

    @property
    def words(self) -> int:
        """How many labels stand in the key, and the namespace."""
        return 1 + len(self.labels) + len(self.namespace_labels)

    def is_matched(self, term: AffinityTerm) -> bool:
        return term.matches(self.namespace, self.labels, self.namespace_labels)


@dataclass(slots=True, eq=False)
class _Matching(Generic[Term]):
    """The terms that match these pods, and who has them. version: of the terms that were looked at."""

    found: Sequence[tuple[Term, _Holders]] = ()
    version: int = -1


class _TermIndex(Generic[Term]):
    """Terms of one sort. term_of: what looks at pods, of each of them."""

    def __init__(self, term_of: Callable[[Term], AffinityTerm]) -> None:
        self._term_of: Callable[[Term], AffinityTerm] = term_of
        self._holders: dict[Term, _Holders] = {}
        self._version = 0
        self._matching: LruCache[Hashable, _Matching[Term]] = LruCache(MOST_LABELLINGS, MOST_WORDS)

    def count(self, number: int, terms: Iterable[Term], sign: int) -> None:
        for term in terms:
            holders = self._holders.get(term)
            if holders is None:
                holders = self._holders[term] = _Holders()
                self._version += 1
            holders.count(number, sign)
            if not holders.on_nodes:
                del self._holders[term]
                self._version += 1

    def matching(self, pods: _EqualPods) -> Sequence[tuple[Term, _Holders]]:
        """Those that match the pods. Cost: O(terms), where one has come or gone since they were asked for."""
        if not self._holders:
            return ()
        known = self._matching.get(pods.key, pods.words, _Matching)
        if known.version != self._version:
            known.found = [one for one in self._holders.items() if pods.is_matched(self._term_of(one[0]))]
            known.version = self._version
        return known.found


class HeldTerms:
    """Who has which terms, and where. namespaces: the labels of each by its name, as they are at any time."""

    def __init__(self, namespaces: Mapping[str, Labels], topology: Topology) -> None:
        self._namespaces = namespaces
        self._topology = topology
        self._required: _TermIndex[AffinityTerm] = _TermIndex(lambda term: term)
        self._required_anti: _TermIndex[AffinityTerm] = _TermIndex(lambda term: term)
        self._preferred: _TermIndex[WeightedTerm] = _TermIndex(lambda weighted: weighted.term)

    def add(self, number: int, affinity: PodAffinity) -> None:
        """A pod on the node has these."""
        self._count(number, affinity, 1)

    def remove(self, number: int, affinity: PodAffinity) -> None:
        """A pod on the node, which was added, is there no more."""
        self._count(number, affinity, -1)

    def kept_from(self, pod: Pod) -> Mask:
        """The nodes in whose domains a pod is that keeps this one away.

        Cost: some array operations for each different term that matches; O(different terms), where one has come or
        gone since a pod like this was asked about.
        """
        kept = 0
        for term, holders in self._required_anti.matching(self._pods_like(pod)):
            domains = self._topology.domains(term.topology_key)
            kept |= mask_of(domains.nodes_of(holders.in_domains(domains) > 0))
        return kept

    def wanting(self, pod: Pod, *, required_weight: int) -> Iterator[tuple[int, Numbers]]:
        """For each term that matches the pod, its weight and how many pods with it are in each node's domain.

        The weight is below 0 for a term of anti-affinity. required_weight: of required terms of affinity. Cost: as of
        `kept_from`.
        """
        pods = self._pods_like(pod)
        required = self._required.matching(pods) if required_weight else ()
        preferred = self._preferred.matching(pods)
        weighted = ((one.weight, one.term, holders) for one, holders in preferred)
        for weight, term, holders in chain(((required_weight, *one) for one in required), weighted):
            domains = self._topology.domains(term.topology_key)
            yield weight, domains.spread_out(holders.in_domains(domains))

    def _pods_like(self, pod: Pod) -> _EqualPods:
        return _EqualPods(pod, self._namespaces.get(pod.namespace, {}))

    def _count(self, number: int, affinity: PodAffinity, sign: int) -> None:
        if affinity is NO_POD_AFFINITY:
            return
        self._required.count(number, affinity.required, sign)
        self._required_anti.count(number, affinity.required_anti, sign)
        self._preferred.count(number, affinity.preferred, sign)
        self._preferred.count(number, [WeightedTerm(-one.weight, one.term) for one in affinity.preferred_anti], sign)

"""The number of pods with certain labels on each node, cached for repeated questions.

Pods with the same namespace and labels are counted together. An answer is an array by node number, or by topology
domain, which is updated when a pod is added or removed, so pods of one workload find it ready.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cel.cache import LruCache
from scheduler.core_v1.label_selectors import AffinityTerm, Labels, LabelSelector, selects
from scheduler.state.labels import Domains, DomainSums
from scheduler.state.masks import Numbers

MOST_QUESTIONS = 256
"""Answers that are kept; beyond, the least recently used one is forgotten."""

MOST_SUMS = 8
"""Sets of domains for which an answer keeps its sums; beyond, the oldest one is forgotten."""

MOST_WORDS = 1 << 18
"""Words of the questions whose answers are kept: one pod has room for thousands."""


@dataclass(frozen=True, slots=True)
class PodLabels:
    """What questions look at: pods of one workload mostly have the same."""

    namespace: str
    labels: Labels
    is_deleting: bool


class Question(Hashable, Protocol):
    """Which pods are counted."""

    @property
    def words(self) -> int:
        """About how many words stand in it."""
        ...

    def counts(self, pods: PodLabels, namespace_labels: Labels) -> bool:
        """Whether these are. namespace_labels: of their namespace."""
        ...


@dataclass(frozen=True, slots=True)
class MatchingPods:
    """Pods that match all of these terms."""

    terms: tuple[AffinityTerm, ...]

    @property
    def words(self) -> int:
        """About how many words stand in the terms."""
        selectors = (_words_of(one.selector) + _words_of(one.namespace_selector) for one in self.terms)
        return sum(selectors) + sum(1 + len(one.namespaces) for one in self.terms)

    def counts(self, pods: PodLabels, namespace_labels: Labels) -> bool:
        """Terminating pods count as all others."""
        return all(one.matches(pods.namespace, pods.labels, namespace_labels) for one in self.terms)


@dataclass(frozen=True, slots=True)
class SelectedPods:
    """Pods of a namespace with some labels that are not terminating."""

    namespace: str
    selector: LabelSelector

    @property
    def words(self) -> int:
        """About how many words stand in the selector."""
        return 1 + _words_of(self.selector)

    def counts(self, pods: PodLabels, _namespace_labels: Labels) -> bool:
        """Source: kube-scheduler's countPodsMatchSelector."""
        is_own = pods.namespace == self.namespace and not pods.is_deleting
        return is_own and selects(self.selector, pods.labels)


_LabelsKey = tuple[str, frozenset[tuple[str, str]], bool]


@dataclass(slots=True, eq=False)
class _KeptCount:
    """on_nodes: by node number. sums: over the domains that were asked for, the oldest first."""

    question: Question
    on_nodes: Numbers
    sums: list[DomainSums] = field(default_factory=list)

    def add(self, number: int, count: int) -> None:
        self.on_nodes[number] += count
        for sums in self.sums:
            sums.add(number, count)

    def in_domains(self, domains: Domains) -> Numbers:
        for sums in self.sums:
            if sums.are_of(domains):
                return sums.by_domain
        others = [sums for sums in self.sums if sums.domains is not domains]
        self.sums = [*others[1 - MOST_SUMS :], DomainSums.of(domains, self.on_nodes)]
        return self.sums[-1].by_domain


@dataclass(slots=True, eq=False)
class _PodsOnNodes:
    """Pods with the same labels, by node number. answers: those that count them, of all kept ones as of a version."""

    pods: PodLabels
    on_nodes: Counter[int] = field(default_factory=Counter)
    answers: Sequence[_KeptCount] = ()
    version: int = -1


class PodCounts:
    """The pods on nodes, by labels. namespaces: the labels of each by its name, as they are at any time.

    size: more than any node number.
    """

    def __init__(self, namespaces: Mapping[str, Labels], size: int) -> None:
        self._namespaces = namespaces
        self._alike: dict[_LabelsKey, _PodsOnNodes] = {}
        self._size = size
        self._version = 0
        self._answers = _no_answers()

    def add(self, number: int, pods: PodLabels) -> None:
        """One more of such pods is on the node."""
        self._count(number, pods, 1)

    def remove(self, number: int, pods: PodLabels) -> None:
        """Remove a pod that `add` has counted."""
        self._count(number, pods, -1)

    def grow(self, size: int) -> None:
        """Make room for node numbers below this."""
        self._size = size
        self.forget_answers()

    def forget_answers(self) -> None:
        """Work all out again: the labels of a namespace have changed, which terms may look at."""
        self._answers = _no_answers()
        self._version += 1

    def on_nodes(self, question: Question) -> Numbers:
        """How many there are, by node number. The array changes with the next pod, and is not to be written to.

        Cost: O(different labels of pods), when it is asked for first.
        """
        return self._of(question).on_nodes

    def in_domains(self, question: Question, domains: Domains) -> Numbers:
        """How many there are, by domain; an array as of `on_nodes`.

        Cost: O(nodes) more, when it is asked for first of these domains, and where they have changed.
        """
        return self._of(question).in_domains(domains)

    def _of(self, question: Question) -> _KeptCount:
        return self._answers.get(question, question.words, lambda: self._answer(question))

    def _answer(self, question: Question) -> _KeptCount:
        counts = np.zeros(self._size, np.int64)
        for alike in self._alike.values():
            if question.counts(alike.pods, self._namespaces.get(alike.pods.namespace, {})):
                for number, count in alike.on_nodes.items():
                    counts[number] += count
        self._version += 1  # another answer may have been forgotten for it
        return _KeptCount(question, counts)

    def _count(self, number: int, pods: PodLabels, sign: int) -> None:
        key = pods.namespace, frozenset(pods.labels.items()), pods.is_deleting
        alike = self._alike.get(key)
        if alike is None:
            alike = self._alike[key] = _PodsOnNodes(pods)
        alike.on_nodes[number] += sign
        if not alike.on_nodes[number]:
            del alike.on_nodes[number]
            if not alike.on_nodes:
                del self._alike[key]
        for answer in self._answers_counting(alike):
            answer.add(number, sign)

    def _answers_counting(self, alike: _PodsOnNodes) -> Sequence[_KeptCount]:
        """Cost: O(answers), where one has come or gone since such a pod was counted."""
        if alike.version != self._version:
            labels = self._namespaces.get(alike.pods.namespace, {})
            alike.answers = [one for one in self._answers.values() if one.question.counts(alike.pods, labels)]
            alike.version = self._version
        return alike.answers


def _no_answers() -> LruCache[Question, _KeptCount]:
    return LruCache(MOST_QUESTIONS, MOST_WORDS)


def _words_of(selector: LabelSelector) -> int:
    return sum(2 + len(one.values) for one in selector or ())

"""The number of pods with certain labels on each node, cached for repeated questions.

Pods with the same namespace and labels are counted together. An answer is an array by node number, which is updated
when a pod comes or goes, so pods of one workload find it ready.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cel.lru import LruCache
from scheduler.core_v1.affinity_term import AffinityTerm
from scheduler.core_v1.label_selector import Labels, LabelSelector, selects
from scheduler.state.masks import Numbers

MOST_QUESTIONS = 256
"""Answers that are kept; beyond, the least recently used one is forgotten."""

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
    """Pods of a namespace with some labels that are not terminating; a selector of everything counts none."""

    namespace: str
    selector: LabelSelector

    @property
    def words(self) -> int:
        """About how many words stand in the selector."""
        return 1 + _words_of(self.selector)

    def counts(self, pods: PodLabels, _namespace_labels: Labels) -> bool:
        """Source: kube-scheduler's countPodsMatchSelector."""
        is_own = pods.namespace == self.namespace and not pods.is_deleting
        return is_own and bool(self.selector) and selects(self.selector, pods.labels)


_Key = tuple[str, frozenset[tuple[str, str]], bool]


@dataclass(slots=True, eq=False)
class _Alike:
    pods: PodLabels
    on_nodes: Counter[int]


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    question: Question
    on_nodes: Numbers


class PodCounts:
    """The pods on nodes, by labels. namespaces: the labels of each by its name, as they are at any time.

    size: more than any node number.
    """

    def __init__(self, namespaces: Mapping[str, Labels], size: int) -> None:
        self._namespaces = namespaces
        self._alike: dict[_Key, _Alike] = {}
        self._size = size
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
        """Work all out anew: the labels of a namespace have changed, which terms may look at."""
        self._answers = _no_answers()

    def on_nodes(self, question: Question) -> Numbers:
        """How many there are, by node number. The array changes with the next pod, and is not to be written to.

        Cost: O(different labels of pods), when it is asked for first.
        """
        return self._answers.get(question, question.words, lambda: self._answer(question)).on_nodes

    def _answer(self, question: Question) -> _Answer:
        found = np.zeros(self._size, np.int64)
        for alike in self._alike.values():
            if question.counts(alike.pods, self._namespaces.get(alike.pods.namespace, {})):
                for number, count in alike.on_nodes.items():
                    found[number] += count
        return _Answer(question, found)

    def _count(self, number: int, pods: PodLabels, sign: int) -> None:
        key = pods.namespace, frozenset(pods.labels.items()), pods.is_deleting
        alike = self._alike.setdefault(key, _Alike(pods, Counter()))
        alike.on_nodes[number] += sign
        if not alike.on_nodes[number]:
            del alike.on_nodes[number]
            if not alike.on_nodes:
                del self._alike[key]
        namespace_labels = self._namespaces.get(pods.namespace, {})
        for answer in self._answers.values():
            if answer.question.counts(pods, namespace_labels):
                answer.on_nodes[number] += sign


def _no_answers() -> LruCache[Question, _Answer]:
    return LruCache(MOST_QUESTIONS, MOST_WORDS)


def _words_of(selector: LabelSelector) -> int:
    return sum(2 + len(one.values) for one in selector or ())

"""Pods on nodes by their labels: how many a selector matches, and what their terms mean for the pod being decided.

Pods with the same namespace and labels are counted together. An answer is an array by node number, or by topology
domain, so pods of one workload find it ready; it follows the pods that have come and gone when it is asked for again:
what a pod costs is not for those to say who have asked about others. For pods that are alike
to affinity and anti-affinity terms, what the terms that match them add up to is kept by topology key, and follows the
pods that come and go. So a decision costs a few array operations for each label key of nodes, however many terms there
are: one pod has room for thousands, and they concern pods of all namespaces.
Source: kube-scheduler's plugin InterPodAffinity.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np

from allocator.bits import Mask
from allocator.memo import WeighedJournal
from allocator.words import counted
from cel.cache import LruCache
from scheduler.core_v1.label_selectors import (
    NO_POD_AFFINITY,
    AffinityTerm,
    Labels,
    LabelSelector,
    PodAffinity,
    WeightedTerm,
    selects,
)
from scheduler.core_v1.pod import Pod
from scheduler.state.labels import Domains, DomainSums, Topology
from scheduler.state.masks import Numbers, mask_of

MOST_QUESTIONS = 256
"""Answers that are kept; beyond, the least recently used one is forgotten."""

FEWEST_CHANGES = 1 << 12
"""Changes of pods, or of terms, that are kept; more if more are there, so that they take no longer than a recount."""

MOST_SUMS = 8
"""Sets of domains for which an answer keeps its sums; beyond, the oldest one is forgotten."""

MOST_KNOWN = 64
"""Kinds of pods for which an answer knows whether it counts them; beyond, it forgets all of them."""

FEW_LABELS = 16
"""Of such a kind."""

MOST_CHANGED = 1 << 17
"""Words of what has changed that are kept: labels, and terms, of pods that may be gone."""

MOST_WORDS = 1 << 18
"""Words of the questions whose answers are kept, and of the labels of kinds of pods: one pod has room for thousands."""


_LabelsKey = tuple[str, frozenset[tuple[str, str]], bool]


@dataclass(frozen=True, slots=True)
class PodLabels:
    """What questions look at: pods of one workload mostly have the same.

    known_key: where they are counted again and again; most pods are counted once, and there are many of them.
    """

    namespace: str
    labels: Labels
    is_deleting: bool
    known_key: _LabelsKey | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> _LabelsKey:
        """Equal for pods that are alike. Cost: O(labels), where it is not known."""
        return self.known_key or (self.namespace, frozenset(self.labels.items()), self.is_deleting)


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


@dataclass(slots=True, eq=False)
class _PodsOnNodes:
    """Pods with the same labels, by node number."""

    key: _LabelsKey
    pods: PodLabels
    on_nodes: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True, eq=False)
class _KeptCount:
    """An answer to the question."""

    question: Question
    on_nodes: Numbers
    """By node number."""
    seen: int
    """How many changes are counted."""
    known: dict[_LabelsKey, bool] = field(default_factory=dict)
    """Of some kinds of pods, whether they are counted."""
    sums: list[DomainSums] = field(default_factory=list)
    """Over the domains that were asked for, the oldest first."""

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


class PodCounts:
    """The pods on nodes, by labels. namespaces: the labels of each by its name, as they are at any time.

    size: more than any node number. look: at the time of a decision, which may raise.
    """

    def __init__(self, namespaces: Mapping[str, Labels], size: int, look: Callable[[], None] = lambda: None) -> None:
        self._namespaces = namespaces
        self._look = look
        self._alike: dict[_LabelsKey, _PodsOnNodes] = {}
        self._size = size
        self._changes: WeighedJournal[tuple[_PodsOnNodes, int, int]] = WeighedJournal()
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
        self._changes = WeighedJournal()

    def on_nodes(self, question: Question) -> Numbers:
        """How many there are, by node number. The array is not to be written to, and holds until pods come or go.

        Cost: O(different labels of pods), when it is asked for first; O(pods that have come and gone) from then on.
        """
        return self._of(question).on_nodes

    def in_domains(self, question: Question, domains: Domains) -> Numbers:
        """How many there are, by domain; an array as of `on_nodes`.

        Cost: O(nodes) more, when it is asked for first of these domains, and where they have changed.
        """
        return self._of(question).in_domains(domains)

    def _of(self, question: Question) -> _KeptCount:
        answer = self._answers.get(question, question.words, lambda: self._answer(question))
        unseen = self._changes.since(answer.seen)
        if unseen is None:
            counted = self._answer(question)
            answer.on_nodes, answer.seen, answer.sums = counted.on_nodes, counted.seen, []
            return answer
        for alike, number, sign in unseen:
            if self._counts(answer, alike):
                answer.add(number, sign)
            answer.seen += 1
        return answer

    def _answer(self, question: Question) -> _KeptCount:
        counts = np.zeros(self._size, np.int64)
        for alike in self._alike.values():
            self._look()
            if question.counts(alike.pods, self._namespaces.get(alike.pods.namespace, {})):
                for number, count in alike.on_nodes.items():
                    counts[number] += count
        return _KeptCount(question, counts, self._changes.now)

    def _counts(self, answer: _KeptCount, alike: _PodsOnNodes) -> bool:
        is_counted = answer.known.get(alike.key)
        if is_counted is None:
            self._look()
            is_counted = answer.question.counts(alike.pods, self._namespaces.get(alike.pods.namespace, {}))
            if len(answer.known) >= MOST_KNOWN:
                answer.known.clear()
            if len(alike.pods.labels) <= FEW_LABELS:
                answer.known[alike.key] = is_counted
        return is_counted

    def _count(self, number: int, pods: PodLabels, sign: int) -> None:
        key = pods.key
        alike = self._alike.get(key)
        if alike is None:
            alike = self._alike[key] = _PodsOnNodes(key, pods)
        alike.on_nodes[number] += sign
        if not alike.on_nodes[number]:
            del alike.on_nodes[number]
            if not alike.on_nodes:
                del self._alike[key]
        if self._answers:
            most = max(2 * len(self._alike), FEWEST_CHANGES)
            self._changes.weigh((alike, number, sign), 1 + len(alike.pods.labels), MOST_CHANGED, most)


def _no_answers() -> LruCache[Question, _KeptCount]:
    return LruCache(MOST_QUESTIONS, MOST_WORDS)


def _words_of(selector: LabelSelector) -> int:
    return sum(2 + len(one.values) for one in selector or ())


MOST_LABELLINGS = 256
"""Kinds of pods for which the matching terms are remembered; beyond, the least recently used one is forgotten."""


MOST_OF_NAMESPACE = 1 << 12
"""Terms of one sort of the pods of a namespace that count, those of equal pods once.

Each is held against each new kind of pods, of whatever namespace.
"""

MOST_NAMED = 8
"""Namespaces that a warning names."""

MOST_ADDED = 1 << 21
"""After so many additions for all kinds they are forgotten, and counted again when they are asked about: 200 MiB."""

Term = TypeVar("Term", AffinityTerm, WeightedTerm)
Counts = Collection[tuple[int, int]]
"""Node numbers, and how many pods more there are on each."""


@dataclass(slots=True, eq=False)
class _Pull:
    """What terms of one topology key add up to on the nodes of pods that have them and, once asked, in each domain."""

    on_nodes: Counter[int] = field(default_factory=Counter)
    sums: DomainSums | None = None

    def add(self, number: int, weight: int) -> None:
        self.on_nodes[number] += weight
        if not self.on_nodes[number]:
            del self.on_nodes[number]
        if self.sums is not None:
            self.sums.add(number, weight)

    def in_domains(self, domains: Domains) -> Numbers:
        """By domain. Cost: O(nodes), where these have changed since it was asked for."""
        if self.sums is None or not self.sums.are_of(domains):
            counts = np.zeros(len(domains.of_nodes), np.int64)
            counts[list(self.on_nodes)] = list(self.on_nodes.values())
            self.sums = DomainSums.of(domains, counts)
        return self.sums.by_domain


class EqualPods:
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
        """Whether the term is about them."""
        return term.matches(self.namespace, self.labels, self.namespace_labels)


@dataclass(slots=True, eq=False)
class _Matching:
    """The terms that match these pods, by topology key. seen: how many changes are counted. version: of the keys."""

    by_key: dict[str, _Pull] = field(default_factory=dict)
    seen: int = -1
    version: int = -1


@dataclass(slots=True, eq=False)
class _TermsOfNamespace(Generic[Term]):
    """How many of its pods have them, by node. size: terms that count. left_out: those that wait for room."""

    held: dict[tuple[Term, ...], Counter[int]] = field(default_factory=dict)
    left_out: dict[tuple[Term, ...], Counter[int]] = field(default_factory=dict)
    size: int = 0


def _add_up(counts: dict[tuple[Term, ...], Counter[int]], terms: tuple[Term, ...], number: int, times: int) -> None:
    on_nodes = counts.setdefault(terms, Counter())
    on_nodes[number] += times
    if not on_nodes[number]:
        del on_nodes[number]
        if not on_nodes:
            del counts[terms]


class _TermIndex(Generic[Term]):
    """Terms of one sort. term_of: what looks at pods, of each of them. weight_of: what each counts."""

    def __init__(
        self, topology: Topology, term_of: Callable[[Term], AffinityTerm], weight_of: Callable[[Term], int]
    ) -> None:
        self._topology = topology
        self._term_of: Callable[[Term], AffinityTerm] = term_of
        self._weight_of: Callable[[Term], int] = weight_of
        self._by_namespace: dict[str, _TermsOfNamespace[Term]] = {}
        self._size = 0
        self._changes: WeighedJournal[tuple[Term, int, int]] = WeighedJournal()
        self._added = 0
        self._matching: LruCache[Hashable, _Matching] = LruCache(MOST_LABELLINGS, MOST_WORDS)

    @property
    def is_empty(self) -> bool:
        """Whether no pod on a node has such terms."""
        return not self._size

    @property
    def left_out(self) -> Iterator[str]:
        """The namespaces of which not all terms count."""
        return (namespace for namespace, own in self._by_namespace.items() if own.left_out)

    def count(self, namespace: str, number: int, terms: tuple[Term, ...], sign: int) -> None:
        """One pod more, or less, of the namespace with these terms is on the node."""
        if not terms:
            return
        own = self._by_namespace.setdefault(namespace, _TermsOfNamespace())
        # Differs from kube-scheduler, which counts any number, of whatever namespace, for each pod that it decides.
        if terms in own.held or (terms not in own.left_out and own.size + len(terms) <= MOST_OF_NAMESPACE):
            self._hold(own, number, terms, sign)
        else:
            _add_up(own.left_out, terms, number, sign)
        while own.left_out and own.size + len(terms := next(iter(own.left_out))) <= MOST_OF_NAMESPACE:
            for other, times in own.left_out.pop(terms).items():
                self._hold(own, other, terms, times)
        if not own.held and not own.left_out:
            del self._by_namespace[namespace]

    def matching(self, pods: EqualPods) -> Mapping[str, _Pull]:
        """What those that match the pods add up to, by topology key; keys that no node has are left out.

        Cost: O(terms of pods that have come or gone since it was asked for); all, the first time, where nodes have come
        to have a key or have it no more, and where more has changed than is kept.
        """
        if self.is_empty:
            return {}
        if self._added > MOST_ADDED:
            self._added, self._matching = 0, LruCache(MOST_LABELLINGS, MOST_WORDS)
        matching = self._matching.get(pods.key, pods.words, _Matching)
        for terms, counts in self._unseen(matching):
            self._note(matching, pods, terms, counts)
        matching.seen, matching.version = self._changes.now, self._topology.keys_version
        return matching.by_key

    def _hold(self, own: "_TermsOfNamespace[Term]", number: int, terms: tuple[Term, ...], times: int) -> None:
        before = terms in own.held
        _add_up(own.held, terms, number, times)
        more = len(terms) * ((terms in own.held) - before)
        own.size += more
        self._size += more
        for addition in terms:
            term = self._term_of(addition)
            words = 1 + len(term.namespaces) + _words_of(term.selector) + _words_of(term.namespace_selector)
            self._changes.weigh((addition, number, times), words, MOST_CHANGED, max(self._size, FEWEST_CHANGES))

    def _unseen(self, known: _Matching) -> Iterator[tuple[tuple[Term, ...], Counts]]:
        unseen = self._changes.since(known.seen) if known.version == self._topology.keys_version else None
        if unseen is not None:
            yield from (((term,), ((number, sign),)) for term, number, sign in unseen)
            return
        known.by_key = {}
        for own in self._by_namespace.values():
            yield from ((terms, on_nodes.items()) for terms, on_nodes in own.held.items())

    def _note(self, known: _Matching, pods: EqualPods, terms: Iterable[Term], counts: Counts) -> None:
        weights: dict[str, int] = {}
        term_of, has, is_matched = self._term_of, self._topology.has, pods.is_matched
        for addition in terms:
            term = term_of(addition)
            if has(term.topology_key) and is_matched(term):
                weights[term.topology_key] = weights.get(term.topology_key, 0) + self._weight_of(addition)
        for key, weight in weights.items():
            pull = known.by_key.setdefault(key, _Pull())
            self._added += len(counts)
            for number, times in counts:
                pull.add(number, times * weight)


class HeldTerms:
    """Who has which terms, and where. namespaces: the labels of each by its name, as they are at any time."""

    def __init__(self, namespaces: Mapping[str, Labels], topology: Topology) -> None:
        self._namespaces = namespaces
        self._topology = topology
        self._required: _TermIndex[AffinityTerm] = _TermIndex(topology, lambda term: term, lambda _: 1)
        self._required_anti: _TermIndex[AffinityTerm] = _TermIndex(topology, lambda term: term, lambda _: 1)
        self._preferred: _TermIndex[WeightedTerm] = _weighted(topology)
        self._preferred_anti: _TermIndex[WeightedTerm] = _weighted(topology)

    def add(self, namespace: str, number: int, affinity: PodAffinity) -> None:
        """A pod of the namespace on the node has these."""
        self._count(namespace, number, affinity, 1)

    def remove(self, namespace: str, number: int, affinity: PodAffinity) -> None:
        """A pod on the node, which was added, is there no more."""
        self._count(namespace, number, affinity, -1)

    @property
    def trouble(self) -> str:
        """Of which namespaces some terms do not count; empty where all do."""
        every = self._required, self._required_anti, self._preferred, self._preferred_anti
        if not (namespaces := sorted({namespace for index in every for namespace in index.left_out})):
            return ""
        whose = f"{counted(len(namespaces), 'namespace')} ({', '.join(namespaces[:MOST_NAMED])})"
        return f"pods of {whose} have more than {MOST_OF_NAMESPACE:,} terms about other pods; the rest do not count"

    def kept_from(self, pod: Pod) -> Mask:
        """The nodes in whose domains a pod is that keeps this one away.

        Cost: some array operations for each topology key of terms that match, and what `_TermIndex.matching` says.
        """
        kept = 0
        for _, domains, pulls in self._in_domains(self._required_anti, pod, 1):
            kept |= mask_of(domains.nodes_of(pulls > 0))
        return kept

    def wanting(self, pod: Pod, *, required_weight: int) -> Iterator[tuple[int, Numbers]]:
        """For each sort of terms and topology key, a weight and what those that match add up to in each node's domain.

        The weight is below 0 for terms of anti-affinity. required_weight: of required terms of affinity. Cost: as of
        `kept_from`.
        """
        pulls = [
            *(self._in_domains(self._required, pod, required_weight) if required_weight else ()),
            *self._in_domains(self._preferred, pod, 1),
            *self._in_domains(self._preferred_anti, pod, -1),
        ]
        yield from ((weight, domains.spread_out(found)) for weight, domains, found in pulls)

    def _in_domains(self, index: _TermIndex[Term], pod: Pod, weight: int) -> Iterator[tuple[int, Domains, Numbers]]:
        if index.is_empty:
            return
        pods = EqualPods(pod, self._namespaces.get(pod.namespace, {}))
        for key, pull in index.matching(pods).items():
            domains = self._topology.domains(key)
            yield weight, domains, pull.in_domains(domains)

    def _count(self, namespace: str, number: int, affinity: PodAffinity, sign: int) -> None:
        if affinity is NO_POD_AFFINITY:
            return
        self._required.count(namespace, number, affinity.required, sign)
        self._required_anti.count(namespace, number, affinity.required_anti, sign)
        self._preferred.count(namespace, number, affinity.preferred, sign)
        self._preferred_anti.count(namespace, number, affinity.preferred_anti, sign)


def _weighted(topology: Topology) -> _TermIndex[WeightedTerm]:
    return _TermIndex(topology, lambda one: one.term, lambda one: one.weight)

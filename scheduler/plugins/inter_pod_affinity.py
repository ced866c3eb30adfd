"""InterPodAffinity: which other pods a pod requires in its topology domain, keeps away, and is kept away by.

Every required term of affinity needs a pod in the node's domain that matches all of the terms. The first pod of its
kind, which matches its own terms, may go anywhere. Preferred terms, of the pod and of pods on nodes, add up to a score.
Source: kube-scheduler's interpodaffinity filtering.go and scoring.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from allocator.bits import Mask
from scheduler.core_v1.label_selectors import AffinityTerm, are_larger
from scheduler.core_v1.pod import Pod
from scheduler.plugins.plugin import (
    MAX_SCORE,
    MOST_TERMS,
    MOST_WORDS,
    Change,
    Cycle,
    Dynamic,
    Hint,
    Plugin,
    Reason,
    RefusedPod,
    RefusingNode,
    Rejected,
    Score,
)
from scheduler.state.cluster_changes import Event, GivenBack, NamespaceChanged, NodeChanged, PodChanged
from scheduler.state.masks import Numbers, mask_of
from scheduler.state.node_infos import Promised
from scheduler.state.pods_by_labels import EqualPods, MatchingPods

NAME = "InterPodAffinity"

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

HARD_POD_AFFINITY_WEIGHT = 1
"""How much a required term of a pod on a node counts in the score of the pods that it matches."""


def _pre_filter(cycle: Cycle) -> str:
    problem = cycle.pod.pod_affinity.problem
    return f"parsing pod: {problem}" if problem else ""


def _is_skipped(cycle: Cycle) -> bool:
    own = cycle.pod.pod_affinity
    return not own.required and not own.required_anti and not cycle.infos.terms.kept_from(cycle.pod)


def _asks(cycle: Cycle) -> bool:
    return bool(cycle.pod.pod_affinity.required or cycle.pod.pod_affinity.required_anti)


def _kept_by(cycle: Cycle, promised: Mapping[int, Sequence[Promised]]) -> Mask:
    pods = EqualPods(cycle.pod, cycle.infos.namespaces.get(cycle.pod.namespace, {}))
    kept = 0
    for number, on_node in promised.items():
        keys = {key for one in cycle.each(on_node) for key in one.keeps_away_in(pods)}
        if any(cycle.infos.topology.domains(key).labelled[number] for key in keys):
            kept |= 1 << number
    return kept


def _refused(cycle: Cycle) -> Mask:
    return _without_company(cycle) | _with_unwanted(cycle) | cycle.infos.terms.kept_from(cycle.pod)


def _rejections(cycle: Cycle, asked: Mask) -> Iterator[Rejected]:
    alone = asked & _without_company(cycle)
    if alone:
        yield Rejected(AFFINITY, alone)
    unwanted = asked & ~alone & _with_unwanted(cycle)
    if unwanted:
        yield Rejected(ANTI_AFFINITY, unwanted, unwanted)
    kept = asked & ~alone & ~unwanted & cycle.infos.terms.kept_from(cycle.pod)
    if kept:
        yield Rejected(EXISTING, kept, kept)


def _without_company(cycle: Cycle) -> Mask:
    """The nodes where a pod is missing that the pod's own affinity requires."""
    terms = cycle.pod.pod_affinity.required
    if not terms:
        return 0
    labelled, accompanied = np.ones(cycle.infos.size, np.bool_), np.ones(cycle.infos.size, np.bool_)
    is_first = True
    for key in cycle.each(dict.fromkeys(term.topology_key for term in terms)):
        domains = cycle.infos.topology.domains(key)
        company = cycle.infos.pods.in_domains(MatchingPods(terms), domains) > 0
        labelled &= domains.labelled
        if not labelled.any():
            break  # whoever else is there, and where
        accompanied &= domains.nodes_of(company)
        is_first = is_first and not company.any()
    if is_first and _matches_own(cycle, terms):
        return mask_of(~labelled)
    return mask_of(~(labelled & accompanied))


def _matches_own(cycle: Cycle, terms: Iterable[AffinityTerm]) -> bool:
    pod, namespace_labels = cycle.pod, cycle.infos.namespaces.get(cycle.pod.namespace, {})
    return all(term.matches(pod.namespace, pod.labels, namespace_labels) for term in terms)


def _with_unwanted(cycle: Cycle) -> Mask:
    """The nodes in whose domains a pod is that the pod's own anti-affinity keeps away."""
    unwanted = 0
    for term in cycle.each(cycle.pod.pod_affinity.required_anti):
        domains = cycle.infos.topology.domains(term.topology_key)
        unwanted |= mask_of(domains.nodes_of(cycle.infos.pods.in_domains(MatchingPods((term,)), domains) > 0))
    return unwanted


def _attraction(cycle: Cycle, hard_weight: int) -> Numbers | None:
    """By node number, what the pod's preferred terms and the terms of pods on nodes add up to; None for nothing."""
    weighted = [*_preferences(cycle), *cycle.infos.terms.wanting(cycle.pod, required_weight=hard_weight)]
    met = [weight * in_domains for weight, in_domains in weighted if in_domains.any()]
    return reduce(np.add, met) if met else None


def _preferences(cycle: Cycle) -> Iterator[tuple[int, Numbers]]:
    """For each of the pod's preferred terms, its weight and how many pods that match are in each node's domain."""
    own = cycle.pod.pod_affinity
    for preference in cycle.each(own.preferred):
        yield preference.weight, _near(cycle, preference.term)
    for preference in cycle.each(own.preferred_anti):
        yield -preference.weight, _near(cycle, preference.term)


def _near(cycle: Cycle, term: AffinityTerm) -> Numbers:
    """By node number, how many pods that match the term are in the node's domain."""
    domains = cycle.infos.topology.domains(term.topology_key)
    return domains.spread_out(cycle.infos.pods.in_domains(MatchingPods((term,)), domains))


def _scaled(raw: Numbers) -> Numbers:
    """From 0 for the least to MAX_SCORE for the most; all 0 if they are equal."""
    least, most = (int(raw.min()), int(raw.max())) if raw.size else (0, 0)
    if least == most:
        return np.zeros_like(raw)
    scaled: Numbers = (MAX_SCORE * ((raw - least) / (most - least))).astype(np.int64)
    return scaled


def _changes(cycle: Cycle, place: RefusingNode) -> Iterator[Change]:
    """Without a term, or without the pods in the node's domain that are in the way."""
    pod, own = cycle.pod, cycle.pod.pod_affinity
    for number, term in enumerate(own.required):
        rest = (*own.required[:number], *own.required[number + 1 :])
        changed = replace(pod, pod_affinity=replace(own, required=rest))
        yield Change(f"required pod affinity #{number} (topologyKey {term.topology_key}) dropped", changed)
    for number, term in enumerate(own.required_anti):
        rest = (*own.required_anti[:number], *own.required_anti[number + 1 :])
        changed = replace(pod, pod_affinity=replace(own, required_anti=rest))
        yield Change(f"required pod anti-affinity #{number} (topologyKey {term.topology_key}) dropped", changed)
    if in_the_way := [one for one in place.others if _are_apart(cycle, one, place.number)]:
        yield Change.without(in_the_way)


def _are_apart(cycle: Cycle, one: tuple[int, Pod], node: int) -> bool:
    """Whether the pod on that node and the one in hand do not go together with it on the other node."""
    number, other = one
    return _keeps(cycle, cycle.pod, other, number, node) or _keeps(cycle, other, cycle.pod, number, node)


def _keeps(cycle: Cycle, holder: Pod, other: Pod, number: int, node: int) -> bool:
    """Whether a term of the holder's anti-affinity keeps the other out of its domain, which both nodes are in."""
    labels = cycle.infos.namespaces.get(other.namespace, {})
    matching = (one for one in holder.pod_affinity.required_anti if one.matches(other.namespace, other.labels, labels))
    domains = (cycle.infos.topology.domains(one.topology_key).of_nodes for one in matching)
    return any(one[number] == one[node] >= 0 for one in domains)


def _are_many(terms: Sequence[AffinityTerm]) -> bool:
    """Whether a look at a pod would take long."""
    selectors = (one for term in terms for one in (term.selector, term.namespace_selector))
    return len(terms) > MOST_TERMS or are_larger(selectors, MOST_WORDS)


def _comes_to_match(who: RefusedPod, event: PodChanged) -> bool:
    """A pod comes to a node, goes, or gets other labels, and so may be the company that is missing, or the last of it.

    Differs from kube-scheduler, whose hint does not see that the last match is gone, after which the pod would be the
    first of its kind.
    """
    terms = who.pod.pod_affinity.required
    if not terms or _are_many(terms):
        return bool(terms)
    return any(
        one is not None and all(term.may_match(one.namespace, one.labels) for term in terms)
        for one in (event.old, event.new)
    )


def _keeps_away(other: Pod | None, pod: Pod) -> bool:
    """Whether one may keep the other away; the labels of namespaces are not known here.

    Differs from kube-scheduler, whose hint asks that the other matches all terms of anti-affinity, where one keeps it
    away, and does not look at namespaces by their labels.
    """
    if other is None or other.uid == pod.uid:
        return False
    own, its = pod.pod_affinity.required_anti, other.pod_affinity.required_anti
    if _are_many((*own, *its)):
        return True
    is_kept = any(term.may_match(other.namespace, other.labels) for term in own)
    return is_kept or any(term.may_match(pod.namespace, pod.labels) for term in its)


def _pod_helps(who: RefusedPod, event: PodChanged) -> bool:
    return _comes_to_match(who, event) or (event.old is not None and _keeps_away(event.old, who.pod))


def _kept_away_in_vain(who: RefusedPod, event: GivenBack) -> bool:
    return _keeps_away(event.pod, who.pod) or _comes_to_match(who, PodChanged(event.pod, None))


def _is_in_other_domain(_who: RefusedPod, event: NodeChanged) -> bool:
    """A node comes, goes or changes its labels, and so do the domains that it is in and those of the pods on it."""
    return event.old is None or event.new is None or event.old.labels != event.new.labels


def _namespace_matters(who: RefusedPod, event: NamespaceChanged) -> bool:
    """Pods on nodes may look at this one's namespace, and this one at any."""
    if any(one.name == who.pod.namespace for one in (event.old, event.new) if one):
        return True
    own = who.pod.pod_affinity
    return any(term.namespace_selector is not None for term in (*own.required, *own.required_anti))


def inter_pod_affinity(
    hard_pod_affinity_weight: int = HARD_POD_AFFINITY_WEIGHT, *, ignore_preferred_terms_of_existing_pods: bool = False
) -> Plugin:
    """The plugin, by its arguments. hard_pod_affinity_weight: 0 to 100.

    ignore_preferred_terms_of_existing_pods: pods without preferred terms are not scored, whatever pods on nodes prefer.
    """

    def scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers | None:
        own = cycle.pod.pod_affinity
        if ignore_preferred_terms_of_existing_pods and not own.preferred and not own.preferred_anti:
            return None
        attraction = _attraction(cycle, hard_pod_affinity_weight)
        return None if attraction is None else _scaled(attraction[nodes])

    hints: dict[type[Event], Hint] = {
        NodeChanged: _is_in_other_domain,
        PodChanged: _pod_helps,
        NamespaceChanged: _namespace_matters,
        GivenBack: _kept_away_in_vain,
    }
    return Plugin(
        NAME,
        (Reason(NAME, hints, node_fields=("labels",), counts_pods=True),),
        pod_fields=("labels", "pod_affinity"),
        pre_filter=_pre_filter,
        dynamic=Dynamic(
            _refused,
            _rejections,
            looks_further=True,
            is_skipped=_is_skipped,
            asks=_asks,
            kept_by=_kept_by,
            keeping=EXISTING,
        ),
        score=Score(2, scores),
        changes=_changes,
    )


INTER_POD_AFFINITY = inter_pod_affinity()

"""PodTopologySpread: pods are spread evenly over topology domains; hard constraints refuse nodes, soft ones score them.

A domain is a value of the topology key on the nodes that take part. A pod without constraints is spread over nodes and
zones together with the pods that its Services and its controller select.
Source: kube-scheduler's podtopologyspread filtering.go, scoring.go and common.go; KEP-895.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from allocator.bits import Mask
from scheduler.core_v1.label_selectors import SpreadConstraint, are_larger, selects
from scheduler.core_v1.pod import Pod
from scheduler.plugins.node_affinity import NODE_AFFINITY
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
from scheduler.plugins.taint_toleration import TAINT_TOLERATION
from scheduler.state.cluster_changes import Event, GivenBack, NodeChanged, PodChanged
from scheduler.state.labels import Domains
from scheduler.state.masks import Flags, Floats, Numbers, mask_of
from scheduler.state.pods_by_labels import SelectedPods

NAME = "PodTopologySpread"

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = "node(s) didn't match pod topology spread constraints (missing required label)"


@dataclass(frozen=True, slots=True)
class DefaultConstraints:
    """What spreads a pod that does not say how; selectors are the pod's. is_system: nodes may lack keys in scores."""

    constraints: Sequence[SpreadConstraint]
    is_system: bool = False

    def of(self, cycle: Cycle, *, is_hard: bool) -> Sequence[SpreadConstraint]:
        """The constraints of the pod that are hard, or those that are not."""
        if cycle.pod.spread:
            return [one for one in cycle.pod.spread if one.is_hard is is_hard]
        own = [one for one in self.constraints if one.is_hard is is_hard]
        selector = cycle.selectors.default_selector(cycle.pod) if own else ()
        return [replace(one, selector=selector) for one in own] if selector else ()

    def may_be_hard(self, pod: Pod) -> Sequence[SpreadConstraint]:
        """The hard constraints that the pod has if something selects it; of the defaults without a selector."""
        return [one for one in pod.spread or self.constraints if one.is_hard]


@dataclass(frozen=True, slots=True)
class _Hard:
    """What a hard constraint says of all nodes. skew: by domain, as it would be with the pod."""

    domains: Domains
    skew: Numbers
    max_skew: int

    def nodes(self, *, unlabelled: bool) -> Mask:
        """The nodes with the key that the constraint refuses. unlabelled: those without it, too."""
        return mask_of(self.domains.nodes_of(self.skew > self.max_skew, elsewhere=unlabelled))


def _refused(cycle: Cycle, constraints: Sequence[SpreadConstraint]) -> Mask:
    refused, everything = 0, (1 << cycle.infos.size) - 1
    for constraint in _hard(cycle, constraints):
        refused |= constraint.nodes(unlabelled=True)
        if refused == everything:
            break
    return refused


def _rejections(cycle: Cycle, constraints: Sequence[SpreadConstraint], asked: Mask) -> Iterator[Rejected]:
    """By the first constraint that refuses a node."""
    for constraint in _hard(cycle, constraints):
        if unlabelled := asked & mask_of(~constraint.domains.labelled):
            yield Rejected(UNLABELLED, unlabelled)
        asked &= ~unlabelled
        if skewed := asked & constraint.nodes(unlabelled=False):
            yield Rejected(SKEWED, skewed, skewed)
        asked &= ~skewed
        if not asked:
            return


def _hard(cycle: Cycle, constraints: Sequence[SpreadConstraint]) -> Iterator[_Hard]:
    keys = frozenset(constraint.topology_key for constraint in constraints)
    for constraint in cycle.each(constraints):
        counted_domains = _counted_domains(cycle, constraint, keys)
        counts = cycle.infos.pods.in_domains(_like_it(cycle, constraint), counted_domains)
        present = counted_domains.present
        least = int(counts[present].min()) if len(present) >= max(constraint.min_domains, 1) else 0
        own = int(selects(constraint.selector, cycle.pod.labels))
        yield _Hard(cycle.infos.topology.domains(constraint.topology_key), counts + own - least, constraint.max_skew)


def _counted_domains(cycle: Cycle, constraint: SpreadConstraint, keys: frozenset[str]) -> Domains:
    """The domains of the nodes that have all keys, and that the constraint's policies leave in."""
    topology = cycle.infos.topology

    def found() -> Domains:
        nodes = _with_all_keys(cycle, keys) & _included(cycle, constraint)
        return topology.domains(constraint.topology_key).within(nodes)

    how = constraint.topology_key, keys, constraint.honors_affinity, constraint.honors_taints
    return cycle.signature.domains_within(how, topology.version, found)


def _with_all_keys(cycle: Cycle, keys: Iterable[str]) -> Flags:
    labelled: Flags = np.ones(cycle.infos.size, np.bool_)
    for key in cycle.each(keys):
        labelled &= cycle.infos.topology.domains(key).labelled
    return labelled


def _included(cycle: Cycle, constraint: SpreadConstraint) -> Flags:
    """The nodes that the constraint's policies leave in."""
    included: Flags = np.ones(cycle.infos.size, np.bool_)
    if constraint.honors_affinity:
        included &= cycle.signature.passed(NODE_AFFINITY.name, cycle.infos.size)
    if constraint.honors_taints:
        included &= cycle.signature.passed(TAINT_TOLERATION.name, cycle.infos.size)
    return included


def _like_it(cycle: Cycle, constraint: SpreadConstraint) -> SelectedPods:
    """The pods that the constraint selects; before 1.38 a selector of everything selects none."""
    selects_some = constraint.selector or cycle.features.release.empty_selector_spreads
    return SelectedPods(cycle.pod.namespace, constraint.selector if selects_some else None)


def _scores(
    cycle: Cycle, constraints: Sequence[SpreadConstraint], nodes: Numbers, *, needs_keys: bool
) -> Numbers | None:
    """needs_keys: whether nodes are left out that lack one."""
    if not constraints:
        return None
    scored = np.zeros(cycle.infos.size, np.bool_)
    scored[nodes] = True
    keys = frozenset(constraint.topology_key for constraint in constraints if needs_keys)
    scored &= _with_all_keys(cycle, keys)
    total = np.zeros(cycle.infos.size)
    for constraint in cycle.each(constraints):
        total += _skew(cycle, constraint, scored, keys)
    return _normalized(np.rint(total[nodes]).astype(np.int64), scored[nodes])


def _skew(cycle: Cycle, constraint: SpreadConstraint, scored: Flags, keys: frozenset[str]) -> Floats:
    """By node number, what the constraint adds to the node's badness; nothing where the node lacks the key.

    keys: that a node has to have in order to take part.
    """
    domains = cycle.infos.topology.domains(constraint.topology_key)
    if constraint.topology_key == HOSTNAME:
        near, size = cycle.infos.pods.on_nodes(_like_it(cycle, constraint)), int(scored.sum())
    else:
        # A node without the key, which only defaults leave in, is in a domain of its own kind, which is counted.
        size = len(np.unique(domains.of_nodes[scored]))
        near = _in_domains(cycle, constraint, keys)
    skew = (near * log(size + 2) + (constraint.max_skew - 1)).astype(np.float64)
    # Differs from kube-scheduler, to which nodes without the key have no pod and no skew, so that it prefers them.
    return np.where(domains.labelled, skew, 0.0) if cycle.features.is_strict else skew


def _in_domains(cycle: Cycle, constraint: SpreadConstraint, keys: frozenset[str]) -> Numbers:
    """By node number, how many pods the constraint selects in the node's domain; those elsewhere have one of theirs."""
    pods, domains = cycle.infos.pods, cycle.infos.topology.domains(constraint.topology_key)
    within = pods.in_domains(_like_it(cycle, constraint), _counted_domains(cycle, constraint, keys))
    elsewhere = 0
    if not keys and (unlabelled := ~domains.labelled & _included(cycle, constraint)).any():
        elsewhere = int(pods.on_nodes(_like_it(cycle, constraint))[unlabelled].sum())
    return np.append(within, elsewhere)[domains.of_nodes]


def _normalized(raw: Numbers, scored: Flags) -> Numbers:
    """The less the better; nodes that are not scored get 0."""
    if not scored.any():
        return np.zeros_like(raw)
    least, most = int(raw[scored].min()), int(raw[scored].max())
    if most == 0:
        return np.where(scored, MAX_SCORE, 0)
    return np.where(scored, MAX_SCORE * (most + least - raw) // most, 0)


def _changes(cycle: Cycle, place: RefusingNode) -> Iterator[Change]:
    """With a larger skew, where that is all; without a constraint otherwise. Constraints of the pod's own."""
    pod, positions = cycle.pod, [position for position, one in enumerate(cycle.pod.spread) if one.is_hard]
    for position, hard in zip(positions, _hard(cycle, [pod.spread[one] for one in positions]), strict=True):
        constraint = pod.spread[position]
        name = f"topology spread constraint #{position} (topologyKey {constraint.topology_key})"
        domain = hard.domains.of_nodes[place.number]
        if domain >= 0 and hard.skew[domain] > constraint.max_skew:
            skew = int(hard.skew[domain])
            yield Change(f"{name}: maxSkew {skew}", _with_constraint(pod, position, replace(constraint, max_skew=skew)))
        elif domain < 0:
            yield Change(f"{name} dropped", _with_constraint(pod, position))


def _with_constraint(pod: Pod, position: int, *constraints: SpreadConstraint) -> Pod:
    return replace(pod, spread=(*pod.spread[:position], *constraints, *pod.spread[position + 1 :]))


def _counts_for(pod: Pod, other: Pod | None, defaults: DefaultConstraints) -> bool:
    """Whether a hard constraint of the pod counts the other, or may."""
    if other is None or other.namespace != pod.namespace or other.uid == pod.uid:
        return False
    constraints = defaults.may_be_hard(pod)
    if len(constraints) > MOST_TERMS or are_larger((one.selector for one in constraints), MOST_WORDS):
        return True
    return any(not pod.spread or selects(one.selector, other.labels) for one in constraints)


def _hints(defaults: DefaultConstraints) -> Mapping[type[Event], Hint]:
    """Which events may help a pod that has these constraints where it has none of its own."""

    def pod_matters(who: RefusedPod, event: PodChanged) -> bool:
        return _counts_for(who.pod, event.old, defaults) or _counts_for(who.pod, event.new, defaults)

    def gives_back(who: RefusedPod, event: GivenBack) -> bool:
        return _counts_for(who.pod, event.pod, defaults)

    def changes_domains(who: RefusedPod, event: NodeChanged) -> bool:
        """A node comes or goes that takes part, or comes to take part, or does so no more."""
        old, new = event.old, event.new
        if old is not None and new is not None and old.labels == new.labels and old.taints == new.taints:
            return False
        keys = [one.topology_key for one in defaults.may_be_hard(who.pod)]
        has_keys = (node is not None and all(key in node.labels for key in keys) for node in (old, new))
        return len(keys) > MOST_TERMS or any(has_keys)

    return {NodeChanged: changes_domains, PodChanged: pod_matters, GivenBack: gives_back}


SYSTEM_DEFAULTS = DefaultConstraints(
    (SpreadConstraint(3, HOSTNAME, (), is_hard=False), SpreadConstraint(5, ZONE, (), is_hard=False)), is_system=True
)
"""What there is where nothing is configured (`defaultingType: System`)."""


def pod_topology_spread(defaults: DefaultConstraints = SYSTEM_DEFAULTS) -> Plugin:
    """The plugin. defaults: for pods without constraints of their own."""

    def is_skipped(cycle: Cycle) -> bool:
        return not defaults.of(cycle, is_hard=True)

    def asks(cycle: Cycle) -> bool:
        return not is_skipped(cycle)

    def refused(cycle: Cycle) -> Mask:
        return _refused(cycle, defaults.of(cycle, is_hard=True))

    def rejections(cycle: Cycle, asked: Mask) -> Iterator[Rejected]:
        return _rejections(cycle, defaults.of(cycle, is_hard=True), asked)

    def scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers | None:
        needs_keys = bool(cycle.pod.spread) or not defaults.is_system
        return _scores(cycle, defaults.of(cycle, is_hard=False), nodes, needs_keys=needs_keys)

    return Plugin(
        NAME,
        (Reason(NAME, _hints(defaults), node_fields=("labels", "taints"), counts_pods=True),),
        pod_fields=("labels", "spread", "tolerations"),
        dynamic=Dynamic(refused, rejections, looks_further=True, is_skipped=is_skipped, asks=asks),
        score=Score(2, scores),
        changes=_changes,
    )


POD_TOPOLOGY_SPREAD = pod_topology_spread()

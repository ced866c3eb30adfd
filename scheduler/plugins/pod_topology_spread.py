"""PodTopologySpread: pods like this one lie evenly over topology domains; hard constraints refuse, soft ones score.

A domain is a value of the topology key on the nodes that take part. A pod without constraints of its own is spread
over nodes and zones beside the pods that its Services and its controller select, where it has such.
Source: kube-scheduler's podtopologyspread filtering.go, scoring.go and common.go; KEP-895.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from allocator.search.rules import Mask
from scheduler.core_v1.label_selector import selects
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.topology_spread import SpreadConstraint
from scheduler.plugins.cycle import Cycle
from scheduler.plugins.node_affinity import NODE_AFFINITY
from scheduler.plugins.normalize import MAX_SCORE
from scheduler.plugins.plugin import Change, Dynamic, Place, Plugin, Reason, RefusedPod, Rejected, Score
from scheduler.plugins.taint_toleration import TAINT_TOLERATION
from scheduler.state.changes import GivenBack, NodeChanged, PodChanged
from scheduler.state.masks import Flags, Floats, Numbers, mask_of
from scheduler.state.pod_counts import SelectedPods
from scheduler.state.topology import Domains

NAME = "PodTopologySpread"

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = "node(s) didn't match pod topology spread constraints (missing required label)"

SYSTEM_DEFAULTS = (SpreadConstraint(3, HOSTNAME, (), is_hard=False), SpreadConstraint(5, ZONE, (), is_hard=False))
"""What spreads a pod that does not say how; their selectors are the pod's (`defaultingType: System`)."""


@dataclass(frozen=True, slots=True)
class _Hard:
    """What a hard constraint says of all nodes. labelled: those with the key. skew: as it would be with the pod."""

    labelled: Flags
    skew: Numbers
    max_skew: int

    @property
    def refused(self) -> Flags:
        """The nodes with the key that the constraint refuses."""
        return self.labelled & (self.skew > self.max_skew)


def _is_skipped(cycle: Cycle) -> bool:
    return not any(one.is_hard for one in cycle.pod.spread)


def _refused(cycle: Cycle) -> Mask:
    if _is_skipped(cycle):
        return 0
    refused = np.zeros(cycle.infos.size, np.bool_)
    for one in _hard(cycle):
        refused |= ~one.labelled | one.refused
    return mask_of(refused)


def _rejections(cycle: Cycle, asked: Mask) -> Iterator[Rejected]:
    """By the first constraint that refuses a node."""
    for one in _hard(cycle):
        if unlabelled := asked & mask_of(~one.labelled):
            yield Rejected(UNLABELLED, unlabelled)
        asked &= ~unlabelled
        if skewed := asked & mask_of(one.refused):
            yield Rejected(SKEWED, skewed, skewed)
        asked &= ~skewed


def _hard(cycle: Cycle) -> Iterator[_Hard]:
    constraints = [one for one in cycle.pod.spread if one.is_hard]
    labelled = _with_all_keys(cycle, constraints)
    for one in constraints:
        domains = cycle.infos.topology.domains(one.topology_key)
        taking_part = labelled & _included(cycle, one)
        counts = domains.sums(np.where(taking_part, _like_it(cycle, one), 0))
        present = _present(domains, taking_part)
        least = int(counts[present].min()) if len(present) >= max(one.min_domains, 1) else 0
        own = int(selects(one.selector, cycle.pod.labels))
        yield _Hard(domains.labelled, domains.spread_out(counts) + own - least, one.max_skew)


def _with_all_keys(cycle: Cycle, constraints: Iterable[SpreadConstraint]) -> Flags:
    labelled: Flags = np.ones(cycle.infos.size, np.bool_)
    for one in constraints:
        labelled &= cycle.infos.topology.domains(one.topology_key).labelled
    return labelled


def _included(cycle: Cycle, constraint: SpreadConstraint) -> Flags:
    """The nodes that the constraint's policies leave in."""
    included: Flags = np.ones(cycle.infos.size, np.bool_)
    if constraint.honors_affinity:
        included &= cycle.template.passed(NODE_AFFINITY.name, cycle.infos.size)
    if constraint.honors_taints:
        included &= cycle.template.passed(TAINT_TOLERATION.name, cycle.infos.size)
    return included


def _like_it(cycle: Cycle, constraint: SpreadConstraint) -> Numbers:
    """By node number, how many pods the constraint selects."""
    return cycle.infos.pods.on_nodes(SelectedPods(cycle.pod.namespace, constraint.selector))


def _present(domains: Domains, nodes: Flags) -> Numbers:
    """The domains that some of these nodes are in."""
    found = np.unique(domains.of_nodes[nodes])
    return found[found >= 0]


def _scores(cycle: Cycle, nodes: Numbers, _counts: Numbers) -> Numbers | None:
    constraints, is_default = _soft(cycle)
    if not constraints:
        return None
    scored = np.zeros(cycle.infos.size, np.bool_)
    scored[nodes] = True
    labelled = _with_all_keys(cycle, () if is_default else constraints)
    scored &= labelled
    total = np.zeros(cycle.infos.size)
    for one in constraints:
        total += _skew(cycle, one, scored, labelled)
    return _normalized(np.rint(total[nodes]).astype(np.int64), scored[nodes])


def _soft(cycle: Cycle) -> tuple[Sequence[SpreadConstraint], bool]:
    """The constraints that score nodes, and whether they are the defaults."""
    if cycle.pod.spread:
        return [one for one in cycle.pod.spread if not one.is_hard], False
    selector = cycle.selectors.default_selector(cycle.pod)
    if not selector:
        return (), True
    return [SpreadConstraint(one.max_skew, one.topology_key, selector, is_hard=False) for one in SYSTEM_DEFAULTS], True


def _skew(cycle: Cycle, constraint: SpreadConstraint, scored: Flags, labelled: Flags) -> Floats:
    """By node number, what the constraint adds to the node's badness; nothing where the node lacks the key."""
    domains, counts = cycle.infos.topology.domains(constraint.topology_key), _like_it(cycle, constraint)
    if constraint.topology_key == HOSTNAME:
        near, size = counts, int(scored.sum())
    else:
        # A node without the key, which only defaults leave in, is in a domain of its own kind, which is counted.
        size = len(np.unique(domains.of_nodes[scored]))
        taking_part = labelled & _included(cycle, constraint)
        within = np.where(taking_part, counts, 0)
        near = np.where(domains.labelled, domains.spread_out(domains.sums(within)), within[~domains.labelled].sum())
    skew = (near * log(size + 2) + (constraint.max_skew - 1)).astype(np.float64)
    # Differs from kube-scheduler, to which nodes without the key have no pod and no skew, so that it prefers them.
    return np.where(domains.labelled, skew, 0.0) if cycle.is_strict else skew


def _normalized(raw: Numbers, scored: Flags) -> Numbers:
    """The less the better; nodes that are not scored get 0."""
    if not scored.any():
        return np.zeros_like(raw)
    least, most = int(raw[scored].min()), int(raw[scored].max())
    if most == 0:
        return np.where(scored, MAX_SCORE, 0)
    return np.where(scored, MAX_SCORE * (most + least - raw) // most, 0)


def _changes(cycle: Cycle, place: Place) -> Iterator[Change]:
    """With a larger skew, where that is all; without a constraint otherwise."""
    pod, positions = cycle.pod, [position for position, one in enumerate(cycle.pod.spread) if one.is_hard]
    for position, hard in zip(positions, _hard(cycle), strict=True):
        constraint = pod.spread[position]
        name = f"topology spread constraint #{position} (topologyKey {constraint.topology_key})"
        if hard.skew[place.number] > constraint.max_skew and hard.labelled[place.number]:
            skew = int(hard.skew[place.number])
            yield Change(f"{name}: maxSkew {skew}", _with_constraint(pod, position, replace(constraint, max_skew=skew)))
        elif not hard.labelled[place.number]:
            yield Change(f"{name} dropped", _with_constraint(pod, position))


def _with_constraint(pod: Pod, position: int, *constraints: SpreadConstraint) -> Pod:
    return replace(pod, spread=(*pod.spread[:position], *constraints, *pod.spread[position + 1 :]))


def _counts_for(pod: Pod, other: Pod | None) -> bool:
    """Whether a hard constraint of the pod counts the other."""
    if other is None or other.namespace != pod.namespace or other.uid == pod.uid:
        return False
    return any(one.is_hard and selects(one.selector, other.labels) for one in pod.spread)


def _pod_matters(who: RefusedPod, event: PodChanged) -> bool:
    return _counts_for(who.pod, event.old) or _counts_for(who.pod, event.new)


def _gives_back(who: RefusedPod, event: GivenBack) -> bool:
    return _counts_for(who.pod, event.pod)


def _changes_domains(who: RefusedPod, event: NodeChanged) -> bool:
    """A node comes or goes that takes part, or comes to take part, or does so no more."""
    old, new = event.old, event.new
    if old is not None and new is not None and old.labels == new.labels and old.taints == new.taints:
        return False
    keys = [one.topology_key for one in who.pod.spread if one.is_hard]
    return any(node is not None and all(key in node.labels for key in keys) for node in (old, new))


POD_TOPOLOGY_SPREAD = Plugin(
    NAME,
    (
        Reason(
            NAME,
            {NodeChanged: _changes_domains, PodChanged: _pod_matters, GivenBack: _gives_back},
            node_fields=("labels", "taints"),
            counts_pods=True,
        ),
    ),
    pod_fields=("labels", "spread", "tolerations"),
    dynamic=Dynamic(_refused, _rejections, looks_further=True, is_skipped=_is_skipped),
    score=Score(2, _scores),
    changes=_changes,
)

"""filter: which of the nodes can provide the devices of the pod, and why the others cannot.

All answers come from the caches and from reservations. Nothing is read from the API server, and nothing is reserved:
kube-scheduler may take any of the nodes, or none.

Differs from the plugin DynamicResources: nodes with too few devices are reported as unresolvable. kube-scheduler's
preemption evaluates nodes with its in-tree filters only, which do not know about devices, so it would not find useful
victims.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from allocator.explain.text import node_text
from allocator.fleet.answers import Rank
from allocator.model import Claim
from allocator.outcome import AllocationError, Exhausted
from allocator.search.rules import Mask
from scheduler.core_v1.pod import Pod
from scheduler.decision.able import reached_by_all
from scheduler.decision.cluster import Cluster
from scheduler.decision.not_placed import NOT_REACHED
from scheduler.extender.question import Asked, Hopeless, best_last, needs_of
from scheduler.extender.sampling import Sampling
from scheduler.state.masks import union

EVERY_NODE = Sampling()


class Undecided(Exception):
    """There is no answer now, and there may be one soon: kube-scheduler tries the pod again after its backoff."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """The nodes that pass, in the order of the question, and why the others do not, unless there are enough.

    failed: why it is not known whether the node could. unresolvable: why the node cannot. stuck: where it is known that
    no node passes, the allocated claims of the pod that keep it from some of them, or one that is being deleted.
    """

    passed: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    stuck: tuple[Claim, ...] = ()


def filter_nodes(cluster: Cluster, pod: Pod, names: Sequence[str], sampling: Sampling = EVERY_NODE) -> Filtered:
    """The answer for a pod that has claims. sampling: how many of the nodes that can pass. Raises Undecided.

    Cost: O(nodes asked about, and what has changed since a pod like this was asked about).
    """
    try:
        needs = needs_of(cluster, pod)
    except Hopeless as error:
        if error.is_behind:
            # No event would bring the pod back: kube-scheduler has seen the claim before us.
            raise Undecided(f"pod {pod}: {error} yet") from error
        kept = (error.kept,) if error.kept is not None else ()
        return Filtered((), {}, dict.fromkeys(names, str(error)), kept)
    asked = Asked(cluster, names)
    reached = asked.mask & needs.reached
    ranks = _able(cluster, pod, needs.pending, reached)
    able = union(ranks.values())
    if not sampling.is_enough(able, len(names)):
        best_first = reversed(best_last(cluster, pod, needs.pending, ranks))
        return Filtered(asked.named(sampling.passing(best_first, len(names))))
    failed = {name: f"node {name} is not known yet to the extender" for name in asked.unknown()}
    unresolvable = dict.fromkeys(asked.named(asked.mask & ~reached), NOT_REACHED)
    for (text, is_known), nodes in _refused(cluster, pod, needs.pending, reached & ~able).items():
        (unresolvable if is_known else failed).update(dict.fromkeys(asked.named(nodes), text))
    stuck = () if able or failed else tuple(_stuck(cluster, needs.claims, asked.mask))
    return Filtered(asked.named(able), failed, unresolvable, stuck)


def _able(cluster: Cluster, pod: Pod, pending: Sequence[Claim], reached: Mask) -> Mapping[Rank, Mask]:
    """The nodes that can provide the devices, by rank and the policy's score."""
    if not pending:
        return {(0, ()): reached}
    try:
        return cluster.fleet.scores(pending, reached)
    except AllocationError as error:
        raise Undecided(f"pod {pod}: {error}") from error


def _refused(cluster: Cluster, pod: Pod, pending: Sequence[Claim], nodes: Mask) -> Mapping[tuple[str, bool], Mask]:
    """The nodes by why they refuse, and by whether that is certain: not where the budget of steps was spent."""
    found: dict[tuple[str, bool], Mask] = {}
    for outcome, refused in cluster.fleet.unable_by_node(pending, nodes) if nodes else ():
        key = node_text(outcome, reader=pod.namespace), not isinstance(outcome, Exhausted)
        found[key] = found.get(key, 0) | refused
    return found


def _stuck(cluster: Cluster, claims: Iterable[Claim], asked: Mask) -> Iterator[Claim]:
    return (one for one in claims if one.allocation and asked & ~reached_by_all(cluster, [one]))

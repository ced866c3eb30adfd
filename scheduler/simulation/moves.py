"""Defragmentation in a simulation: when it is done, and which pods move for a pod that waits.

The rules are those of `dra defrag`, but for those that only a living cluster knows: every pod of a trace is taken to
have a controller that makes it again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from allocator.memo import exact
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.defrag.movable import Movability, MoversByNode, MoveRules
from scheduler.defrag.search import MovePlan, MoveSearch, SearchLimits
from scheduler.defrag.targets import FittingTarget, ToFit
from scheduler.offline.placement import PodToPlace, order_of
from scheduler.state.pods_by_priority import priority_of

MOST_TARGETS = 4
"""For so many pods that wait moves are looked for at a time; of pods that ask for the same only for the first."""

MOST_DECISIONS = 100
"""For each of them."""


@dataclass(frozen=True, slots=True)
class DefragTerms:
    """Moves at most, every so many seconds. cost_s: how much longer a pod runs for each time that it was moved."""

    every_s: float
    moves: int = 5
    cost_s: float = 0.0


def targets(waiting: Iterable[Pod]) -> Iterator[Pod]:
    """The pods for which moves are looked for, the most important first."""
    seen = set[object]()
    for pod in sorted(waiting, key=order_of):
        kind = exact([priority_of(pod), pod.namespace, [one.template_name or one.claim_name for one in pod.claims]])
        if pod.claims and kind not in seen and len(seen) < MOST_TARGETS:
            seen.add(kind)
            yield pod


def plan_for(cluster: Cluster, look: PodToPlace, most: int) -> MovePlan | None:
    """The moves for the pod, if there are any that help. Cost: up to MOST_DECISIONS decisions."""
    assert look.pod is not None, "a claim that no pod uses does not wait"
    rules = MoveRules(most_priority=priority_of(look.pod), is_simulated=True)
    movers, _ = Movability(cluster, rules).split()
    target = FittingTarget(cluster, [ToFit(look.pod, look.claims, look.full)])
    limits = SearchLimits(most, decisions=MOST_DECISIONS, sets=500, steps=10_000, steps_of_more=2_000)
    plan = MoveSearch(cluster, target, MoversByNode(cluster, movers), limits).run().plan
    return plan if plan is not None and plan.moves else None

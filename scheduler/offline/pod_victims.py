"""Who would be evicted for a pod that a placement has left without a place, each such pod by itself.

Nothing is taken: the placement is afterwards as it was, and a second pod may be shown the same victims.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from allocator.outcome import AllocationError
from scheduler.core_v1.pod import Pod
from scheduler.decision.schedule_result import NotPlaced
from scheduler.offline.placement import Placement
from scheduler.preemption.preemption import Preemptor


@dataclass(frozen=True, slots=True)
class PodVictims:
    """The pods that would go from a node for another one, the most important first."""

    node: str
    pods: tuple[str, ...]
    violated: tuple[str, ...] = ()
    """The PodDisruptionBudgets that this violates."""


def victims_by_pod(placement: Placement, pods: Iterable[Pod]) -> Iterator[tuple[Pod, PodVictims]]:
    """Of the pods, which are without a place, those that would get one by evicting others. Cost: a preemption each."""
    is_strict = placement.cluster.fleet.features.is_strict
    preemptor = Preemptor(placement.cluster, wins_devices=not is_strict)
    for pod in pods:
        victims = _victims(placement, preemptor, pod)
        if victims is not None:
            yield pod, victims


def _victims(placement: Placement, preemptor: Preemptor, pod: Pod) -> PodVictims | None:
    look = placement.look(pod)
    refused = None if look.result else placement.decide(look)
    if not isinstance(refused, NotPlaced) or refused.everywhere:
        return None
    try:
        won = preemptor.preemption(placement.cycle(look), refused)
    except AllocationError:  # of a device that is asked about only where somebody else has gone
        return None
    if won.candidate is None or not won.candidate.victims:
        return None
    return PodVictims(won.candidate.node, tuple(map(str, won.candidate.pods)), tuple(map(str, won.violated)))

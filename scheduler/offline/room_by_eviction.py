"""Room for pods of a placement that fit nowhere: pods of lower priority go, and what they had is free at once.

Only what is asked of a placement does this: in a cluster, the pods terminate first, and their controllers make them
again somewhere else, which is not placed here.
"""

from dataclasses import dataclass, replace

from allocator.outcome import AllocationError
from scheduler.core_v1.pod import Pod
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.offline.placement import PlacedPod, Placement, PodToPlace
from scheduler.preemption.preemption import Preemption, Preemptor


@dataclass(frozen=True, slots=True)
class PodEvictions:
    """Who has gone from a node for a pod."""

    pod: Pod
    node: str
    victims: tuple[Pod, ...]
    """The most important first."""
    claims: tuple[str, ...] = ()
    """The names of those that came free."""
    violated: tuple[str, ...] = ()
    """The names of the PodDisruptionBudgets that this violates."""


class RoomByEviction:
    """Makes room in a placement. made: what it took, in the order of the pods that it was for."""

    def __init__(self, placement: Placement) -> None:
        self.made: list[PodEvictions] = []
        self._placement = placement
        # Differs from kube-scheduler, which evicts nobody for devices.
        is_strict = placement.cluster.fleet.features.is_strict
        self._preemptor = Preemptor(placement.cluster, wins_devices=not is_strict)

    def place(self, look: PodToPlace, refused: NotPlaced) -> PlacedPod | None:
        """The pod in the place of others, which are gone; None where nobody's end helps. refused: what was decided."""
        if look.pod is None or look.pod.node_name or refused.everywhere:
            return None
        try:
            won = self._preemptor.preemption(self._placement.cycle(look), refused)
        except AllocationError:  # of a device that is asked about only where somebody else has gone
            return None
        return self._take(look, look.pod, won) if won.candidate is not None else None

    def _take(self, look: PodToPlace, pod: Pod, won: Preemption) -> PlacedPod:
        assert won.candidate is not None
        placement, node = self._placement, won.candidate.node
        names = tuple(placement.evict(won.candidate.pods, won.claims))
        self.made.append(PodEvictions(pod, node, tuple(won.candidate.pods), names, tuple(map(str, won.violated))))
        promised = replace(look, pod=pod.changed(nominated_node=node))
        decided = placement.decide(promised)
        assert isinstance(decided, Placed), f"pod {pod} has no place on node {node}, which was made for it: {decided}"
        return placement.commit(look, decided)

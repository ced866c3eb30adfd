"""Room for pods of a placement that fit nowhere: pods of lower priority go, or are named that would have to.

Where they go, what they had is free at once, which only what is asked of a placement does: in a cluster, the pods
terminate first, and their controllers make them again somewhere else, which is not placed here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from allocator.outcome import AllocationError
from scheduler.core_v1.pod import Pod, claim_keys
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.offline.placement import PlacedPod, Placement, PodToPlace
from scheduler.pod_groups.group import GroupOfPods
from scheduler.pod_groups.group_placer import ReadyMembers
from scheduler.pod_groups.group_preemption import GroupPreemption, preempt_for_group
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupResult
from scheduler.preemption.preemption import NodeToWin, Preemption, Preemptor


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
        self._preemptor = _preemptor_of(placement)

    def place(self, look: PodToPlace, refused: NotPlaced) -> PlacedPod | None:
        """The pod in the place of others, which are gone; None where nobody's end helps. refused: what was decided."""
        if look.pod is None or look.pod.node_name:
            return None
        won = _won(self._placement, self._preemptor, look, refused)
        return self._take(look, look.pod, won, won.candidate) if won is not None and won.candidate is not None else None

    def for_group(self, group: GroupOfPods, refused: GroupResult, ready: ReadyMembers) -> bool:
        """Whether others have gone, so that the group has a place now. refused: what was decided; ready: for whom."""
        if not isinstance(refused, GroupNotPlaced) or refused.held or group.problem:
            return False
        cluster = self._placement.cluster
        wins_devices = not cluster.fleet.features.is_strict
        try:
            won = preempt_for_group(cluster, group, ready=ready, wins_devices=wins_devices)
        except AllocationError:  # of a device that is asked about only where somebody else has gone
            return False
        if not isinstance(won, GroupPreemption) or won.placed is None:
            return False
        members = {one.placed.node: one.pod for one in reversed(won.placed.members)}
        first, violated = won.placed.members[0].pod, tuple(map(str, won.violated))
        names = tuple(self._placement.evict(won.pods, won.claims))
        by_node: dict[str, list[Pod]] = {}
        for pod in won.pods:
            by_node.setdefault(pod.node_name, []).append(pod)
        for node, pods in by_node.items():
            own = {key for pod in pods for key in map("/".join, claim_keys(pod))}
            freed = tuple(name for name in names if name in own)
            self.made.append(PodEvictions(members.get(node, first), node, tuple(pods), freed, violated))
        return True

    def _take(self, look: PodToPlace, pod: Pod, won: Preemption, candidate: NodeToWin) -> PlacedPod:
        placement, node = self._placement, candidate.node
        names = tuple(placement.evict(candidate.pods, won.claims))
        self.made.append(PodEvictions(pod, node, tuple(candidate.pods), names, tuple(map(str, won.violated))))
        promised = replace(look, pod=pod.changed(nominated_node=node))
        decided = placement.decide(promised)
        assert isinstance(decided, Placed), f"pod {pod} has no place on node {node}, which was made for it: {decided}"
        return placement.commit(look, decided)


@dataclass(frozen=True, slots=True)
class PodVictims:
    """The pods that would go from a node for another one, the most important first."""

    node: str
    pods: tuple[str, ...]
    violated: tuple[str, ...] = ()
    """The PodDisruptionBudgets that this violates."""


def victims_by_pod(placement: Placement, pods: Iterable[Pod]) -> Iterator[tuple[Pod, PodVictims]]:
    """Of the pods, which are without a place, those that would get one by evicting others. Cost: a preemption each.

    Nothing is taken: the placement is afterwards as it was, and a second pod may be shown the same victims.
    """
    preemptor = _preemptor_of(placement)
    for pod in pods:
        look = placement.look(pod)
        refused = None if look.result else placement.decide(look)
        won = _won(placement, preemptor, look, refused) if isinstance(refused, NotPlaced) else None
        if won is not None and won.candidate is not None and won.candidate.victims:
            candidate = won.candidate
            violated = tuple(map(str, won.violated))
            yield pod, PodVictims(candidate.node, tuple(map(str, candidate.pods)), violated)


def _preemptor_of(placement: Placement) -> Preemptor:
    # Differs from kube-scheduler, which evicts nobody for devices.
    return Preemptor(placement.cluster, wins_devices=not placement.cluster.fleet.features.is_strict)


def _won(placement: Placement, preemptor: Preemptor, look: PodToPlace, refused: NotPlaced) -> Preemption | None:
    if refused.everywhere:
        return None
    try:
        return preemptor.preemption(placement.cycle(look), refused)
    except AllocationError:  # of a device that is asked about only where somebody else has gone
        return None

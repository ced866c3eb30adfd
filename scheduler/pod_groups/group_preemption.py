"""A group that does not fit, and who has to go so that its minimum does: nobody before the whole is known to fit.

Whoever is of lower priority anywhere is taken away; if the group fits then, each is given back in order of importance
if it still fits, those first whose eviction violates a budget. So nobody goes for members beyond the minimum. A group
that is evicted only together is one unit.
Source: KEP-5710, with units and importance as of kube-scheduler 1.38.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from allocator.bits import bits
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import AnyPodGroup
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import GroupOfPods, key_of
from scheduler.pod_groups.group_placer import GROUP_STEPS, ReadyMembers, place_group
from scheduler.pod_groups.group_result import GroupPlaced, GroupUnknown, OutOfGroupSteps
from scheduler.preemption.preemption import NEVER
from scheduler.preemption.victims import Reprieve, Unit, WinnableClaims, moment, victims_of
from scheduler.state.pods_by_priority import priority_of

NO_VICTIMS_FOR_GROUP = "No preemption victims found for incoming preemptor"
GROUP_PREEMPTION = "pod group preemption: "

MANY_UNITS = 4096
"""With more of them, it is tried first whether the least important ones are enough: to take a pod away and put it back
costs some 50 us."""

FIRST_UNITS = 1024
"""So many of these at first."""

MORE_UNITS = 8
"""Then each time so many times as many."""


@dataclass(frozen=True, slots=True)
class GroupPreemption:
    """What a group that does not fit can win."""

    text: str
    placed: GroupPlaced | None = None
    """Where it goes then; None where that is nowhere."""
    victims: Sequence[Unit] = ()
    """The most important first; none where it is enough to wait for claims that nobody uses any more."""
    violations: int = 0
    violated: tuple[PodDisruptionBudget, ...] = ()
    """The budgets that this violates."""
    claims: tuple[str, ...] = ()
    """Uids of those that come free."""

    @property
    def pods(self) -> list[Pod]:
        """All who go."""
        return [pod for unit in self.victims for pod in unit.pods]


def preempt_for_group(
    cluster: Cluster,
    group: GroupOfPods,
    most_steps: int = GROUP_STEPS,
    ready: ReadyMembers | None = None,
    *,
    wins_devices: bool = True,
) -> GroupPreemption | GroupUnknown:
    """Who has to go for a group that was refused; the cluster is afterwards what it was.

    most_steps: of each look. ready: as for `place_group`; asked anew at each look where it is left out.
    Raises AllocationError, TooLong. Cost: O(victims log(units)) looks, each like the placing of the group.
    """
    if not all(pod.preempts for pod in group.waiting):
        return GroupPreemption(GROUP_PREEMPTION + NEVER)
    try:
        return _GroupPreemptor(cluster, group, most_steps, ready, wins_devices=wins_devices).result()
    except OutOfGroupSteps:
        return GroupUnknown(most_steps)


class _GroupPreemptor:
    def __init__(
        self, cluster: Cluster, group: GroupOfPods, most_steps: int, ready: ReadyMembers | None, *, wins_devices: bool
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._ready = ready
        self._most_steps = most_steps
        own = {uid for pod in group.waiting for uid in cluster.claims.of_pod(pod)}
        self._claims = WinnableClaims(cluster, own, is_on=wins_devices)
        self._units = units_below(cluster, group)
        self._nodes_of = self._nodes_of_claims()

    def result(self) -> GroupPreemption:
        """Raises OutOfGroupSteps."""
        cluster, unused = self._cluster, self._unused()
        if not self._units and not unused:
            return GroupPreemption(GROUP_PREEMPTION + NO_VICTIMS_FOR_GROUP)
        with cluster.released(unused):
            are_few = len(self._units) <= MANY_UNITS
            if are_few and not self._fits_without(self._units):
                return GroupPreemption(GROUP_PREEMPTION + NO_VICTIMS_FOR_GROUP)
            reprieve = Reprieve.of(self._units, cluster.budgets)
            enough = reprieve.units if are_few else self._enough(reprieve.units)
            if enough is None:
                return GroupPreemption(GROUP_PREEMPTION + NO_VICTIMS_FOR_GROUP)
            victims = victims_of(enough, lambda: self._placed() is not None, self._away)
            held = self._held(victims)
            with self._away(victims):
                placed, left = self._placed(), self._held(victims)
        assert placed is not None, "the group fits with its victims gone"
        violations, violated = reprieve.violations(victims)
        victims.sort(key=lambda unit: unit.importance)
        count = sum(len(unit.pods) for unit in victims)
        text = f"{GROUP_PREEMPTION}found a placement for podgroup, preempting {count} victims"
        freed = tuple(uid for uid in held if uid not in left)
        return GroupPreemption(text, placed, victims, violations, violated, (*unused, *freed))

    def _enough(self, units: Sequence[Unit]) -> Sequence[Unit] | None:
        """The last ones, if it fits with these away: all before them stay then. None where nobody's end helps."""
        number = FIRST_UNITS
        while number < len(units):
            with suppress(OutOfGroupSteps):
                if self._fits_without(units[-number:]):
                    return units[-number:]
            number *= MORE_UNITS
        return units if self._fits_without(units) else None

    def _fits_without(self, units: Sequence[Unit]) -> bool:
        with self._away(units):
            return self._placed() is not None

    def _placed(self) -> GroupPlaced | None:
        result = place_group(self._cluster, self._group, self._most_steps, self._ready)
        if isinstance(result, GroupUnknown):
            raise OutOfGroupSteps
        return result if isinstance(result, GroupPlaced) else None

    # -- what comes free

    def _unused(self) -> list[str]:
        return [uid for node in self._claims.nodes_of_unused for uid in self._claims.unused(node)]

    def _nodes_of_claims(self) -> Mapping[str, set[str]]:
        """By claim (uid) the nodes of its users."""
        nodes: dict[str, set[str]] = {}
        for unit in self._units:
            for pod in unit.pods:
                for uid in self._cluster.claims.of_pod(pod):
                    nodes.setdefault(uid, set()).add(pod.node_name)
        return nodes

    def _frees(self, uid: str) -> bool:
        return any(self._claims.frees(node, uid) for node in self._nodes_of.get(uid, ()))

    def _held(self, victims: Iterable[Unit]) -> list[str]:
        return self._cluster.claims.held_by(pod for unit in victims for pod in unit.pods)

    @contextmanager
    def _away(self, units: Sequence[Unit]) -> Iterator[None]:
        with self._cluster.without([pod.uid for unit in units for pod in unit.pods], self._frees):
            yield


def units_below(cluster: Cluster, group: GroupOfPods) -> list[Unit]:
    """Who can go for the group, the most important first: pods, and groups that go only together. Raises Cancelled."""
    whole: dict[tuple[type, str], tuple[AnyPodGroup, list[Pod]]] = {}
    units: list[Unit] = []
    for number in bits(cluster.fleet.all):
        cluster.time_limit.look()
        for pod in cluster.by_priority.on(number):
            if key_of(pod, cluster.pod_groups) == group.key:
                continue
            if (own := cluster.pod_groups.whole_of(pod)) is not None:
                whole.setdefault((type(own), str(own)), (own, []))[1].append(pod)
            else:
                units.append(Unit.of(pod))
    units += (_unit_of(own, pods) for own, pods in whole.values())
    lower = (unit for unit in units if all(priority_of(pod) < group.priority for pod in unit.pods))
    return sorted((unit for unit in lower if unit.priority < group.priority), key=lambda unit: unit.importance)


def _unit_of(own: AnyPodGroup, pods: Sequence[Pod]) -> Unit:
    priority = max(map(priority_of, pods)) if own.priority is None else own.priority
    return Unit(tuple(pods), priority, min(moment(pod.started) for pod in pods))

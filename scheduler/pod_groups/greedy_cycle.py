"""kube-scheduler's own cycle for a group, to the letter: what `strict` is compared with.

One member after the other goes to its best node and stays there, until too few are left for the minimum; nothing is
taken back. With topology that is tried in each domain. A group that fits nowhere so is tried once more with all that is
lower taken away, and who is not in the way of what was found then is given back.
Source: kube-scheduler 1.37's schedule_one_podgroup.go, podgrouppreemption.go, and the plugins GangScheduling,
DynamicResources and PodGroupPodsCount.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from allocator.bits import Mask, bits, union
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.filters import fit_error
from scheduler.decision.pod_cycle import EligibleNodes, PodCycle, Rejections
from scheduler.decision.schedule_result import Placed
from scheduler.pod_groups.group import GroupOfPods
from scheduler.pod_groups.group_members import GroupMembers
from scheduler.pod_groups.group_placer import ready_members
from scheduler.pod_groups.group_preemption import GROUP_PREEMPTION, NO_VICTIMS_FOR_GROUP, units_below
from scheduler.preemption.preemption import NEVER
from scheduler.preemption.victims import Reprieve, Unit, victims_of

GREEDY_RELEASE = "1.37"
"""The release whose cycle this is."""

SCHEDULED, UNSCHEDULABLE, SCHEDULER_ERROR = "Scheduled", "Unschedulable", "SchedulerError"
"""The reasons of the condition of a PodGroup."""

UNSCHEDULABLE_GROUP = "pod group is unschedulable"
_CLAIMS_DONE = "deallocation and deletion of ResourceClaims completed"


@dataclass(frozen=True, slots=True)
class GreedyMember:
    """A member that was looked at. placed: None where it has no place, and `refusal` says why."""

    pod: Pod
    placed: Placed | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class GreedyCycle:
    """How a cycle ends."""

    reason: str
    message: str = ""
    members: Sequence[GreedyMember] = ()
    """Those that were looked at, in order; they are placed where the reason is Scheduled."""
    unseen: str = ""
    """What the members say that were not looked at."""
    victims: Sequence[Unit] = ()
    nominated: Sequence[GreedyMember] = ()
    """The members that are promised a node once the victims are gone."""

    def message_of(self, pod: Pod) -> str:
        """What the condition of a member says."""
        for member in self.members:
            if member.pod.uid == pod.uid:
                if member.placed is None:
                    return member.refusal
                return self.message if self.nominated else f"{UNSCHEDULABLE_GROUP}, {self.message}"
        return self.unseen

    @property
    def placed(self) -> list[GreedyMember]:
        """The members that have a place in it."""
        return [member for member in self.members if member.placed is not None]


NOT_GREEDY = "what kube-scheduler does with groups of groups is not copied"


def greedy_cycles(cluster: Cluster, group: GroupOfPods, *, by_topology: bool) -> list[GreedyCycle]:
    """How the cycle can end: the order of domains and ties of their scores are random. by_topology: the gate is on.

    None for a group that does not come into the queue. The cluster is afterwards what it was.
    """
    if group.held:
        return []
    if problem := group.problem or (f"CompositePodGroup {group}: {NOT_GREEDY}" if group.tree else ""):
        return [GreedyCycle(SCHEDULER_ERROR, problem, unseen=problem)]
    return _GreedyCycles(cluster, group, by_topology=by_topology).found()


class _GreedyCycles:
    def __init__(self, cluster: Cluster, group: GroupOfPods, *, by_topology: bool) -> None:
        self._cluster = cluster
        self._group = group
        self._key = group.terms.required if by_topology else ""
        members, _ = ready_members(cluster, group)
        self._members = GroupMembers(cluster, members, [cluster.fleet.all] * len(members))

    def found(self) -> list[GreedyCycle]:
        if not len(self._members):
            return []
        tried = self._tried()
        if any(cycle.reason == SCHEDULED for cycle in tried):
            return tried
        return [self._with_preemption(cycle) for cycle in tried]

    def _tried(self) -> list[GreedyCycle]:
        """One for each that may be the outcome."""
        domains = self._domains()
        cycles = [self._run(nodes) for nodes in domains]
        succeeded = [place for place, (cycle, _) in enumerate(cycles) if cycle.reason == SCHEDULED]
        if not succeeded:
            return [self._in_no_domain(cycle, len(domains)) if self._key else cycle for cycle, _ in cycles]
        most = max(len(cycles[place][0].placed) for place in succeeded) + len(self._group.bound)
        scores = {
            place: 100 * (len(cycles[place][0].placed) + len(self._group.bound)) // most + cycles[place][1]
            for place in succeeded
        }
        best = [cycles[place][0] for place in succeeded if scores[place] == max(scores.values())]
        # Whether anybody was placed is asked only once the domain is chosen.
        nobody = (UNSCHEDULABLE, UNSCHEDULABLE_GROUP)
        return [one if one.placed else replace(one, reason=nobody[0], message=nobody[1]) for one in best]

    def _domains(self) -> list[Mask]:
        everywhere = self._cluster.fleet.all
        if not self._key:
            return [everywhere]
        by_value: dict[str, Mask] = {}
        for number in bits(everywhere):
            if (value := self._cluster.fleet.node(number).labels.get(self._key)) is not None:
                by_value[value] = by_value.get(value, 0) | 1 << number
        numbers = (self._cluster.number_of(pod.node_name) for pod in self._group.bound)
        bound = union(1 << number for number in numbers if number is not None)
        fixed = [nodes for nodes in by_value.values() if nodes & bound]
        return fixed or list(by_value.values())

    def _in_no_domain(self, cycle: GreedyCycle, domains: int) -> GreedyCycle:
        said = f"0/{domains} placements are available, first placement status: {cycle.message}"
        message = f"{UNSCHEDULABLE_GROUP}, {said}"
        return replace(cycle, message=message, unseen=message)

    def _run(self, nodes: Mask) -> tuple[GreedyCycle, int]:
        """The cycle on these nodes, and how full they are then, in hundredths."""
        members: list[GreedyMember] = []
        scheduled, remaining = len(self._group.bound), len(self._group.waiting)
        if problem := self._short(scheduled, remaining):
            message = f"{UNSCHEDULABLE_GROUP}, {problem}"
            return GreedyCycle(UNSCHEDULABLE, message, unseen=message), 0
        with ExitStack() as undo:
            for place in range(len(self._members)):
                member = self._member(place, nodes)
                members.append(member)
                remaining -= 1
                if member.placed is not None:
                    scheduled += 1
                    undo.enter_context(self._cluster.assumed(member.pod, member.placed))
                if problem := self._short(scheduled, remaining):
                    return GreedyCycle(UNSCHEDULABLE, problem, members, problem), 0
            return GreedyCycle(SCHEDULED, members=members), self._fullness(nodes)

    def _short(self, scheduled: int, remaining: int) -> str:
        minimum = self._group.minimum
        if scheduled + remaining >= minimum:
            return ""
        return f"minCount ({minimum}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"

    def _member(self, place: int, nodes: Mask) -> GreedyMember:
        cycle = self._members.cycle(place)
        pod = self._members.members[place].pod
        number = None if cycle.refused_everywhere() else cycle.best(nodes)
        if number is None:
            return GreedyMember(pod, refusal=_refusal(cycle, nodes))
        return GreedyMember(pod, cycle.placed(number))

    def _fullness(self, nodes: Mask) -> int:
        """What share of cpu and memory is requested there, by NodeResourcesFit's MostAllocated."""
        numbers, shares = list(bits(nodes)), list[int]()
        for name in ("cpu", "memory"):
            column = self._cluster.infos.columns[name]
            allocatable = int(column.allocatable[numbers].sum())
            if allocatable:
                used = min(allocatable - int(column.free[numbers].sum()), allocatable)
                shares.append(100 * used // allocatable)
        return sum(shares) // max(len(shares), 1)

    # -- PodGroupPostFilter

    def _with_preemption(self, cycle: GreedyCycle) -> GreedyCycle:
        """What PodGroupPostFilter adds."""
        first = [] if self._key else [_CLAIMS_DONE]
        if not all(pod.preempts for pod in self._group.waiting):
            return _saying(cycle, [*first, GROUP_PREEMPTION + NEVER])
        units = units_below(self._cluster, self._group)
        if not units:
            return _saying(cycle, [GROUP_PREEMPTION + NO_VICTIMS_FOR_GROUP])
        with self._away(units):
            tried = self._tried()[0]
        if tried.reason != SCHEDULED:
            return _saying(cycle, [*first, GROUP_PREEMPTION + tried.message])
        reprieve = Reprieve.of(units, self._cluster.budgets)
        victims = victims_of(reprieve.units, lambda: self._still_fits(tried.placed), self._away)
        victims.sort(key=lambda unit: unit.importance)
        count = sum(len(unit.pods) for unit in victims)
        said = f"{GROUP_PREEMPTION}found a placement for podgroup, preempting {count} victims"
        return replace(_saying(cycle, [said]), victims=victims, nominated=tried.placed)

    def _still_fits(self, placed: Sequence[GreedyMember]) -> bool:
        """Whether each of the members passes the filters of its node, after those before it."""
        places = {member.pod.uid: place for place, member in enumerate(self._members.members)}
        with ExitStack() as undo:
            for member in placed:
                assert member.placed is not None
                number = self._cluster.number_of(member.placed.node)
                cycle = self._members.cycle(places[member.pod.uid])
                if number is None or not any(left >> number & 1 for _, left in cycle.eligible):
                    return False
                undo.enter_context(self._cluster.assumed(member.pod, member.placed))
        return True

    @contextmanager
    def _away(self, units: Sequence[Unit]) -> Iterator[None]:
        """The pods are gone; what their claims have is not."""
        with self._cluster.without([pod.uid for unit in units for pod in unit.pods], lambda _: False):
            yield


def _saying(cycle: GreedyCycle, reasons: Sequence[str]) -> GreedyCycle:
    return replace(cycle, message=", ".join(filter(None, [cycle.message, *reasons])))


def _refusal(cycle: PodCycle, nodes: Mask) -> str:
    """Why none of these nodes has a place for the pod, as kube-scheduler counts it."""
    if refused := cycle.refused_everywhere():
        return fit_error(nodes.bit_count(), Counter(), before=refused[1])
    reported: Counter[str] = Counter()
    for required, left in cycle.eligible:
        asked = EligibleNodes(replace(required, nodes=required.nodes & nodes), left & nodes)
        for _, rejection in Rejections.of(cycle, asked).found():
            reported[rejection.reason] += rejection.nodes.bit_count()
    return fit_error(nodes.bit_count(), reported)

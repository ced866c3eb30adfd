"""The fewest moves after which a target fits, each with its new place, in an order in which every step is possible.

Sets of pods are tried by what they cost, those of one pod first: with all of them away, the target has to fit; then
they go one after the other, and the scheduler's own decision finds a place for each, while the target's room is kept.
Which sets are tried at all follows from who could be in whose way: of the target, or of a pod that has to move.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from allocator.bits import union
from allocator.model import Claim
from allocator.outcome import AllocationError
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.schedule_result import Placed
from scheduler.decision.time_limits import TooLong
from scheduler.defrag.movable import Mover
from scheduler.defrag.movers_by_node import MoversByNode, RoomNeed
from scheduler.defrag.targets import Target, TargetPlace, ToFit, Uids, Way
from scheduler.preemption.winnable_claims import least_devices
from scheduler.state.pods_by_priority import priority_of, violated_of

MOST_EXACT = 3
"""Plans of more moves are looked for with less patience: there are too many sets."""

MOST_DECISIONS = 20_000
MOST_SETS = 100_000
MOST_STEPS = 2_000_000
"""The budget of a search: decisions, sets of a size that are put in order, and sets that are looked at for them."""


@dataclass(frozen=True, slots=True)
class Move:
    """A pod goes from its node to another place, on this node or another one."""

    mover: Mover
    placed: Placed

    @property
    def again(self) -> tuple[Pod, tuple[Claim, ...]]:
        """The pod and its claims in the new place."""
        pod, _ = self.mover.again
        place = TargetPlace(ToFit(pod, self.placed.claims), self.placed)
        had = tuple(one for one in self.placed.claims if one.allocation is not None)
        return pod.changed(node_name=self.placed.node), (*had, *place.claims)


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Moves in their order, and where the target is then."""

    moves: tuple[Move, ...]
    way: Way


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found. is_complete: nothing better, or nothing at all, is left that was not tried.

    sets, decisions: how many were tried.
    """

    plan: MovePlan | None
    is_complete: bool
    sets: int
    decisions: int


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How far a search goes."""

    moves: int = 5
    """At most."""
    decisions: int = MOST_DECISIONS
    sets: int = MOST_SETS
    steps: int = MOST_STEPS
    steps_of_more: int = MOST_STEPS // 40
    """For plans of more than MOST_EXACT moves."""


class OverBudgetError(Exception):
    """The budget is spent."""


class MoveSearch:
    """Looks for the moves for a target. The cluster is afterwards as it was."""

    def __init__(
        self, cluster: Cluster, target: Target, movers: MoversByNode, limits: SearchLimits = SearchLimits()
    ) -> None:
        self._cluster, self._target, self._movers, self._limits = cluster, target, movers, limits
        self._is_complete = target.is_exact
        self._decisions = 0
        self._sets = 0

    def run(self) -> Found:
        """The best plan. Cost: up to the limits."""
        plan: MovePlan | None = None
        try:
            plan = self._run()
        except OverBudgetError:
            self._is_complete = False
        return Found(plan, self._is_complete, self._sets, self._decisions)

    def _run(self) -> MovePlan | None:
        if way := next(self._ways(), None):
            self._is_complete = True
            return MovePlan((), way)
        for size in range(1, self._limits.moves + 1):
            for uids in self._by_cost(size):
                if plan := self.plan_of(uids):
                    return plan
        return None

    # -- which sets

    def _by_cost(self, size: int) -> list[Uids]:
        """The sets of so many pods that may do, the cheapest first."""
        sets: dict[Uids, None] = {}
        most_steps = self._limits.steps if size <= MOST_EXACT else self._limits.steps_of_more
        steps = self._movers.steps + most_steps
        for uids in self._of_size(size):
            if len(sets) >= self._limits.sets or self._movers.steps > steps:
                self._is_complete = False
                break
            if uids not in sets and not self._violates(uids):
                sets[uids] = None
        return sorted(sets, key=self._movers.cost)

    def _of_size(self, size: int) -> Iterator[Uids]:
        smaller: list[Uids] = []
        for uids in self._target.openings(self._movers, size):
            if len(uids) == size:
                yield uids
            else:
                smaller.append(uids)
        for uids in sorted(smaller, key=self._movers.cost):
            yield from self._larger(uids, size)

    def _larger(self, uids: Uids, size: int) -> Iterator[Uids]:
        """The set with pods that may be in the way of its own."""
        if len(uids) == size:
            yield uids
            return
        for uid in uids:
            for others in self._movers.sets(self._asking(uid, uids), uids, size - len(uids)):
                yield from self._larger(uids | others, size)

    def _asking(self, uid: str, away: Uids) -> RoomNeed:
        mover = self._movers.movers[uid]
        pod, claims = mover.again
        is_wide = self._movers.looks_wide(pod)
        # Alone, it has no place but where the target is to be: it would have been a plan.
        passed = self._nodes_for(mover) if len(away) == 1 and not is_wide else 0
        return RoomNeed(least_devices(claims), is_wide=is_wide, passed=passed & ~self._number(mover))

    def _number(self, mover: Mover) -> int:
        number = self._cluster.number_of(mover.node)
        return 0 if number is None else 1 << number

    def _nodes_for(self, mover: Mover) -> int:
        """The nodes where the pod could be in its own stead."""
        pod, claims = mover.again
        with self._cluster.without([mover.uid]):
            cycle = self._cycle(pod, claims)
            return 0 if cycle is None else union(cycle.ranked.values())

    def _violates(self, uids: Uids) -> bool:
        """Whether these pods are more than a budget allows."""
        budgets = self._cluster.budgets
        if not budgets.namespaces:
            return False
        units = [budgets.all_of([self._movers.movers[uid].pod]) for uid in uids]
        return any(violated_of(units))

    @property
    def decisions(self) -> int:
        """How many were made."""
        return self._decisions

    # -- whether one does

    def plan_of(self, uids: Uids, order: Sequence[Mover] = ()) -> MovePlan | None:
        """The moves of these pods, if there is an order in which they do. Raises where the budget is spent.

        order: of the pods, as it is tried first; else the cheapest to move goes first.
        """
        self._sets += 1
        with self._cluster.without(uids):
            ways = list(self._ways())
        for way in ways:
            with self._target.keep(way):
                if plan := self._in_order(order or self._movers.ordered(uids), way):
                    return plan
        return None

    def _in_order(self, left: Sequence[Mover], way: Way) -> MovePlan | None:
        if not left:
            self._spend()
            met = self._target.met(way)
            return MovePlan((), met) if met is not None else None
        for mover in left:
            others = [other for other in left if other is not mover]
            with self._cluster.without([mover.uid]):
                placed = self._placed(mover, way)
                if placed is None:
                    continue
                with self._cluster.assumed(mover.again[0], placed):
                    rest = self._in_order(others, way)
            if rest is not None:
                return replace(rest, moves=(Move(mover, placed), *rest.moves))
        return None

    def _placed(self, mover: Mover, way: Way) -> Placed | None:
        """Where the scheduler puts the pod when it is made again."""
        pod, claims = mover.again
        priority = self._target.priority
        goes_before = priority is not None and priority_of(pod) > priority
        with self._target.let_go(way) if goes_before else ExitStack():
            cycle = self._cycle(pod, claims)
            try:
                number = cycle.best(~way.closed) if cycle is not None else None
                return cycle.placed(number) if cycle is not None and number is not None else None
            except (AllocationError, TooLong):
                return None

    def _cycle(self, pod: Pod, claims: Sequence[Claim]) -> PodCycle | None:
        """None where the pod is refused everywhere."""
        self._spend()
        cycle = PodCycle(self._cluster, pod, claims)
        try:
            return None if cycle.refused_everywhere() else cycle
        except (AllocationError, TooLong):
            return None

    def _ways(self) -> Iterator[Way]:
        self._spend()
        try:
            yield from self._target.ways()
        except (AllocationError, TooLong):
            return

    def _spend(self) -> None:
        self._decisions += 1
        if self._decisions > self._limits.decisions:
            raise OverBudgetError


@contextmanager
def moved(cluster: Cluster, moves: Iterable[Move]) -> Iterator[None]:
    """As if these moves had been made, until the end of the context."""
    with ExitStack() as undo:
        for move in moves:
            undo.enter_context(cluster.without([move.mover.uid]))
            undo.enter_context(cluster.assumed(move.mover.again[0], move.placed))
        yield

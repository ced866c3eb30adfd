"""The fewest moves after which a target fits, each with its new place, in an order in which every step is possible.

Sets of pods are tried by what they cost, those of one pod first: with all of them away, the target has to fit; then
they go one after the other, and the scheduler's own decision finds a place for each, while the target's room is kept.
Which sets are tried at all follows from who could be in whose way: of the target, or of a pod that has to move.
The answer is a plan and what it wins, or who is in the way, and by which rule each of them stays.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from allocator.api.allocation import RESULTS_MAX
from allocator.bits import union
from allocator.memo import exact
from allocator.model import Alternative, Claim, Request
from allocator.outcome import AllocationError, Exhausted
from allocator.words import counted
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide, decide_claim
from scheduler.decision.schedule_result import Failed, NotPlaced, Placed, ScheduleResult
from scheduler.decision.time_limits import TooLong
from scheduler.defrag.movable import Forbidden, Movability, Mover, MoversByNode, MoveRules, RoomNeed
from scheduler.defrag.targets import EmptyNodes, FittingTarget, Target, TargetPlace, ToFit, Uids, Way
from scheduler.preemption.victims import least_devices
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


MOST_NODES = 16
"""Nodes of which it is said who is in the way there; those with the fewest who stay go first."""

NO_PLACE = "no-place"
"""The rule of pods that may be moved, and that fit nowhere else."""


@dataclass(frozen=True, slots=True)
class Block:
    """The most devices of a class that one claim gets on one node."""

    class_name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Blockers:
    """Who is in the way on a node."""

    node: str
    pods: Sequence[tuple[Pod, Forbidden]]


@dataclass(frozen=True, slots=True)
class DefragAnswer:
    """What a search came to."""

    found: Found
    blocks: Sequence[Block] = ()
    blockers: Sequence[Blockers] = ()
    """Where there is no plan."""
    hopeless: str = ""
    """Why the target would fit nowhere even if nobody were on any node; empty where it would, or there is a plan."""
    undecided: str = ""
    """Why that is not known; empty where it is."""
    nodes: Sequence[str] = ()
    """Those that are empty then."""
    size: int = 0
    """Of the block that is won; of the one that is there, where none is."""

    @property
    def plan(self) -> MovePlan | None:
        """The plan."""
        return self.found.plan


def refused_answer(reason: str) -> DefragAnswer:
    """Of a target that waits for something else than room, such as a scheduling gate: no move helps it."""
    return DefragAnswer(Found(None, is_complete=True, sets=0, decisions=0), hopeless=reason)


@contextmanager
def as_planned(cluster: Cluster, plan: MovePlan) -> Iterator[None]:
    """As if the plan had been carried out, and the target were in its place, until the end of the context."""
    with moved(cluster, plan.moves), ExitStack() as undo:
        for place in plan.way.places:
            if place.asked.pod is not None:
                undo.enter_context(cluster.assumed(place.asked.pod, place.placed))
            else:
                cluster.fleet.add_allocated(place.claims)
                undo.callback(cluster.fleet.remove_allocated, place.claims)
        yield


class Defragmentation:
    """Makes plans for a cluster, by the rules."""

    def __init__(self, cluster: Cluster, rules: MoveRules, limits: SearchLimits) -> None:
        self._cluster, self._limits = cluster, limits
        self._movers, self._staying = Movability(cluster, rules).split()
        self._by_node = MoversByNode(cluster, self._movers)

    def fit(self, asked: Sequence[ToFit]) -> DefragAnswer:
        """Room for all of these together."""
        target = FittingTarget(self._cluster, asked)
        result = self._search(target)
        names = _classes(claim for one in asked for claim in one.claims)
        if result.plan is None:
            blockers = self._blockers(self._fits_on(asked[0]))
            hopeless, undecided = ("", "") if blockers else self._hopeless(asked[0])
            return DefragAnswer(result, blockers=blockers, hopeless=hopeless, undecided=undecided)
        return DefragAnswer(result, self._blocks(result.plan, names))

    def empty(self, count: int) -> DefragAnswer:
        """So many nodes without pods."""
        target = EmptyNodes(self._cluster, count, belonging(self._cluster))
        result = self._search(target)
        if result.plan is None:
            return DefragAnswer(result, blockers=self._blockers(lambda _: True, target.belonging))
        return DefragAnswer(result, self._blocks(result.plan, ()), nodes=target.names(result.plan.way))

    def largest(self, class_name: str) -> DefragAnswer:
        """The largest block of the class that moves can win."""
        before = size = largest_block(self._cluster, class_name)
        best = last = Found(None, is_complete=True, sets=0, decisions=0)
        while size < RESULTS_MAX:
            last = self._search(FittingTarget(self._cluster, [_of_block(class_name, size + 1)]))
            if last.plan is None:
                break
            best, size = last, size + 1
        result = Found(
            best.plan, best.is_complete and last.is_complete, best.sets + last.sets, best.decisions + last.decisions
        )
        if best.plan is None:
            blockers = self._blockers(self._fits_on(_of_block(class_name, before + 1)))
            return DefragAnswer(result, [Block(class_name, before, before)], blockers, size=size)
        return DefragAnswer(result, self._blocks(best.plan, [class_name]), size=size)

    def _search(self, target: Target) -> Found:
        return MoveSearch(self._cluster, target, self._by_node, self._limits).run()

    # -- what is won

    def _blocks(self, plan: MovePlan, names: Iterable[str]) -> list[Block]:
        of_moved = _classes(claim for one in plan.moves for claim in one.mover.claims)
        classes = list(dict.fromkeys([*names, *of_moved]))
        before = {name: largest_block(self._cluster, name) for name in classes}
        with moved(self._cluster, plan.moves):
            return [Block(name, before[name], largest_block(self._cluster, name)) for name in classes]

    # -- why not

    def _fits_on(self, asked: ToFit) -> Callable[[str], bool]:
        def fits(node: str) -> bool:
            number = self._cluster.number_of(node)
            cycle = PodCycle(self._cluster, asked.pod, asked.claims, asked.full)
            try:
                return number is not None and not cycle.refused_everywhere() and cycle.best(1 << number) == number
            except AllocationError:
                return False

        return fits

    def _hopeless(self, asked: ToFit) -> tuple[str, str]:
        """Why it fits on no node that is empty, and why that is not known; one at most is not empty."""
        with self._cluster.without([pod.uid for _, pod in self._cluster.pods.on_nodes()]):
            result = _decided(self._cluster, asked)
        match result:
            case Placed():
                return "", ""
            case NotPlaced(refusal=refusal):
                steps = [outcome.steps for outcome, _ in result.lacking if isinstance(outcome, Exhausted)]
                return ("", f"no answer after {steps[0]} steps") if steps else (refusal.message, "")
            case Failed(is_undecided=False):
                return result.reason, ""
            case _:
                return "", result.reason

    def _blockers(self, fits: Callable[[str], bool], besides: frozenset[str] = frozenset()) -> list[Blockers]:
        """Of nodes where it would fit if everybody were gone from there. besides: pods that are in nobody's way."""
        there = self._pods_by_node(besides)
        ordered = sorted(
            there.items(), key=lambda one: (sum(uid in self._staying for uid in one[1]), len(one[1]), one[0])
        )
        blockers: list[Blockers] = []
        for node, uids in ordered[: 4 * MOST_NODES]:
            with self._cluster.without(uids):
                is_place = fits(node)
            if is_place:
                blockers.append(Blockers(node, list(self._why(uids))))
            if len(blockers) == MOST_NODES:
                break
        return blockers

    def _why(self, uids: Sequence[str]) -> Iterator[tuple[Pod, Forbidden]]:
        for uid in uids:
            if uid in self._staying:
                yield self._staying[uid]
            else:
                mover = self._movers[uid]
                is_alone = self._has_place(mover)
                most = counted(self._limits.moves, "move")
                enough = f"fits elsewhere alone, but no plan of up to {most} was found"
                text = enough if is_alone else "fits nowhere else"
                yield mover.pod, Forbidden(NO_PLACE, text)

    def _has_place(self, mover: Mover) -> bool:
        pod, claims = mover.again
        number = self._cluster.number_of(mover.node)
        with self._cluster.without([mover.uid]):
            cycle = PodCycle(self._cluster, pod, claims)
            elsewhere = ~(1 << number) if number is not None else -1
            try:
                return not cycle.refused_everywhere() and cycle.best(elsewhere) is not None
            except AllocationError:
                return False

    def _pods_by_node(self, besides: frozenset[str]) -> Mapping[str, list[str]]:
        by_node: dict[str, list[str]] = {}
        for number, pod in self._cluster.pods.on_nodes():
            if pod.uid not in besides:
                by_node.setdefault(self._cluster.name_of(number), []).append(pod.uid)
        return by_node


def _decided(cluster: Cluster, asked: ToFit) -> ScheduleResult:
    """What becomes of it as the cluster is."""
    if asked.pod is None:
        return decide_claim(cluster, asked.claims[0])
    return decide(cluster, asked.pod, asked.claims, asked.full)


def belonging(cluster: Cluster) -> frozenset[str]:
    """The pods that stay with their nodes, and do not count there."""
    pods = (pod for _, pod in cluster.pods.on_nodes())
    return frozenset(
        pod.uid for pod in pods if pod.is_static or (pod.owner is not None and pod.owner.kind in ("DaemonSet", "Node"))
    )


def _classes(claims: Iterable[Claim]) -> list[str]:
    names = (one.class_name for claim in claims for request in claim.requests for one in request.alternatives)
    return list(dict.fromkeys(filter(None, names)))


def _of_block(class_name: str, count: int) -> ToFit:
    return ToFit(None, (block(class_name, count),))


def block(class_name: str, count: int) -> Claim:
    """A claim for so many devices of the class."""
    request = Request("devices", (Alternative("devices", class_name, count=count),))
    return Claim("", f"block-of-{count}", f"block-of-{count}-{class_name}", (request,))


def largest_block(cluster: Cluster, class_name: str) -> int:
    """The most devices of the class that a claim gets on some node, as things are. Cost: a few decisions."""
    least, most = 0, 1
    while most <= RESULTS_MAX and _has_room(cluster, class_name, most):
        least, most = most, 2 * most
    most = min(most, RESULTS_MAX + 1)
    while most - least > 1:
        middle = (least + most) // 2
        if _has_room(cluster, class_name, middle):
            least = middle
        else:
            most = middle
    return least


def _has_room(cluster: Cluster, class_name: str, count: int) -> bool:
    cycle = PodCycle(cluster, None, [block(class_name, count)])
    try:
        return not cycle.refused_everywhere() and bool(cycle.able_by_ask[0])
    except AllocationError:
        return False


# Defragmentation in a simulation: when it is done, and which pods move for a pod that waits.
#
# The rules are those of `dra defrag`, but for those that only a living cluster knows: every pod of a trace is taken to
# have a controller that makes it again.


_MOST_TARGETS = 4
"""For so many pods that wait moves are looked for at a time; of pods that ask for the same only for the first."""

_DECISIONS_OF_TARGET = 100
"""For each of them."""


@dataclass(frozen=True, slots=True)
class DefragTerms:
    """Moves at most, every so many seconds. cost_s: how much longer a pod runs for each time that it was moved."""

    every_s: float
    moves: int = 5
    cost_s: float = 0.0


def targets(waiting: Iterable[Pod]) -> Iterator[Pod]:
    """Those of the pods for which moves are looked for. waiting: the most important first."""
    seen = set[object]()
    for pod in waiting:
        kind = exact([priority_of(pod), pod.namespace, [one.template_name or one.claim_name for one in pod.claims]])
        if pod.claims and kind not in seen and len(seen) < _MOST_TARGETS:
            seen.add(kind)
            yield pod


def plan_for(cluster: Cluster, waiting: ToFit, most: int) -> MovePlan | None:
    """The moves for the pod, if there are any that help. Cost: up to _DECISIONS_OF_TARGET decisions."""
    assert waiting.pod is not None, "a claim that no pod uses does not wait"
    rules = MoveRules(most_priority=priority_of(waiting.pod), is_simulated=True)
    movers, _ = Movability(cluster, rules).split()
    target = FittingTarget(cluster, [waiting])
    limits = SearchLimits(most, decisions=_DECISIONS_OF_TARGET, sets=500, steps=10_000, steps_of_more=2_000)
    plan = MoveSearch(cluster, target, MoversByNode(cluster, movers), limits).run().plan
    return plan if plan is not None and plan.moves else None

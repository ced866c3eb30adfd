"""What defragmentation answers: a plan and what it wins, or who is in the way, and by which rule each of them stays."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from allocator.api.allocation import RESULTS_MAX
from allocator.model import Alternative, Claim, Request
from allocator.outcome import AllocationError
from allocator.words import counted
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide, decide_claim
from scheduler.decision.schedule_result import NotPlaced, Placed, ScheduleResult
from scheduler.defrag.movable import Forbidden, Movability, Mover, MoveRules
from scheduler.defrag.movers_by_node import MoversByNode
from scheduler.defrag.search import Found, MovePlan, MoveSearch, SearchLimits, moved
from scheduler.defrag.targets import EmptyNodes, FittingTarget, Target, ToFit

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
    nodes: Sequence[str] = ()
    """Those that are empty then."""
    size: int = 0
    """Of the block that is won; of the one that is there, where none is."""

    @property
    def plan(self) -> MovePlan | None:
        """The plan."""
        return self.found.plan


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
            return DefragAnswer(result, blockers=blockers, hopeless="" if blockers else self._hopeless(asked[0]))
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

    def _hopeless(self, asked: ToFit) -> str:
        """Why it fits on no node that is empty."""
        with self._cluster.without([pod.uid for _, pod in self._cluster.pods.on_nodes()]):
            result = _decided(self._cluster, asked)
        match result:
            case Placed():
                return ""
            case NotPlaced(refusal=refusal):
                return refusal.message
            case _:
                return result.reason

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

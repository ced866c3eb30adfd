"""Which nodes could go, with all their pods placed elsewhere.

Nodes are tried one after the other, the emptiest first: each is closed, its pods go in their turn, and the scheduler's
own decision finds a place for each of them. What one node gave to another may have to move on when that one goes too;
then all nodes of the plan are closed first, and their pods go once more, each of them straight to its last place.
It ends when a whole round has found no further node.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from allocator.bits import bits
from allocator.model import Claim
from allocator.outcome import AllocationError
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.time_limits import TooLong
from scheduler.defrag.movable import Forbidden, Movability, Mover, MoversByNode, MoveRules
from scheduler.defrag.search import NO_PLACE, Move, MoveSearch, OverBudgetError, SearchLimits, belonging, moved
from scheduler.defrag.targets import ClosedNodes, own_devices, unknown_users
from scheduler.state.pods import CPU, pod_requests
from scheduler.state.pods_by_priority import violated_of

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

MOST_DECISIONS = 100_000
MOST_OF_NODE = 300
"""Decisions for all nodes together, and for the pods of one node in a round."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """What keeps a node: a pod or a claim there, or the node itself (None); and the rule."""

    what: Pod | Claim | None
    why: Forbidden


@dataclass(frozen=True, slots=True)
class RemovedNode:
    """A node that can go, after these moves."""

    name: str
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """The answer."""

    removed: Sequence[RemovedNode]
    """In the order in which they go."""
    closed_first: Sequence[str]
    """Those of them that have to be closed before the first pod moves; the others are closed in their turn."""
    kept: Mapping[str, Sequence[Keeper]]
    """The other nodes, each with what keeps it."""
    is_maximal: bool
    """No further node can go; else the search ended at its budget."""
    decisions: int

    @property
    def moves(self) -> tuple[Move, ...]:
        """All of them, in their order."""
        return tuple(move for one in self.removed for move in one.moves)


@dataclass(frozen=True, slots=True)
class RemovalLimits:
    """How far the search goes."""

    decisions: int = MOST_DECISIONS
    of_node: int = MOST_OF_NODE


class _TriedNode(NamedTuple):
    """Of a node that was tried: how its pods go, or what keeps it."""

    moves: tuple[Move, ...] | None
    keepers: Sequence[Keeper] = ()


class NodeRemover:
    """Plans for a cluster, by the rules. pending: pods (uid) that are placed in it, and not bound yet.

    The cluster is afterwards as it was.
    """

    def __init__(
        self,
        cluster: Cluster,
        rules: MoveRules,
        pending: frozenset[str] = frozenset(),
        limits: RemovalLimits = RemovalLimits(),
        report: Callable[[int], None] = lambda _decisions: None,
    ) -> None:
        self._cluster, self._limits, self._pending, self._report = cluster, limits, pending, report
        self._movers, self._staying = Movability(cluster, rules).split()
        self._by_node = MoversByNode(cluster, self._movers)
        self._claims = {
            number: [one.counted for _, one in unknown_users(cluster, devices) if one.counted is not None]
            for number, devices in own_devices(cluster).items()
        }
        self._decisions = 0
        self._is_maximal = True

    def plan(self) -> RemovalPlan:
        """The plan. Cost: a decision for each pod of each node, in each round; up to the limits."""
        state = _Removal(self._cluster, self._movers)
        try:
            kept = self._rounds(state)
            while state.has_moved_twice:
                state.undo()
                is_maximal, straight = self._is_maximal, self._straight(list(state.removed))
                if straight is None:
                    self._is_maximal = is_maximal
                    state.redo()
                    break
                state = straight
                kept = self._rounds(state)
        finally:
            state.undo()
        name = self._cluster.name_of
        return RemovalPlan(
            [RemovedNode(name(number), moves) for number, moves in state.removed.items()],
            [name(number) for number in state.removed if state.closed_first >> number & 1],
            {name(number): keepers for number, keepers in kept.items()},
            self._is_maximal,
            self._decisions,
        )

    def _rounds(self, state: "_Removal") -> Mapping[int, Sequence[Keeper]]:
        """Empty nodes until a round finds none; what keeps the others then."""
        while True:
            self._is_maximal = True
            before = len(state.removed)
            kept: dict[int, Sequence[Keeper]] = {}
            state.filled.clear()
            for number in state.emptiest_first():
                if number in state.filled:
                    continue  # it got pods of others in this round, which had better stay there: in the next one
                outcome = self._tried(state, number)
                if outcome.moves is None:
                    kept[number] = outcome.keepers
                else:
                    state.remove(number, outcome.moves)
            if len(state.removed) == before:
                return kept

    def _straight(self, numbers: Sequence[int]) -> "_Removal | None":
        """The same nodes, all closed first, so that no pod moves twice; None where that does not do."""
        state = _Removal(self._cluster, self._movers, closed_first=sum(1 << number for number in numbers))
        for number in numbers:
            moves = self._tried(state, number).moves
            if moves is None:
                state.undo()
                return None
            state.remove(number, moves)
        return state

    def _tried(self, state: "_Removal", number: int) -> _TriedNode:
        """Whether the node can go as things are."""
        self._report(self._decisions)
        movers = state.movers_on(number)
        keepers = self._by_rule(state, number) or self._over_budget(state, movers)
        if keepers or not movers:
            return _TriedNode(None if keepers else (), keepers)
        closed = state.closed | 1 << number
        uids = frozenset(one.uid for one in movers)
        homeless = [one for one in movers if not self._has_place(one, uids, closed)]
        nowhere = [Keeper(one.pod, Forbidden(NO_PLACE, "fits nowhere else")) for one in homeless]
        # Who looks at others may find a place when those of its own node have theirs.
        if any(not self._by_node.looks_wide(one.pod) for one in homeless):
            return _TriedNode(None, nowhere)
        left = min(self._limits.of_node, self._limits.decisions - self._decisions)
        search = MoveSearch(self._cluster, ClosedNodes(closed), self._by_node, SearchLimits(decisions=max(0, left)))
        text = "fits elsewhere alone, but not together with the others"
        try:
            plan = search.plan_of(uids, movers)
        except OverBudgetError:
            self._is_maximal, plan = False, None
            text = "fits elsewhere alone; the search ended at its budget before it found an order for all"
        self._decisions += search.decisions
        if plan is not None:
            return _TriedNode(plan.moves)
        return _TriedNode(None, nowhere or [Keeper(one.pod, Forbidden(NO_PLACE, text)) for one in movers])

    # -- what keeps a node

    def _by_rule(self, state: "_Removal", number: int) -> list[Keeper]:
        node = self._cluster.node(self._cluster.name_of(number))
        if node is not None and CONTROL_PLANE in node.labels:
            return [Keeper(None, Forbidden("control-plane", f"has the label {CONTROL_PLANE}"))]
        pending = Forbidden("pending", "is pending, and the scheduler puts it here")
        keepers = [
            Keeper(pod, pending if uid in self._pending else self._staying[uid][1])
            for uid, pod in state.there[number].items()
            if uid in self._pending or uid in self._staying
        ]
        unused = Forbidden("claim", "is allocated here, and no pod that is known uses it")
        return [*keepers, *(Keeper(claim, unused) for claim in self._claims.get(number, ()))]

    def _over_budget(self, state: "_Removal", movers: Sequence[Mover]) -> list[Keeper]:
        """The pods of the node whose eviction is more than a budget allows, those of other nodes counted."""
        budgets = self._cluster.budgets
        if not budgets.namespaces:
            return []
        before = [move.mover for moves in state.removed.values() for move in moves]
        violations = violated_of([budgets.all_of([one.pod]) for one in (*before, *movers)])[len(before) :]
        text = "the plan would take more from PodDisruptionBudget {} than it allows now"
        return [
            Keeper(mover.pod, Forbidden("budget", text.format(violated[0])))
            for mover, violated in zip(movers, violations, strict=True)
            if violated
        ]

    def _has_place(self, mover: Mover, away: frozenset[str], closed: int) -> bool:
        """Whether the pod fits elsewhere, with all of its node away."""
        self._decisions += 1
        pod, claims = mover.again
        with self._cluster.without(away):
            cycle = PodCycle(self._cluster, pod, claims)
            try:
                return not cycle.refused_everywhere() and cycle.best(~closed) is not None
            except (AllocationError, TooLong):
                return False


class _Removal:
    """Nodes that are empty, and where everybody is then; the cluster is so, until `undo`.

    closed_first: nodes where nobody goes from the start.
    """

    def __init__(self, cluster: Cluster, movers: Mapping[str, Mover], closed_first: int = 0) -> None:
        self._cluster, self._first = cluster, movers
        self._movers = dict(movers)
        self._undoing = ExitStack()
        self.closed_first = self.closed = closed_first
        self.removed: dict[int, tuple[Move, ...]] = {}
        self.filled: set[int] = set()
        """Nodes that got pods in this round."""
        belong = belonging(cluster)
        self.there: dict[int, dict[str, Pod]] = {number: {} for number in bits(cluster.fleet.all)}
        """The pods of each node, by uid."""
        for number, pod in cluster.pods.on_nodes():
            if pod.uid not in belong and not pod.is_deleting:
                self.there[number][pod.uid] = pod

    @property
    def has_moved_twice(self) -> bool:
        """Whether a pod moves on from where it was moved to."""
        return any(move.mover.uid not in self._first for moves in self.removed.values() for move in moves)

    def emptiest_first(self) -> list[int]:
        """The nodes that are left, those with the fewest pods first, then with the fewest devices in use."""
        left = (number for number in self.there if number not in self.removed)
        return sorted(left, key=self._emptiness)

    def _emptiness(self, number: int) -> tuple[int, int, str]:
        movers = self.movers_on(number)
        return len(self.there[number]), sum(one.held for one in movers), self._cluster.name_of(number)

    def movers_on(self, number: int) -> list[Mover]:
        """Who may be moved from the node, the largest first."""
        movers = [self._movers[uid] for uid in self.there[number] if uid in self._movers]
        return sorted(movers, key=lambda one: (-one.held, -pod_requests(one.pod).amounts.get(CPU, 0), str(one.pod)))

    def remove(self, number: int, moves: tuple[Move, ...]) -> None:
        """The node is empty after these moves."""
        self._undoing.enter_context(moved(self._cluster, moves))
        self.closed |= 1 << number
        self.removed[number] = moves
        self.there[number] = {}
        for move in moves:
            pod, claims = move.again
            place = self._cluster.number_of(move.placed.node)
            assert place is not None, "pods go to nodes that are there"
            self.there[place][pod.uid] = pod
            self._movers[pod.uid] = Mover(pod, move.placed.node, move.mover.again[1], claims)
            self.filled.add(place)

    def undo(self) -> None:
        """The cluster is as it was at first."""
        self._undoing.close()

    def redo(self) -> None:
        """The cluster is as it was before `undo`."""
        for moves in self.removed.values():
            self._undoing.enter_context(moved(self._cluster, moves))

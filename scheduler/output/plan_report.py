"""Which nodes to add, and which could go: as a table, an object and a page (docs/plan.md describes each field)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from allocator.api.versions import Json
from allocator.status import PoolStatus
from allocator.words import and_more, counted
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.offline.placement import Result
from scheduler.output.data_page import DataPage, PageTable, data_page
from scheduler.output.defrag_report import STEPS, move_object, of_others, step_rows
from scheduler.output.placement_report import reason_of
from scheduler.output.report import Block, PagedReport
from scheduler.output.status_report import CHANGE_MAP, change_map, closed_nodes
from scheduler.output.table import ColumnTable
from scheduler.planning.node_plan import NodePlan, Objective, Order
from scheduler.planning.node_removal import Keeper, RemovalPlan
from scheduler.status import ClaimStatus
from scheduler.terminal_text import printable

_NUMBERS = frozenset({"ADD", "PRICE", "COST", "PODS AND CLAIMS"})

_MOST_ROWS = 20
"""Rows of pods that do not fit; the text counts the others, and -o json has all."""

_SOMEWHERE = "Each pending pod and claim fits on a node of a group."
_ALL_FIT = "All that fits on a group fits once these nodes are added."

NO_BOUND = "The lower bound is left out: it needs scipy (make install EXTRA=plan)."


@dataclass(frozen=True, slots=True)
class PlanReport(PagedReport):
    """A plan. has_bound: a bound can be worked out here."""

    kind = "NodePlan"

    plan: NodePlan
    objective: Objective
    pools: tuple[Sequence[PoolStatus], Sequence[PoolStatus]] = ((), ())
    """Of a page, without and with what is placed."""
    claims: Sequence[ClaimStatus] = ()
    cluster: Cluster | None = None
    """claims, cluster: of a page, with it."""

    def blocks(self) -> Iterator[Block]:
        """What to add, how good that is, and what does not fit even so."""
        yield "\n".join(self._answer())
        if sum(self.plan.counts):
            yield self._added()
        if self.plan.never:
            yield self._never()
        if self.plan.unplaced:
            yield self._unplaced()

    def fields(self) -> Json:
        """All of it."""
        plan = self.plan
        return {
            "objective": str(self.objective),
            "cost": _number(plan.cost),
            "nodes": sum(plan.counts),
            "isBest": plan.is_best,
            "order": str(plan.order),
            "lowerBound": _number(plan.bound) if plan.bound is not None else None,
            "gap": round(float(plan.gap), 4) if plan.gap is not None else None,
            "plansTried": plan.tried,
            "groups": [
                {
                    "name": group.name,
                    "add": count,
                    "price": _number(group.price),
                    "least": group.least,
                    "most": group.most,
                }
                for group, count in zip(plan.groups, plan.counts, strict=True)
            ],
            "placed": [{"name": _name(one), "node": one.node} for one in plan.placed],
            "neverFits": [
                {"name": one.name, "nearestGroup": one.nearest or None, "lacks": one.lacks} for one in plan.never
            ],
            "notPlaced": [{"name": _name(one), "reason": reason_of(one)} for one in plan.unplaced],
        }

    def html(self, head: Sequence[str] = ()) -> str:
        """The plan, with the devices that are added and taken marked in the map."""
        tables = [
            PageTable("groups", "Nodes to add", self._added(), "No node has to be added."),
            PageTable("never", "What fits on no group", self._never(), _SOMEWHERE),
            PageTable("unplaced", "What does not fit with all nodes of the groups", self._unplaced(), _ALL_FIT),
            change_map(*self.pools, self.claims, (self.cluster, self.cluster)),
            closed_nodes(self.cluster),
        ]
        page = DataPage("Nodes to add", list(self._answer()), tables, CHANGE_MAP)
        return data_page(page, head)

    def _answer(self) -> Iterator[str]:
        yield self._sum()
        yield from self._quality()

    def _sum(self) -> str:
        plan = self.plan
        number = len(plan.placed)
        fit = counted(number, "pod or claim that is pending fits", "pods and claims that are pending fit")
        if not sum(plan.counts):
            return f"Add no node: {fit}." if number else "Add no node."
        groups = [f"{count} of {group.name}" for group, count in zip(plan.groups, plan.counts, strict=True) if count]
        return f"Add {counted(sum(plan.counts), 'node')}: {', '.join(groups)}. Then {fit}."

    def _quality(self) -> Iterator[str]:
        plan, objective = self.plan, self.objective
        if plan.unplaced:
            yield "No plan was found with which all fit: the groups have no more nodes."
            return
        if plan.never:
            yield f"{counted(len(plan.never), 'other fits', 'others fit')} on no group."
        if plan.order is not Order.QUEUE:
            yield f"All fit if they are placed in this order: {plan.order}; in the order of the queue some do not."
        if not sum(plan.counts):
            return
        quality = "no cheaper plan fits all" if plan.is_best else "the best plan that was found"
        cost = f"Cost ({objective}): {_plain(plan.cost)}, {quality}."
        if plan.bound is None or plan.gap is None:
            yield cost
            yield NO_BOUND
            return
        yield f"{cost} Every plan costs at least {_plain(plan.bound)} (gap {float(100 * plan.gap):.1f} %)."

    def _added(self) -> ColumnTable:
        placed = Counter(one.node for one in self.plan.placed)
        rows = [
            [group.name, str(count), _plain(group.price), _plain(group.price * count), str(self._on(number, placed))]
            for number, (group, count) in enumerate(zip(self.plan.groups, self.plan.counts, strict=True))
        ]
        return ColumnTable(["GROUP", "ADD", "PRICE", "COST", "PODS AND CLAIMS"], rows, _NUMBERS)

    def _on(self, number: int, placed: Counter[str]) -> int:
        """How many go to nodes of that group."""
        return sum(placed[name] for name in self.plan.names[number])

    def _never(self) -> ColumnTable:
        rows = [
            [one.name, one.nearest or "-", printable(one.lacks.partition("\n")[0])]
            for one in self.plan.never[:_MOST_ROWS]
        ]
        return ColumnTable(
            ["FITS ON NO GROUP", "NEAREST", "WHAT IT LACKS"], _with_rest(rows, len(self.plan.never)), frozenset()
        )

    def _unplaced(self) -> ColumnTable:
        rows = [[_name(one), reason_of(one)] for one in self.plan.unplaced[:_MOST_ROWS]]
        return ColumnTable(["NOT PLACED", "WHY"], _with_rest(rows, len(self.plan.unplaced)), frozenset())


def _with_rest(rows: list[list[str]], number: int) -> list[list[str]]:
    rest = and_more(number, _MOST_ROWS)
    return [*rows, [rest, *[""] * (len(rows[0]) - 1)]] if rest else rows


def _name(result: Result) -> str:
    return f"pod {result.pod}" if result.pod is not None else f"claim {result.claims[0]}"


def _number(cost: Fraction) -> int | float:
    return int(cost) if cost.denominator == 1 else float(cost)


def _plain(cost: Fraction) -> str:
    return f"{_number(cost):.12g}"


_MOST_REMOVED = 24
"""Rows of nodes that stay, in the text."""

_KEPT = ("NODE STAYS", "BECAUSE OF", "RULE", "WHY", "AND MORE")


@dataclass(frozen=True, slots=True)
class RemovalReport(PagedReport):
    """A plan. pools: of a page, before and after the moves. claims, cluster: of a page, after them."""

    kind = "RemovalPlan"

    plan: RemovalPlan
    pools: tuple[Sequence[PoolStatus], Sequence[PoolStatus]] = ((), ())
    claims: Sequence[ClaimStatus] = ()
    cluster: Cluster | None = None

    def blocks(self) -> Iterator[Block]:
        """Which nodes go, a line for each step, and what keeps the others."""
        yield "\n".join(self._answer())
        if self.plan.moves:
            yield self._steps()
        if self.plan.kept:
            rows = self._rows()
            rest = and_more(len(rows), _MOST_REMOVED)
            yield ColumnTable(_KEPT, [*rows[:_MOST_REMOVED], *([[rest, *[""] * 4]] if rest else [])], _REMOVED_NUMBERS)

    def wide_blocks(self) -> Iterator[Block]:
        """With all nodes that stay."""
        yield "\n".join(self._answer())
        yield self._steps()
        yield self._kept()

    def fields(self) -> Json:
        """All of it."""
        plan = self.plan
        return {
            "nodes": len(plan.removed),
            "isMaximal": plan.is_maximal,
            "closedFirst": list(plan.closed_first),
            "removed": [{"node": one.name, "moves": [move_object(move) for move in one.moves]} for one in plan.removed],
            "kept": [
                {"node": name, "because": [_keeper_object(one) for one in keepers]}
                for name, keepers in sorted(plan.kept.items())
            ],
            "decisions": plan.decisions,
        }

    def html(self, head: Sequence[str] = ()) -> str:
        """The plan, with the devices that change hands marked in the map."""
        tables = [
            PageTable("steps", "Steps", self._steps()),
            PageTable("kept", "Nodes that stay", self._kept()),
            change_map(*self.pools, self.claims, (self.cluster, self.cluster)),
            closed_nodes(self.cluster),
        ]
        return data_page(DataPage("Nodes to remove", list(self._answer()), tables, CHANGE_MAP), head)

    def _answer(self) -> Iterator[str]:
        plan = self.plan
        names = ", ".join(one.name for one in plan.removed)
        verdict = (
            "No further node can go."
            if plan.is_maximal
            else "The search ended at its budget: more nodes may be able to go."
        )
        if not plan.removed:
            yield "Remove no node." + ("" if plan.is_maximal else f" {verdict}")
            return
        moves = counted(len(plan.moves), "pod moves", "pods move")
        yield f"Remove {counted(len(plan.removed), 'node')}: {names}. {moves}. {verdict}"
        if plan.closed_first:
            yield f"Cordon these before the first pod moves: {', '.join(plan.closed_first)}."
        yield from of_others(plan.moves)

    def _steps(self) -> ColumnTable:
        return ColumnTable(STEPS, step_rows(self.plan.moves), frozenset({"STEP", "PRIORITY"}))

    def _kept(self) -> ColumnTable:
        return ColumnTable(_KEPT, self._rows(), _REMOVED_NUMBERS)

    def _rows(self) -> list[list[str]]:
        """A line for each node, with the first that keeps it."""
        return [
            [name, _removed_name(first), first.why.rule, first.why.text, str(len(others) or "")]
            for name, (first, *others) in sorted(self.plan.kept.items())
        ]


_REMOVED_NUMBERS = frozenset({"AND MORE"})


def _removed_name(keeper: Keeper) -> str:
    match keeper.what:
        case None:
            return "the node"
        case Pod():
            return f"pod {keeper.what}"
        case _:
            return f"claim {keeper.what}"


def _keeper_object(keeper: Keeper) -> Json:
    what = keeper.what
    kind = "Node" if what is None else "Pod" if isinstance(what, Pod) else "ResourceClaim"
    named = {} if what is None else {"namespace": what.namespace, "name": what.name}
    return {"kind": kind, **named, "rule": keeper.why.rule, "reason": keeper.why.text}

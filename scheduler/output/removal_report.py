"""Which nodes could go, as a table, as an object and as a page (docs/plan.md describes each field)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allocator.api.versions import Json
from allocator.status import PoolStatus
from allocator.words import and_more, counted
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.output.data_page import DataPage, PageTable, data_page
from scheduler.output.defrag_report import STEPS, move_object, of_others, step_rows
from scheduler.output.report import Block, ColumnTable, PagedReport
from scheduler.output.status_report import CHANGE_MAP, change_map, closed_nodes
from scheduler.planning.node_removal import Keeper, RemovalPlan
from scheduler.status import ClaimStatus

_MOST_ROWS = 24
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
            rest = and_more(len(rows), _MOST_ROWS)
            yield ColumnTable(_KEPT, [*rows[:_MOST_ROWS], *([[rest, *[""] * 4]] if rest else [])], _NUMBERS)

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
        return ColumnTable(_KEPT, self._rows(), _NUMBERS)

    def _rows(self) -> list[list[str]]:
        """A line for each node, with the first that keeps it."""
        return [
            [name, _name(first), first.why.rule, first.why.text, str(len(others) or "")]
            for name, (first, *others) in sorted(self.plan.kept.items())
        ]


_NUMBERS = frozenset({"AND MORE"})


def _name(keeper: Keeper) -> str:
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

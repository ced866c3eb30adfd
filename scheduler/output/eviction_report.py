"""Evictions as text, as a table of a page, and as an object for programs: who goes, and why nobody can."""

from collections.abc import Iterator, Sequence

from allocator.api.versions import Json
from allocator.words import counted, listed_up_to
from scheduler.output.data_page import PageTable
from scheduler.output.table import ColumnTable
from scheduler.preemption.eviction_answers import EvictionAnswers
from scheduler.preemption.preemption import NodeToWin
from scheduler.state.pods_by_priority import priority_of

MOST_NAMED = 4
"""Pods, devices or nodes that a line names; others are counted."""

MOST_GROUPS = 4
"""Of nodes with the same reasons; the others are counted."""


def victims_text(won: NodeToWin) -> str:
    """Who goes from the node; nobody where it is enough to wait."""
    if not won.victims:
        return "nobody: what is needed comes free by itself"
    return listed_up_to([f"{pod} (priority {priority_of(pod)})" for pod in won.pods], MOST_NAMED)


def nodes_text(names: Sequence[str]) -> str:
    """How many nodes, and which."""
    return f"{counted(len(names), 'node')} ({listed_up_to(names, MOST_NAMED)})"


def eviction_lines(answers: EvictionAnswers, described: str, *, is_alone: bool) -> Iterator[str]:
    """The lines of the part about preemption. described: a node that goes first; is_alone: it is the only one."""
    yield "preemption"
    if answers.off:
        yield f"  evicts nobody: {answers.off}"
    won = answers.won
    if won is not None and (not is_alone or described == won.node):
        yield from _won_lines(answers, won)
    others = [one for name, one in answers.candidates.items() if won is None or name != won.node]
    if is_alone:
        others = [one for one in others if one.node == described]
        yield from (
            f"  evictions from node {described} would cost as much or more: {victims_text(one)}" for one in others
        )
    elif others:
        names = listed_up_to([one.node for one in others], MOST_NAMED)
        yield f"  evictions would cost as much or more on {counted(len(others), 'other node')} ({names})"
    refused: dict[tuple[str, ...], list[str]] = {}
    for name, reasons in answers.refused.items():
        if not is_alone or name == described:
            refused.setdefault(reasons, []).append(name)
    if won is None and not refused and not answers.off:
        yield "  nobody can make room on any node"
    yield from _refused_lines(sorted(refused.items(), key=lambda group: (described not in group[1], -len(group[1]))))


def _refused_lines(groups: Sequence[tuple[tuple[str, ...], list[str]]]) -> Iterator[str]:
    for reasons, nodes in groups[:MOST_GROUPS]:
        yield f"  nobody can make room on {nodes_text(nodes)}"
        yield from (f"    {reason}" for reason in reasons)
    if rest := sum(len(nodes) for _, nodes in groups[MOST_GROUPS:]):
        yield f"  nor on {counted(rest, 'more node')}, for other reasons: --node describes one, -o json all"


def _won_lines(answers: EvictionAnswers, won: NodeToWin) -> Iterator[str]:
    if answers.off:
        yield "  would fit if"
        yield f"    these pods were evicted from node {won.node}: {victims_text(won)}"
    else:
        yield f"  evicts from node {won.node}: {victims_text(won)}"
    assert answers.found is not None
    if answers.claims:
        yield f"    their claims come free: {listed_up_to(answers.claims, MOST_NAMED)}"
    if violated := [str(one) for one in answers.found.violated]:
        yield f"    violates {counted(len(violated), 'PodDisruptionBudget')}: {listed_up_to(violated, MOST_NAMED)}"


def eviction_tables(answers: EvictionAnswers | None) -> Iterator[PageTable]:
    """A line for each node that evictions were asked about."""
    if answers is None or not (answers.candidates or answers.refused):
        return
    rows = [[name, victims_text(one), str(one.violations), "-"] for name, one in answers.candidates.items()]
    rows += [[name, "-", "-", "; ".join(reasons)] for name, reasons in answers.refused.items()]
    header = ["NODE", "WOULD BE EVICTED", "BUDGETS VIOLATED BY", "WHY NOBODY CAN MAKE ROOM"]
    yield PageTable("evictions", "Preemption by node", ColumnTable(header, sorted(rows)))


def evictions_object(answers: EvictionAnswers) -> Json:
    """All of it; docs/explain.md describes each field."""
    preemption, won = answers.found, answers.won
    return {
        "off": answers.off or None,
        "node": won.node if won else None,
        "victims": _victims(won) if won else [],
        "claims": list(answers.claims),
        "violatedBudgets": [str(one) for one in preemption.violated] if preemption else [],
        "nodes": [
            *(
                {"name": name, "victims": _victims(one), "violations": one.violations, "reasons": []}
                for name, one in answers.candidates.items()
            ),
            *(
                {"name": name, "victims": [], "violations": 0, "reasons": list(reasons)}
                for name, reasons in answers.refused.items()
            ),
        ],
    }


def _victims(won: NodeToWin) -> Sequence[Json]:
    return [{"namespace": pod.namespace, "name": pod.name, "priority": priority_of(pod)} for pod in won.pods]

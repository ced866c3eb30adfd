"""Which pods to move, where each of them goes, and what that wins; or who is in the way (docs/defrag.md)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from allocator.api.versions import Json
from allocator.model import Claim
from allocator.status import PoolStatus
from allocator.words import agreeing, counted
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.defrag.search import Blockers, DefragAnswer, Move
from scheduler.defrag.targets import TargetPlace
from scheduler.offline.placement_difference import PlaceOfPod
from scheduler.output.data_page import DataPage, PageTable, data_page
from scheduler.output.difference_report import place_text
from scheduler.output.report import Block, PagedReport
from scheduler.output.status_report import CHANGE_MAP, change_map, closed_nodes
from scheduler.output.table import ColumnTable
from scheduler.state.pods_by_priority import priority_of
from scheduler.status import ClaimStatus

STEPS = ("STEP", "EVICT", "PRIORITY", "FROM", "TO")
_STEP_NUMBERS = frozenset({"STEP", "PRIORITY"})
_BLOCKS = ("CLASS", "LARGEST BLOCK", "THEN")
_BLOCKERS = ("NODE", "POD", "RULE", "WHY IT STAYS")

MOST_BLOCKERS = 24
"""Lines of pods that are in the way; others are counted."""

CUT = "the search ended before it had tried everything: there may be one"


@dataclass(frozen=True, slots=True)
class DefragReport(PagedReport):
    """What moves win."""

    kind = "DefragPlan"

    subject: str
    """What room is made for, in words."""
    answer: DefragAnswer
    most: int
    """So many moves were allowed."""
    pools: tuple[Sequence[PoolStatus], Sequence[PoolStatus]] = ((), ())
    """Of a page, before and after."""
    claims: Sequence[ClaimStatus] = ()
    cluster: Cluster | None = None
    """claims, cluster: of a page, after it."""

    def blocks(self) -> Iterator[Block]:
        """The verdict, a line for each step, and what is won; or who is in the way."""
        yield from self._sentences()
        answer = self.answer
        if answer.plan is not None:
            rows = [*step_rows(answer.plan.moves), *_target_rows(answer.plan.way.places)]
            if rows:
                yield ColumnTable(STEPS, rows, _STEP_NUMBERS)
        if answer.blocks:
            yield self._won()
        if answer.blockers:
            yield ColumnTable(_BLOCKERS, _blocker_rows(answer.blockers)[:MOST_BLOCKERS])
            if rest := sum(len(one.pods) for one in answer.blockers) - MOST_BLOCKERS:
                yield from [f"and {counted(rest, 'more pod')} (-o json prints all)"] * (rest > 0)

    def _sentences(self) -> Iterator[str]:
        plan, search = self.answer.plan, self.answer.found
        if plan is None:
            most = counted(self.most, "move")
            yield f"{self.subject}: no plan of up to {most}" + (f"; {CUT}" if not search.is_complete else "")
            if self.answer.hopeless:
                yield f"it would not fit even if no pod were on any node: {self.answer.hopeless}"
            if self.answer.undecided:
                yield f"whether it would fit if no pod were on any node is not known: {self.answer.undecided}"
        elif not plan.moves:
            yield f"{self.subject}: nothing has to move"
        else:
            best = "the best plan" if search.is_complete else "the best plan found, there may be a better one"
            yield f"{self.subject}: {counted(len(plan.moves), 'move')} ({best})"
        if self.answer.nodes:
            number = len(self.answer.nodes)
            yield f"{agreeing(number, 'This node is', 'These nodes are')} empty then: {', '.join(self.answer.nodes)}"
        yield from of_others(plan.moves if plan is not None else ())

    def _won(self) -> ColumnTable:
        rows = [[one.class_name, str(one.before), str(one.after)] for one in self.answer.blocks]
        return ColumnTable(_BLOCKS, rows, frozenset(_BLOCKS[1:]))

    def _in_the_way(self) -> ColumnTable:
        return ColumnTable(_BLOCKERS, _blocker_rows(self.answer.blockers))

    def fields(self) -> Json:
        """All of it."""
        answer, plan = self.answer, self.answer.plan
        return {
            "subject": self.subject,
            "hasPlan": plan is not None,
            "isBest": plan is not None and answer.found.is_complete,
            "isComplete": answer.found.is_complete,
            "maxMoves": self.most,
            "moves": [move_object(one) for one in (plan.moves if plan else ())],
            "target": [_target_object(one) for one in (plan.way.places if plan else ())],
            "emptyNodes": list(answer.nodes),
            "blocks": [{"class": one.class_name, "before": one.before, "after": one.after} for one in answer.blocks],
            "blockers": [
                {
                    "node": one.node,
                    "pods": [{**_name(pod), "rule": why.rule, "reason": why.text} for pod, why in one.pods],
                }
                for one in answer.blockers
            ],
            "hopeless": answer.hopeless,
            "undecided": answer.undecided,
            "search": {"sets": answer.found.sets, "decisions": answer.found.decisions},
        }

    def html(self, head: Sequence[str] = ()) -> str:
        """The steps, with the devices that change hands marked in the map."""
        plan = self.answer.plan
        steps = [*step_rows(plan.moves), *_target_rows(plan.way.places)] if plan is not None else []
        tables = [
            PageTable("steps", "Steps", ColumnTable(STEPS, steps, _STEP_NUMBERS), "There is no step."),
            PageTable("blocks", "Largest block by class", self._won()),
            PageTable("blockers", "Pods in the way", self._in_the_way(), "No pod is in the way."),
            change_map(*self.pools, self.claims, (self.cluster, self.cluster)),
            closed_nodes(self.cluster),
        ]
        return data_page(DataPage("Defragmentation", list(self._sentences()), tables, CHANGE_MAP), head)


OWN = "dra-scheduler"
"""The name by which pods choose this scheduler, if its configuration names no other."""


def of_others(moves: Iterable[Move]) -> Iterator[str]:
    """Whose replacements another scheduler places; nothing where there are none."""
    names = Counter(one.mover.pod.scheduler_name or "default-scheduler" for one in moves)
    others = [f"{name} ({counted(number, 'pod')})" for name, number in sorted(names.items()) if name != OWN]
    if others:
        yield f"Another scheduler places pods again, and may choose other places: {', '.join(others)}"


def step_rows(moves: Iterable[Move]) -> list[list[str]]:
    """A line for each move."""
    rows = []
    for number, move in enumerate(moves, 1):
        before, after = _before(move), place_of(move.again[0].node_name, move.again[1])
        rows.append(
            [str(number), f"pod {move.mover.pod}", str(priority_of(move.mover.pod)), *map(place_text, (before, after))]
        )
    return rows


def _before(move: Move) -> PlaceOfPod:
    return PlaceOfPod(move.mover.node, move.mover.devices)


def place_of(node: str, claims: Iterable[Claim]) -> PlaceOfPod:
    """The node, with all devices of the claims."""
    results = (one.allocation.results for one in claims if one.allocation is not None)
    return PlaceOfPod(node, tuple(sorted(str(result.id) for some in results for result in some)))


def _target_rows(places: Iterable[TargetPlace]) -> list[list[str]]:
    return [["-", _target_name(one), _priority(one.asked.pod), "-", place_text(_target_place(one))] for one in places]


def _target_place(place: TargetPlace) -> PlaceOfPod:
    had = [one for one in place.placed.claims if one.allocation is not None]
    return place_of(place.placed.node, [*had, *place.claims])


def _priority(pod: Pod | None) -> str:
    return "-" if pod is None else str(priority_of(pod))


def _target_name(place: TargetPlace) -> str:
    pod = place.asked.pod
    if pod is not None:
        return f"then pod {pod}"
    claim = place.asked.claims[0]
    return f"then claim {claim}" if claim.namespace else "then free"


def _blocker_rows(blockers: Iterable[Blockers]) -> list[list[str]]:
    return [[one.node, f"pod {pod}", why.rule, why.text] for one in blockers for pod, why in one.pods]


def _name(pod: Pod) -> dict[str, str]:
    return {"namespace": pod.namespace, "name": pod.name}


def move_object(move: Move) -> Json:
    """A move, for programs."""
    pod = move.mover.pod
    return {
        **_name(pod),
        "uid": pod.uid,
        "priority": priority_of(pod),
        "schedulerName": pod.scheduler_name or "default-scheduler",
        "from": _place_object(_before(move)),
        "to": _place_object(place_of(move.again[0].node_name, move.again[1])),
    }


def _target_object(place: TargetPlace) -> Json:
    pod, claim = place.asked.pod, place.asked.claims[0] if place.asked.claims else None
    name = _name(pod) if pod is not None else {"namespace": claim.namespace, "name": claim.name} if claim else {}
    return {"kind": "Pod" if pod is not None else "ResourceClaim", **name, **_place_object(_target_place(place))}


def _place_object(place: PlaceOfPod) -> dict[str, object]:
    return {"node": place.node, "devices": list(place.devices)}

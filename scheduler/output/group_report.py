"""What becomes of groups of pods, as text and as JSON: where one goes, what it lacks, and how many more fit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allocator.api.versions import Json
from allocator.words import agreeing, counted
from scheduler.offline.group_placement import DecidedGroup, FittingGroups
from scheduler.output.report import Block, Report
from scheduler.output.table import ColumnTable
from scheduler.pod_groups.group import GroupOfPods
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced, PlacedMember
from scheduler.terminal_text import printable


@dataclass(frozen=True, slots=True)
class GroupReport(Report):
    """Where a group goes, or which part of it fits in each domain, who is the next, and what that one lacks."""

    kind = "GroupExplanation"

    decided: DecidedGroup

    @property
    def answer(self) -> str:
        """Fits, DoesNotFit, or NotKnown where the search ended before."""
        match self.decided.found:
            case GroupPlaced():
                return "Fits"
            case GroupNotPlaced():
                return "DoesNotFit"
            case _:
                return "NotKnown"

    def blocks(self) -> Iterator[Block]:
        """The group, then its places or what is missing."""
        group, result = self.decided.group, self.decided.found
        yield _described(group)
        match result:
            case GroupPlaced():
                domain = f" in {result.domain}" if result.domain else ""
                where = f"{len(result.members)} of {counted(len(group.waiting), 'waiting pod')} fit{domain}"
                yield where + (f"; {len(result.left)} have no place beside them" if result.left else "")
                yield ColumnTable(["POD", "NODE", "DEVICES"], [_row(one) for one in result.members])
            case GroupNotPlaced(problem=problem) if problem:
                yield f"Waits: {printable(problem)}" if result.held else f"Refused: {printable(problem)}"
            case GroupNotPlaced():
                yield f"Does not fit: {result.needed} of {counted(len(group.waiting), 'pod')} have to fit at once."
                rows = [
                    [one.name or "-", str(len(one.largest)), one.next_member.name if one.next_member else "-", one.why]
                    for one in result.domains
                ]
                yield ColumnTable(["DOMAIN", "FIT", "NEXT", "WHY NOT"], rows, frozenset({"FIT"}))
            case _:
                yield f"Not known: {result}"

    def fields(self) -> Json:
        """All of it."""
        result = self.decided.found
        common = {**group_fields(self.decided.group), "verdict": self.answer}
        match result:
            case GroupPlaced():
                members = [
                    {"pod": one.pod.name, "node": one.placed.node, "devices": _devices(one)} for one in result.members
                ]
                left = [pod.name for pod in result.left]
                return {**common, "domain": result.domain, "members": members, "left": left, "steps": result.steps}
            case GroupNotPlaced():
                domains = [
                    {
                        "name": one.name,
                        "largest": [pod.name for pod in one.largest],
                        "next": one.next_member.name if one.next_member else None,
                        "why": one.why,
                    }
                    for one in result.domains
                ]
                is_held = result.held
                return {
                    **common,
                    "reason": result.problem,
                    "isHeld": is_held,
                    "needed": result.needed,
                    "domains": domains,
                    "steps": result.steps,
                }
            case _:
                return {**common, "reason": str(result), "steps": result.steps}


def group_fields(group: GroupOfPods) -> Json:
    """What is known of the group itself."""
    return {
        "group": str(group),
        "source": group.key.source,
        "pods": len(group.members),
        "bound": len(group.bound),
        "minimum": group.minimum,
        "priority": group.priority,
        "required": group.terms.required,
        "preferred": list(group.terms.preferred),
    }


def _described(group: GroupOfPods) -> str:
    where = f", in one {group.terms.required}" if group.terms.required and not group.terms.slice_size else ""
    if group.terms.slice_size:
        where = f", each {group.terms.slice_size} in one {group.terms.required}"
    bound = f", {len(group.bound)} bound" if group.bound else ""
    kept = f"{counted(len(group.members), 'pod')}{bound}, minimum {group.minimum}"
    return f"group {group} ({group.key.source}): {kept}, priority {group.priority}{where}"


def _row(one: PlacedMember) -> list[str]:
    return [one.pod.name, one.placed.node, ", ".join(_devices(one)) or "-"]


def _devices(one: PlacedMember) -> list[str]:
    allocations = (*one.placed.allocations, *(claim.allocation for claim in one.placed.claims if claim.allocation))
    return [str(result.id) for allocation in allocations for result in allocation.results]


@dataclass(frozen=True, slots=True)
class GroupFitReport(Report):
    """How many more copies of a group fit. subject: in words."""

    kind = "GroupFit"

    subject: str
    group: GroupOfPods
    found: FittingGroups

    def blocks(self) -> Iterator[Block]:
        """How many, a line for each node, and what stops the next one."""
        number = self.found.number
        least = "at least " if self.found.is_cut else ""
        yield f"{least}{number} more of {self.subject} {agreeing(number, 'fits', 'fit')}"
        if self.found.pods:
            rows = [[node, str(pods)] for node, pods in _most_first(self.found)]
            yield ColumnTable(["NODE", "PODS"], rows, frozenset({"PODS"}))
        if self.found.stopped:
            yield f"The next one: {printable(self.found.stopped)}"

    def fields(self) -> Json:
        """All of it."""
        return {
            "subject": self.subject,
            "group": group_fields(self.group),
            "copies": self.found.number,
            "isLimited": self.found.is_cut,
            "nodes": [{"name": node, "pods": pods} for node, pods in _most_first(self.found)],
            "next": {"reason": self.found.stopped} if self.found.stopped else None,
        }


def _most_first(found: FittingGroups) -> list[tuple[str, int]]:
    return sorted(found.pods.items(), key=lambda item: (-item[1], item[0]))


@dataclass(frozen=True, slots=True)
class GroupsReport(Report):
    """All groups of the input: how many of their pods have a node, and whether the others fit now."""

    kind = "GroupList"

    decided: Sequence[DecidedGroup]

    def blocks(self) -> Iterator[Block]:
        """A line for each."""
        if not self.decided:
            yield "no group of pods"
            return
        rows = [self._row(one) for one in self.decided]
        columns = ["GROUP", "SOURCE", "PODS", "BOUND", "MINIMUM", "PRIORITY", "STATE"]
        yield ColumnTable(columns, rows, frozenset({"PODS", "BOUND", "MINIMUM", "PRIORITY"}))

    def fields(self) -> Json:
        """All of it."""
        return {"groups": [{**group_fields(one.group), "state": state_of(one)} for one in self.decided]}

    def _row(self, one: DecidedGroup) -> list[str]:
        group = one.group
        numbers = (len(group.members), len(group.bound), group.minimum, group.priority)
        return [str(group), group.key.source, *map(str, numbers), state_of(one)]


def state_of(one: DecidedGroup) -> str:
    """In a few words."""
    if not one.group.waiting:
        return "Bound"
    match one.found:
        case GroupPlaced():
            return "Fits"
        case GroupNotPlaced(held=held):
            return "Waits" if held else "DoesNotFit"
        case _:
            return "NotKnown"

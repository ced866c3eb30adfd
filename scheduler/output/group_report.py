"""What becomes of groups of pods, as text, JSON and pages: where one goes, what it lacks, and how many more fit."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allocator.api.versions import Json
from allocator.status import PoolStatus
from allocator.words import agreeing, counted
from scheduler.decision.cluster import Cluster
from scheduler.offline.group_placement import DecidedGroup, FittingGroups
from scheduler.output.data_page import DataPage, PageTable, data_page
from scheduler.output.report import Block, PagedReport
from scheduler.output.status_report import CHANGE_MAP, MAP, change_map, closed_nodes, device_map
from scheduler.output.table import ColumnTable
from scheduler.pod_groups.group import GroupOfPods, GroupTree
from scheduler.pod_groups.group_result import GroupDomain, GroupNotPlaced, GroupPlaced, PlacedMember
from scheduler.status import ClaimStatus
from scheduler.terminal_text import printable


@dataclass(frozen=True, slots=True)
class DevicesOfPage:
    """What the map of a page shows: pools without what is placed and with it, and who holds them then."""

    before: Sequence[PoolStatus] = ()
    after: Sequence[PoolStatus] = ()
    claims: Sequence[ClaimStatus] = ()
    cluster: Cluster | None = None

    def change(self) -> list[PageTable]:
        """The tables of a map of before and after."""
        clusters = self.cluster, self.cluster
        return [change_map(self.before, self.after, self.claims, clusters), closed_nodes(self.cluster)]

    def now(self) -> list[PageTable]:
        """The tables of a map of how things are."""
        return [device_map(self.after, self.claims, self.cluster), closed_nodes(self.cluster)]


@dataclass(frozen=True, slots=True)
class GroupReport(PagedReport):
    """Where a group goes, or which part of it fits in each domain, who is the next, and what that one lacks."""

    kind = "GroupExplanation"

    decided: DecidedGroup
    devices: DevicesOfPage = DevicesOfPage()

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
        yield _described(self.decided.group)
        if tree := self.decided.group.tree:
            yield _child_table(self.decided.group, tree)
        yield self._found()
        match self.decided.found:
            case GroupPlaced(members=members):
                yield _member_table(members)
            case GroupNotPlaced(domains=domains) if domains:
                yield _domain_table(domains)

    def _found(self) -> str:
        """Where it goes, or what keeps it from that, in a sentence."""
        group, result = self.decided.group, self.decided.found
        match result:
            case GroupPlaced():
                domain = f" in {result.domain}" if result.domain else ""
                where = f"{len(result.members)} of {counted(len(group.waiting), 'waiting pod')} fit{domain}"
                return where + (f"; {len(result.left)} have no place beside them" if result.left else "")
            case GroupNotPlaced(problem=problem) if problem:
                return f"Waits: {printable(problem)}" if result.held else f"Refused: {printable(problem)}"
            case GroupNotPlaced():
                return f"Does not fit: {result.needed} of {counted(len(group.waiting), 'pod')} have to fit at once."
            case _:
                return f"Not known: {result}"

    def html(self, head: Sequence[str] = ()) -> str:
        """Its members and their places, with the devices that they take in the map; or what each domain lacks."""
        group, result = self.decided.group, self.decided.found
        is_placed = isinstance(result, GroupPlaced)
        tables = [PageTable("members", "Pods of the group", _page_members(self.decided))]
        if isinstance(result, GroupNotPlaced) and result.domains:
            tables.append(PageTable("domains", "Where it does not fit", _domain_table(result.domains)))
        tables += self.devices.change() if is_placed else self.devices.now()
        answer = [f"{self._found().removesuffix('.')}.", f"{_described(group)}."]
        return data_page(DataPage(f"group {group}", answer, tables, CHANGE_MAP if is_placed else MAP), head)

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
                        "nextGroup": one.child or None,
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
        **({"groups": list(_child_fields(group, group.tree))} if group.tree else {}),
    }


def _child_fields(group: GroupOfPods, tree: GroupTree) -> Iterator[Json]:
    counts = group.counts(group.members)
    for inner in tree.all:
        pods = inner.pods_of(counts)
        yield {
            "kind": inner.kind,
            "name": inner.name,
            "minimum": inner.minimum,
            "pods": pods,
            "required": inner.required,
        }


def _described(group: GroupOfPods) -> str:
    where = f", in one {group.terms.required}" if group.terms.required and not group.terms.slice_size else ""
    if group.terms.slice_size:
        where = f", each {group.terms.slice_size} in one {group.terms.required}"
    bound = f", {len(group.bound)} bound" if group.bound else ""
    kept = f"{counted(len(group.members), 'pod')}{bound}, minimum {group.minimum}"
    return f"group {group} ({group.key.source}): {kept}, priority {group.priority}{where}"


def _child_table(group: GroupOfPods, tree: GroupTree) -> ColumnTable:
    """The groups in it, each after the one that it is in."""
    counts = group.counts(group.members)
    rows = [
        [f"{one.kind} {one.name}", f"{one.minimum} {one.unit}", str(one.pods_of(counts)), one.required or "-"]
        for one in tree.all
    ]
    return ColumnTable(["GROUP", "MINIMUM", "PODS", "IN ONE"], rows, frozenset({"PODS"}))


def _member_table(members: Sequence[PlacedMember]) -> ColumnTable:
    return ColumnTable(["POD", "NODE", "DEVICES"], [_row(one) for one in members])


def _domain_table(domains: Sequence[GroupDomain]) -> ColumnTable:
    rows = [[one.name or "-", str(len(one.largest)), _next(one), one.why] for one in domains]
    return ColumnTable(["DOMAIN", "FIT", "NEXT", "WHY NOT"], rows, frozenset({"FIT"}))


def _next(one: GroupDomain) -> str:
    of_child = f" ({one.child})" if one.child else ""
    return f"{one.next_member.name}{of_child}" if one.next_member else "-"


def _page_members(decided: DecidedGroup) -> ColumnTable:
    """All pods of the group: on their node, going to one, or waiting."""
    result = decided.found
    going = {one.pod.uid: one for one in result.members} if isinstance(result, GroupPlaced) else {}
    rows = []
    for pod in decided.group.members:
        if pod.node_name:
            rows.append([pod.name, "bound", pod.node_name, "-"])
        elif own := going.get(pod.uid):
            rows.append([pod.name, "fits", *_row(own)[1:]])
        else:
            rows.append([pod.name, "waits", "-", "-"])
    return ColumnTable(["POD", "STATE", "NODE", "DEVICES"], rows)


def _row(one: PlacedMember) -> list[str]:
    return [one.pod.name, one.placed.node, ", ".join(_devices(one)) or "-"]


def _devices(one: PlacedMember) -> list[str]:
    allocations = (*one.placed.allocations, *(claim.allocation for claim in one.placed.claims if claim.allocation))
    return [str(result.id) for allocation in allocations for result in allocation.results]


@dataclass(frozen=True, slots=True)
class GroupFitReport(PagedReport):
    """How many more copies of a group fit. subject: in words."""

    kind = "GroupFit"

    subject: str
    group: GroupOfPods
    found: FittingGroups
    devices: DevicesOfPage = DevicesOfPage()

    def blocks(self) -> Iterator[Block]:
        """How many, a line for each node, and what stops the next one."""
        yield self._counted()
        if self.found.pods:
            yield self._nodes()
        yield from self._next()

    def html(self, head: Sequence[str] = ()) -> str:
        """The copies, with the devices that they take marked in the map."""
        tables = [PageTable("nodes", "Pods of the copies by node", self._nodes()), *self.devices.change()]
        answer = [f"{self._counted()}.", *self._next()]
        return data_page(DataPage(f"More of {self.subject}", answer, tables, CHANGE_MAP), head)

    def _counted(self) -> str:
        number = self.found.number
        least = "at least " if self.found.is_cut else ""
        return f"{least}{number} more of {self.subject} {agreeing(number, 'fits', 'fit')}"

    def _nodes(self) -> ColumnTable:
        rows = [[node, str(pods)] for node, pods in _most_first(self.found)]
        return ColumnTable(["NODE", "PODS"], rows, frozenset({"PODS"}))

    def _next(self) -> Iterator[str]:
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
class GroupsReport(PagedReport):
    """All groups of the input: how many of their pods have a node, and whether the others fit now."""

    kind = "GroupList"

    decided: Sequence[DecidedGroup]
    devices: DevicesOfPage = DevicesOfPage()

    def blocks(self) -> Iterator[Block]:
        """A line for each."""
        if not self.decided:
            yield NO_GROUP
            return
        rows = [group_cells(one.group, state_of(one)) for one in self.decided]
        yield ColumnTable(GROUP_COLUMNS, rows, GROUP_NUMBERS)

    def fields(self) -> Json:
        """All of it."""
        return {"groups": [{**group_fields(one.group), "state": state_of(one)} for one in self.decided]}

    def html(self, head: Sequence[str] = ()) -> str:
        """A row for each with what it lacks, and a map of the devices as they are."""
        states = Counter(state_of(one) for one in self.decided)
        by_state = ", ".join(f"{number:,} {_VERBS[state][number > 1]}" for state, number in sorted(states.items()))
        rows = [[*group_cells(one.group, state_of(one)), _why(one)] for one in self.decided]
        groups = ColumnTable([*GROUP_COLUMNS, "PLACE, OR WHY THERE IS NONE"], rows, GROUP_NUMBERS)
        answer = f"{counted(len(rows), 'group of pods', 'groups of pods')}: {by_state}." if rows else f"{NO_GROUP}."
        tables = [PageTable("groups", "Groups of pods", groups), *self.devices.now()]
        return data_page(DataPage("Groups of pods", [answer], tables, MAP), head)


_VERBS = {
    "Bound": ("is bound", "are bound"),
    "Fits": ("fits", "fit"),
    "Waits": ("waits", "wait"),
    "DoesNotFit": ("does not fit", "do not fit"),
    "NotKnown": ("is not known", "are not known"),
}
"""What one group does in each state, and what several do."""

NO_GROUP = "no group of pods"
GROUP_COLUMNS = ("GROUP", "SOURCE", "PODS", "BOUND", "MINIMUM", "PRIORITY", "STATE")
GROUP_NUMBERS = frozenset(GROUP_COLUMNS[2:6])


def group_cells(group: GroupOfPods, state: str) -> list[str]:
    """A row of a table with GROUP_COLUMNS."""
    numbers = (len(group.members), len(group.bound), group.minimum, group.priority)
    return [str(group), group.key.source, *map(str, numbers), state]


def _why(one: DecidedGroup) -> str:
    """What a group that waits lacks; where one that fits goes."""
    if not one.group.waiting:
        return "-"
    match one.found:
        case GroupPlaced(domain=domain, members=members):
            nodes = sorted({member.placed.node for member in members})
            return f"{f'in {domain}, ' if domain else ''}on {', '.join(nodes)}"
        case _:
            return printable(one.reason.removeprefix(f"group {one.group}: "))


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

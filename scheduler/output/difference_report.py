"""What a change of the cluster does, and how many copies fit."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from allocator.api.versions import Json
from allocator.status import PoolStatus
from allocator.words import agreeing, and_more, counted, listed_up_to
from scheduler.decision.cluster import Cluster
from scheduler.offline.copies import FittingCopies
from scheduler.offline.placement_difference import DifferenceKind, PlaceDifference, PlaceOfPod, Places
from scheduler.offline.room_by_eviction import PodVictims
from scheduler.output.data_page import DataPage, PageTable, data_page
from scheduler.output.placement_report import and_others, given_up_object, reason_key, reason_of, together
from scheduler.output.report import Block, PagedReport
from scheduler.output.status_report import CHANGE_MAP, MOST_DEVICES, change_map, closed_nodes
from scheduler.output.table import ColumnTable
from scheduler.status import ClaimStatus
from scheduler.terminal_text import printable

# What a change does to a placement, as a table and as JSON (docs/whatif.md describes each field).


NOTHING_MOVES = "Nothing moves."

_NUMBERS = frozenset({"BEFORE", "AFTER"})


@dataclass(frozen=True, slots=True)
class DifferenceReport(PagedReport):
    """What a change does."""

    kind = "PlacementDifference"

    before: Places
    after: Places
    found: Sequence[PlaceDifference]
    pools: tuple[Sequence[PoolStatus], Sequence[PoolStatus]] = ((), ())
    claims: Sequence[ClaimStatus] = ()
    """Of a page, after it."""
    clusters: tuple[Cluster | None, Cluster | None] = (None, None)
    """pools, clusters: of a page, before and after the change."""

    def blocks(self) -> Iterable[Block]:
        """How many are placed, and a line for each pod whose place differs.

        Pods of one workload that one reason refuses share a line.
        """
        return self._blocks([_moves_row(group) for group in together(self.found, _refused_key)])

    def wide_blocks(self) -> Iterable[Block]:
        """The same with a line for each pod."""
        return self._blocks([_moves_row([one]) for one in self.found])

    def _blocks(self, rows: Sequence[Sequence[str]]) -> Iterable[Block]:
        return [counts_table(self.before, self.after), ColumnTable(_MOVES, rows) if rows else NOTHING_MOVES]

    def fields(self) -> Json:
        """All of it."""
        kinds = Counter(one.kind for one in self.found)
        return {
            "before": _summary(self.before),
            "after": _summary(self.after),
            "differences": {_NAMES[kind]: kinds[kind] for kind in DifferenceKind},
            "items": [
                {
                    "name": one.name,
                    "what": _NAMES[one.kind],
                    "before": _object(one.before),
                    "after": _object(one.after),
                    "evicted": one.evicted or None,
                    "preemption": _preemption_object(one.victims),
                }
                for one in self.found
            ],
        }

    def html(self, head: Sequence[str] = ()) -> str:
        """The differences, with the devices that are taken or released marked in the map."""
        groups = list(together(self.found, _refused_key))
        each = {at: [_member_row(one) for one in group] for at, group in enumerate(groups) if len(group) > 1}
        rows = ColumnTable(_MOVES, [_moves_row(group) for group in groups])
        tables = [
            PageTable("differences", "Pods and claims whose place differs", rows, members=each),
            change_map(*self.pools, self.claims, self.clusters),
            closed_nodes(self.clusters[1], self.clusters[0]),
        ]
        counts = [
            f"{name.capitalize()}: {before} before, {after} after."
            for name, before, after in counts_table(self.before, self.after).rows
        ]
        return data_page(DataPage("What if", [*_answer(self.found), *counts], tables, CHANGE_MAP), head)


_MOST_VICTIMS = 4
"""Pods, and budgets, that a line names; of others, the number is given."""

_MOST_PLACES = 4
"""Places that a line names; of others, the number is given."""

_MOVES = ("POD OR CLAIM", "WHAT", "BEFORE", "AFTER")


def _moves_row(group: Sequence[PlaceDifference]) -> list[str]:
    """A line for pods that have one place afterwards."""
    first, places = group[0], list(dict.fromkeys(_before_text(other.before) for other in group))
    before = "; ".join(filter(None, [*places[:_MOST_PLACES], and_more(len(places), _MOST_PLACES)]))
    return [and_others(other.name for other in group), _what(first), before, _after_text(first)]


def _member_row(one: PlaceDifference) -> list[str]:
    """What differs among pods that share a line."""
    return [one.name, "", _before_text(one.before), ""]


def _refused_key(one: PlaceDifference) -> Hashable:
    """What pods of one workload have in common that one reason refuses afterwards; None for any other."""
    refused = one.after.refused if one.after else None
    key = reason_key(refused) if refused else None
    return key and (key, one.kind, one.evicted, one.victims)


def _what(one: PlaceDifference) -> str:
    is_more = one.evicted and one.kind is not DifferenceKind.EVICTED
    return f"{DifferenceKind.EVICTED}, {one.kind}" if is_more else one.kind


def _after_text(one: PlaceDifference) -> str:
    evicted = f"evicted: {one.evicted}" if one.evicted else ""
    return "; ".join(filter(None, [place_text(one.after), evicted, _victims_text(one.victims)]))


def _victims_text(victims: PodVictims | None) -> str:
    """Who would be evicted for the pod."""
    if victims is None:
        return ""
    violates = f", which violates {listed_up_to(victims.violated, _MOST_VICTIMS)}" if victims.violated else ""
    return f"preemption would evict {listed_up_to(victims.pods, _MOST_VICTIMS, 'pod')} from {victims.node}{violates}"


def _preemption_object(victims: PodVictims | None) -> Json | None:
    if victims is None:
        return None
    return {"node": victims.node, "victims": list(victims.pods), "violatedBudgets": list(victims.violated)}


def counts_table(before: Places, after: Places) -> ColumnTable:
    """How many are placed, and how many devices they have."""
    both = (before, after)
    rows = [
        ["placed", *(str(sum(bool(one.node) for one in places.values())) for places in both)],
        ["not placed", *(str(sum(not one.node for one in places.values())) for places in both)],
        ["devices", *(str(sum(len(one.devices) for one in places.values())) for places in both)],
    ]
    return ColumnTable(["", "BEFORE", "AFTER"], rows, _NUMBERS)


def _before_text(place: PlaceOfPod | None) -> str:
    """Without the reason of a refusal, which is of interest only afterwards."""
    return "not placed" if place is not None and place.refused is not None else place_text(place)


def place_text(place: PlaceOfPod | None) -> str:
    """Node and devices, or why there is none."""
    if place is None:
        return "-"
    if place.refused is not None:
        return reason_of(place.refused)
    devices = [_short_name(one, place.node) for one in place.devices]
    return f"{place.node}: {listed_up_to(devices, MOST_DEVICES)}" if devices else place.node


def _short_name(device: str, node: str) -> str:
    """The device without its driver, and without its pool where that is named after the node."""
    return device.partition("/")[2].removeprefix(f"{node}/")


_NAMES = {kind: kind.name.lower() for kind in DifferenceKind}


def _summary(places: Places) -> Json:
    placed = [one for one in places.values() if one.node]
    devices = sum(len(one.devices) for one in placed)
    return {"placed": len(placed), "notPlaced": len(places) - len(placed), "devices": devices}


def _object(place: PlaceOfPod | None) -> Json | None:
    if place is None:
        return None
    reason = reason_of(place.refused) if place.refused is not None else None
    return {"node": place.node or None, "devices": list(place.devices), "reason": reason}


# What a change does to a placement, as a page: devices that are taken or released are marked in the map.


_SENTENCES = {
    DifferenceKind.LOST: ("pod or claim no longer fits", "pods or claims no longer fit"),
    DifferenceKind.GONE: ("pod or claim is gone", "pods or claims are gone"),
    DifferenceKind.EVICTED: ("pod or claim is evicted", "pods or claims are evicted"),
    DifferenceKind.MOVED: ("pod or claim moves", "pods or claims move"),
    DifferenceKind.GAINED: ("pod or claim fits now", "pods or claims fit now"),
    DifferenceKind.NEW: ("pod or claim is new", "pods or claims are new"),
}
"""Of one, and of several."""


def _answer(found: Sequence[PlaceDifference]) -> Iterator[str]:
    kinds = Counter(one.kind for one in found)
    texts = [counted(kinds[kind], *_SENTENCES[kind], style=",") for kind in DifferenceKind if kinds[kind]]
    yield f"{'; '.join(texts)}." if texts else NOTHING_MOVES


# How many copies fit, as a table and as JSON (docs/fit.md describes each field).


@dataclass(frozen=True, slots=True)
class FitReport(PagedReport):
    """How many copies fit."""

    kind = "Fit"

    subject: str
    """In words, such as `pod ml/train-0`."""
    found: FittingCopies
    pools: tuple[Sequence[PoolStatus], Sequence[PoolStatus]] = ((), ())
    """Of a page, without and with the copies."""
    claims: Sequence[ClaimStatus] = ()
    cluster: Cluster | None = None
    """claims, cluster: of a page, with theirs."""

    def blocks(self) -> Iterator[Block]:
        """How many, a line for each node, and what stops the next one."""
        yield self._counted()
        if self.found.by_node:
            yield self._copies()
        if self.found.elsewhere:
            yield f"{self.found.elsewhere} on nodes without the labels of -l"
        yield from self._hidden()
        yield from self._next()

    def fields(self) -> Json:
        """All of it."""
        fitting = self.found
        return {
            "subject": self.subject,
            "copies": fitting.number,
            "isLimited": fitting.is_cut,
            "copiesOnOtherNodes": fitting.elsewhere,
            "nodes": [{"name": node, "copies": number} for node, number in self._sorted()],
            "next": {"reason": reason_of(fitting.stopped)} if fitting.stopped is not None else None,
            "givenUpAt": given_up_object(fitting.hidden),
        }

    def html(self, head: Sequence[str] = ()) -> str:
        """The copies, with the devices that they take marked in the map."""
        tables = [
            PageTable("nodes", "Copies by node", self._copies()),
            change_map(*self.pools, self.claims, (self.cluster, self.cluster)),
            closed_nodes(self.cluster),
        ]
        answer = [f"{self._counted()}.", *self._hidden(), *self._next()]
        page = DataPage(f"More of {self.subject}", answer, tables, CHANGE_MAP)
        return data_page(page, head)

    def _counted(self) -> str:
        least, number = "at least " if self.found.is_cut else "", self.found.number
        return f"{least}{number} more of {self.subject} {agreeing(number, 'fits', 'fit')}"

    def _copies(self) -> ColumnTable:
        """A line for each node with copies, the most first."""
        rows = [[node, str(number)] for node, number in self._sorted()]
        return ColumnTable(["NODE", "COPIES"], rows, frozenset({"COPIES"}))

    def _hidden(self) -> Iterator[str]:
        """Where kube-scheduler gives up copies."""
        if hidden := self.found.hidden:
            yield f"{counted(hidden.number, 'copy', 'copies')}: {printable(hidden.text)}"

    def _next(self) -> Iterator[str]:
        """Why the next one does not fit."""
        if self.found.stopped is not None:
            yield f"The next one: {reason_of(self.found.stopped)}"

    def _sorted(self) -> list[tuple[str, int]]:
        return sorted(self.found.by_node.items(), key=lambda one: (-one[1], one[0]))

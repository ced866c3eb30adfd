"""What a change of the cluster does, and how many copies fit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from allocator.status import PoolStatus
from allocator.words import agreeing, counted
from scheduler.offline.copies import FittingCopies
from scheduler.offline.placement import UnplacedPod
from scheduler.offline.placement_difference import DifferenceKind, PlaceDifference, PlaceOfPod, Places
from scheduler.output.data_page import ColumnTable, DataPage, PageTable, data_page
from scheduler.output.status_report import API_VERSION, CHANGE_MAP, change_map
from scheduler.output.table import reason_of
from scheduler.status import ClaimStatus

# What a change does to a placement, as a table and as JSON (docs/whatif.md describes each field).


KIND = "PlacementDifference"

NOTHING_MOVES = "Nothing moves."

_NUMBERS = frozenset({"BEFORE", "AFTER"})

Json = dict[str, object]


def difference_table(before: Places, after: Places, found: Sequence[PlaceDifference]) -> str:
    """How many are placed, and a line for each pod whose place differs."""
    counts = counts_table(before, after)
    return f"{counts}\n\n{moves_table(found) if found else NOTHING_MOVES}"


def moves_table(found: Sequence[PlaceDifference]) -> ColumnTable:
    """A line for each pod whose place differs."""
    rows = [[one.name, _what(one), _before_text(one.before), _after_text(one)] for one in found]
    return ColumnTable(["POD OR CLAIM", "WHAT", "BEFORE", "AFTER"], rows)


def _what(one: PlaceDifference) -> str:
    is_more = one.evicted and one.kind is not DifferenceKind.EVICTED
    return f"{DifferenceKind.EVICTED}, {one.kind}" if is_more else one.kind


def _after_text(one: PlaceDifference) -> str:
    return f"{_text(one.after)}; evicted: {one.evicted}" if one.evicted else _text(one.after)


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
    return "not placed" if place is not None and place.refused is not None else _text(place)


def _text(place: PlaceOfPod | None) -> str:
    if place is None:
        return "-"
    if place.refused is not None:
        return reason_of(place.refused)
    return f"{place.node}, {counted(len(place.devices), 'device')}"


def difference_object(before: Places, after: Places, found: Sequence[PlaceDifference]) -> Json:
    """All of it. Fields are only added."""
    kinds = Counter(one.kind for one in found)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "before": _summary(before),
        "after": _summary(after),
        "differences": {_NAMES[kind]: kinds[kind] for kind in DifferenceKind},
        "items": [
            {
                "name": one.name,
                "what": _NAMES[one.kind],
                "before": _object(one.before),
                "after": _object(one.after),
                "evicted": one.evicted or None,
            }
            for one in found
        ],
    }


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


def difference_page(
    places: tuple[Places, Places],
    found: Sequence[PlaceDifference],
    pools: tuple[Sequence[PoolStatus], Sequence[PoolStatus]],
    claims: Iterable[ClaimStatus],
) -> str:
    """The page, as HTML. places, pools: before and after the change. claims: after it."""
    tables = [
        PageTable("differences", "Pods and claims whose place differs", moves_table(found)),
        change_map(*pools, claims),
    ]
    counts = [
        f"{name.capitalize()}: {before} before, {after} after." for name, before, after in counts_table(*places).rows
    ]
    return data_page(DataPage("What if", [*_answer(found), *counts], tables, CHANGE_MAP))


def _answer(found: Sequence[PlaceDifference]) -> Iterator[str]:
    kinds = Counter(one.kind for one in found)
    texts = [counted(kinds[kind], *_SENTENCES[kind], style=",") for kind in DifferenceKind if kinds[kind]]
    yield f"{'; '.join(texts)}." if texts else NOTHING_MOVES


# How many copies fit, as a table and as JSON (docs/fit.md describes each field).


FIT_KIND = "Fit"


def fit_table(subject: str, found: FittingCopies) -> str:
    """How many, a line for each node, and what stops the next one. subject: in words, such as `pod ml/train-0`."""
    lines = [counted_text(subject, found)]
    if found.by_node:
        lines += ["", str(copies_table(found))]
    if found.elsewhere:
        lines += ["", f"{found.elsewhere} on nodes without the labels of -l"]
    if found.stopped is not None:
        lines += ["", next_text(found.stopped)]
    return "\n".join(lines)


def counted_text(subject: str, found: FittingCopies) -> str:
    """How many fit."""
    least = "at least " if found.is_cut else ""
    return f"{least}{found.number} more of {subject} {agreeing(found.number, 'fits', 'fit')}"


def copies_table(found: FittingCopies) -> ColumnTable:
    """A line for each node with copies, the most first."""
    rows = [[node, str(number)] for node, number in _sorted(found)]
    return ColumnTable(["NODE", "COPIES"], rows, frozenset({"COPIES"}))


def next_text(stopped: UnplacedPod) -> str:
    """Why the next one does not fit."""
    return f"The next one: {reason_of(stopped)}"


def _sorted(found: FittingCopies) -> list[tuple[str, int]]:
    return sorted(found.by_node.items(), key=lambda one: (-one[1], one[0]))


def fit_object(subject: str, found: FittingCopies) -> Json:
    """All of it. Fields are only added."""
    return {
        "apiVersion": API_VERSION,
        "kind": FIT_KIND,
        "subject": subject,
        "copies": found.number,
        "isLimited": found.is_cut,
        "copiesOnOtherNodes": found.elsewhere,
        "nodes": [{"name": node, "copies": number} for node, number in _sorted(found)],
        "next": {"reason": reason_of(found.stopped)} if found.stopped is not None else None,
    }


# How many copies fit, as a page: the devices that they take are marked in the map.


def fit_page(
    subject: str,
    found: FittingCopies,
    before: Sequence[PoolStatus],
    after: Sequence[PoolStatus],
    claims: Iterable[ClaimStatus],
) -> str:
    """The page, as HTML. before, after: without and with the copies. claims: with theirs."""
    stopped = [next_text(found.stopped)] if found.stopped is not None else []
    tables = [PageTable("nodes", "Copies by node", copies_table(found)), change_map(before, after, claims)]
    title = f"More of {subject}"
    return data_page(DataPage(title, [f"{counted_text(subject, found)}.", *stopped], tables, CHANGE_MAP))

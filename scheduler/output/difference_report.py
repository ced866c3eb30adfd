"""What a change does to a placement, as a table and as JSON (docs/whatif.md describes each field)."""

from collections import Counter
from collections.abc import Sequence

from scheduler.offline.placement_difference import DifferenceKind, PlaceDifference, PlaceOfPod, Places
from scheduler.output.columns import ColumnTable
from scheduler.output.status_report import API_VERSION
from scheduler.output.table import reason_of

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
    number = len(place.devices)
    return f"{place.node}, {number} device{'' if number == 1 else 's'}"


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

"""What a change does to a placement, as a page: devices that are taken or released are marked in the map."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from allocator.status.pool_status import PoolStatus
from scheduler.offline.placement_difference import DifferenceKind, PlaceDifference, Places
from scheduler.output.data_page import DataPage, PageTable, data_page
from scheduler.output.device_map import CHANGE_MAP, change_map
from scheduler.output.difference_report import NOTHING_MOVES, counts_table, moves_table
from scheduler.status.claim_status import ClaimStatus

_SENTENCES = {
    DifferenceKind.LOST: ("no longer fits", "no longer fit"),
    DifferenceKind.GONE: ("is gone", "are gone"),
    DifferenceKind.EVICTED: ("is evicted", "are evicted"),
    DifferenceKind.MOVED: ("moves", "move"),
    DifferenceKind.GAINED: ("fits now", "fit now"),
    DifferenceKind.NEW: ("is new", "are new"),
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
    texts = [_counted(kind, kinds[kind]) for kind in DifferenceKind if kinds[kind]]
    yield f"{'; '.join(texts)}." if texts else NOTHING_MOVES


def _counted(kind: DifferenceKind, number: int) -> str:
    one, several = _SENTENCES[kind]
    return f"1 pod or claim {one}" if number == 1 else f"{number:,} pods or claims {several}"

"""How many copies fit, as a page: the devices that they take are marked in the map."""

from collections.abc import Iterable, Sequence

from allocator.status.pool_status import PoolStatus
from scheduler.offline.copies import FittingCopies
from scheduler.output.data_page import DataPage, PageTable, data_page
from scheduler.output.device_map import CHANGE_MAP, change_map
from scheduler.output.fit_report import copies_table, counted_text, next_text
from scheduler.status.claim_status import ClaimStatus


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

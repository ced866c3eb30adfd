"""Claims as a page, with the devices that they hold in the map (docs/claims.md, docs/ui.md)."""

from collections import Counter
from collections.abc import Iterator, Sequence

from allocator.status.pool_status import PoolStatus
from scheduler.output.data_page import DataPage, data_page
from scheduler.output.device_map import MAP, device_map
from scheduler.output.status_page import claims_table
from scheduler.status.claim_status import ClaimStatus


def claims_page(claims: Sequence[ClaimStatus], pools: Sequence[PoolStatus], where: str) -> str:
    """The page, as HTML. pools: with the devices that the claims hold. where: in words, such as `in namespace ml`."""
    tables = [claims_table(claims), device_map(pools, claims)]
    return data_page(DataPage("Claims", list(_answer(claims, pools, where)), tables, MAP))


def _answer(claims: Sequence[ClaimStatus], pools: Sequence[PoolStatus], where: str) -> Iterator[str]:
    number = len(claims)
    are = "1 claim is" if number == 1 else f"{number:,} claims are"
    states = Counter(state for one in claims for state in one.states)
    counted = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
    yield f"{are} {where}{f': {counted}' if counted else ''}."
    devices = sum(len(pool.devices) for pool in pools)
    yield f"{'1 device is' if devices == 1 else f'{devices:,} devices are'} held by them."

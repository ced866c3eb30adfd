"""The devices of a cluster and who holds them, as a page (docs/status.md, docs/ui.md)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from allocator.status.pool_status import DeviceState, PoolStatus
from scheduler.output.claim_table import claim_cells
from scheduler.output.columns import ColumnTable
from scheduler.output.data_page import DataPage, PageTable, data_page
from scheduler.output.device_map import MAP, device_map
from scheduler.output.status_report import (
    StatusReport,
    class_table,
    driver_table,
    largest_claim_text,
    namespace_table,
    node_table,
    pool_table,
    problem_table,
)
from scheduler.status.claim_status import ClaimStatus

_MOST = 5
"""Problems and classes that the answer names."""


def status_page(report: StatusReport, shown: str = "") -> str:
    """The page, as HTML. shown: of which claims alone, in words such as `in namespace ml`; empty for everything."""
    return data_page(DataPage("Devices", list(_answer(report, shown)), list(_tables(report)), MAP))


def _answer(report: StatusReport, shown: str) -> Iterator[str]:
    states = states_of(report.pools)
    holding = {holder for pool in report.pools for device in pool.devices for holder in device.holders}
    claims = f"{_counted(len(holding), 'claim')}{f' {shown}' if shown else ''} hold{'s' if len(holding) == 1 else ''}"
    if shown:
        yield f"{claims} {_counted(states.total(), 'device')}."
    else:
        yield states_text(states)
        yield f"{claims} devices."
    yield from _first([f"Pool {pool}: {problem}." for pool, problem in problem_table(report).rows])
    rooms = [(one.name, report.rooms[one.name]) for one in report.classes if one.name in report.rooms]
    texts = [f"The largest claim of class {name} that fits: {largest_claim_text(room)}." for name, room in rooms]
    yield from _first(texts)


def states_of(pools: Iterable[PoolStatus]) -> Counter[DeviceState]:
    """How many devices are in each state."""
    return Counter(device.state for pool in pools for device in pool.devices)


def states_text(states: Counter[DeviceState]) -> str:
    """The numbers as a sentence."""
    others = ", ".join(f"{states[one]:,} {one}" for one in DeviceState if one is not DeviceState.FREE and states[one])
    verb = "is" if states.total() == 1 else "are"
    free = f"{states[DeviceState.FREE]:,} of {_counted(states.total(), 'device')} {verb} free"
    return f"{free}; {others}." if others else f"{free}."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _first(sentences: Sequence[str]) -> Iterator[str]:
    yield from sentences[:_MOST]
    if len(sentences) > _MOST:
        yield f"And {len(sentences) - _MOST} more, which are in the tables."


def _tables(report: StatusReport) -> Iterator[PageTable]:
    yield PageTable("drivers", "Drivers", driver_table(report))
    yield PageTable("classes", "Classes", class_table(report))
    if (problems := problem_table(report)).rows:
        yield PageTable("problems", "Pools with problems", problems)
    yield device_map(report.pools, report.claims)
    yield PageTable("nodes", "Nodes", node_table(report))
    yield PageTable("pools", "Pools", pool_table(report))
    yield PageTable("namespaces", "Namespaces", namespace_table(report))
    yield claims_table(report.claims)


def claims_table(claims: Iterable[ClaimStatus]) -> PageTable:
    """With when they were created: a page is read later, so that no age holds."""
    header = ["NAMESPACE", "NAME", "STATE", "DEVICES", "NODE", "USED BY", "CREATED"]
    return PageTable(
        "claims", "Claims", ColumnTable(header, [[*claim_cells(one), one.created or "-"] for one in claims])
    )

"""The devices of a cluster as a table of a page, which its map shows: as they are, or compared with before a change."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

from allocator.status.pool_status import DeviceStatus, PoolStatus
from scheduler.output.columns import ColumnTable
from scheduler.output.data_page import DEVICE_STATES, MapColumns, PageTable, StateLook
from scheduler.output.status_report import device_columns
from scheduler.status.claim_status import ClaimStatus
from scheduler.status.tally import by_node

DEVICES = "devices"
MAP = MapColumns(DEVICES, name="DEVICE", node="NODE", state="STATE", holders="CLAIMS")
"""The map of the devices."""

_CHANGE = "CHANGE"
_SAME = "-"
_GONE = StateLook("gone", "G", 1, "no longer there")
CHANGE_MAP = replace(MAP, marks=_CHANGE, mark_text="the change concerns it", states=(*DEVICE_STATES, _GONE))
"""The map of the devices after a change."""


class DeviceChange(StrEnum):
    """What a change does to a device."""

    TAKEN = "taken"
    RELEASED = "released"
    OTHER_CLAIMS = "other claims"
    ADDED = "added"
    GONE = "gone"


def device_map(pools: Iterable[PoolStatus], claims: Iterable[ClaimStatus]) -> PageTable:
    """A row for each device."""
    return PageTable(DEVICES, "Devices", device_columns(pools, claims))


def change_map(before: Sequence[PoolStatus], after: Sequence[PoolStatus], claims: Iterable[ClaimStatus]) -> PageTable:
    """A row for each device as it is after a change, with what has changed, and for those that are gone."""
    old = {one.device.id: one for one in _all(before)}
    table = device_columns(after, claims)
    rows = [[*row, _change(old.get(one.device.id), one)] for row, one in zip(table.rows, _all(after), strict=True)]
    there = {one.device.id for one in _all(after)}
    rows += [_gone(status) for one, status in old.items() if one not in there]
    return PageTable(DEVICES, "Devices after the change", ColumnTable([*table.header, _CHANGE], rows))


def _all(pools: Iterable[PoolStatus]) -> Iterator[DeviceStatus]:
    return (one for pool in pools for one in pool.devices)


def _change(old: DeviceStatus | None, new: DeviceStatus) -> str:
    if old is None:
        return DeviceChange.ADDED
    if old.holders == new.holders:
        return _SAME
    if not old.holders:
        return DeviceChange.TAKEN
    return DeviceChange.OTHER_CLAIMS if new.holders else DeviceChange.RELEASED


def _gone(old: DeviceStatus) -> list[str]:
    holders = ",".join(old.holders) or "-"
    return [str(old.device.id), ",".join(by_node(old)), _GONE.name, holders, "-", "-", DeviceChange.GONE]

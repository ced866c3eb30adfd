"""What devices are cut from, exactly: each counter and each capacity of the hardware of a node.

A cell is a counter of a counter set, a capacity of a device that can be shared, or a device that only one claim can
have. A unit is what cannot be looked at in parts: a device, or the counter sets that devices draw from together.
Amounts below zero count as nothing.
Source: KEP-4815 (counter sets), KEP-5075 (shares).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from allocator.cluster.node_view import NodeView
from allocator.features.contract import NodeAttempt
from allocator.memo import Topic
from allocator.model import Alternative, Device, PoolID
from allocator.policies.fullness import hardware_of, local_devices
from allocator.policies.shares import share_of, shared_of
from allocator.search.rules import Mask, bits

Cell = tuple[PoolID, str, str]
"""Pool, counter set or device, counter or capacity."""

Cells = tuple[int, ...]
"""What is left of each cell of a unit, in 10**-9, in the order of `UnitCells.whole`."""

ITSELF: Final = ""
"""The cell of a device that only one claim can have, or as many as like; there is one of it, or UNLIMITED."""

UNLIMITED: Final = 10**9


@dataclass(frozen=True, slots=True)
class UnitCells:
    """A unit. driver: of its devices. whole: what there is of each cell if nothing is in use."""

    driver: str
    whole: Cells


@dataclass(frozen=True, slots=True)
class Take:
    """What a device takes of a unit. cells: of each. devices: those that take the same, by position."""

    cells: Cells
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HardwareCells:
    """The units of the devices that not every node reaches. places: unit and place of each cell."""

    units: Sequence[UnitCells]
    places: Mapping[Cell, tuple[int, int]]


_CELLS: Final[Topic[HardwareCells]] = Topic("cells")


def cells_of(view: NodeView) -> HardwareCells:
    """The units of a view. Cost: O(devices), the first time."""
    return view.memo.remember(_CELLS, lambda: _work_out(view))


def cells_left(attempt: NodeAttempt) -> tuple[Cells, ...]:
    """What is left of each unit. Cost: O(devices of the pools with anything in use)."""
    known = cells_of(attempt.view)
    left = [list(unit.whole) for unit in known.units]
    for pool in attempt.view.pools:
        if pool.is_usable:
            positions = attempt.view.positions(pool)
            for device in attempt.allocated_devices(pool):
                for cell, amount in _in_use(attempt, device, positions.get(device.name)):
                    if cell in known.places:
                        unit, place = known.places[cell]
                        left[unit][place] = max(0, left[unit][place] - amount)
    return tuple([tuple(cells) for cells in left])


def takes_of(attempt: NodeAttempt, alternative: Alternative, devices: Mask) -> tuple[tuple[Take, ...], ...]:
    """What the devices can take for the alternative, for each unit. devices: candidates. Cost: O(devices)."""
    known = cells_of(attempt.view)
    found: list[dict[Cells, list[int]]] = [{} for _ in known.units]
    for position in bits(devices):
        amounts = [
            (known.places[cell], n) for cell, n in _taken(attempt, alternative, position) if cell in known.places
        ]
        if amounts:
            unit = amounts[0][0][0]
            cells = [0] * len(known.units[unit].whole)
            for (_, place), amount in amounts:
                cells[place] += amount
            found[unit].setdefault(tuple(cells), []).append(position)
    return tuple([tuple([Take(cells, tuple(own)) for cells, own in of.items()]) for of in found])


def _work_out(view: NodeView) -> HardwareCells:
    sets = hardware_of(view).sets
    joined: dict[PoolID | tuple[PoolID, str], tuple[PoolID, str]] = {}
    amounts: dict[tuple[PoolID, str], dict[Cell, int]] = {}
    for position in local_devices(view):
        device = view.devices[position]
        pool = PoolID(device.driver, device.pool)
        own: list[tuple[PoolID, str]] = [(pool, one.counter_set) for one in device.consumes_counters]
        first = _root(joined, own[0] if own else (pool, device.name))
        of_first = amounts.setdefault(first, {})
        for one in own:
            root = _root(joined, one)
            if root != first:
                joined[root] = first
                of_first.update(amounts.pop(root, {}))
            of_first.update({(*one, name): max(0, amount) for name, amount in sets.get(one, {}).items()})
        of_first.update({(pool, device.name, name): amount for name, amount in _alone(device).items()})
    units = [UnitCells(root[0].driver, tuple(cells.values())) for root, cells in amounts.items()]
    places = {cell: (unit, place) for unit, cells in enumerate(amounts.values()) for place, cell in enumerate(cells)}
    return HardwareCells(units, places)


def _root(
    joined: Mapping[PoolID | tuple[PoolID, str], tuple[PoolID, str]], one: tuple[PoolID, str]
) -> tuple[PoolID, str]:
    while one in joined:
        one = joined[one]
    return one


def _alone(device: Device) -> Mapping[str, int]:
    """The cells of the device itself, and what there is of them."""
    if device.allow_multiple_allocations:
        return {name: max(0, amount.nanos) for name, amount in device.capacity.items()} or {ITSELF: UNLIMITED}
    return {ITSELF: 1}


def _in_use(attempt: NodeAttempt, device: Device, position: int | None) -> Iterator[tuple[Cell, int]]:
    """What an allocated device takes. position: None where the node does not reach it."""
    yield from _counters(device)
    if position is None:
        return
    pool, taken = PoolID(device.driver, device.pool), _alone(device)
    if not attempt.in_use >> position & 1 and attempt.shareable >> position & 1:
        taken = shared_of(attempt, position, ()) or {ITSELF: 1}
    yield from (((pool, device.name, name), max(0, amount)) for name, amount in taken.items())


def _taken(attempt: NodeAttempt, alternative: Alternative, position: int) -> Iterator[tuple[Cell, int]]:
    device = attempt.view.devices[position]
    yield from _counters(device)
    pool, taken = PoolID(device.driver, device.pool), _alone(device)
    if attempt.shareable >> position & 1:
        taken = share_of(attempt, alternative, position) or {ITSELF: 1}
    yield from (((pool, device.name, name), max(0, amount)) for name, amount in taken.items())


def _counters(device: Device) -> Iterator[tuple[Cell, int]]:
    pool = PoolID(device.driver, device.pool)
    for consumption in device.consumes_counters:
        for name, amount in consumption.counters.items():
            yield (pool, consumption.counter_set, name), max(0, amount.nanos)

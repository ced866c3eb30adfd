"""What devices are cut from, and how full it is."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from allocator.bits import Mask, bits
from allocator.cluster.pools import NodeView, Pool
from allocator.cluster.usage import consumed_of
from allocator.constraints import lookup
from allocator.features.consumable_capacity import consumed_by_share
from allocator.features.contract import NodeAttempt
from allocator.features.list_type_attributes import Incomparable, Token, tokens
from allocator.features.partitionable_devices import consumed
from allocator.memo import Topic, exact
from allocator.model import Alternative, CounterSetID, Device, PoolID
from allocator.search.backtracking import OrderEffort
from allocator.search.rules import Pick
from cel.cache import LruCache
from cel.values.quantity import Quantity

# Devices by the value of an attribute: those of one NUMA node, of one PCIe root, of one board.
#
# Values compare as constraints compare them, so a device with a list of values is in several groups. Source: KEP-4381
# (matchAttribute), KEP-5491 (lists), the standard attributes of resource.k8s.io.


NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"

_GROUPS: Final[Topic[Mapping[Token, Mask]]] = Topic("devices by value")


def groups_of(attempt: NodeAttempt, name: str) -> Mapping[Token, Mask]:
    """The devices of each value of the attribute of that qualified name.

    Cost: O(devices of the view), the first time.
    """
    return attempt.view.memo.remember((_GROUPS, name), lambda: _groups_of(attempt, name))


def _groups_of(attempt: NodeAttempt, name: str) -> Mapping[Token, Mask]:
    groups: dict[Token, Mask] = {}
    for position, device in enumerate(attempt.view.devices):
        attribute = lookup(device, name)
        if attribute is None:
            continue
        with suppress(Incomparable):  # such a device is in no group
            for token in tokens(attribute, position, attempt.features):
                groups[token] = groups.get(token, 0) | 1 << position
    return groups


# Shares of devices that allow several: what one takes, and what is taken already.
#
# Source: KEP-5075, shared devices.


UnitAmounts = Mapping[str, int]
"""Amounts by capacity, in 10**-9 of its unit."""

_SHARE: Final[Topic[UnitAmounts]] = Topic("share")


def share_of(attempt: NodeAttempt, alternative: Alternative, device: int) -> UnitAmounts:
    """What one share for the alternative takes of the device, which is a candidate for it."""
    requested = alternative.capacity or {}
    key = (_SHARE, device, exact(requested))
    return attempt.view.memo.remember(key, lambda: _share_of(attempt, attempt.view.devices[device], requested))


def _share_of(attempt: NodeAttempt, device: Device, requested: Mapping[str, Quantity]) -> UnitAmounts:
    consumed = consumed_by_share(device, requested, attempt.features)
    assert consumed is not None, f"device {device.id} is no candidate"
    return {name: amount.nanos for name, amount in consumed.items()}


def shared_of(attempt: NodeAttempt, device: int, picks: Iterable[Pick]) -> dict[str, int]:
    """What is taken of the device by all its shares, those among the picks included."""
    subject = attempt.view.devices[device]
    held = attempt.usage.shares_in(PoolID(subject.driver, subject.pool)).get(subject.name)
    amounts = dict(consumed_of(subject, held))
    for pick in picks:
        if pick.device == device:
            for name, amount in share_of(attempt, pick.candidates.alternative, device).items():
                amounts[name] = amounts.get(name, 0) + amount
    return amounts


# What devices are cut from, exactly: each counter and each capacity is a cell, with an amount in 10**-9.
#
# A unit is a counter set, or a device: its capacities where it can be shared, or the device as such. All else follows
# from what devices take of cells: what is left of units that are drawn from together (`cells_left`), how full a unit is
# (`Fullness`), and which partitions of a counter set are still possible (`least_fragmentation`). Amounts below zero
# count as nothing. Source: KEP-4815 (counter sets), KEP-5075 (shares).


Unit = int | CounterSetID
"""A device, by its position in the view, or a counter set."""

ITSELF: Final = ""
"""The cell of a device that only one claim can have, or as many as like; there is one of it, or UNLIMITED."""

UNLIMITED: Final = 10**9


def own_cells(device: Device) -> UnitAmounts:
    """The cells of the device itself, and what there is of them."""
    if device.allow_multiple_allocations:
        return {name: max(0, amount.nanos) for name, amount in device.capacity.items()} or {ITSELF: UNLIMITED}
    return {ITSELF: 1}


def drawn(device: Device) -> Mapping[CounterSetID, UnitAmounts]:
    """What the device takes of the cells of each of its counter sets."""
    of_sets: dict[CounterSetID, dict[str, int]] = {}
    for (pool_id, counter_set, name), amount in consumed(device):
        cells = of_sets.setdefault((pool_id, counter_set), {})
        cells[name] = cells.get(name, 0) + amount
    return of_sets


def _allocated(attempt: NodeAttempt, device: Device, position: int | None) -> Iterator[tuple[Unit, UnitAmounts]]:
    """What an allocated device takes of its units. position: None where the node does not reach it."""
    yield from drawn(device).items()
    if position is not None:
        is_shared = not attempt.in_use >> position & 1 and attempt.shareable >> position & 1
        yield position, (shared_of(attempt, position, ()) or {ITSELF: 1}) if is_shared else own_cells(device)


def _taken(attempt: NodeAttempt, alternative: Alternative, position: int) -> Iterator[tuple[Unit, UnitAmounts]]:
    """What a candidate for the alternative would take of its units."""
    device = attempt.view.devices[position]
    yield from drawn(device).items()
    is_shared = attempt.shareable >> position & 1
    yield position, (share_of(attempt, alternative, position) or {ITSELF: 1}) if is_shared else own_cells(device)


# How full hardware is, for the policies that fill it or keep it empty.
#
# A unit is as full as its cells are on average. Units belong to a PCIe root, roots to a NUMA node, nodes to the
# cluster; each of them is as full as its units are on average. A device that is cut from counter sets is no unit beside
# them, unless it can be shared. What each device makes a unit fuller by is rounded down alone, then added up: so the
# sum may be a few millionths less than what all of them take. Source: the standard attributes of resource.k8s.io.


FULL: Final = 10**6
"""The fullness of a unit of which nothing is left."""

UNIT: Final = 1000
"""What is left of a unit of which nothing is in use, for policies that look at whole nodes."""

LEVELS: Final = (PCIE_ROOT, NUMA_NODE)
"""What units belong to, from the inside."""


@dataclass(frozen=True, slots=True, eq=False)
class Hardware:
    """What the devices of a view belong to, whatever is in use."""

    sets: Mapping[CounterSetID, UnitAmounts]
    """The cells of each counter set, and what there is of them."""
    units: Sequence[tuple[Unit, ...]]
    """The units of each device."""
    groups: Sequence[Sequence[Unit]]
    """Sets of units."""
    parents: Sequence[tuple[int, ...]]
    """For each device the numbers of its groups, which are its own units, its PCIe root and its NUMA node."""
    groups_of: Mapping[Unit, Sequence[int]]
    """The numbers of the groups that each unit is in."""
    local: Sequence[Unit]
    """The units of devices that not every node reaches."""

    def fullness(self, device: Device) -> Iterator[tuple[CounterSetID, int]]:
        """The counter sets of a device of these pools, and how full it makes each."""
        for counter_set, taken in drawn(device).items():
            yield counter_set, _average(taken, self.sets.get(counter_set, {}))


_USED: Final[Topic[dict[Unit, int]]] = Topic("used units")


class Fullness:
    """How full the hardware of an attempt is."""

    def __init__(self, attempt: NodeAttempt) -> None:
        self._attempt = attempt
        self._hardware = hardware_of(attempt.view)
        # The attempt remembers this alone: what refers to the attempt would be garbage only a collector can free.
        self._used = attempt.memo.remember(_USED, self._in_use)
        self._sums: Sequence[int] = ()
        self._full: Sequence[int] = ()

    @property
    def effort(self) -> OrderEffort:
        """Of an order by how full the parents of devices are."""
        counters = max([len(of) for of in self._hardware.sets.values()], default=0)
        return OrderEffort(whole=200, device=12, pick=20 + 6 * counters)

    def look_at_groups(self) -> None:
        """Prepare for `of_parents`. Cost: O(devices)."""
        used, groups = self._used, self._hardware.groups
        self._sums = [sum([used.get(unit, 0) for unit in units]) for units in groups]
        self._full = [one // len(units) if units else 0 for one, units in zip(self._sums, groups, strict=True)]

    def of_parents(self, devices: Iterable[int], picks: Sequence[Pick]) -> Sequence[tuple[tuple[int, ...], int]]:
        """For each device, how full its own units, its PCIe root and its NUMA node are after the picks, and itself."""
        hardware, used = self._hardware, self._after(picks)
        full = self._full
        if picks:
            full = list(full)
            more: dict[int, int] = {}
            for unit in {unit for pick in picks for unit in hardware.units[pick.device]}:
                for group in hardware.groups_of[unit]:
                    more[group] = more.get(group, 0) + used.get(unit, 0) - self._used.get(unit, 0)
            for group, grown in more.items():
                full[group] = (self._sums[group] + grown) // len(hardware.groups[group])
        parents = hardware.parents
        return [(tuple([full[group] for group in parents[device]]), device) for device in devices]

    def of_node(self, picks: Sequence[Pick]) -> tuple[bool, int]:
        """(whether anything was in use, how full the node is after the picks).

        Devices that every node reaches say nothing about a node, and are left out.
        """
        local = self._hardware.local
        return any(self._used.get(unit) for unit in local), _mean(self._after(picks), local)

    def of_local(self) -> Sequence[int]:
        """How full each unit is that not every node reaches, in the order of `Hardware.local`."""
        return [self._used.get(unit, 0) for unit in self._hardware.local]

    def _in_use(self) -> dict[Unit, int]:
        used: dict[Unit, int] = {}
        for pool in self._attempt.view.pools:
            if pool.is_usable:
                for unit, amount in self._allocated(pool):
                    used[unit] = used.get(unit, 0) + amount
        return used

    def _allocated(self, pool: Pool) -> Iterator[tuple[Unit, int]]:
        positions = self._attempt.view.positions(pool)
        for device in self._attempt.allocated_devices(pool):
            yield from self._hardware.fullness(device)
            position = positions.get(device.name)
            if position is not None and position in self._hardware.units[position]:
                yield position, self._own(position, ())

    def _after(self, picks: Iterable[Pick]) -> dict[Unit, int]:
        used, attempt = dict(self._used), self._attempt
        charged: Mask = attempt.shared & attempt.shareable
        made: dict[int, list[Pick]] = {}
        for pick in picks:
            if pick.candidates.alternative.admin_access:
                continue
            made.setdefault(pick.device, []).append(pick)
            if not charged >> pick.device & 1:
                for unit, amount in self._hardware.fullness(attempt.view.devices[pick.device]):
                    used[unit] = used.get(unit, 0) + amount
            charged |= (1 << pick.device) & attempt.shareable
        for device, picked in made.items():
            if device in self._hardware.units[device]:
                used[device] = self._own(device, picked)
        return used

    def _own(self, device: int, picks: Sequence[Pick]) -> int:
        """How full a device is that is held or picked: all of it, or what its shares take, which is never nothing."""
        attempt = self._attempt
        if attempt.in_use >> device & 1 or not attempt.shareable >> device & 1:
            return FULL
        return _full_of_shares(shared_of(attempt, device, picks), attempt.view.devices[device])


def taken_of_local(attempt: NodeAttempt, alternative: Alternative, devices: Mask) -> Sequence[int]:
    """How full one of the devices makes each unit that not every node reaches, at least; 0 where none is cut from it.

    devices: candidates for the alternative. The order is that of `Hardware.local`. Cost: O(devices).
    """
    hardware = hardware_of(attempt.view)
    least: dict[Unit, int] = {}
    for position in bits(devices):
        for unit, full in _filled(attempt, alternative, position):
            least[unit] = min(full, least.get(unit, FULL))
    return [least.get(unit, 0) for unit in hardware.local]


def _filled(attempt: NodeAttempt, alternative: Alternative, position: int) -> Iterator[tuple[Unit, int]]:
    hardware, device = hardware_of(attempt.view), attempt.view.devices[position]
    yield from hardware.fullness(device)
    if position not in hardware.units[position]:
        return
    if not attempt.shareable >> position & 1:
        yield position, FULL
        return
    yield position, _full_of_shares(share_of(attempt, alternative, position), device)


def _full_of_shares(taken: UnitAmounts, device: Device) -> int:
    """How full shares make the device: never nothing, so that it counts as used."""
    return max(1, _average(taken, own_cells(device)))


_HARDWARE: Final[Topic[Hardware]] = Topic("hardware")


def fullness_of(attempt: NodeAttempt) -> Fullness:
    """How full the hardware of the attempt is. Cost: O(devices of the pools with anything in use), once."""
    return Fullness(attempt)


def hardware_of(view: NodeView) -> Hardware:
    """The hardware behind a view. Cost: O(devices), the first time."""
    return view.memo.remember(_HARDWARE, lambda: _shared(_hardware_of(view)))


MOST_HARDWARE: Final = 1 << 10
"""Different ones that are shared by the views of nodes with the same devices: most of a fleet are alike."""

_HARDWARE_OF: Final[LruCache[Hashable, Hardware]] = LruCache(MOST_HARDWARE, MOST_HARDWARE)


def _shared(hardware: Hardware) -> Hardware:
    """An equal one that another view has already, if there is one."""
    sets = tuple([(unit, tuple(counters.items())) for unit, counters in hardware.sets.items()])
    parts = (tuple(hardware.units), tuple(map(tuple, hardware.groups)), tuple(hardware.parents), tuple(hardware.local))
    return _HARDWARE_OF.get((sets, *parts), 1, lambda: hardware)


def _hardware_of(view: NodeView) -> Hardware:
    units = [_units_of(position, device) for position, device in enumerate(view.devices)]
    groups: dict[Hashable, dict[Unit, None]] = {}
    numbers: dict[Hashable, int] = {}
    parents = []
    for device, of_device in zip(view.devices, units, strict=True):
        keys = (of_device, *((level, lookup(device, level)) for level in LEVELS))
        for key in keys:
            numbers.setdefault(key, len(numbers))
            groups.setdefault(key, {}).update(dict.fromkeys(of_device))
        parents.append(tuple(numbers[key] for key in keys))
    local = dict.fromkeys(unit for position in local_devices(view) for unit in units[position])
    groups_of: dict[Unit, list[int]] = {}
    for group, members in enumerate(groups.values()):
        for unit in members:
            groups_of.setdefault(unit, []).append(group)
    return Hardware(_sets(view.pools), units, [list(own) for own in groups.values()], parents, groups_of, list(local))


def _units_of(position: int, device: Device) -> tuple[Unit, ...]:
    pool_id = PoolID(device.driver, device.pool)
    sets = tuple((pool_id, consumption.counter_set) for consumption in device.consumes_counters)
    return (position, *sets) if device.allow_multiple_allocations or not sets else sets


def _sets(pools: Iterable[Pool]) -> dict[CounterSetID, UnitAmounts]:
    return {
        (pool.id, counter_set.name): {name: max(0, amount.nanos) for name, amount in counter_set.counters.items()}
        for pool in pools
        for slice_ in (*pool.slices, *pool.elsewhere)
        for counter_set in slice_.counter_sets
    }


def local_devices(view: NodeView) -> Iterator[int]:
    """The devices that not every node reaches."""
    for segment in view.segments:
        for position, device in enumerate(segment.slice.devices, segment.offset):
            reach = device.reach if segment.slice.reach.per_device else segment.slice.reach
            if not reach.all_nodes:
                yield position


def fraction(amount: int, whole: int, scale: int) -> int:
    """What the amount is of the whole, if all of it is the scale; rounded down.

    Drivers may write more than there is, and less than nothing: `80Gi` of `80` is all of it, and -1 nothing.
    """
    return max(0, min(scale, amount * scale // whole))


def _average(taken: Mapping[str, int], whole: Mapping[str, int]) -> int:
    """How full that makes what is whole, on average over all that there is something of."""
    return _mean_fraction([(taken.get(name, 0), amount) for name, amount in whole.items()], FULL)


def _mean_fraction(cells: Iterable[tuple[int, int]], scale: int) -> int:
    """What the amounts are of the wholes on average, each rounded down; of each cell of which there is any."""
    shares = [fraction(amount, whole, scale) for amount, whole in cells if whole > 0]
    return sum(shares) // len(shares) if shares else 0


def _mean(used: Mapping[Unit, int], units: Sequence[Unit]) -> int:
    return sum(used.get(unit, 0) for unit in units) // len(units) if units else 0


# The exact cells of units that cannot be looked at in parts: of a device, or of the counter sets that devices draw from
# together, with those devices.


Cell = tuple[Unit, str]
"""A unit, and its counter or capacity."""

Cells = tuple[int, ...]
"""What is left of each cell of a unit, in 10**-9, in the order of `UnitCells.whole`."""


@dataclass(frozen=True, slots=True)
class UnitCells:
    """A unit. driver: of its devices. whole: what there is of each cell if nothing is in use."""

    driver: str
    whole: Cells


def thousandths(unit: UnitCells, cells: Cells) -> int:
    """How much of the unit that is."""
    return _mean_fraction(zip(cells, unit.whole, strict=True), UNIT)


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

    def placed(self, unit: Unit, taken: UnitAmounts) -> Iterator[tuple[tuple[int, int], int]]:
        """What is taken of those cells of the unit that are here, with their places."""
        for name, amount in taken.items():
            if (unit, name) in self.places:
                yield self.places[unit, name], max(0, amount)


_CELLS: Final[Topic[HardwareCells]] = Topic("cells")


def cells_of(view: NodeView) -> HardwareCells:
    """The units of a view. Cost: O(devices), the first time."""
    return view.memo.remember(_CELLS, lambda: _work_out(view))


def cells_left(attempt: NodeAttempt) -> tuple[Cells, ...]:
    """What is left of each unit. Cost: O(devices of the pools with anything in use)."""
    hardware = cells_of(attempt.view)
    left = [list(unit.whole) for unit in hardware.units]
    for pool in attempt.view.pools:
        if pool.is_usable:
            positions = attempt.view.positions(pool)
            for device in attempt.allocated_devices(pool):
                for unit, taken in _allocated(attempt, device, positions.get(device.name)):
                    for (number, place), amount in hardware.placed(unit, taken):
                        left[number][place] = max(0, left[number][place] - amount)
    return tuple([tuple(cells) for cells in left])


def takes_of(attempt: NodeAttempt, alternative: Alternative, devices: Mask) -> tuple[tuple[Take, ...], ...]:
    """What the devices can take for the alternative, for each unit. devices: candidates. Cost: O(devices)."""
    hardware = cells_of(attempt.view)
    takes: list[dict[Cells, list[int]]] = [{} for _ in hardware.units]
    for position in bits(devices):
        amounts = [one for own in _taken(attempt, alternative, position) for one in hardware.placed(*own)]
        if amounts:
            unit = amounts[0][0][0]
            cells = [0] * len(hardware.units[unit].whole)
            for (_, place), amount in amounts:
                cells[place] += amount
            takes[unit].setdefault(tuple(cells), []).append(position)
    return tuple([tuple([Take(cells, tuple(own)) for cells, own in of.items()]) for of in takes])


def _work_out(view: NodeView) -> HardwareCells:
    sets = hardware_of(view).sets
    joined: dict[Unit, Unit] = {}
    amounts: dict[Unit, dict[Cell, int]] = {}
    drivers: dict[Unit, str] = {}
    for position in local_devices(view):
        device = view.devices[position]
        of_device = list(drawn(device))
        first = _root(joined, of_device[0] if of_device else position)
        of_first = amounts.setdefault(first, {})
        drivers.setdefault(first, device.driver)
        for joined_unit in of_device:
            root = _root(joined, joined_unit)
            if root != first:
                joined[root] = first
                of_first.update(amounts.pop(root, {}))
            of_first.update({(joined_unit, name): amount for name, amount in sets.get(joined_unit, {}).items()})
        of_first.update({(position, name): amount for name, amount in own_cells(device).items()})
    units = [UnitCells(drivers[root], tuple(cells.values())) for root, cells in amounts.items()]
    places = {cell: (unit, place) for unit, cells in enumerate(amounts.values()) for place, cell in enumerate(cells)}
    return HardwareCells(units, places)


def _root(joined: Mapping[Unit, Unit], unit: Unit) -> Unit:
    while unit in joined:
        unit = joined[unit]
    return unit

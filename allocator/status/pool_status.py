"""Each pool with the state of every device, whichever nodes reach it: what is free, who holds the rest, what is left.

The states come from the same rules as an allocation, asked of the pool as a whole. A free device may still be refused
to a request: by its selectors, its constraints, or the nodes that reach the device.
Source: KEP-4381 (pools), KEP-4815 (counters), KEP-5055 (taints), KEP-5075 (shares).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from allocator.allocate import share_id_of
from allocator.cluster.node_view import view_of
from allocator.cluster.pools import Pool, whole_pool
from allocator.cluster.snapshot import Snapshot
from allocator.cluster.usage import Names, Shares, Usage
from allocator.features import concerned
from allocator.features.contract import NodeAttempt, attempt_of
from allocator.features.device_taints import blocking_taints
from allocator.features.partitionable_devices import CounterID, counters_left, exceeding_devices
from allocator.gates import DEVICE_TAINTS
from allocator.model import Device, DeviceID, PoolID, Slice
from allocator.search.rules import Mask, bits
from cel.values.quantity import Quantity


class DeviceState(StrEnum):
    """What is to be said of a device: the first of these that holds."""

    ALLOCATED = "allocated"
    """A claim holds it, alone."""
    SHARED = "shared"
    """Claims hold shares of it."""
    UNUSABLE = "unusable"
    """Its pool is incomplete or contradicts itself, it has fields that this version does not know, or needs a gate
    that is off."""
    TAINTED = "tainted"
    """A taint keeps it from requests that do not tolerate it."""
    BLOCKED = "blocked"
    """Devices in use have taken what it consumes of counters."""
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Amount:
    """What there is of a counter or a capacity. left: below zero where more is given away than there is."""

    total: Quantity
    left: Quantity

    @staticmethod
    def of(total: Quantity, left_nanos: int) -> "Amount":
        """left_nanos: in 10**-9; written with suffixes of the same family as the total."""
        return Amount(total, Quantity(left_nanos, -9, is_small=False, format=total.format))


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """A device that a pool publishes. holders: the claims that hold it or shares of it, in order; each once.

    capacity: by name, of devices that can be shared.
    """

    device: Device
    slice: Slice
    state: DeviceState
    holders: Names = ()
    capacity: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A pool, with the devices of its newest generation.

    problem: why none of them can be allocated, or empty. is_published: False if only claims know of it. counters: by
    counter set and name. unpublished: devices that claims hold and the pool does not publish any more, with those
    claims.
    """

    id: PoolID
    devices: tuple[DeviceStatus, ...]
    problem: str = ""
    counters: Mapping[tuple[str, str], Amount] = field(default_factory=dict)
    unpublished: Mapping[str, Names] = field(default_factory=dict)
    is_published: bool = True


def pool_statuses(snapshot: Snapshot) -> Iterator[PoolStatus]:
    """All pools that are published, or of which claims hold devices, by driver and name. Cost: O(devices)."""
    usage = snapshot.usage
    for pool_id in sorted({*snapshot.by_pool, *usage.holders, *usage.shares}):
        yield pool_status(snapshot, pool_id)


def pool_status(snapshot: Snapshot, pool_id: PoolID) -> PoolStatus:
    """The pool, which is published, or of which claims hold devices. Cost: O(its devices)."""
    slices = snapshot.by_pool.get(pool_id, ())
    pool = whole_pool(slices, snapshot.features) if slices else None
    holders = _holders(snapshot.usage, pool_id)
    if pool is None:
        hidden = "its slices use a feature whose gate is off" if slices else ""
        return PoolStatus(pool_id, (), hidden, unpublished=holders, is_published=bool(slices))
    attempt = attempt_of(snapshot, view_of(None, (pool,)), share_id_of)
    devices = tuple(_devices(pool, attempt, holders))
    published = {one.device.name for one in devices}
    unpublished = {name: names for name, names in holders.items() if name not in published}
    return PoolStatus(pool_id, devices, _problem(pool), _counters(pool, counters_left(attempt)), unpublished)


def _problem(pool: Pool) -> str:
    return f"incomplete: {pool.missing}" if pool.missing else pool.contradiction


def _holders(usage: Usage, pool_id: PoolID) -> Mapping[str, Names]:
    names = sorted(usage.allocated_in(pool_id))
    return {name: tuple(sorted(usage.users(DeviceID(*pool_id, name)))) for name in names}


def _devices(pool: Pool, attempt: NodeAttempt, holders: Mapping[str, Names]) -> Iterator[DeviceStatus]:
    shares, states = attempt.usage.shares_in(pool.id), _states(attempt)
    every = [(slice_, device) for slice_ in pool.slices for device in slice_.devices]
    for position, (slice_, device) in enumerate(every):
        held = holders.get(device.name, ())
        state = states.get(position, DeviceState.FREE) if pool.is_usable else _unusable(device, attempt.usage)
        capacity = _capacity(device, shares.get(device.name)) if device.allow_multiple_allocations else {}
        yield DeviceStatus(device, slice_, state, held, capacity)


def _unusable(device: Device, usage: Usage) -> DeviceState:
    """The state in a pool that cannot be used: what is held still is."""
    pool_id = PoolID(device.driver, device.pool)
    if device.name in (usage.holders.get(pool_id) or {}):
        return DeviceState.ALLOCATED
    return DeviceState.SHARED if device.name in usage.shares_in(pool_id) else DeviceState.UNUSABLE


def _states(attempt: NodeAttempt) -> Mapping[int, DeviceState]:
    """The states of the devices that are not free, by position in the view: the first that holds is set last."""
    states: dict[int, DeviceState] = {}
    for state, mask in (
        (DeviceState.BLOCKED, exceeding_devices(attempt)),
        (DeviceState.TAINTED, _tainted(attempt)),
        (DeviceState.UNUSABLE, attempt.view.unknown | _switched_off(attempt)),
        (DeviceState.SHARED, attempt.shared),
        (DeviceState.ALLOCATED, attempt.in_use),
    ):
        states.update(dict.fromkeys(bits(mask), state))
    return states


def _switched_off(attempt: NodeAttempt) -> Mask:
    """The devices that need a gate that is off."""
    found = 0
    for feature in concerned(attempt.view, "switched_off"):
        for stage in feature.switched_off(attempt):
            found |= stage.refused
    return found


def _tainted(attempt: NodeAttempt) -> Mask:
    if not attempt.features.has(DEVICE_TAINTS) or "taints" not in attempt.view.traits:
        return 0
    return sum(1 << position for position, _ in blocking_taints(attempt.view))


def _capacity(device: Device, shares: Shares | None) -> Mapping[str, Amount]:
    consumed = shares.consumed if shares else {}
    return {name: Amount.of(total, total.nanos - consumed.get(name, 0)) for name, total in device.capacity.items()}


def _counters(pool: Pool, left: Mapping[CounterID, int]) -> Mapping[tuple[str, str], Amount]:
    return {
        (counter_set.name, name): Amount.of(total, left[pool.id, counter_set.name, name])
        for slice_ in (*pool.slices, *pool.elsewhere)
        for counter_set in slice_.counter_sets
        for name, total in counter_set.counters.items()
        if left
    }

"""Claims that together hold more than there is: a device twice, more capacity or counters than are published.

The API server never compares the devices of two claims, so whoever writes one looks for rivals before the
pod is bound; the same question finds what should never have been bound.
Source: scheduling invariants I1 (exclusive devices) and I5 (counters and capacity).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from allocator.cluster.pools import has_counters
from allocator.cluster.usage import occupying
from allocator.fleet.fleet import Fleet
from allocator.model import Claim, Device, DeviceID, PoolID, Slice
from scheduler.state.claims import ClaimIndex, Holding


class Rival(NamedTuple):
    """A claim that holds what another one cannot have as well. resource_version: since when, as the watch shows it."""

    namespace: str
    name: str
    uid: str
    resource_version: int


class Rivals:
    """Which claims together hold more than there is, by what the fleet publishes and the index says is in use."""

    def __init__(self, fleet: Fleet, index: ClaimIndex) -> None:
        self._fleet = fleet
        self._index = index

    def of(self, uid: str) -> Sequence[Rival]:
        """The claims that are stored, and cannot hold what they hold together with this one, by version.

        Cost: O(devices of the claim), and O(devices in use of the pools whose counters it draws on).
        """
        holding = self._index.holding(uid)
        if holding is None or holding.counted is None:
            return ()
        found: dict[str, Rival] = {}
        for other_uid, other in self._against(uid, holding.counted):
            rival = _rival(other_uid, other)
            if rival is not None:
                found[other_uid] = rival
        return sorted(found.values(), key=lambda rival: (rival.resource_version, rival.uid))

    def _against(self, uid: str, claim: Claim) -> Iterator[tuple[str, Holding]]:
        """The other claims that hold too much together with this one, by uid; one may come several times."""
        for result in occupying(claim):
            holders = self._index.holders(result.id)
            is_short = self.short_of(result.id) if len(holders) > 1 else ""
            for other_uid, other in holders.items():
                if other_uid != uid and (is_short or not result.share_id or is_exclusive(other.counted, result.id)):
                    yield other_uid, other
        for device in self._drawing_with(claim):
            yield from ((other, held) for other, held in self._index.holders(device).items() if other != uid)

    def short_of(self, device: DeviceID) -> str:
        """The capacity of which the shares of a device take more than there is; empty where there is none."""
        pool_id = PoolID(device.driver, device.pool)
        shares = self._fleet.usage.shares_in(pool_id).get(device.device)
        published = self._device(device)
        if shares is None or published is None:
            return ""
        sums = ((name, amount) for name, amount in shares.consumed.items() if name in published.capacity)
        return next((name for name, amount in sums if amount > published.capacity[name].nanos), "")

    def overdrawn(self, pool_id: PoolID) -> Mapping[str, Sequence[DeviceID]]:
        """The counter sets of a pool of which more is taken than there is, with the devices that draw on them.

        A set that the newest generation does not show, or not yet, has nothing: who is about to take of it gives way.
        Cost: O(devices of the pool).
        """
        slices = self._newest(pool_id)
        if not has_counters(slices):
            return {}
        held = self._fleet.usage.allocated_in(pool_id)
        drawing = [device for slice_ in slices for device in slice_.devices if device.name in held]
        left = {
            (counter_set.name, name): amount.nanos
            for slice_ in slices
            for counter_set in slice_.counter_sets
            for name, amount in counter_set.counters.items()
        }
        for device in drawing:
            for consumption in device.consumes_counters:
                for name, amount in consumption.counters.items():
                    key = (consumption.counter_set, name)
                    left[key] = left.get(key, 0) - amount.nanos
        short = {counter_set for (counter_set, _), amount in left.items() if amount < 0}
        return {name: [device.id for device in drawing if _draws_on(device, name)] for name in short}

    def publishes(self, pool_id: PoolID, counter_set: str) -> bool:
        """Whether the newest generation of the pool shows the counter set: it may come slice by slice."""
        return any(one.name == counter_set for slice_ in self._newest(pool_id) for one in slice_.counter_sets)

    def _drawing_with(self, claim: Claim) -> Iterator[DeviceID]:
        """The devices that draw on overdrawn counters which the claim draws on too."""
        for pool_id in {PoolID(result.driver, result.pool) for result in occupying(claim)}:
            own = {result.id for result in occupying(claim)}
            for devices in self.overdrawn(pool_id).values():
                if not own.isdisjoint(devices):
                    yield from devices

    def _device(self, device: DeviceID) -> Device | None:
        pool_id = PoolID(device.driver, device.pool)
        every = (one for slice_ in self._newest(pool_id) for one in slice_.devices)
        return next((one for one in every if one.name == device.device), None)

    def _newest(self, pool_id: PoolID) -> Sequence[Slice]:
        slices = self._fleet.slices.by_pool.get(pool_id, ())
        newest = max((slice_.generation for slice_ in slices), default=0)
        return [slice_ for slice_ in slices if slice_.generation == newest]


def _draws_on(device: Device, counter_set: str) -> bool:
    return any(consumption.counter_set == counter_set for consumption in device.consumes_counters)


def is_exclusive(claim: Claim | None, device: DeviceID) -> bool:
    """True where the claim has the whole device."""
    return claim is not None and any(result.id == device and not result.share_id for result in occupying(claim))


def _rival(uid: str, holding: Holding) -> Rival | None:
    """The claim as a rival; None where it is not stored yet, so that its writer will look for rivals itself."""
    if holding.allocated is not None:
        return Rival(holding.allocated.namespace, holding.allocated.name, uid, holding.allocated_at)
    reservation = holding.reservation
    if reservation is None or reservation.written is None:
        return None
    return Rival(reservation.claim.namespace, reservation.claim.name, uid, reservation.written)

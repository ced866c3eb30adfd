"""Claims that together hold more than there is: a device twice, or more capacity or counters than are published.

The API server never compares the devices of two claims. So whoever writes one looks for rivals before the pod is
bound, and the invariants look for rivals among the claims of bound pods.
Source: scheduling invariants I1 (exclusive devices) and I5 (counters and capacity).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from allocator.cluster.pools import has_counters
from allocator.cluster.usage import Shares, consumed_of, occupying
from allocator.features.partitionable_devices import consumed
from allocator.fleet.fleet import Fleet
from allocator.model import Claim, Device, DeviceID, DeviceResult, PoolID, Slice, own_name
from scheduler.state.claims import ClaimIndex, Holding


class Rival(NamedTuple):
    """A claim that holds what another one cannot have as well. resource_version: since when, as the watch shows it."""

    namespace: str
    name: str
    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """What a claim cannot have beside others. device: of the claim. others: the claims that have it, by uid.

    lack: the capacity or the counter set of which there is too little; empty where it is the device itself.
    """

    device: DeviceID
    lack: str
    others: Mapping[str, Holding]


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
        rivals: dict[str, Rival] = {}
        for overlap in self.overlaps(uid, holding.counted):
            for other_uid, other in overlap.others.items():
                rival = _rival(other_uid, other)
                if rival is not None:
                    rivals[other_uid] = rival
        return sorted(rivals.values(), key=lambda rival: (rival.resource_version, rival.uid))

    def overlaps(self, uid: str, claim: Claim, *, is_last: bool = False) -> Iterator[Overlap]:
        """What the claim, which is counted already, cannot have. uid: by which it is counted.

        is_last: the others had theirs before, so that a device that one of them has is not charged again for this one.
        Cost: O(devices of the pools of which it has devices).
        """
        taken = [(result.id, result.share_id) for result in occupying(claim)]
        for device, share in taken:
            others = self._index.other_holders(device, uid)
            holding = _in_the_way(others, device, share) if share and self._has_shares(device) else others
            if holding:
                yield Overlap(device, "", holding)
            if lack := self.short_of(device):
                yield Overlap(device, f"capacity {lack}", others)
        charged = {device for device, _ in taken}
        if is_last:
            charged = {device for device in charged if not self._index.other_holders(device, uid)}
        yield from self._overdrawing(uid, charged)

    def _overdrawing(self, uid: str, own: Collection[DeviceID]) -> Iterator[Overlap]:
        """The counters of which the devices take what is not there."""
        for pool_id in sorted({PoolID(device.driver, device.pool) for device in own}):
            for name, devices in sorted(self.overdrawn(pool_id).items()):
                drawing = [device for device in devices if device in own]
                if drawing:
                    held = (self._index.other_holders(one, uid) for one in devices)
                    others = {other: holding for each in held for other, holding in each.items()}
                    yield Overlap(drawing[0], f"counter set {name}", others)

    def repeated(self, claim: Claim) -> DeviceID | None:
        """A device that the claim has more than once, and not in different shares of one that has some."""
        shares: dict[DeviceID, list[str]] = {}
        for result in occupying(claim):
            shares.setdefault(result.id, []).append(result.share_id)
        several = ((device, own) for device, own in shares.items() if len(own) > 1)
        return next((one for one, own in several if not (_are_different_shares(own) and self._has_shares(one))), None)

    def _has_shares(self, device: DeviceID) -> bool:
        """Whether it can be given in shares; True of a device that is not published, since that is not known."""
        published = self._device(device)
        return published is None or published.allow_multiple_allocations

    def unknown(self, claim: Claim) -> Sequence[DeviceID]:
        """The devices of the claim of which it is unknown what they take: not published, or not all of their pool."""
        return [result.id for result in occupying(claim) if not self._is_known(result.id)]

    def _is_known(self, device: DeviceID) -> bool:
        pool_id, published = PoolID(device.driver, device.pool), self._device(device)
        if published is None:
            return False
        return all(self.publishes(pool_id, consumption.counter_set) for consumption in published.consumes_counters)

    def misfit(self, result: DeviceResult) -> str:
        """As `share_misfit`; empty where the device is not published."""
        return share_misfit(result, self._device(result.id))

    def generation(self, pool_id: PoolID) -> int:
        """The newest generation of the pool; 0 where none is published."""
        return max((slice_.generation for slice_ in self._newest(pool_id)), default=0)

    def short_of(self, device: DeviceID) -> str:
        """The capacity of which the shares of a device take more than there is; empty where there is none."""
        pool_id = PoolID(device.driver, device.pool)
        is_shared = device.device in self._fleet.usage.shares_in(pool_id)
        shares = self._shares(device) if is_shared else None
        published = self._device(device) if shares else None
        if shares is None or published is None:
            return ""
        sums = consumed_of(published, shares).items()
        return next((name for name, amount in sums if amount > published.capacity[name].nanos), "")

    def overdrawn(self, pool_id: PoolID) -> Mapping[str, Sequence[DeviceID]]:
        """The counter sets of a pool of which more is taken than there is, with the devices that draw on them.

        A set that the newest generation does not show, or not yet, has nothing: who is about to take of it gives way.
        Cost: O(devices of the pool).
        """
        if not has_counters(self._fleet.slices.by_pool.get(pool_id, ())):
            return {}
        slices = self._newest(pool_id)
        held = {name for name in self._fleet.usage.allocated_in(pool_id) if self._is_held(pool_id, name)}
        drawing = [device for slice_ in slices for device in slice_.devices if device.name in held]
        left = {
            (counter_set.name, name): amount.nanos
            for slice_ in slices
            for counter_set in slice_.counter_sets
            for name, amount in counter_set.counters.items()
        }
        for device in drawing:
            for (_, counter_set, name), amount in consumed(device, is_strict=self._fleet.features.is_strict):
                left[counter_set, name] = left.get((counter_set, name), 0) - amount
        short = {counter_set for (counter_set, _), amount in left.items() if amount < 0}
        return {name: [device.id for device in drawing if _draws_on(device, name)] for name in short}

    # The fleet's usage has more than claims: what is kept for a preemptor whose victims still have it, and what is set
    # aside. Nobody holds that.

    def _is_held(self, pool_id: PoolID, device: str) -> bool:
        return bool(self._index.holders(DeviceID(pool_id.driver, pool_id.pool, device)))

    def _shares(self, device: DeviceID) -> Shares | None:
        """Those that claims have of the device."""
        shares: Shares | None = None
        for holding in self._index.holders(device).values():
            for result in occupying(holding.counted) if holding.counted is not None else ():
                if result.id == device and result.share_id:
                    shares = (shares or Shares()).plus(str(holding.counted), result)
        return shares

    def publishes(self, pool_id: PoolID, counter_set: str) -> bool:
        """Whether the newest generation of the pool shows the counter set: it may come slice by slice."""
        return any(one.name == counter_set for slice_ in self._newest(pool_id) for one in slice_.counter_sets)

    def _device(self, device: DeviceID) -> Device | None:
        pool_id = PoolID(device.driver, device.pool)
        every = (one for slice_ in self._newest(pool_id) for one in slice_.devices)
        return next((one for one in every if one.name == device.device), None)

    def _newest(self, pool_id: PoolID) -> Sequence[Slice]:
        slices = self._fleet.slices.by_pool.get(pool_id, ())
        newest = max((slice_.generation for slice_ in slices), default=0)
        return [slice_ for slice_ in slices if slice_.generation == newest]


def share_misfit(result: DeviceResult, device: Device | None) -> str:
    """What is wrong with the capacities that a share of the device names; empty where nothing is. device: as published.

    A share takes of each capacity of its device, by request, by default or the whole. Of one that it does not name, it
    would count for nothing, and so would one that the device does not have. Source: KEP-5075,
    GetConsumedCapacityFromRequest in structured/internal/experimental.
    """
    if not result.share_id or device is None or not device.allow_multiple_allocations:
        return ""
    named, capacities = result.consumed_capacity.keys(), device.capacity.keys()
    if strange := sorted(one for one in named if own_name(capacities, one, device.driver) is None):
        return f"consumedCapacity names {strange[0]}, a capacity that the device does not have"
    missing = sorted(one for one in capacities if own_name(named, one, device.driver) is None)
    return f"consumedCapacity does not name {missing[0]}, a capacity of the device" if missing else ""


def _are_different_shares(shares: Sequence[str]) -> bool:
    """Whether these are different shares, and none is the whole."""
    return all(shares) and len(set(shares)) == len(shares)


def _draws_on(device: Device, counter_set: str) -> bool:
    return any(consumption.counter_set == counter_set for consumption in device.consumes_counters)


def _in_the_way(holdings: Mapping[str, Holding], device: DeviceID, share: str) -> Mapping[str, Holding]:
    """The claims that have the whole device, or the same share of it."""
    return {uid: held for uid, held in holdings.items() if _has_any(held.counted, device, ("", share))}


def is_exclusive(claim: Claim | None, device: DeviceID) -> bool:
    """True where the claim has the whole device."""
    return _has_any(claim, device, ("",))


def _has_any(claim: Claim | None, device: DeviceID, shares: Collection[str]) -> bool:
    """Whether the claim has one of these shares of the device; the empty one is the whole."""
    return claim is not None and any(one.id == device and one.share_id in shares for one in occupying(claim))


def _rival(uid: str, holding: Holding) -> Rival | None:
    """The claim as a rival; None where it is not stored yet, so that its writer will look for rivals itself."""
    if holding.allocated is not None:
        return Rival(holding.allocated.namespace, holding.allocated.name, uid, holding.allocated_at)
    reservation = holding.reservation
    if reservation is None or reservation.written is None:
        return None
    return Rival(reservation.claim.namespace, reservation.claim.name, uid, reservation.written)

"""Allocated claims to devices in use: who holds what, wholly or in shares.

Admin access occupies nothing. A share counts by what it consumes; if the gate is off, its device counts as held. A
device that several claims hold, which no scheduler should let happen, is in use until the last of them is gone.
Source: KEP-4381, KEP-5018 (admin access), KEP-5075 (shares).
"""

from bisect import insort
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from allocator.model import Claim, Device, DeviceID, DeviceResult, PoolID, own_name, qualified

Held = TypeVar("Held")
Key = TypeVar("Key", bound=Hashable)

ClaimNames = tuple[str, ...]
"""Claims, in order; a claim that holds the same thing twice is listed twice."""

NamedResult = tuple[str, DeviceResult]
"""What a claim, by its name, has of a device."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of one device. holders: by share id. consumed: the sums that are not zero, in 10**-9, by full name.

    measured: how many shares say what they consume, even if it is zero. token: equal for devices of which the same is
    consumed, whichever claims hold it.
    """

    holders: Mapping[str, ClaimNames] = field(default_factory=dict)
    consumed: Mapping[str, int] = field(default_factory=dict)
    measured: int = 0
    token: Hashable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "token", (self.measured > 0, frozenset(self.consumed.items())))

    def plus(self, more: Sequence[NamedResult]) -> "Shares":
        """With these shares as well. Cost: O(shares), however many come."""
        holders = dict(self.holders)
        for name, result in more:
            holders[result.share_id] = with_name(holders.get(result.share_id), name)
        return self._changed(holders, more, 1)

    def minus(self, gone: Sequence[NamedResult]) -> "Shares | None":
        """Without these shares; None if they were the last. Raises ValueError if one is not there. Cost: as `plus`."""
        holders = dict(self.holders)
        for name, result in gone:
            own = without_name(holders.pop(result.share_id, ()), name)
            if own:
                holders[result.share_id] = own
        return self._changed(holders, gone, -1) if holders else None

    def _changed(self, holders: Mapping[str, ClaimNames], changes: Sequence[NamedResult], sign: int) -> "Shares":
        measured, consumed = self.measured, dict(self.consumed)
        for _, result in changes:
            measured += sign * bool(result.consumed_capacity)
            for name, amount in consumed_by(result).items():
                _set(consumed, name, consumed.get(name, 0) + sign * amount)
        return Shares(holders, consumed, measured)


@dataclass(slots=True)
class Usage:
    """The holders of devices and of their shares, by pool and device name. has_shares: shares are known.

    What is known of one pool is replaced when it changes, and never changes itself.
    """

    has_shares: bool = True
    holders: dict[PoolID, Mapping[str, ClaimNames]] = field(default_factory=dict)
    shares: dict[PoolID, Mapping[str, Shares]] = field(default_factory=dict)

    def copy(self) -> "Usage":
        """The same, to be changed apart. Cost: O(pools in use)."""
        return Usage(self.has_shares, dict(self.holders), dict(self.shares))

    def plus(self, claims: Iterable[Claim]) -> "Usage":
        """Another usage with these allocated claims as well. Cost: that of `copy` and `add`."""
        more = self.copy()
        more.add(claims)
        return more

    def add(self, claims: Iterable[Claim]) -> None:
        """These allocated claims hold their devices too. Cost: O(what is in use in the touched pools)."""
        self._change(claims, with_name, lambda known, more: (known or Shares()).plus(more))

    def remove(self, claims: Iterable[Claim]) -> None:
        """These claims, which have to be as they were added, hold nothing any more.

        Raises ValueError for what they do not hold, and changes nothing then. Cost: as for `add`.
        """
        self._change(claims, without_name, lambda known, gone: (known or Shares()).minus(gone))

    def _change(
        self,
        claims: Iterable[Claim],
        of_device: Callable[[ClaimNames | None, str], ClaimNames],
        of_shares: Callable[[Shares | None, Sequence[NamedResult]], Shares | None],
    ) -> None:
        holders: dict[PoolID, dict[str, ClaimNames]] = {}
        shares: dict[PoolID, dict[str, Shares]] = {}
        changed: dict[PoolID, dict[str, list[NamedResult]]] = {}
        for claim in claims:
            name = str(claim)
            for result in occupying(claim):
                pool_id = PoolID(result.driver, result.pool)
                if not result.share_id or not self.has_shares:
                    held = _of_pool(holders, self.holders, pool_id)
                    _set(held, result.device, of_device(held.get(result.device), name))
                else:
                    changed.setdefault(pool_id, {}).setdefault(result.device, []).append((name, result))
        for pool_id, devices in changed.items():
            shared = _of_pool(shares, self.shares, pool_id)
            for device, changes in devices.items():
                _set(shared, device, of_shares(shared.get(device), changes))
        for pool_id, held in holders.items():
            _set(self.holders, pool_id, held)
        for pool_id, shared in shares.items():
            _set(self.shares, pool_id, shared)

    def holder(self, device: DeviceID) -> str | None:
        """The claim that holds the whole device, the first of several by name; None if none does."""
        names = (self.holders.get(PoolID(device.driver, device.pool)) or {}).get(device.device)
        return names[0] if names else None

    def users(self, device: DeviceID) -> frozenset[str]:
        """The claims that have the device, or a share of it."""
        pool_id = PoolID(device.driver, device.pool)
        shares = self.shares_in(pool_id).get(device.device)
        names = (self.holders.get(pool_id) or {}).get(device.device, ())
        return frozenset(names) | frozenset(name for own in (shares.holders.values() if shares else ()) for name in own)

    def shares_in(self, pool_id: PoolID) -> Mapping[str, Shares]:
        """The shares of the pool's devices, by device name."""
        return self.shares.get(pool_id) or {}

    def allocated_in(self, pool_id: PoolID) -> frozenset[str]:
        """The names of the pool's devices that are held, wholly or in shares."""
        return frozenset(self.holders.get(pool_id) or ()) | frozenset(self.shares.get(pool_id) or ())


def occupying(claim: Claim) -> Sequence[DeviceResult]:
    """The devices that the claim occupies, wholly or in shares."""
    if claim.allocation is None:
        return ()
    return [result for result in claim.allocation.results if not result.admin_access]


def with_name(names: ClaimNames | None, name: str) -> ClaimNames:
    """The names with one more, in order."""
    if not names:
        return (name,)
    more = list(names)
    insort(more, name)
    return tuple(more)


def without_name(names: ClaimNames | None, name: str) -> ClaimNames:
    """The names without one of these. Raises ValueError if there is none."""
    fewer = list(names or ())
    if name not in fewer:
        raise ValueError(f"claim {name} does not hold the devices to release")
    fewer.remove(name)
    return tuple(fewer)


def consumed_of(device: Device, shares: Shares | None) -> Mapping[str, int]:
    """What the shares take of the device's capacities, by the names that it has for them, in 10**-9."""
    if shares is None:
        return {}
    sums = ((name, shares.consumed.get(qualified(name, device.driver), 0)) for name in device.capacity)
    return {name: amount for name, amount in sums if amount}


def consumed_by(result: DeviceResult) -> Mapping[str, int]:
    """What a share takes of each capacity, by full name, in 10**-9; a status may have been written by other allocators.

    Of two spellings of a name, the one with the domain counts. Less than nothing would give others what there is not.
    """
    names, driver = result.consumed_capacity, result.driver
    own = ((name, amount.nanos) for name, amount in names.items() if own_name(names, name, driver) == name)
    return {qualified(name, driver): max(0, nanos) for name, nanos in own}


def _set(entries: dict[Key, Held], key: Key, value: Held | None) -> None:
    """Set the entry; an empty value removes it."""
    if value:
        entries[key] = value
    else:
        entries.pop(key, None)


def _of_pool(
    new: dict[PoolID, dict[str, Held]], old: Mapping[PoolID, Mapping[str, Held]], pool_id: PoolID
) -> dict[str, Held]:
    """The new entry of the pool, first a copy of the old one."""
    if pool_id not in new:
        new[pool_id] = dict(old.get(pool_id) or {})
    return new[pool_id]

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

    def plus(self, name: str, result: DeviceResult) -> "Shares":
        """With one more share."""
        own = with_name(self.holders.get(result.share_id), name)
        measured = self.measured + bool(result.consumed_capacity)
        return Shares({**self.holders, result.share_id: own}, _summed(self.consumed, result, 1), measured)

    def minus(self, name: str, result: DeviceResult) -> "Shares | None":
        """Without that share; None if it was the last. Raises ValueError if it is not there."""
        holders = dict(self.holders)
        own = without_name(holders.pop(result.share_id, ()), name)
        if own:
            holders[result.share_id] = own
        measured = self.measured - bool(result.consumed_capacity)
        return Shares(holders, _summed(self.consumed, result, -1), measured) if holders else None


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
        self._change(claims, with_name, lambda known, name, result: (known or Shares()).plus(name, result))

    def remove(self, claims: Iterable[Claim]) -> None:
        """These claims, which have to be as they were added, hold nothing any more.

        Raises ValueError for what they do not hold, and changes nothing then. Cost: as for `add`.
        """
        self._change(claims, without_name, lambda known, name, result: (known or Shares()).minus(name, result))

    def _change(
        self,
        claims: Iterable[Claim],
        of_device: Callable[[ClaimNames | None, str], ClaimNames],
        of_shares: Callable[[Shares | None, str, DeviceResult], Shares | None],
    ) -> None:
        holders: dict[PoolID, dict[str, ClaimNames]] = {}
        shares: dict[PoolID, dict[str, Shares]] = {}
        for claim in claims:
            name = str(claim)
            for result in occupying(claim):
                pool_id = PoolID(result.driver, result.pool)
                if not result.share_id or not self.has_shares:
                    held = _of_pool(holders, self.holders, pool_id)
                    _set(held, result.device, of_device(held.get(result.device), name))
                else:
                    shared = _of_pool(shares, self.shares, pool_id)
                    _set(shared, result.device, of_shares(shared.get(result.device), name, result))
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


def _summed(consumed: Mapping[str, int], result: DeviceResult, sign: int) -> Mapping[str, int]:
    sums = dict(consumed)
    for name, amount in consumed_by(result).items():
        _set(sums, name, sums.get(name, 0) + sign * amount)
    return sums


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

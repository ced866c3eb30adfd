"""Limits per tenant: what the claims of an attempt would have beyond what a limit leaves is refused, pick by pick.

Only limits that the claims could exceed are looked at (`LimitUse.bindings`); without one there is no rule. A limit is
of no node, so no device is refused before the search: a request fits if it takes no more of all that counts than is
left, whichever devices these are.
Source: none in Kubernetes, whose ResourceQuota counts requests before devices are chosen.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from allocator.bits import Mask, bits
from allocator.features.consumable_capacity import taken_by_share
from allocator.features.contract import Feature, Limited, NodeAttempt
from allocator.limits import ONE_DEVICE, Binding
from allocator.memo import Topic
from allocator.model import Alternative
from allocator.search.rules import Candidates, Classes, DeviceSlot, Effort, Pick, Rule, Trail

CountedAmounts = Mapping[int, int]
"""What devices count for, by position, in 10**-9; without zeros."""

_AMOUNTS: Final[Topic[tuple[Alternative, CountedAmounts]]] = Topic("what devices count for, of an alternative")


class TenantLimits(Feature):
    """Watches what is picked."""

    def rule(self, attempt: NodeAttempt) -> "LimitRule | None":
        """Adds up what is picked."""
        return LimitRule(attempt) if attempt.limited else None


@dataclass(slots=True, eq=False)
class LimitRule(Rule):
    """What the limits of the attempt still leave, in their order."""

    attempt: NodeAttempt
    _left: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._left = [one.binding.left for one in self.attempt.limited]

    def narrow(self, slot: DeviceSlot, domain: Mask) -> Mask:
        """The devices that alone are not too much."""
        for number, left in enumerate(self._left):
            devices = domain & self.attempt.limited[number].devices
            if not devices or slot.candidates.alternative.admin_access:
                continue
            if self._is_of_devices(number):
                domain &= ~devices if left < ONE_DEVICE else -1
                continue
            amounts = self._amounts(number, slot.candidates.alternative)
            domain &= ~sum([1 << device for device in bits(devices) if amounts.get(device, 0) > left])
        return domain

    def take(self, slot: DeviceSlot, device: int, trail: Trail) -> bool:
        """Charge the device."""
        counted = counts_for(self.attempt, Pick(slot.candidates, device))
        if not any(counted):
            return True
        if any(amount > left for amount, left in zip(counted, self._left, strict=True)):
            return False
        trail.push(self._restore, self._left)
        self._left = [left - amount for amount, left in zip(counted, self._left, strict=True)]
        return True

    def room(self, slot: DeviceSlot, domain: Mask) -> int:
        """Of the devices that count as many of the smallest as are left."""
        return min([self._room(number, (slot.candidates,), 1, domain) for number in range(len(self._left))])

    def joint_room(self, alternatives: Sequence[Candidates], requests: int, domain: Mask, enough: int) -> int:
        """The same; a device that can be shared may be picked by each request."""
        return min([self._room(number, alternatives, requests, domain) for number in range(len(self._left))])

    def alike(self, device: int) -> Hashable:
        """Devices that count for the same: where they count, all that amounts are worked out from is equal."""
        return tuple([self._alike(one, device) for one in self.attempt.limited])

    def _alike(self, limited: Limited, device: int) -> Hashable:
        counted, subject = limited.binding.limit.counted, self.attempt.view.devices[device]
        if not limited.devices >> device & 1:
            return None
        if counted.unit == "capacity":
            return tuple(subject.capacity.items()), frozenset(subject.policies.items())
        return counted.of_whole(subject)

    def fingerprint(self, classes: Classes) -> Hashable:
        """What is left."""
        return tuple(self._left)

    def effort(self, picks: int) -> Effort:
        """The amounts of each device are read, for each limit."""
        limits = len(self._left)
        return Effort(2 * limits, narrow=limits, room=limits, joint=limits, fingerprint=limits)

    def _room(self, number: int, alternatives: Sequence[Candidates], requests: int, domain: Mask) -> int:
        counting = domain & self.attempt.limited[number].devices
        if not counting or any(candidates.alternative.admin_access for candidates in alternatives):
            return self._picks(domain, requests)
        if self._is_of_devices(number):
            most = self._left[number] // ONE_DEVICE
            return self._picks(domain & ~counting, requests) + min(self._picks(counting, requests), most)
        every = [self._amounts(number, candidates.alternative) for candidates in alternatives]
        least = {device: min([amounts.get(device, 0) for amounts in every]) for device in bits(counting)}
        free = sum([1 << device for device, amount in least.items() if not amount])
        smallest = min([amount for amount in least.values() if amount], default=1)
        most = self._left[number] // smallest
        rest = counting & ~free
        return self._picks(domain & ~rest, requests) + min(self._picks(rest, requests), most)

    def _picks(self, devices: Mask, requests: int) -> int:
        """How often so many requests can pick one of the devices, each no more than once."""
        shared = devices & self.attempt.shareable
        return (devices & ~shared).bit_count() + shared.bit_count() * requests

    def _is_of_devices(self, number: int) -> bool:
        return self.attempt.limited[number].binding.limit.counted.unit == "devices"

    def _amounts(self, number: int, alternative: Alternative) -> CountedAmounts:
        return _amounts(self.attempt, number, alternative)

    def _restore(self, left: list[int]) -> None:
        self._left = left


def counts_for(attempt: NodeAttempt, pick: Pick) -> list[int]:
    """What the pick counts for, by limit of the attempt, in 10**-9."""
    alternative, device = pick.candidates.alternative, pick.device
    if alternative.admin_access:
        return [0] * len(attempt.limited)
    return [
        _amounts(attempt, number, alternative).get(device, 0) if one.devices >> device & 1 else 0
        for number, one in enumerate(attempt.limited)
    ]


def exceeded(attempt: NodeAttempt, picks: Sequence[Pick]) -> tuple[int, Binding, int]:
    """The first limit that these picks exceed, which do: its number among those of the attempt, and what they take."""
    every = [counts_for(attempt, pick) for pick in picks]
    sums = [sum(amounts) for amounts in zip(*every, strict=True)]
    number = next(number for number, amount in enumerate(sums) if amount > attempt.limited[number].binding.left)
    return number, attempt.limited[number].binding, sums[number]


def _amounts(attempt: NodeAttempt, number: int, alternative: Alternative) -> CountedAmounts:
    key = (_AMOUNTS, number, id(alternative))
    return attempt.memo.remember(key, lambda: (alternative, _amounts_of(attempt, number, alternative)))[1]


def _amounts_of(attempt: NodeAttempt, number: int, alternative: Alternative) -> CountedAmounts:
    """What the devices count for if the alternative gets them. Raises Cancelled. Cost: O(devices that count)."""
    attempt.look_at_time()
    limited = attempt.limited[number]
    counted, devices = limited.binding.limit.counted, attempt.view.devices
    if counted.unit == "devices":
        return dict.fromkeys(bits(limited.devices), ONE_DEVICE)
    shared = limited.devices & attempt.shareable if counted.unit == "capacity" else 0
    amounts = {device: counted.of_whole(devices[device]) for device in bits(limited.devices & ~shared)}
    for device in bits(shared):
        amounts[device] = taken_by_share(attempt, alternative, device, counted.name)
    return {device: amount for device, amount in amounts.items() if amount}

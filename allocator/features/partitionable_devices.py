"""Partitionable devices: devices made of the same hardware consume the counters of their pool.

A device is available while each counter that it consumes has enough left, after all allocations of the pool on any
node, and all picks of this attempt. A further share of a device in use is not charged again. With the gate off, such
devices are not used, and slices with counters are ignored. To consume less than nothing gives something back only where
strict, as in kube-scheduler.
Source: KEP-4815, feature gate DRAPartitionableDevices.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from allocator.bits import Mask, bits
from allocator.cluster.pools import NodeView, Pool
from allocator.features.contract import Feature, NodeAttempt
from allocator.gates import PARTITIONABLE_DEVICES
from allocator.memo import Topic
from allocator.model import Alternative, Device, PoolID
from allocator.search.rules import UNBOUNDED, Candidates, Classes, DeviceSlot, Effort, Rule, Stage, Trail

CounterID = tuple[PoolID, str, str]
"""Pool, counter set and counter."""

Consumption = tuple[tuple[int, int], ...]
"""(number of the counter in the attempt, amount in 10**-9) for each counter that a device consumes."""


class PartitionableDevices(Feature):
    """Watches the counters of pools."""

    def concerns(self, view: NodeView) -> bool:
        """Only views with a device that consumes counters."""
        return "consumes_counters" in view.traits

    def switched_off(self, attempt: NodeAttempt) -> Iterable[Stage]:
        """All that consume counters."""
        if not attempt.features.has(PARTITIONABLE_DEVICES):
            mask = sum(1 << position for position, d in enumerate(attempt.view.devices) if d.consumes_counters)
            yield Stage(f"consume counters, and {PARTITIONABLE_DEVICES} is off", mask)

    def unusable(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """All that consume counters, if the gate is off."""
        return self.switched_off(attempt)

    def taken(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices whose counters are used up already."""
        counters = _counters(attempt)
        if counters is not None:
            yield Stage("need more of their counters than is left", counters.exceeding)

    def rule(self, attempt: NodeAttempt) -> "CounterRule | None":
        """Adds up what is picked."""
        counters = _counters(attempt)
        return CounterRule(counters, attempt.shareable) if counters is not None else None


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """The counters of a view's pools, whatever is in use."""

    values: Sequence[int]
    """Of each counter, in 10**-9."""
    numbers: Mapping[CounterID, int]
    """Its position by pool, counter set and name."""
    consumption: Mapping[int, Consumption]
    """Of each device that consumes any."""
    columns: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]
    """Its counters, and what it takes of them."""
    sets: Mapping[int, tuple[int, ...]]
    """The numbers of the counter sets that it draws on."""
    giving: Mapping[int, Sequence[int]]
    """For each of those in a pool where a device gives something back, the numbers of the counters of that pool."""


@dataclass(frozen=True, slots=True, eq=False)
class Counters:
    """The counters of an attempt."""

    left: Sequence[int]
    """Of each counter, before any pick; may be negative."""
    consumption: Mapping[int, Consumption]
    """Of each device that has to be charged."""
    columns: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]
    sets: Mapping[int, tuple[int, ...]]
    giving: Mapping[int, Sequence[int]]
    """columns, sets, giving: as in `Published`."""
    exceeding: Mask
    """Devices that cannot be charged even first."""


@dataclass(slots=True, eq=False)
class _Last:
    """The counters of the last attempt on a view. in_use: what was in use of each of its pools, by identity."""

    in_use: Sequence[object] = ()
    counters: Counters | None = None


_COUNTERS: Final[Topic[Counters | None]] = Topic("counters")
_PUBLISHED: Final[Topic[Published]] = Topic("published counters")
_PUBLISHED_STRICTLY: Final[Topic[Published]] = Topic("published counters, where strict")
_LAST: Final[Topic[_Last]] = Topic("counters of the last attempt")


@dataclass(slots=True, eq=False)
class CounterRule(Rule):
    """What the picks of this attempt take of each counter."""

    counters: Counters
    shareable: Mask
    _left: list[int] = field(init=False)
    _picks: int = 0
    _charged: Mask = 0

    def __post_init__(self) -> None:
        self._left = list(self.counters.left)

    @property
    def is_monotone(self) -> bool:
        """False where a device may give back what another one needs."""
        return not self.counters.giving

    def narrow(self, slot: DeviceSlot, domain: Mask) -> Mask:
        """The devices that can still be charged."""
        if not self._picks:
            return domain
        refused = 0
        consumption = self.counters.consumption
        for device in bits(domain & ~self._charged):
            if device in consumption and not self._fits(consumption[device]):
                refused |= 1 << device
        return domain & ~refused

    def take(self, slot: DeviceSlot, device: int, trail: Trail) -> bool:
        """Charge the device, unless this attempt has charged a share of it before."""
        consumption = self.counters.consumption.get(device)
        if consumption is None or self._charged >> device & 1:
            return True
        if not self.counters.giving and not self._fits(consumption):
            return False
        trail.push(self._refund, (consumption, self._charged))
        self._charged |= (1 << device) & self.shareable
        self._picks += 1
        for counter, amount in consumption:
            self._left[counter] -= amount
        return not self.counters.giving or self._has_enough(device)

    def room(self, slot: DeviceSlot, domain: Mask) -> int:
        """Of the devices of one counter set, as many as its scarcest counter allows; of all others, each."""
        return self._room(domain)

    def _room(self, domain: Mask) -> int:
        free = domain
        by_set: dict[tuple[int, ...], dict[tuple[int, ...], list[tuple[int, ...]]]] = {}
        consuming = 0
        for device in bits(domain & ~self._charged):
            if device in self.counters.consumption:
                consuming |= 1 << device
                numbers, amounts = self.counters.columns[device]
                by_set.setdefault(self.counters.sets[device], {}).setdefault(numbers, []).append(amounts)
        free &= ~consuming
        return free.bit_count() + sum([self._most(consumed) for consumed in by_set.values()])

    def joint_room(self, alternatives: Sequence[Candidates], requests: int, domain: Mask, enough: int) -> int:
        """The same, where no device of the domain can be shared; a share after the first takes nothing."""
        if domain & self.shareable or any(candidates.alternative.admin_access for candidates in alternatives):
            return UNBOUNDED
        return self._room(domain)

    def alike(self, device: int) -> Hashable:
        """Devices that take the same of the same counters."""
        return self.counters.consumption.get(device), self.shareable >> device & 1

    def touched(self) -> Mask:
        """Devices of which a share is charged."""
        return self._charged

    def fingerprint(self, classes: Classes) -> Hashable:
        """What is left of each counter, and the devices that are not charged again."""
        return tuple(self._left), self._charged

    def effort(self, picks: int) -> Effort:
        """The counters of each device are read."""
        each = 1 + max(map(len, self.counters.consumption.values()), default=0)
        return Effort(1, narrow=2, room=each, fingerprint=len(self._left))

    def _most(self, consumed: Mapping[tuple[int, ...], Sequence[tuple[int, ...]]]) -> int:
        """How many of these can be charged at most, by each counter that all of them consume.

        consumed: by the numbers of the counters, what each device takes of them.
        """
        least: dict[int, int] | None = None
        for numbers, amounts in consumed.items():
            own = dict(zip(numbers, map(min, zip(*amounts, strict=True)), strict=True))
            if least is None:
                least = own
            else:
                least = {counter: min(amount, own[counter]) for counter, amount in least.items() if counter in own}
        bounds = [self._left[counter] // amount for counter, amount in (least or {}).items() if amount > 0]
        return max(0, min([sum(map(len, consumed.values())), *bounds]))

    def _fits(self, consumption: Consumption) -> bool:
        left = self._left
        for counter, amount in consumption:  # noqa: SIM110 - all(...) costs more than the comparison
            if amount > left[counter]:
                return False
        return True

    def _has_enough(self, device: int) -> bool:
        """Whether no counter is below zero once the device is charged, of those that kube-scheduler looks at."""
        every = self.counters.giving.get(device)
        looked_at = every if every is not None else [counter for counter, _ in self.counters.consumption[device]]
        return all(self._left[counter] >= 0 for counter in looked_at)

    def _refund(self, old: tuple[Consumption, Mask]) -> None:
        consumption, self._charged = old
        self._picks -= 1
        for counter, amount in consumption:
            self._left[counter] += amount


def counters_left(attempt: NodeAttempt) -> Mapping[CounterID, int]:
    """What is left of each counter of the view's pools before any pick, in 10**-9; none if no device consumes any."""
    counters = _counters(attempt)
    if counters is None:
        return {}
    return {key: counters.left[number] for key, number in _published_in(attempt).numbers.items()}


def exceeding_devices(attempt: NodeAttempt) -> Mask:
    """The devices that need more of their counters than is left."""
    counters = _counters(attempt)
    return counters.exceeding if counters is not None else 0


def _counters(attempt: NodeAttempt) -> Counters | None:
    """The counters of the attempt, worked out once; None if the gate is off or no device consumes any."""
    return attempt.memo.remember(_COUNTERS, lambda: _counters_in(attempt))


def _counters_in(attempt: NodeAttempt) -> Counters | None:
    if not attempt.features.has(PARTITIONABLE_DEVICES):
        return None
    published = _published_in(attempt)
    return _remembered(attempt, published) if published.consumption else None


def _published_in(attempt: NodeAttempt) -> Published:
    view, is_strict = attempt.view, attempt.features.is_strict
    topic = _PUBLISHED_STRICTLY if is_strict else _PUBLISHED
    return view.memo.remember(topic, lambda: _published(view, is_strict=is_strict))


def _published(view: NodeView, *, is_strict: bool) -> Published:
    values: list[int] = []
    numbers: dict[CounterID, int] = {}
    for pool in view.pools:
        if pool.is_usable:
            for key, amount in _counters_of(pool):
                numbers[key] = len(values)
                values.append(amount)
    consuming = [(position, device) for position, device in enumerate(view.devices) if device.consumes_counters]
    consumption = {position: _summed(device, numbers, is_strict=is_strict) for position, device in consuming}
    set_numbers: dict[tuple[PoolID, str], int] = {}
    sets = {
        position: tuple(
            set_numbers.setdefault((PoolID(device.driver, device.pool), c.counter_set), len(set_numbers))
            for c in device.consumes_counters
        )
        for position, device in consuming
    }
    columns = {
        position: (tuple([counter for counter, _ in own]), tuple([amount for _, amount in own]))
        for position, own in consumption.items()
    }
    return Published(values, numbers, consumption, columns, sets, _giving(consuming, consumption, numbers))


def _giving(
    consuming: Sequence[tuple[int, Device]], consumption: Mapping[int, Consumption], numbers: Mapping[CounterID, int]
) -> Mapping[int, Sequence[int]]:
    pools = {
        PoolID(device.driver, device.pool)
        for position, device in consuming
        if any(amount < 0 for _, amount in consumption[position])
    }
    every = {pool: [number for key, number in numbers.items() if key[0] == pool] for pool in pools}
    own = [(position, PoolID(device.driver, device.pool)) for position, device in consuming]
    return {position: every[pool] for position, pool in own if pool in pools}


def _summed(device: Device, numbers: Mapping[CounterID, int], *, is_strict: bool) -> Consumption:
    sums: dict[int, int] = {}
    for key, amount in consumed(device, is_strict=is_strict):
        sums[numbers[key]] = sums.get(numbers[key], 0) + amount
    return tuple(sums.items())


def _remembered(attempt: NodeAttempt, published: Published) -> Counters:
    """What is left; the view remembers it while the same devices of its pools are in use."""
    usage = attempt.usage
    in_use = [held for pool in attempt.view.pools for held in (usage.holders.get(pool.id), usage.shares.get(pool.id))]
    last = attempt.view.memo.remember(_LAST, _Last)
    if last.counters is None or any(old is not new for old, new in zip(last.in_use, in_use, strict=True)):
        last.in_use, last.counters = in_use, _in_use(attempt, published)
    return last.counters


def _in_use(attempt: NodeAttempt, published: Published) -> Counters:
    left, is_strict = list(published.values), attempt.features.is_strict
    for pool in attempt.view.pools:
        if pool.is_usable:
            for device in attempt.allocated_devices(pool):
                for key, amount in consumed(device, is_strict=is_strict):
                    left[published.numbers[key]] -= amount
    blocked = {key[0] for key, number in published.numbers.items() if left[number] < 0}
    charged = _charged(attempt)
    consumption = {p: c for p, c in published.consumption.items() if not charged >> p & 1}
    exceeding = 0
    for position, counters in consumption.items():
        device = attempt.view.devices[position]
        if position in published.giving:
            continue  # what was picked before may have given enough
        # Differs from kube-scheduler, where one counter below zero blocks all devices of the pool that consume any.
        is_blocked = is_strict and PoolID(device.driver, device.pool) in blocked
        if is_blocked or any(amount > left[counter] for counter, amount in counters):
            exceeding |= 1 << position
    return Counters(left, consumption, published.columns, published.sets, published.giving, exceeding)


def _charged(attempt: NodeAttempt) -> Mask:
    """The devices of which a further share is not charged."""
    charged = attempt.shared & attempt.shareable
    if attempt.features.release.empty_shares_charge:
        for position in bits(charged):
            device = attempt.view.devices[position]
            if not attempt.usage.shares_in(PoolID(device.driver, device.pool))[device.name].measured:
                charged ^= 1 << position
    return charged


def _counters_of(pool: Pool) -> Iterator[tuple[CounterID, int]]:
    for slice_ in (*pool.slices, *pool.elsewhere):
        for counter_set in slice_.counter_sets:
            for name, amount in counter_set.counters.items():
                yield (pool.id, counter_set.name, name), amount.nanos


def consumed(device: Device, *, is_strict: bool = False) -> Iterator[tuple[CounterID, int]]:
    """The counters that a device consumes, with the amounts in 10**-9."""
    pool_id = PoolID(device.driver, device.pool)
    for consumption in device.consumes_counters:
        for name, amount in consumption.counters.items():
            # Differs from kube-scheduler, where an amount below zero makes room for other devices.
            yield (pool_id, consumption.counter_set, name), amount.nanos if is_strict else max(0, amount.nanos)

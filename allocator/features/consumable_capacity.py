"""Consumable capacity: several claims share one device, each taking a measured share.

Static: a device is a candidate while what the request consumes is free, after the rounding and
within the bounds of the device's policies. Dynamic: picks of one attempt add up, so two requests
cannot take the same last share. A request for an amount applies to devices that are not shared too.
Source: KEP-5075, feature gate DRAConsumableCapacity; DRAFractionalCapacityRange.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add, gt, is_, sub
from typing import Final

from allocator.bits import Mask, bits
from allocator.cluster.pools import NodeView
from allocator.cluster.usage import Shares, consumed_of
from allocator.features.contract import Feature, NodeAttempt
from allocator.gates import CONSUMABLE_CAPACITY, FRACTIONAL_CAPACITY_RANGE, Features
from allocator.memo import Topic, exact
from allocator.model import (
    NEGATIVE_CAPACITY,
    Alternative,
    Claim,
    Device,
    DeviceResult,
    PoolID,
    RequestPolicy,
    ValidRange,
    own_name,
    qualified,
)
from allocator.outcome import CapacityShort, InvalidClaim
from allocator.search.rules import UNBOUNDED, Candidates, Classes, DeviceSlot, Effort, Pick, Rule, Stage, Trail
from cel.values.quantity import MAX_INT64, Format, Quantity

Consumed = Mapping[str, Quantity]
"""What one share takes of each capacity of its device."""

CapacityAmounts = tuple[int, ...]
"""The same in 10**-9, in the order in which the device has its capacities."""

_WORK_OF_A_DEVICE: Final = 5
_WORK_OF_A_CAPACITY: Final = 12
_WORK_OF_VALUES: Final = 12
_WORK_OF_A_RANGE: Final = 70
"""To find out what a request takes of a device, for each alternative; of a capacity with a policy so much more."""

_DEVICES_AT_ONCE: Final = 64
"""Between two looks at the time."""


TOO_LITTLE: Final = "have too little capacity left"


_MEASURED: Final = frozenset({"policies", NEGATIVE_CAPACITY})
"""Traits of slices with devices of which not every request can have the whole."""


class Unrepresentable(ValueError):
    """An amount that the arithmetic of a capacity cannot hold, or a policy without sense."""


class ConsumableCapacity(Feature):
    """Shares of devices, and requests for amounts."""

    def check(self, features: Features, claim: Claim, alternative: Alternative) -> None:
        """A request for amounts needs the gate."""
        # Differs from kube-scheduler, whose oldest allocator does not look at it: less than is asked for may be given.
        is_seen = features.knows_capacity or not features.is_strict
        if is_seen and alternative.capacity is not None and not features.has(CONSUMABLE_CAPACITY):
            where = f"claim {claim}, request {alternative.name}"
            raise InvalidClaim(f"{where}: capacity is requested, but {CONSUMABLE_CAPACITY} is off")

    def unselectable(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices that cannot serve the request even if they are not in use."""
        if not attempt.features.has(CONSUMABLE_CAPACITY) or not _is_measured(attempt.view, alternative):
            return ()
        asked = ", ".join(f"{name} {amount}" for name, amount in sorted((alternative.capacity or {}).items()))
        reason = f"do not offer the requested capacity{f' ({asked})' if asked else ''}"
        return (Stage(reason, _consumption(attempt, alternative).refused),)

    def taken(self, attempt: NodeAttempt, alternative: Alternative) -> Iterable[Stage]:
        """Devices with too little capacity left, and devices with shares in use that are no longer shared."""
        return self._taken(attempt, alternative) if attempt.shared else ()

    def _taken(self, attempt: NodeAttempt, alternative: Alternative) -> Iterator[Stage]:
        leaves_all = alternative.mode == "All" and attempt.features.release.full_devices_leave_all
        # Under `All`, a constraint that may end the attempt is asked before: then the rule refuses the device.
        if alternative.mode != "All" or not attempt.features.is_strict or leaves_all:
            yield Stage(TOO_LITTLE, _full(attempt, alternative), "capacity", leaves_all=leaves_all)
        features = attempt.features
        if (features.release.shares_hold_devices or not features.is_strict) and not alternative.admin_access:
            # Differs from kube-scheduler, which up to 1.37 would give the whole device away beside its shares.
            mask = attempt.shared & ~attempt.shareable
            yield Stage("are no longer shared, but shares are in use", mask, "in use")

    def failures(self, attempt: NodeAttempt, alternative: Alternative) -> Mapping[int, str]:
        """Devices whose amounts cannot represent the request."""
        features = attempt.features
        if not features.has(CONSUMABLE_CAPACITY) or features.release.capacity_errors_skip:
            return {}
        if not _is_measured(attempt.view, alternative):
            return {}
        return _consumption(attempt, alternative).failures

    def rule(self, attempt: NodeAttempt) -> "Capacity | None":
        """Adds up the shares picked in one attempt."""
        return Capacity(attempt) if attempt.shareable | attempt.shared else None

    def finish(self, attempt: NodeAttempt, claim: Claim, pick: Pick, result: DeviceResult) -> DeviceResult:
        """A share gets an id and what it consumes; a whole device neither."""
        if not attempt.shareable >> pick.device & 1:
            return result
        consumed = _share_of(attempt, pick.device, pick.candidates.alternative.capacity or {})
        assert consumed is not None, "a device is a candidate only if it has the share to give"
        share_id = attempt.share_id(f"{claim.uid or claim}/{result.request}/{result.id}")
        return replace(result, share_id=share_id, consumed_capacity=consumed)


def _is_measured(view: NodeView, alternative: Alternative) -> bool:
    """False if the request takes each device of the view as a whole, whatever it has."""
    return bool(alternative.capacity) or bool(view.shareable) or not _MEASURED.isdisjoint(view.traits)


@dataclass(frozen=True, slots=True)
class _Consumption:
    """What a request takes of each device of a view, whatever is in use.

    amounts: by device, what it takes of each capacity in the order in which the device has them, in 10**-9; nothing
    where the device cannot serve it. There is one for each device and alternative, so they are kept small. refused:
    devices that cannot.
    """

    amounts: Sequence[CapacityAmounts]
    refused: Mask
    failures: Mapping[int, str]


_CONSUMPTION: Final[Topic[_Consumption]] = Topic("consumption")
_CONSUMPTION_OF: Final[Topic[tuple[Alternative, _Consumption]]] = Topic(
    "consumption of an alternative, which keeps its identity so long"
)
_FULL: Final[Topic[Mask]] = Topic("full devices")
_WORK: Final[Topic[int]] = Topic("work of the consumption of an alternative")


def _consumption(attempt: NodeAttempt, alternative: Alternative) -> _Consumption:
    """Worked out once for each request on nodes that are alike to it. Cost: O(devices with capacity)."""
    key = (_CONSUMPTION_OF, id(alternative))
    return attempt.memo.remember(key, lambda: (alternative, _consumption_for(attempt, alternative.capacity or {})))[1]


def _consumption_for(attempt: NodeAttempt, requested: Mapping[str, Quantity]) -> _Consumption:
    # Also where it is known, so that the same question ends the same way.
    attempt.budget.charge(attempt.view.memo.remember(_WORK, lambda: _work_in(attempt.view)))
    return attempt.known.remember((_CONSUMPTION, exact(requested)), lambda: _work_out(attempt, requested))


def _work_in(view: NodeView) -> int:
    policies = [policy.valid_range is not None for device in view.devices for policy in device.policies.values()]
    ranges = sum(policies)
    return (
        sum([_WORK_OF_A_DEVICE + _WORK_OF_A_CAPACITY * len(device.capacity) for device in view.devices])
        + _WORK_OF_A_RANGE * ranges
        + _WORK_OF_VALUES * (len(policies) - ranges)
    )


def _full(attempt: NodeAttempt, alternative: Alternative) -> Mask:
    """The devices of which too little is left for the request."""
    if not attempt.shared:
        return 0
    consumption = _consumption(attempt, alternative)
    return attempt.memo.remember((_FULL, id(consumption)), lambda: _work_out_full(attempt, consumption))


def _work_out_full(attempt: NodeAttempt, consumption: _Consumption) -> Mask:
    full = 0
    for position, left in _left(attempt).items():
        if any(map(gt, consumption.amounts[position], left)):
            full |= 1 << position
    return full


@dataclass(slots=True, eq=False)
class _SharesLeft:
    """What is left of the shared devices of a view, by position. shares: of its pools."""

    shares: Sequence[Mapping[str, Shares] | None] = ()
    amounts: Mapping[int, CapacityAmounts] = field(default_factory=dict)


_LEFT_BEFORE: Final[Topic[dict[int, CapacityAmounts]]] = Topic("left of devices before any pick")
_LEFT: Final[Topic[_SharesLeft]] = Topic("left of shared devices")


def _left(attempt: NodeAttempt) -> Mapping[int, CapacityAmounts]:
    """What is left of the shared devices, by position; once for all requests."""
    known = attempt.view.memo.remember(_LEFT, _SharesLeft)
    shares = [attempt.usage.shares.get(pool.id) for pool in attempt.view.pools]
    if len(known.shares) != len(shares) or not all(map(is_, known.shares, shares)):
        known.shares, known.amounts = shares, {at: _left_of(attempt, at) for at in bits(attempt.shared)}
    return known.amounts


def _left_before(attempt: NodeAttempt, position: int) -> CapacityAmounts:
    """What is left of a device before any pick, worked out once for an attempt."""
    known = attempt.memo.remember(_LEFT_BEFORE, dict)
    left = known.get(position)
    if left is None:
        left = known[position] = _left_of(attempt, position)
    return left


def _left_of(attempt: NodeAttempt, position: int) -> CapacityAmounts:
    device = attempt.view.devices[position]
    used = _used(attempt, device)
    return tuple([amount.nanos - used.get(name, 0) for name, amount in device.capacity.items()])


def taken_by_share(attempt: NodeAttempt, alternative: Alternative, position: int, capacity: str) -> int:
    """What a share of the device that the alternative gets takes of that capacity, in 10**-9."""
    device = attempt.view.devices[position]
    own = own_name(device.capacity, capacity, device.driver)
    # A device that cannot be decided, or cannot serve the request, has no amounts.
    amounts = dict(zip(device.capacity, _consumption(attempt, alternative).amounts[position], strict=False))
    return max(0, amounts.get(own, 0)) if own is not None else 0


def short_of(attempt: NodeAttempt, alternative: Alternative, devices: Mask) -> tuple[CapacityShort, ...]:
    """The capacities of which the devices have too little left for the alternative, by name."""
    amounts, left = _consumption(attempt, alternative).amounts, _left(attempt)
    counts: dict[tuple[str, bool], int] = {}
    for position in bits(devices):
        device = attempt.view.devices[position]
        for name, amount, of_name in zip(device.capacity, amounts[position], left[position], strict=False):
            if amount > of_name:
                is_asked = any(own_name((name,), one, device.driver) for one in alternative.capacity or ())
                key = name, name not in device.policies and not is_asked
                counts[key] = counts.get(key, 0) + 1
    return tuple([CapacityShort(name, number, takes_all) for (name, takes_all), number in sorted(counts.items())])


def _work_out(attempt: NodeAttempt, requested: Mapping[str, Quantity]) -> _Consumption:
    amounts: list[CapacityAmounts] = []
    same: dict[int, int] = {}
    failures: dict[int, str] = {}
    refused = 0
    for position in range(len(attempt.view.devices)):
        if position % _DEVICES_AT_ONCE == 0:
            attempt.look_at_time()
        try:
            share = _share_of(attempt, position, requested)
        except Unrepresentable as error:
            failures[position] = str(error)
            refused |= attempt.features.release.capacity_errors_skip << position
            share = {}
        refused |= (share is None) << position
        amounts.append(tuple([same.setdefault(amount.nanos, amount.nanos) for amount in (share or {}).values()]))
    return _Consumption(amounts, refused, failures)


def _share_of(attempt: NodeAttempt, position: int, requested: Mapping[str, Quantity]) -> Consumed | None:
    """What the request takes of the device. Raises Unrepresentable."""
    device, features = attempt.view.devices[position], attempt.features
    is_whole = not requested and NEGATIVE_CAPACITY not in attempt.view.traits
    if is_whole and not device.policies and not device.allow_multiple_allocations:
        return device.capacity  # the whole device, with all that it has
    return consumed_by_share(device, requested, features)


def consumed_by_share(device: Device, requested: Mapping[str, Quantity], features: Features) -> Consumed | None:
    """What a share of the device takes, by the device's names; None if it has no such share even when it is empty.

    Raises Unrepresentable. Source: KEP-5075, the rounding rules of requestPolicy.
    """
    # Differs from kube-scheduler up to 1.37, which passes over devices that spell the name in the other way.
    if features.is_strict and features.release.asks_as_written and not requested.keys() <= device.capacity.keys():
        return None
    asked = _asked_of(device, requested)
    if asked is None:
        return None
    share = {}
    is_fractional = features.has(FRACTIONAL_CAPACITY_RANGE)
    for name, value in device.capacity.items():
        try:
            _check_request(asked.get(name), features)
            share[name] = consumed_amount(
                asked.get(name), value, device.policies.get(name), is_fractional=is_fractional
            )
            _check_share(share[name], features)
        except Unrepresentable as error:
            raise Unrepresentable(f"capacity {qualified(name, device.driver)!r}: {error}") from error
    for name, amount in share.items():
        policy = device.policies.get(name)
        if policy is not None and policy.default is not None and features.release.defaults_are_valid:
            policy = policy if name in asked else None
        if (policy and _violates(amount, policy, is_fractional=is_fractional)) or amount > device.capacity[name]:
            return None
    return share


def _asked_of(device: Device, requested: Mapping[str, Quantity]) -> Mapping[str, Quantity] | None:
    """The requested amounts by the device's names; None if it lacks one. Raises Unrepresentable for one named twice."""
    own = {name: own_name(device.capacity, name, device.driver) for name in requested}
    asked = {found: requested[name] for name, found in own.items() if found is not None}
    if None in own.values():
        return None
    if len(asked) < len(requested):
        twice = sorted(name for name in own if list(own.values()).count(own[name]) > 1)
        raise Unrepresentable(f"capacity {twice[0]!r} is also requested as {twice[1]!r}, its other name")
    return asked


def _check_request(requested: Quantity | None, features: Features) -> None:
    """Raises Unrepresentable for an amount below zero, which rounding would hide."""
    if features.release.negative_requests_end and requested is not None and requested.sign < 0:
        raise Unrepresentable(f"an amount of {requested} is negative")


def _check_share(amount: Quantity, features: Features) -> None:
    """Raises Unrepresentable for what cannot be a share."""
    if amount.sign < 0:
        raise Unrepresentable(f"an amount of {amount} is negative")
    if features.release.misprints_amounts and not features.is_strict and (misprint := misprint_of(amount)) is not None:
        # Differs from kube-scheduler, which would write the wrong amount and give the rest away again.
        raise Unrepresentable(f"Kubernetes would write {Quantity.of(misprint)} for {amount}")


def consumed_amount(
    requested: Quantity | None, value: Quantity, policy: RequestPolicy | None, *, is_fractional: bool
) -> Quantity:
    """The amount that one share takes of a capacity, after the driver's request policy.

    requested: in the capacity's own unit (bytes, milli-cores, ...); None if the claim is silent. The amount may
    violate the policy, which `consumed_by_share` checks. Raises Unrepresentable. Source: KEP-5075, field requestPolicy.
    """
    if requested is None:
        return policy.default if policy and policy.default is not None else value
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.minimum is not None:
        return _rounded_up(requested, policy.valid_range, policy.valid_range.minimum, is_fractional=is_fractional)
    return next((valid for valid in policy.valid_values if requested <= valid), requested)


def _rounded_up(requested: Quantity, bounds: ValidRange, minimum: Quantity, *, is_fractional: bool) -> Quantity:
    if requested < minimum:
        return minimum
    if bounds.step is None:
        return requested
    if _counts_in_milli(bounds, is_fractional=is_fractional):
        wanted = _milli(requested)
        if wanted is None:
            raise Unrepresentable(f"{requested} is not a whole number of thousandths, the unit of the range")
        if minimum.sign < 0:
            raise Unrepresentable(f"the minimum {minimum} is negative")
        milli = _next_step(wanted, minimum.nanos // 10**6, bounds.step.nanos // 10**6)
        if milli % 1000 == 0:
            return Quantity.of(milli // 1000, bounds.step.format)
        return Quantity(milli, -3, is_small=True, format=bounds.step.format)
    if requested.ceil_int() > MAX_INT64 or requested > Quantity.of(MAX_INT64):
        raise Unrepresentable(f"{requested} is more than 2**63-1, in which the range counts")
    step = bounds.step.ceil_int()
    if step == 0:
        # Differs from kube-scheduler, which divides by it.
        raise Unrepresentable("the step of the range is 0")
    return Quantity.of(_next_step(requested.ceil_int(), minimum.ceil_int(), step), bounds.step.format)


def _next_step(wanted: int, minimum: int, step: int) -> int:
    added = wanted - minimum
    steps = _quotient(added, step) + (added % step != 0)
    if minimum >= 0 and steps > _quotient(MAX_INT64 - minimum, step):
        raise Unrepresentable(f"rounding {wanted} up to the step of the range passes 2**63-1")
    return minimum + steps * step


def _quotient(number: int, by: int) -> int:
    """Without what is left over, as Go divides: the API server stores steps below zero."""
    quotient = abs(number) // abs(by)
    return quotient if (number < 0) == (by < 0) else -quotient


def _violates(amount: Quantity, policy: RequestPolicy, *, is_fractional: bool) -> bool:
    if policy.default is not None and _same_form(amount, policy.default):
        return False
    if policy.valid_range is not None:
        return _leaves_range(amount, policy.valid_range, is_fractional=is_fractional)
    return bool(policy.valid_values) and amount not in policy.valid_values


def _same_form(one: Quantity, other: Quantity) -> bool:
    """Equal as kube-scheduler compares an amount with the default: by representation, where a big one equals none."""
    return one.is_small and (one.mantissa, one.scale, one.format, one.written) == (
        other.mantissa,
        other.scale,
        other.format,
        other.written,
    )


def _leaves_range(amount: Quantity, bounds: ValidRange, *, is_fractional: bool) -> bool:
    if bounds.maximum is not None and amount > bounds.maximum:
        return True
    if bounds.step is None:
        return False
    is_milli = _counts_in_milli(bounds, is_fractional=is_fractional)
    milli = _milli(amount) if is_milli else None
    if is_milli and milli is None:
        return True
    if bounds.minimum is None:
        raise Unrepresentable("the range has a step but no minimum")
    if milli is not None:
        return (milli - bounds.minimum.nanos // 10**6) % (bounds.step.nanos // 10**6) != 0
    step = bounds.step.ceil_int()
    if step == 0:
        # Differs from kube-scheduler, which divides by it.
        raise Unrepresentable("the step of the range is 0")
    return (amount.ceil_int() - bounds.minimum.ceil_int()) % step != 0


def _counts_in_milli(bounds: ValidRange, *, is_fractional: bool) -> bool:
    """True if all bounds are whole thousandths and the gate for fractions is on."""
    if not is_fractional:
        return False
    whole = [_milli(bound) for bound in (bounds.minimum, bounds.maximum, bounds.step) if bound is not None]
    return None not in whole and bounds.step is not None and bounds.step.sign > 0


def _milli(amount: Quantity) -> int | None:
    milli = amount.milli()
    return milli if milli is not None and -MAX_INT64 <= milli <= MAX_INT64 else None


def misprint_of(amount: Quantity) -> int | None:
    """The number that Kubernetes writes for the amount, where that is another one: it has no suffix beyond E."""
    whole, rest = divmod(abs(amount.nanos), 10**9)
    if amount.format is not Format.DECIMAL_SI or rest or not whole or whole % 10**21:
        return None
    while whole % 1000 == 0:
        whole //= 1000
    return whole * amount.sign


def _used(attempt: NodeAttempt, device: Device) -> Mapping[str, int]:
    return consumed_of(device, attempt.usage.shares_in(PoolID(device.driver, device.pool)).get(device.name))


@dataclass(slots=True, eq=False)
class Capacity(Rule):
    """What the picks of this attempt take of devices that are shared, by device."""

    attempt: NodeAttempt
    _picked: dict[int, CapacityAmounts] = field(default_factory=dict)

    def narrow(self, slot: DeviceSlot, domain: Mask) -> Mask:
        """Of the devices that this attempt has shares of, those with room for one more."""
        for device in self._picked:
            if domain >> device & 1 and not self._fits(slot, device):
                domain &= ~(1 << device)
        return domain

    def take(self, slot: DeviceSlot, device: int, trail: Trail) -> bool:
        """Add the share; a device that is not shared takes nothing from others."""
        if _full(self.attempt, slot.candidates.alternative) >> device & 1:
            return False
        if not self.attempt.shareable >> device & 1:
            return True
        if not self._fits(slot, device):
            return False
        picked = self._picked.get(device)
        trail.push(self._restore, (device, picked))
        amounts = self._amounts(slot, device)
        self._picked[device] = amounts if picked is None else tuple(map(add, amounts, picked))
        return True

    def joint_room(self, alternatives: Sequence[Candidates], requests: int, domain: Mask, enough: int) -> int:
        """Of a shared device as many of the smallest shares as fit; each request takes a device once."""
        if any(candidates.alternative.admin_access for candidates in alternatives):
            return UNBOUNDED
        shared = domain & self.attempt.shareable
        wanted = self._amounts_by_request(alternatives)
        room = (domain ^ shared).bit_count() * requests
        for device in bits(shared):
            room += min(requests, self._most(wanted, device))
            if room >= enough:  # a device without a pick has room for one, so it takes few devices
                break
        return room

    def alike(self, device: int) -> Hashable:
        """Shared devices with equal capacities, policies and use; all others are the same."""
        if not self.attempt.shareable >> device & 1:
            return None
        subject = self.attempt.view.devices[device]
        used = frozenset(_used(self.attempt, subject).items())
        return tuple(subject.capacity.items()), frozenset(subject.policies.items()), used

    def touched(self) -> Mask:
        """The devices that this attempt has shares of."""
        return sum(1 << device for device in self._picked)

    def fingerprint(self, classes: Classes) -> Hashable:
        """What is taken of each device, and of the devices of each class, whichever of them it is."""
        touched = self.touched()
        own = sorted([one for one in self._picked.items() if classes.alone >> one[0] & 1])
        by_class = [
            (number, tuple(sorted([amounts for device, amounts in self._picked.items() if members >> device & 1])))
            for number, members in enumerate(classes.several)
            if members & touched
        ]
        return tuple(own), tuple(by_class)

    def effort(self, picks: int) -> Effort:
        """The amounts of the devices that were picked are read, and for joint room those of twice as many."""
        shared = self.attempt.shareable
        each = 1 + max([len(self.attempt.view.devices[device].capacity) for device in bits(shared)], default=0)
        picked = each * min(shared.bit_count(), picks)
        return Effort(1 + picked, joint=2 * picked, fingerprint=picked)

    def _amounts_by_request(
        self, alternatives: Sequence[Candidates]
    ) -> Sequence[tuple[Sequence[CapacityAmounts], Mask]]:
        """What shares of each device take, with the devices, once for all alternatives that ask for the same."""
        wanted: dict[int, tuple[Sequence[CapacityAmounts], Mask]] = {}
        for candidates in alternatives:
            amounts = _consumption(self.attempt, candidates.alternative).amounts
            _, devices = wanted.get(id(amounts), (amounts, 0))
            wanted[id(amounts)] = (amounts, devices | candidates.mask)
        return tuple(wanted.values())

    def _most(self, wanted: Sequence[tuple[Sequence[CapacityAmounts], Mask]], device: int) -> int:
        """How many of the smallest of these shares are left of the device."""
        shares = [amounts[device] for amounts, devices in wanted if devices >> device & 1]
        if not shares:
            return 0
        left, picked = _left_before(self.attempt, device), self._picked.get(device)
        if picked is not None:
            left = tuple(map(sub, left, picked))
        # A device that cannot be decided has no amounts, which bound nothing.
        smallest = map(min, zip(*shares, strict=False))
        most = [of_name // least for of_name, least in zip(left, smallest, strict=False) if least > 0]
        return max(0, min(most, default=UNBOUNDED))

    def _fits(self, slot: DeviceSlot, device: int) -> bool:
        picked = self._picked.get(device)
        return picked is None or not any(
            map(gt, map(add, picked, self._amounts(slot, device)), _left_before(self.attempt, device))
        )

    def _amounts(self, slot: DeviceSlot, device: int) -> CapacityAmounts:
        # A device that cannot be decided has no amounts; coming to it ends the attempt before they are counted.
        return _consumption(self.attempt, slot.candidates.alternative).amounts[device]

    def _restore(self, old: tuple[int, CapacityAmounts | None]) -> None:
        device, picked = old
        if picked is None:
            del self._picked[device]
        else:
            self._picked[device] = picked

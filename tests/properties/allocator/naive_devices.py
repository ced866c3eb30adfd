"""The naive search's view of single devices and of sets of picks: each condition asked anew, from the beginning.

Source: the KEPs of the features, named at each part.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, reduce
from math import ceil
from typing import NamedTuple

import cel
from allocator.gates import (
    COMPATIBILITY_GROUPS,
    CONSUMABLE_CAPACITY,
    DEVICE_TAINTS,
    FRACTIONAL_CAPACITY_RANGE,
    LIST_TYPE_ATTRIBUTES,
    OPTIONAL_NODE_OPERATIONS,
    PARTITIONABLE_DEVICES,
    Features,
)
from allocator.model import (
    Alternative,
    Attribute,
    Constraint,
    CounterConsumption,
    Device,
    DeviceID,
    Node,
    RequestPolicy,
    Taint,
    Toleration,
)
from allocator.outcome import InvalidClaim
from cel.values.quantity import Quantity
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.naive_pools import NaivePool, Published

LARGEST = 2**63 - 1


class CannotJudge(InvalidClaim):
    """A selector, a derived attribute or the arithmetic of a capacity fails on a device."""


class Given(NamedTuple):
    """A device picked for an alternative of a request of the claim of that number."""

    claim: int
    alternative: Alternative
    published: Published

    @property
    def device(self) -> Device:
        return self.published.device


class InUse:
    """What allocated claims hold. whole: devices that are held as such. shares: what each share takes, by device."""

    def __init__(self, instance: Instance) -> None:
        self.whole: set[DeviceID] = set()
        self.shares: dict[DeviceID, list[dict[str, Fraction]]] = {}
        for claim in instance.held:
            for result in claim.allocation.results if claim.allocation else ():
                taken = by_full_name(result.consumed_capacity, result.driver)
                if result.admin_access:
                    continue
                if not result.share_id or not instance.features.has(CONSUMABLE_CAPACITY):
                    self.whole.add(result.id)
                else:
                    self.shares.setdefault(result.id, []).append(taken)

    def is_allocated(self, device: Device) -> bool:
        return device.id in self.whole or device.id in self.shares


class Around(NamedTuple):
    """What a device is picked among."""

    pools: Sequence[NaivePool]
    in_use: InUse
    features: Features


def exact(amount: Quantity) -> Fraction:
    return Fraction(amount.nanos, 10**9)


def full_name(name: str, driver: str) -> str:
    """A capacity without a domain is its driver's."""
    return name if "/" in name else f"{driver}/{name}"


def by_full_name(amounts: Mapping[str, Quantity], driver: str) -> dict[str, Fraction]:
    """Of two spellings of one name, the one with the domain counts."""
    written_in_full = sorted(amounts, key=lambda name: "/" in name)
    return {full_name(name, driver): exact(amounts[name]) for name in written_in_full}


# -- selectors and attributes: KEP-4381


@cache
def program(expression: str, environment: cel.Environment) -> cel.Program:
    return cel.compile(expression, environment)


def holds(expression: str, features: Features, device: Device) -> bool:
    try:
        return program(expression, features.environment).evaluate(device)
    except (cel.CompileError, cel.EvalError) as error:
        raise CannotJudge(str(error)) from error


def attribute(device: Device, name: str) -> Attribute | None:
    """By its full name, or by its short one where the domain is the driver's."""
    if name in device.attributes:
        return device.attributes[name]
    domain, _, short = name.partition("/")
    return device.attributes.get(short) if domain == device.driver else None


def compared(pick: Given, name: str, features: Features) -> Attribute | None:
    """The attribute that a constraint compares: the request's own derived one, or the device's."""
    derived = dict(pick.alternative.derived_attributes)
    if name not in derived:
        return attribute(pick.device, name)
    try:
        return cel.compile_value(derived[name], features.environment).evaluate(pick.device)
    except (cel.CompileError, cel.EvalError) as error:
        raise CannotJudge(str(error)) from error


# -- constraints: KEP-4381, lists: KEP-5491


def satisfied(constraint: Constraint, picks: Sequence[Given], features: Features) -> bool:
    """The constraint holds for those of a claim's picks that it covers, in their order."""
    name = constraint.match_attribute or constraint.distinct_attribute
    covered = [pick for pick in picks if covers(constraint, pick.alternative)]
    found = [compared(pick, name, features) for pick in covered]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return False
    is_match = bool(constraint.match_attribute)
    if not features.release.compares_as_written:
        derived = [name in dict(pick.alternative.derived_attributes) for pick in covered]
        sets = [supported(one, features, is_derived=own) for one, own in zip(values, derived, strict=True)]
        return fit_as_sets(sets, is_match=is_match)
    if features.has(LIST_TYPE_ATTRIBUTES):
        sets = [items(value) for value in values]
        return all(sets) and fit_as_sets(sets, is_match=is_match)
    if any(is_list(value) for value in values[1:]) or (
        constraint.match_attribute and values[1:] and is_list(values[0])
    ):
        return False
    different = len(set(values))
    return different <= 1 if constraint.match_attribute else different == len(values)


def covers(constraint: Constraint, alternative: Alternative) -> bool:
    request = alternative.name.partition("/")[0]
    return not constraint.requests or request in constraint.requests or alternative.name in constraint.requests


def is_list(value: Attribute) -> bool:
    return value[0] not in ("int", "bool", "string", "version")


def items(value: Attribute) -> frozenset[Attribute]:
    kind, content = value
    if kind.endswith("s"):
        assert isinstance(content, tuple)
        return frozenset((kind.removesuffix("s"), item) for item in content)
    return frozenset([value] if kind else [])


def supported(value: Attribute, features: Features, *, is_derived: bool) -> frozenset[Attribute]:
    """Since 1.38: versions by precedence, in which build metadata does not count; what cannot be compared ends it."""
    if is_list(value) and not (features.has(LIST_TYPE_ATTRIBUTES) and value[0] and (value[1] or is_derived)):
        raise CannotJudge("unsupported attribute value")
    return frozenset(
        (kind, str(item).partition("+")[0]) if kind == "version" else (kind, item) for kind, item in items(value)
    )


def fit_as_sets(sets: Sequence[frozenset[Attribute]], *, is_match: bool) -> bool:
    """The first device may have no value at all; it has none in common with a second one."""
    if is_match:
        return len(sets) < 2 or bool(reduce(frozenset.intersection, sets))
    return len(frozenset[Attribute]().union(*sets)) == sum(map(len, sets))


# -- taints: KEP-5055; node operations


def is_tolerated(device: Device, alternative: Alternative, features: Features) -> bool:
    blocking = [taint for taint in device.taints if taint.effect in ("NoSchedule", "NoExecute")]
    return not features.has(DEVICE_TAINTS) or all(
        any(tolerates(toleration, taint) for toleration in alternative.tolerations) for taint in blocking
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    same_effect = toleration.effect in ("", taint.effect)
    same_key = toleration.key in ("", taint.key)
    same_value = toleration.operator == "Exists" or (
        toleration.operator in ("", "Equal") and toleration.value == taint.value
    )
    return same_effect and same_key and same_value


def can_skip_operations(published: Published, node: Node, features: Features) -> bool:
    if features.is_strict and not features.knows_node_operations:
        return True
    declares = features.has(OPTIONAL_NODE_OPERATIONS) and OPTIONAL_NODE_OPERATIONS in node.declared_features
    return not published.slice_.skip_node_operations or declares


# -- consumable capacity: KEP-5075


def is_shareable(device: Device, features: Features) -> bool:
    return device.allow_multiple_allocations and features.has(CONSUMABLE_CAPACITY)


def part_of(device: Device, alternative: Alternative, features: Features) -> dict[str, Quantity] | None:
    """What the request takes of each capacity of the device, None where an empty device does not have it to give."""
    try:
        return judged_part_of(device, alternative, features)
    except CannotJudge:
        if features.release.capacity_errors_skip:
            return None
        raise


def judged_part_of(device: Device, alternative: Alternative, features: Features) -> dict[str, Quantity] | None:
    requested = alternative.capacity or {}
    if features.is_strict and features.release.asks_as_written and not requested.keys() <= device.capacity.keys():
        return None
    own = {full_name(name, device.driver): name for name in device.capacity}
    asked = [full_name(name, device.driver) for name in requested]
    if not set(asked) <= own.keys():
        return None
    if len(set(asked)) < len(asked):
        raise CannotJudge("a capacity is requested under two names")
    requested = dict(zip((own[name] for name in asked), requested.values(), strict=True))
    part = {
        name: amount_of(requested.get(name), value, device.policies.get(name), features)
        for name, value in device.capacity.items()
    }
    if any(amount.sign < 0 for amount in part.values()):
        raise CannotJudge("a negative amount")
    for name, amount in part.items():
        policy = device.policies.get(name)
        if exact(amount) > exact(device.capacity[name]) or (policy and violates(amount, policy, features)):
            return None
    return part


def amount_of(
    requested: Quantity | None, value: Quantity, policy: RequestPolicy | None, features: Features
) -> Quantity:
    if requested is None:
        return policy.default if policy and policy.default is not None else value
    if requested.sign < 0 and features.release.negative_requests_end:
        raise CannotJudge("a negative amount is requested")
    if policy is None:
        return requested
    if policy.valid_range and policy.valid_range.minimum is not None:
        return rounded_up(requested, policy, features)
    return next((valid for valid in policy.valid_values if exact(requested) <= exact(valid)), requested)


def rounded_up(requested: Quantity, policy: RequestPolicy, features: Features) -> Quantity:
    bounds = policy.valid_range
    assert bounds is not None
    assert bounds.minimum is not None
    if exact(requested) < exact(bounds.minimum):
        return bounds.minimum
    if bounds.step is None:
        return requested
    unit = unit_of(policy, features)
    wanted, minimum, step = (exact(q) / unit for q in (requested, bounds.minimum, bounds.step))
    if wanted > LARGEST or (unit != 1 and wanted.denominator != 1):
        raise CannotJudge("an amount that the range cannot count")
    found = ceil(minimum) + ceil(Fraction(ceil(wanted) - ceil(minimum), ceil(step))) * ceil(step)
    if found > LARGEST:
        raise CannotJudge("rounding up passes what the range can count")
    return Quantity.parse(f"{found}m") if unit != 1 else Quantity.parse(str(found))


def unit_of(policy: RequestPolicy, features: Features) -> Fraction:
    """In what a range counts: thousandths, where the gate is on and all of its bounds are whole thousandths."""
    bounds = policy.valid_range
    assert bounds is not None
    parts = [exact(bound) * 1000 for bound in (bounds.minimum, bounds.maximum, bounds.step) if bound is not None]
    in_milli = features.has(FRACTIONAL_CAPACITY_RANGE) and all(part.denominator == 1 for part in parts)
    return Fraction(1, 1000) if in_milli else Fraction(1)


def violates(amount: Quantity, policy: RequestPolicy, features: Features) -> bool:
    if policy.default is not None and amount == policy.default:
        return False
    bounds = policy.valid_range
    if bounds is None:
        return bool(policy.valid_values) and amount not in policy.valid_values
    if bounds.maximum is not None and exact(amount) > exact(bounds.maximum):
        return True
    if bounds.step is None:
        return False
    assert bounds.minimum is not None
    unit = unit_of(policy, features)
    if unit != 1 and (exact(amount) / unit).denominator != 1:
        return True
    above = ceil(exact(amount) / unit) - ceil(exact(bounds.minimum) / unit)
    return above % ceil(exact(bounds.step) / unit) != 0


def has_room(pick: Given, picks: Sequence[Given], around: Around) -> bool:
    """What the pick takes is free beside all shares, those held and those picked."""
    part = part_of(pick.device, pick.alternative, around.features)
    if part is None:
        return False
    taken = list(around.in_use.shares.get(pick.device.id, []))
    for other in picks:
        if other.device.id == pick.device.id and is_shareable(other.device, around.features):
            theirs = part_of(other.device, other.alternative, around.features) or {}
            taken.append(by_full_name(theirs, other.device.driver))
    driver = pick.device.driver
    return all(
        sum((one.get(full_name(name, driver), Fraction()) for one in taken), exact(amount))
        <= exact(pick.device.capacity[name])
        for name, amount in part.items()
    )


# -- counters and groups: KEP-4815


def charged(picks: Iterable[Given], around: Around) -> list[Device]:
    """The devices that picks draw on the counters of their pool with: a further share does not draw again.

    Before 1.37 it did where the shares in use told no capacity.
    """
    found: list[Device] = []
    for pick in picks:
        shares = around.in_use.shares.get(pick.device.id, [])
        is_drawing = any(shares) if around.features.release.empty_shares_charge else bool(shares)
        again = is_shareable(pick.device, around.features) and (
            is_drawing or any(pick.device.id == other.id for other in found)
        )
        if pick.device.consumes_counters and not again:
            found.append(pick.device)
    return found


def has_counters(pick: Given, picks: Sequence[Given], around: Around) -> bool:
    """The counters of the device's pool last for all that is allocated and picked of it, and for the device."""
    if not pick.device.consumes_counters:
        return True
    if not around.features.has(PARTITIONABLE_DEVICES):
        return False
    drawing = charged((*picks, pick), around)
    if len(drawing) == len(charged(picks, around)):
        return True
    (pool,) = [pool for pool in around.pools if pool.id == pick.published.slice_.pool_id]
    drawing = [device for device in drawing if (device.driver, device.pool) == pool.id]
    drawing += [device for device in pool.everywhere if around.in_use.is_allocated(device)]
    touched = {(c.counter_set, name) for c in pick.device.consumes_counters for name in c.counters}
    return all(
        sum((drawn(device, counter_set.name, name) for device in drawing), Fraction()) <= exact(value)
        for slice_ in pool.whole
        for counter_set in slice_.counter_sets
        for name, value in counter_set.counters.items()
        if around.features.is_strict or (counter_set.name, name) in touched
    )


def drawn(device: Device, counter_set: str, counter: str) -> Fraction:
    return sum(
        (
            exact(consumes.counters[counter])
            for consumes in device.consumes_counters
            if consumes.counter_set == counter_set and counter in consumes.counters
        ),
        Fraction(),
    )


def goes_with(pick: Given, picks: Sequence[Given], around: Around) -> bool:
    """On each of its counter sets, the device has a group in common with all others; without groups, with its like."""
    drawing = charged(picks, around)
    if not around.features.has(COMPATIBILITY_GROUPS) or len(charged((*picks, pick), around)) == len(drawing):
        return True
    (pool,) = [pool for pool in around.pools if pool.id == pick.published.slice_.pool_id]
    others = [device for device in pool.everywhere if around.in_use.is_allocated(device)]
    others += [device for device in drawing if (device.driver, device.pool) == pool.id]
    for own in pick.device.consumes_counters:
        there = [c for device in others for c in device.consumes_counters if c.counter_set == own.counter_set]
        if there and not common_groups(there) & groups_of(own):
            return False
    return True


UNGROUPED = frozenset([""])


def groups_of(consumes: CounterConsumption) -> frozenset[str]:
    return frozenset(consumes.compatibility_groups) or UNGROUPED


def common_groups(consumptions: Sequence[CounterConsumption]) -> frozenset[str]:
    """The groups that all of them have. Where the like of both are allocated, which cannot be, the first one counts."""
    common = groups_of(consumptions[0])
    for own in map(groups_of, consumptions[1:]):
        common = common if UNGROUPED in (common, own) else common & own
    return common

"""What of a fleet is free, held and out of use: pools, devices that match, the largest claim that fits."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import cel
from allocator.allocate import BUDGET_STEPS, allocate, share_id_of
from allocator.bits import Mask, bits
from allocator.candidates import MAX_RESULTS
from allocator.cluster.pools import Pool, view_of, whole_pool
from allocator.cluster.snapshot import ReadKey, Snapshot
from allocator.cluster.usage import ClaimNames, Shares, Usage, consumed_of
from allocator.features import concerned
from allocator.features.contract import NodeAttempt, attempt_of
from allocator.features.device_taints import blocking_taints
from allocator.features.partitionable_devices import CounterID, counters_left, exceeding_devices
from allocator.fleet.answer_cache import HardwareKinds
from allocator.fleet.fleet import Fleet
from allocator.gates import DEVICE_TAINTS
from allocator.model import Alternative, Claim, Device, DeviceClass, DeviceID, PoolID, Request, Slice
from allocator.outcome import Allocated, AllocationError
from cel.cache import LruCache
from cel.values.quantity import Quantity

# Which devices an expression accepts, over a whole fleet: devices that agree in what it reads are asked once.


class ExpressionAnswers:
    """An expression and its answers so far. Raises cel.CompileError where it does not compile."""

    def __init__(self, expression: str, environment: cel.Environment) -> None:
        self._program = cel.compile(expression, environment)
        self._read = ReadKey.of_programs([self._program.reads])
        self._answers: dict[Hashable, cel.Outcome] = {}

    def of(self, device: Device) -> bool | None:
        """Whether the device is accepted; None if the expression fails on it."""
        outcome = self.outcome(device)
        return None if outcome.error is not None else outcome.value is True

    def outcome(self, device: Device) -> cel.Outcome:
        """The answer with its cost, or why there is none."""
        key = device.driver, self._read.of(device)
        if key not in self._answers:
            self._answers[key] = self._program.run(device)
        return self._answers[key]


class OrderedResult(NamedTuple):
    """What the last of some expressions says of the devices that pass all others."""

    accepted: tuple[Device, ...]
    failing: tuple[Device, ...]


class OrderedAnswers:
    """Expressions over devices as an allocation asks them: in order, none of a device that one before it refuses."""

    def __init__(self, devices: Iterable[Device], environment: cel.Environment) -> None:
        self._devices = tuple(devices)
        self._environment = environment
        self._results: dict[tuple[str, ...], OrderedResult] = {}

    def passing(self, expressions: tuple[str, ...]) -> tuple[Device, ...]:
        """The devices that pass all of the expressions, none where one does not compile."""
        return self.of(expressions).accepted if expressions else self._devices

    def of(self, expressions: tuple[str, ...]) -> OrderedResult:
        """The answers of the last one. Cost: O(devices that pass the others), once."""
        if expressions not in self._results:
            devices = self.passing(expressions[:-1])
            self._results[expressions] = self._asked(expressions[-1], devices) if devices else OrderedResult((), ())
        return self._results[expressions]

    def _asked(self, expression: str, devices: tuple[Device, ...]) -> OrderedResult:
        try:
            answers = ExpressionAnswers(expression, self._environment)
        except cel.CompileError:
            return OrderedResult((), ())
        found = [(device, answers.of(device)) for device in devices]
        accepted = tuple(device for device, answer in found if answer)
        return OrderedResult(accepted, tuple(device for device, answer in found if answer is None))


class Membership:
    """The devices that a class selects; none where a selector of it does not compile, or is of an unknown type."""

    def __init__(self, device_class: DeviceClass, environment: cel.Environment) -> None:
        self.name = device_class.name
        self._selectors: list[ExpressionAnswers] | None = []
        for selector in device_class.selectors:
            try:
                self._selectors.append(ExpressionAnswers(selector or "", environment))
            except cel.CompileError:
                self._selectors = None
                break

    def has(self, device: Device) -> bool:
        """True if all selectors accept the device."""
        return self._selectors is not None and all(one.of(device) for one in self._selectors)


# The largest claim that still fits on one node: for how many devices of a class, and on which nodes.


MOST_USES = 1 << 14
"""Kinds of nodes with certain devices in use, of which it is remembered how much fits."""

_NAME = "largest-claim"


@dataclass(frozen=True, slots=True)
class LargestClaim:
    """count: of devices in one request without selectors of its own; at most 32, as the API allows. nodes: that fit it.

    error: why it cannot be determined, or empty.
    """

    count: int = 0
    nodes: Mask = 0
    error: str = ""


def largest_claim(fleet: Fleet, class_name: str) -> LargestClaim:
    """The largest claim for devices of the class that a node of the fleet has room for now."""
    found = LargestClaims(fleet, class_name)
    for _ in found.catch_up():
        pass
    return found.largest


@dataclass(slots=True)
class _Bounds:
    """What is known of a node. fitting: a claim for so many devices fits; too_many: one for so many does not.

    fails: whether the search for a single device ends with an error, as on a device on which a selector fails.
    """

    fitting: int = 0
    too_many: int = MAX_RESULTS + 1
    fails: bool = False

    @property
    def are_tight(self) -> bool:
        return self.too_many - self.fitting == 1

    def between(self, guess: int) -> int:
        """A count to try: the guess, one more, or the middle."""
        for count in (guess, guess + 1):
            if self.fitting < count < self.too_many:
                return count
        return (self.fitting + self.too_many) // 2


class LargestClaims:
    """The largest claim for devices of a class, followed node by node, for as long as the class stays as it is.

    budget_steps: of a search. A node on which a search spends them has no room for that claim.
    """

    def __init__(self, fleet: Fleet, class_name: str, budget_steps: int = BUDGET_STEPS) -> None:
        self._fleet = fleet
        self._claims = [[_claim(class_name, count)] for count in range(1, MAX_RESULTS + 1)]
        self._budget_steps = budget_steps
        self._kinds: HardwareKinds | None = None
        self._known: LruCache[Hashable, _Bounds] = LruCache(MOST_USES, MOST_USES)
        self._guess = 0
        self._of_node: dict[int, _Bounds] = {}
        self._by_count: dict[int, Mask] = {}
        self._seen = (-1, -1)

    def catch_up(self) -> Iterator[None]:
        """Look at the nodes that have changed. Between two steps of the iterator, others may work.

        Cost of a step: a search, or O(1) for a node that is like one before; usually two searches, at most eight, for
        any other node. What happens meanwhile is seen by then, or the next time.
        """
        now, touched = self._fleet.changed_nodes(self._seen)
        for number in sorted(self._numbers() if touched is None else touched):
            yield from self._look_at(number)
        self._seen = now

    @property
    def largest(self) -> LargestClaim:
        """As of the last `catch_up`, without nodes that are gone. The error of a node counts where no node has room."""
        for count in sorted(self._by_count, reverse=True):
            if nodes := self._by_count[count] & self._fleet.all:
                return LargestClaim(count, nodes)
        failing = (one for one in bits(self._fleet.all) if one in self._of_node and self._of_node[one].fails)
        return LargestClaim(error=next(map(self._error, failing), ""))

    def _error(self, number: int) -> str:
        """Why not even one device can be asked for on the node."""
        try:
            self._fits(number, 1)
        except AllocationError as error:
            return str(error)
        return ""

    def _numbers(self) -> set[int]:
        return {*self._of_node, *bits(self._fleet.all)}

    def _look_at(self, number: int) -> Iterator[None]:
        """The bounds are those of the node as it is, whatever has happened since the last step."""
        bounds = self._bounds(number)
        while bounds and not bounds.are_tight:
            self._tighten(bounds, number)
            yield
            bounds = self._bounds(number)
        self._put(number, bounds)
        self._guess = bounds.fitting if bounds else self._guess
        yield

    def _bounds(self, number: int) -> _Bounds | None:
        """Of all nodes that are like this one; None where there is no such node."""
        if not self._fleet.all >> number & 1:
            return None
        if self._kinds is None or not self._fleet.are_current(self._kinds):
            self._kinds = self._fleet.kinds(self._claims[0])
        key = self._kinds.of(number), self._fleet.usage_on(number)
        return self._known.get(key, 1, _Bounds)

    def _tighten(self, bounds: _Bounds, number: int) -> None:
        """Ask the allocator once. If a claim fits, so does each smaller one."""
        count = bounds.between(self._guess)
        try:
            fits = self._fits(number, count)
        except AllocationError:
            fits, bounds.fails = False, count == 1
        if fits:
            bounds.fitting = count
        else:
            bounds.too_many = count

    def _fits(self, number: int, count: int) -> bool:
        snapshot, node, claims = self._fleet.current, self._fleet.node(number), self._claims[count - 1]
        return isinstance(allocate(snapshot, node, claims, budget_steps=self._budget_steps), Allocated)

    def _put(self, number: int, bounds: _Bounds | None) -> None:
        old = self._of_node.pop(number, None)
        if bounds:
            self._of_node[number] = bounds
        if bounds is not old:
            self._flip(old, number)
            self._flip(bounds, number)

    def _flip(self, bounds: _Bounds | None, number: int) -> None:
        """Put the node among those with so much room, or take it away."""
        if bounds and bounds.fitting:
            nodes = self._by_count.pop(bounds.fitting, 0) ^ 1 << number
            if nodes:
                self._by_count[bounds.fitting] = nodes


def _claim(class_name: str, count: int) -> Claim:
    return Claim("", _NAME, _NAME, (Request("devices", (Alternative("devices", class_name, count=count),)),))


# Each pool with the state of every device, whichever nodes reach it: what is free, who holds the rest, what is left.
#
# The states come from the same rules as an allocation, asked of the pool as a whole. A free device may still be refused
# to a request: by its selectors, its constraints, or the nodes that reach the device. Source: KEP-4381 (pools),
# KEP-4815 (counters), KEP-5055 (taints), KEP-5075 (shares).


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
    holders: ClaimNames = ()
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
    unpublished: Mapping[str, ClaimNames] = field(default_factory=dict)
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


def _holders(usage: Usage, pool_id: PoolID) -> Mapping[str, ClaimNames]:
    names = sorted(usage.allocated_in(pool_id))
    return {name: tuple(sorted(usage.users(DeviceID(*pool_id, name)))) for name in names}


def _devices(pool: Pool, attempt: NodeAttempt, holders: Mapping[str, ClaimNames]) -> Iterator[DeviceStatus]:
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
    consumed = consumed_of(device, shares)
    return {name: Amount.of(total, total.nanos - consumed.get(name, 0)) for name, total in device.capacity.items()}


def _counters(pool: Pool, left: Mapping[CounterID, int]) -> Mapping[tuple[str, str], Amount]:
    return {
        (counter_set.name, name): Amount.of(total, left[pool.id, counter_set.name, name])
        for slice_ in (*pool.slices, *pool.elsewhere)
        for counter_set in slice_.counter_sets
        for name, total in counter_set.counters.items()
        if left
    }

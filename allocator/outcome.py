"""What an attempt comes to: data only; `allocator.explain.text` makes text of it.

`Allocated`, `Refused` (this node cannot, others may) and `Exhausted` (not known: the budget is spent)
are values, and name the features that were in force. An `AllocationError` aborts the attempt for every
node, as kube-scheduler does; its type says whose fault it is.
Source: allocation.md sections 10 and 11 of the design, KEP-4381.
"""

from dataclasses import dataclass

from allocator.gates import Features
from allocator.model import Allocation, DeviceID, PoolID
from allocator.search.rules import Category


@dataclass(frozen=True, slots=True)
class CapacityShort:
    """A capacity of which too little is left on `devices` devices.

    takes_all: the claim names no amount and the driver has no request policy, so that every share takes all of it.
    """

    capacity: str
    devices: int
    takes_all: bool


@dataclass(frozen=True, slots=True)
class DeviceRefusal:
    """One stage of the funnel: why `devices` of those still left were refused.

    reason: a phrase that follows the number, such as `in use` or `fail selector #0 of class gpu`. category: as in
    `Stage`. holders: the claims that have the devices or shares of them, with how many, the largest holder first.
    short: the capacities that are used up.
    """

    reason: str
    devices: tuple[DeviceID, ...]
    category: Category = "other"
    holders: tuple[tuple[str, int], ...] = ()
    short: tuple[CapacityShort, ...] = ()


@dataclass(frozen=True, slots=True)
class NotEnough:
    """A request needs more devices than the node has candidates for it.

    total: devices that the node reaches; refusals: in the order of the checks; left: what remains of total.
    """

    claim: str
    request: str
    wanted: int
    total: int
    refusals: tuple[DeviceRefusal, ...]
    left: int


@dataclass(frozen=True, slots=True)
class AllBlocked:
    """A request for all devices meets one that cannot be allocated. total: devices that it would have to get."""

    claim: str
    request: str
    total: int
    refusals: tuple[DeviceRefusal, ...]


@dataclass(frozen=True, slots=True)
class ConstraintUnmet:
    """A request or several have candidates enough, but not under the named constraint.

    best: the largest number of devices that satisfied it, of `wanted`.
    """

    claim: str
    constraint: str
    requests: tuple[str, ...]
    wanted: int
    best: int


@dataclass(frozen=True, slots=True)
class NotTogether:
    """Each request has devices enough, each constraint a value, but not all of it together."""

    claims: tuple[str, ...]


Cause = NotEnough | AllBlocked | ConstraintUnmet | NotTogether


@dataclass(frozen=True, slots=True)
class InvalidPoolSeen:
    """Nothing was found, and a pool of the node is contradictory (pool, what is wrong with it)."""

    pools: tuple[tuple[PoolID, str], ...]
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Allocated:
    """Every claim of the attempt gets its devices.

    allocations: in the order of the claims. steps: what it took, in the measure of the budget. score: how good the
    policy finds it, compared number by number; more is better.
    """

    allocations: tuple[Allocation, ...]
    steps: int
    features: Features
    score: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """No choice of devices of this node satisfies all claims together."""

    cause: Cause | InvalidPoolSeen
    steps: int
    features: Features


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The budget was spent before an answer was found: not known, never `impossible`."""

    steps: int
    features: Features


Outcome = Allocated | Refused | Exhausted


class AllocationError(Exception):
    """Aborts the attempt for every node (kube-scheduler's status Error: backoff)."""


class InvalidClaim(AllocationError):
    """The claim, or the class that it names, asks for what cannot be decided: the user's to mend."""


class InvalidPool(AllocationError):
    """The published slices do not allow a decision: the driver's to mend."""

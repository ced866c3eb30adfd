"""The outcome of an attempt: data only; `allocator.explain.text` words it. And the budget that it has.

`Allocated`, `Refused` (this node cannot, others may) and `Exhausted` (unknown: the budget is spent) are values, with
the features that were enabled. An `AllocationError` aborts the attempt for every node, as in kube-scheduler; its type
says whose fault it is.
Work is counted in what is read: devices, values, amounts, units of the cost of an expression. `WORK_OF_A_STEP` of it is
a step of the search, so that all steps take about as long, wherever the work is done.
Source: KEP-4381.
"""

from dataclasses import dataclass
from typing import Final, final

from allocator.bits import Mask
from allocator.gates import Features
from allocator.limits import Binding
from allocator.model import Allocation, DeviceID, PoolID
from allocator.search.rules import Category


@dataclass(frozen=True, slots=True)
class CapacityShort:
    """A capacity of which too little is left on `devices` devices.

    takes_all: every share takes all of it, since neither the claim nor a request policy names an amount.
    """

    capacity: str
    devices: int
    takes_all: bool


@dataclass(frozen=True, slots=True)
class DeviceRefusal:
    """One stage of the funnel: why `number` of the devices still left were refused.

    reason: a phrase that follows the number, such as `in use` or `fail selector #0 of class gpu`. devices: which they
    are; empty until they are named. category: as in `Stage`. holders: the claims that have the devices or shares of
    them, with how many, the largest holder first. short: the capacities that are used up. positions: of the devices in
    the view of the node.
    """

    reason: str
    number: int
    devices: tuple[DeviceID, ...] = ()
    category: Category = "other"
    holders: tuple[tuple[str, int], ...] = ()
    short: tuple[CapacityShort, ...] = ()
    positions: Mask = 0


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
    """A request for all devices includes one that cannot be allocated. total: devices that it asks for."""

    claim: str
    request: str
    total: int
    refusals: tuple[DeviceRefusal, ...]


JOINED = ", "
"""Between the names of claims that one constraint is over."""


@dataclass(frozen=True, slots=True)
class ConstraintUnmet:
    """Requests have enough candidates, but not under the named constraint.

    claim: its name, or those of several, with JOINED between them. best: the largest number of devices that satisfied
    it, of `wanted`.
    """

    claim: str
    constraint: str
    requests: tuple[str, ...]
    wanted: int
    best: int


@dataclass(frozen=True, slots=True)
class NotTogether:
    """Each request has enough devices, and each constraint a value, but not all together.

    requests: those that want more devices together than pass the checks of one of them; none if the reason is another
    one. claims: that they are of; without requests, all. wanted: by them. left: the devices that pass.
    """

    claims: tuple[str, ...]
    requests: tuple[str, ...] = ()
    wanted: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class PoolNotWhole:
    """A request for all devices cannot say how many these are: a pool of the node is being updated or invalid."""

    claim: str
    request: str


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The claims would get their devices, were it not for a limit of their namespace.

    number: of the limit among those that the attempt looks at. asked: what they would get beyond what is in use, in
    10**-9. limit: None until it is named: tenants of which the same is left share their answers.
    """

    claims: tuple[str, ...]
    number: int
    asked: int
    limit: Binding | None = None


Cause = NotEnough | AllBlocked | ConstraintUnmet | NotTogether | PoolNotWhole | LimitReached


@dataclass(frozen=True, slots=True)
class InvalidPoolSeen:
    """There is no answer, and pools of the node are invalid (pool, what is wrong with it)."""

    pools: tuple[tuple[PoolID, str], ...]
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Allocated:
    """Every claim of the attempt gets its devices.

    allocations: in the order of the claims. steps: of the budget. score: of the policy, compared number by number; more
    is better.
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
    """The budget was spent before an answer was found: whether there is one is unknown."""

    steps: int
    features: Features


Outcome = Allocated | Refused | Exhausted


class AllocationError(Exception):
    """Aborts the attempt for every node (kube-scheduler's status Error: backoff)."""


class InvalidClaim(AllocationError):
    """The claim or its class cannot be decided; the user has to correct it."""


class InvalidPool(AllocationError):
    """The published slices do not allow a decision; the driver has to correct them."""


class BrokenPool(InvalidPool):
    """All devices are asked for, and a pool of the node is being updated or invalid. cause: the same, of this node."""

    def __init__(self, cause: PoolNotWhole, problem: str) -> None:
        super().__init__(f"claim {cause.claim}, request {cause.request}: asks for all devices, but {problem}")
        self.cause = cause


class PolicyFailed(AllocationError):
    """A user's policy failed; its author has to correct it. The text names policy, file, line and error."""


WORK_OF_A_STEP: Final = 50
"""Devices, values and amounts read that count as one step; a quarter of a microsecond at most."""

FREE_STEPS: Final = 10_000
"""What an attempt may do before its search without using up its budget: far more than usual claims need."""

_UNLIMITED: Final = 1 << 62


class OutOfSteps(AllocationError):
    """The budget is spent before the search begins: whether there is an answer is not known."""


@final
class Budget:
    """The steps of one attempt, or of several. spent: work so far. evaluated: expressions that are charged already."""

    __slots__ = ("_most", "evaluated", "spent")

    def __init__(self, steps: int = _UNLIMITED) -> None:
        self.spent = 0
        self.evaluated: set[str] = set()
        self._most = (steps + FREE_STEPS) * WORK_OF_A_STEP

    @property
    def steps(self) -> int:
        """How many of the steps are spent."""
        return max(0, self.spent // WORK_OF_A_STEP - FREE_STEPS)

    def charge(self, work: int) -> None:
        """Count work that is done, or about to be. Raises OutOfSteps."""
        self.spent += work
        if self.spent > self._most:
            raise OutOfSteps(f"no answer within {self.steps} steps")

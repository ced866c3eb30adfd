"""How a library declares its functions: types, implementation, cost.

A module below `cel/ext/` exports `LIBRARY = Library("name", overloads=(...), types=(...))`. One overload, in full:

    Overload(
        "isGreaterThan", "quantity_is_greater_than",            # function name, the reference's overload id
        (types.QUANTITY, types.QUANTITY), types.BOOL,           # the receiver first, the result last
        implementation=lambda left, right: left > right,        # receives values, raises EvalError
        member=True,                                            # left.isGreaterThan(right)
        cost=lambda arguments: 1,                               # in the reference's units; 1 is the default
        estimate=lambda call: CallEstimate(ONCE),               # the same before any value is known; the default
    )

Implementations run only with arguments whose run-time types fit the declared parameters.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple, Protocol

from cel.values.types import Type
from cel.values.values import MAX_UINT, Value

STRING_FACTOR: Final = 0.1  # cost per character that is looked at
REGEX_FACTOR: Final = 0.25  # cost per character of a pattern
LIST_COST: Final = 10
MAP_COST: Final = 30
MESSAGE_COST: Final = 40


class Estimate(NamedTuple):
    """A range of sizes or of costs, from `low` to `high`; sums and products stop at 2**64 - 1."""

    low: int
    high: int

    def plus(self, other: "Estimate") -> "Estimate":
        """The sum."""
        return Estimate(min(self.low + other.low, MAX_UINT), min(self.high + other.high, MAX_UINT))

    def times(self, other: "Estimate") -> "Estimate":
        """The product."""
        return Estimate(min(self.low * other.low, MAX_UINT), min(self.high * other.high, MAX_UINT))

    def scaled(self, factor: float) -> "Estimate":
        """Each end times a cost factor, rounded up."""
        return Estimate(scaled(self.low, factor), scaled(self.high, factor))

    def union(self, other: "Estimate") -> "Estimate":
        """The smallest range that holds both."""
        return Estimate(min(self.low, other.low), max(self.high, other.high))


def scaled(size: int, factor: float) -> int:
    """`size` times a cost factor, rounded up, at most 2**64 - 1."""
    return min(math.ceil(float(size) * factor), MAX_UINT)


FREE: Final = Estimate(0, 0)
ONCE: Final = Estimate(1, 1)
UNKNOWN_SIZE: Final = Estimate(0, MAX_UINT)


class Operand(Protocol):
    """What is known of an argument before any value is there."""

    @property
    def type(self) -> Type:
        """The static type."""

    @property
    def size(self) -> Estimate:
        """The size: as computed from the expression, else as declared for the device, else UNKNOWN_SIZE."""

    @property
    def item_size(self) -> Estimate:
        """The size of an element, where it is a list; UNKNOWN_SIZE where nothing is declared."""

    @property
    def literal(self) -> Value:
        """The value of a literal, else `values.MISSING`."""


class CallEstimate(NamedTuple):
    """The cost of a call without its arguments, and the size of its result where one is known."""

    cost: Estimate
    size: Estimate | None = None


def estimate_once(_: Sequence[Operand]) -> CallEstimate:
    """The default estimate: one unit."""
    return CallEstimate(ONCE)


def cost_once(_: Sequence[Value]) -> int:
    """The default cost: one unit."""
    return 1


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    parameters: the receiver first where `member`. implementation: called with as many values; raises EvalError.
    cost(arguments): charged before the call, so a call that would exceed the limit is never made. An argument
    that failed stands there as an EvalError, whose `values.size_of` is 1.
    result_cost(arguments, result): instead of `cost`, where the size of the result counts; charged after the call,
    with an EvalError as result if it failed. Bound the result with `values.bounded` before making it.
    unresolved_cost(arguments): instead of `cost`, where dyn leaves several overloads of the function whose costs differ
    (of the first of them); None is one unit.
    estimate(operands): the checker's side of `cost`, receiver first.
    is_guarded: False where the reference binds one implementation for all overloads of the function, as for operators
    and `sort`: it refuses values of other types itself, and costs one unit where dyn leaves several overloads.
    takes_pattern: whether the second argument is a regular expression, which is compiled for the call.
    What an implementation does must be linear in the weight of its arguments, or in its cost.
    """

    function: str
    id: str
    parameters: tuple[Type, ...]
    result: Type
    _: KW_ONLY
    implementation: Callable[..., Value]
    member: bool = False
    cost: Callable[[Sequence[Value]], int] = cost_once
    result_cost: Callable[[Sequence[Value], Value], int] | None = None
    unresolved_cost: Callable[[Sequence[Value]], int] | None = None
    estimate: Callable[[Sequence[Operand]], CallEstimate] = estimate_once
    is_guarded: bool = True
    takes_pattern: bool = False


@dataclass(frozen=True, slots=True)
class Library:
    """The functions of one library. types: names of types that an expression may use, such as net.IP."""

    name: str
    overloads: tuple[Overload, ...]
    types: tuple[Type, ...] = ()

"""How a library declares its functions: types, implementation, cost.

A module below `cel/ext/` exports `LIBRARY = Library("name", overloads=(...), types=(...))`. One overload, in full:

    Overload(
        "isGreaterThan", "quantity_is_greater_than",            # function name, the reference's overload id
        (types.QUANTITY, types.QUANTITY), types.BOOL,           # the receiver first, the result last
        implementation=lambda left, right: left > right,        # receives values, raises EvalError
        member=True,                                            # left.isGreaterThan(right)
        cost=lambda arguments: 1,                               # in the reference's units; 1 is the default
        estimate=lambda call: CallEstimate(ONCE),               # the estimate before evaluation; this is the default
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
    """A range of sizes or of costs, from `low` to `high`; sums and products stop at 2**64 - 1.

    key, item: since 1.38, of the size of a map or list also the sizes of its keys, and of its values or elements. What
    is made of two sizes has the union of theirs.
    """

    low: int
    high: int
    key: "Estimate | None" = None
    item: "Estimate | None" = None

    def plus(self, other: "Estimate") -> "Estimate":
        """The sum."""
        low, high = min(self.low + other.low, MAX_UINT), min(self.high + other.high, MAX_UINT)
        return Estimate(low, high, either(self.key, other.key), either(self.item, other.item))

    def times(self, other: "Estimate") -> "Estimate":
        """The product."""
        low, high = min(self.low * other.low, MAX_UINT), min(self.high * other.high, MAX_UINT)
        return Estimate(low, high, either(self.key, other.key), either(self.item, other.item))

    def scaled(self, factor: float) -> "Estimate":
        """Each end times a cost factor, rounded up."""
        return Estimate(scaled(self.low, factor), scaled(self.high, factor))

    def scaled_if_bounded(self, factor: float) -> "Estimate":
        """As `scaled`; what has no upper end keeps none."""
        cost = self.scaled(factor)
        return cost._replace(high=MAX_UINT) if self.high == MAX_UINT else cost

    def union(self, other: "Estimate") -> "Estimate":
        """The smallest range that holds both."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Estimate(low, high, either(self.key, other.key), either(self.item, other.item))


def either(left: Estimate | None, right: Estimate | None) -> Estimate | None:
    """The range that holds both, of which one may be unknown."""
    return left.union(right) if left and right else left or right


def scaled(size: int, factor: float) -> int:
    """`size` times a cost factor, rounded up, at most 2**64 - 1."""
    return min(math.ceil(float(size) * factor), MAX_UINT)


FREE: Final = Estimate(0, 0)
ONCE: Final = Estimate(1, 1)
UNKNOWN_SIZE: Final = Estimate(0, MAX_UINT)


class Operand(Protocol):
    """What is known of an argument before evaluation."""

    @property
    def type(self) -> Type:
        """The static type."""

    @property
    def size(self) -> Estimate:
        """The size, from the expression or from the declaration of the device; else UNKNOWN_SIZE."""

    @property
    def item_size(self) -> Estimate:
        """The size of an element of a list, or UNKNOWN_SIZE."""

    @property
    def literal(self) -> Value:
        """The value of a literal, or `values.MISSING`."""


class CallEstimate(NamedTuple):
    """The cost of a call without its arguments, and the size of its result, if known."""

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
    """One signature of a function."""

    function: str
    id: str
    parameters: tuple[Type, ...]
    """The receiver first if `member`."""
    result: Type
    _: KW_ONLY
    implementation: Callable[..., Value]
    """Called with as many values; raises EvalError. It must run in time linear in the weight of its arguments, or in
    its cost.
    """
    member: bool = False
    cost: Callable[[Sequence[Value]], int] = cost_once
    """cost(arguments): charged before the call, so that a call beyond the limit is never made. A failed argument is an
    EvalError, whose `values.size_of` is 1.
    """
    result_cost: Callable[[Sequence[Value], Value], int] | None = None
    """result_cost(arguments, result): replaces `cost` if the size of the result counts; charged after the call, with an
    EvalError as result if it failed. Implementations limit the result by `values.bounded` before making it.
    """
    unresolved_cost: Callable[[Sequence[Value]], int] | None = None
    """unresolved_cost(arguments): replaces `cost` if dyn leaves several overloads with different costs (that of the
    first one counts); None is one unit.
    """
    beside: Callable[[Sequence[Value]], int] | None = None
    """beside(arguments): work that the reference's cost leaves out, as `cel.program.Worked` has it."""
    estimate: Callable[[Sequence[Operand]], CallEstimate] = estimate_once
    """estimate(operands): the estimate of `cost`, receiver first."""
    is_guarded: bool = True
    """False if the reference binds one implementation for all overloads of the function, as for operators and `sort`:
    it checks the types itself, and costs one unit if dyn leaves several overloads.
    """
    takes_pattern: bool = False
    """Whether the second argument is a regular expression, which is compiled for the call."""


@dataclass(frozen=True, slots=True)
class Library:
    """The functions of one library. types: names of types that an expression may use, such as net.IP."""

    name: str
    overloads: tuple[Overload, ...]
    types: tuple[Type, ...] = ()

"""The operators on values at run time: `+`, `-`, `<`, `in` and so on.

An operator is one function for all its overloads: it dispatches by the classes of the operands, and fails if none fits.
Equality is in `values`.
Source: common/types of github.com/google/cel-go.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from cel.errors import EvalAbortedError, EvalError, no_such_overload
from cel.values import moments
from cel.values.numbers import checked_int, checked_uint, int_overflow
from cel.values.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT
from cel.values.values import Duration, List, Map, Timestamp, Uint, Value, bounded, contains, equal, weight_of

_Operation: TypeAlias = Callable[..., Value]
_Overloads: TypeAlias = Mapping[tuple[type, type], _Operation]


def _operator(table: _Overloads) -> Callable[[Value, Value], Value]:
    """A binary operator that dispatches by the classes of both operands."""

    def operate(left: Value, right: Value) -> Value:
        operation = table.get((type(left), type(right)))
        if operation is None:
            raise no_such_overload()
        return operation(left, right)

    return operate


def _joined_text(left: str, right: str) -> str:
    bounded((len(left) + len(right)) // 64)
    return left + right


def _joined_bytes(left: bytes, right: bytes) -> bytes:
    bounded((len(left) + len(right)) // 64)
    return left + right


def _joined_lists(left: List, right: List) -> List:
    if not left:
        return right
    if not right:
        return left
    bounded(left.weight + right.weight)
    return List((*left, *right), joined=True)


add = _operator(
    {
        (int, int): lambda left, right: checked_int(left + right),
        (Uint, Uint): lambda left, right: checked_uint(int(left) + int(right)),
        (float, float): lambda left, right: left + right,
        (str, str): _joined_text,
        (bytes, bytes): _joined_bytes,
        (List, List): _joined_lists,
        (Duration, Duration): lambda left, right: moments.checked_duration(left.nanos + right.nanos),
        (Duration, Timestamp): lambda left, right: moments.moved(right, left.nanos),
        (Timestamp, Duration): lambda left, right: moments.moved(left, right.nanos),
    }
)

subtract = _operator(
    {
        (int, int): lambda left, right: checked_int(left - right),
        (Uint, Uint): lambda left, right: checked_uint(int(left) - int(right)),
        (float, float): lambda left, right: left - right,
        (Duration, Duration): lambda left, right: moments.checked_duration(left.nanos - right.nanos),
        (Timestamp, Duration): lambda left, right: moments.moved(left, moments.checked_duration(-right.nanos).nanos),
        (Timestamp, Timestamp): moments.between,
    }
)

multiply = _operator(
    {
        (int, int): lambda left, right: checked_int(left * right),
        (Uint, Uint): lambda left, right: checked_uint(int(left) * int(right)),
        (float, float): lambda left, right: left * right,
    }
)


def _divided_ints(left: int, right: int) -> int:
    if right == 0:
        raise EvalError("division by zero")
    return checked_int(moments.truncated(left, right))


def _divided_uints(left: Uint, right: Uint) -> Uint:
    if right == 0:
        raise EvalError("division by zero")
    return Uint(int(left) // int(right))


def _divided_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


divide = _operator({(int, int): _divided_ints, (Uint, Uint): _divided_uints, (float, float): _divided_doubles})


def _remaining_int(left: int, right: int) -> int:
    if right == 0:
        raise EvalError("modulus by zero")
    if right == -1 and checked_int(left) == -(2**63):
        raise int_overflow()
    return int(math.copysign(1, left)) * (abs(left) % abs(right))


def _remaining_uint(left: Uint, right: Uint) -> Uint:
    if right == 0:
        raise EvalError("modulus by zero")
    return Uint(int(left) % int(right))


modulo = _operator({(int, int): _remaining_int, (Uint, Uint): _remaining_uint})


def negate(value: Value) -> Value:
    """`-value`."""
    if type(value) is int:
        return checked_int(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return moments.checked_duration(-value.nanos)
    raise no_such_overload()


def invert(value: Value) -> Value:
    """`!value`."""
    if value is True:
        return False
    if value is False:
        return True
    raise no_such_overload()


def _sign(left: Value, right: Value) -> int:
    return (left > right) - (left < right)  # type: ignore[operator, no-any-return]


def _compare_with_double(number: int, double: float) -> int:
    if math.isnan(double):
        raise EvalError("NaN values cannot be ordered")
    return _sign(float(number), double)


def _compare_doubles(left: float, right: float) -> int:
    if math.isnan(left) or math.isnan(right):
        raise EvalError("NaN values cannot be ordered")
    return _sign(left, right)


def _compare_nanos(left: Duration | Timestamp, right: Duration | Timestamp) -> int:
    return _sign(left.nanos, right.nanos)


_COMPARE: Final[Mapping[tuple[type, type], Callable[..., int]]] = {
    **{(class_, class_): _sign for class_ in (bool, int, Uint, str, bytes)},
    (int, Uint): _sign,
    (Uint, int): _sign,
    (float, float): _compare_doubles,
    (int, float): _compare_with_double,
    (Uint, float): _compare_with_double,
    (float, int): lambda left, right: -_compare_with_double(right, left),
    (float, Uint): lambda left, right: -_compare_with_double(right, left),
    (Duration, Duration): _compare_nanos,
    (Timestamp, Timestamp): _compare_nanos,
}


_ORDERED: Final = frozenset(left for left, _ in _COMPARE)


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1. Numbers of different types are comparable; an integer beside a double becomes the nearest double."""
    comparison = _COMPARE.get((type(left), type(right)))
    if comparison is None:
        raise no_such_overload()
    return comparison(left, right)


def less(left: Value, right: Value) -> bool:
    """`left < right`."""
    return compare(left, right) < 0


def less_equals(left: Value, right: Value) -> bool:
    """`left <= right`."""
    return compare(left, right) <= 0


def greater(left: Value, right: Value) -> bool:
    """`left > right`."""
    return compare(left, right) > 0


def greater_equals(left: Value, right: Value) -> bool:
    """`left >= right`."""
    return compare(left, right) >= 0


def without_nan(comparison: Callable[[Value, Value], bool]) -> Callable[[Value, Value], bool]:
    """The comparison, where nothing is less or greater than NaN; before 1.38 that is an error."""

    def compared(left: Value, right: Value) -> bool:
        has_nan = any(type(one) is float and math.isnan(one) for one in (left, right))
        return False if has_nan and type(left) in _ORDERED else comparison(left, right)

    return compared


def is_in(wanted: Value, container: Value) -> bool:
    """`wanted in container`."""
    if type(container) is List:
        return contains(container, wanted)
    if isinstance(container, Map):
        return container.holds(wanted)
    raise no_such_overload()


def size(value: Value) -> int:
    """The number of code points, bytes, elements or entries."""
    if isinstance(value, str | bytes | List | Map):
        return len(value)
    raise no_such_overload()


# Equality of many pairs of values, with a limit on the total work.
#
# The reference charges functions such as `distinct` by the number of pairs only, regardless of the size of the values.
# A list that contains another one many times over would keep the evaluation busy for hours.


_MOST_COMPARED: Final = 2**24


class Comparisons:
    """The comparisons of one call; raises EvalAbortedError when their total weight exceeds 2**24."""

    __slots__ = ("_compared",)

    def __init__(self) -> None:
        self._compared = 0

    def is_equal(self, left: Value, right: Value) -> bool:
        """Whether `left == right`; an error counts as unequal."""
        self._compared += min(weight_of(left), weight_of(right))
        if self._compared > _MOST_COMPARED:
            raise EvalAbortedError("operation cancelled: the values are too large to be compared")
        try:
            return equal(left, right)
        except EvalAbortedError:
            raise
        except EvalError:
            return False

    def contains(self, items: Iterable[Value], wanted: Value) -> bool:
        """Whether `wanted == item` for one of the items."""
        return any(self.is_equal(wanted, item) for item in items)


# The order of values in functions on lists: pairs without an order are skipped, not reported.
#
# Source: the Comparer trait of github.com/google/cel-go.


ORDERED_TYPES: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_ORDERED_CLASSES: Final = frozenset({int, Uint, float, bool, Duration, Timestamp, str, bytes})


def is_ordered(value: Value) -> bool:
    """Whether the values of this class have an order."""
    return type(value) in _ORDERED_CLASSES


def order_of(left: Value, right: Value) -> int | None:
    """-1, 0 or 1, or None if there is no order, such as between NaN and another number."""
    try:
        return compare(left, right)
    except EvalError:
        return None

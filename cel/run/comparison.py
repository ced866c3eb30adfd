"""Equality and order of values, as CEL has them."""

from collections.abc import Iterable
from typing import Final

from cel.errors import EvalAbortedError, EvalError
from cel.run.arithmetic import compare
from cel.values.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT
from cel.values.values import Duration, Timestamp, Uint, Value, equal, weight_of

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

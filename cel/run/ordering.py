"""The order of values in functions on lists: pairs without an order are skipped, not reported.

Source: the Comparer trait of github.com/google/cel-go.
"""

from typing import Final

from cel.errors import EvalError
from cel.run.arithmetic import compare
from cel.values.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT
from cel.values.values import Duration, Timestamp, Uint, Value

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

"""Equality between many pairs of values, with a bound on the work that heavy values cause.

The reference charges functions such as `distinct` for the number of pairs only, whatever the values weigh; a list
that is shared many times over would then keep the evaluation busy for hours.
"""

from collections.abc import Iterable
from typing import Final

from cel.errors import EvalAbortedError, EvalError
from cel.values.values import Value, equal, weight_of

_MOST_PARTS: Final = 2**24


class Comparisons:
    """The comparisons of one call: raises EvalAbortedError once they have looked at more than 2**24 parts."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts = 0

    def is_equal(self, left: Value, right: Value) -> bool:
        """Whether `left == right`, where an error means no."""
        self._parts += min(weight_of(left), weight_of(right))
        if self._parts > _MOST_PARTS:
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

"""CEL's `sets.contains`, `sets.equivalent` and `sets.intersects`: lists as sets.

Source: github.com/google/cel-go/ext/sets.go.
"""

from collections.abc import Callable, Sequence
from typing import Final

from cel.check.overloads import ONCE, CallEstimate, Library, Operand, Overload
from cel.run.arithmetic import Comparisons
from cel.values.types import BOOL, list_of, parameter
from cel.values.values import List, Value, size_of

_LIST: Final = list_of(parameter("T"))


def _contains(items: List, wanted: List) -> bool:
    comparisons = Comparisons()
    return all(comparisons.contains(items, item) for item in wanted)


def _is_equivalent(left: List, right: List) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: List, right: List) -> bool:
    comparisons = Comparisons()
    return any(comparisons.contains(right, item) for item in left)


def _comparison(function: str, id_: str, implementation: Callable[..., bool], comparisons: int) -> Overload:
    """A test of two lists, each of whose pairs is compared so many times."""

    def cost(arguments: Sequence[Value]) -> int:
        return 1 + comparisons * size_of(arguments[0]) * size_of(arguments[1])

    def estimate(operands: Sequence[Operand]) -> CallEstimate:
        pairs = operands[0].size.times(operands[1].size)
        return CallEstimate(pairs.scaled(comparisons).plus(ONCE))

    return Overload(function, id_, (_LIST, _LIST), BOOL, implementation=implementation, cost=cost, estimate=estimate)


LIBRARY: Final = Library(
    "cel.lib.ext.sets",
    overloads=(
        _comparison("sets.contains", "list_sets_contains_list", _contains, 1),
        _comparison("sets.equivalent", "list_sets_equivalent_list", _is_equivalent, 2),
        _comparison("sets.intersects", "list_sets_intersects_list", _intersects, 1),
    ),
)

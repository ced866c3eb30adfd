"""CEL's list functions: `slice`, `flatten`, `sort`, `sortBy`, `distinct`, `reverse` and `lists.range`.

`sortBy` is a macro, which calls `@sortByAssociatedKeys` here with the list and the keys of its elements.
Source: github.com/google/cel-go/ext/lists.go, version 3.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key
from typing import Final, NamedTuple, TypeVar

from cel.check.overloads import (
    LIST_COST,
    ONCE,
    STRING_FACTOR,
    CallEstimate,
    Estimate,
    Library,
    Operand,
    Overload,
    cost_once,
)
from cel.errors import EvalAbortedError, EvalError, no_such_overload
from cel.run.arithmetic import ORDERED_TYPES, Comparisons, is_ordered, order_of
from cel.values.types import BYTES, DYN, INT, STRING, Type, list_of, parameter
from cel.values.values import MAX_UINT, List, Value, bounded, size_of

_LONGEST_RANGE: Final = 1_000_000
_INSERTION_SORT: Final = 12  # elements; up to here Go sorts by insertion, which shows where keys have no order
_CALL_COST: Final = 1 + LIST_COST

_T = TypeVar("_T")


def _slice(items: List, start: int, end: int) -> List:
    if start < 0 or end < 0:
        raise EvalError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvalError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvalError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return List(items[start:end])


def _flatten(items: Value, depth: Value = 1) -> List:
    # Not guarded by its types: a list whose first element is no list may be flattened as well.
    if not isinstance(items, List) or type(depth) is not int:
        raise no_such_overload()
    if depth < 0:
        raise EvalError("level must be non-negative")
    return List(_flattened(items, depth))


def _flattened(items: List, depth: int) -> Iterator[Value]:
    levels = [iter(items)]
    while levels:
        item = next(levels[-1], levels)
        if item is levels:
            levels.pop()
        elif isinstance(item, List) and len(levels) <= depth:
            levels.append(iter(item))
        else:
            yield item


def _sort(items: Value) -> List:
    return _sort_by_keys(items, items)


def _sort_by_keys(items: Value, keys: Value) -> List:
    """The items in the order of their keys; items with equal keys stay in their order."""
    # Not guarded by its types: the reference has one implementation for all of them.
    if not isinstance(items, List) or not isinstance(keys, List):
        raise no_such_overload()
    if len(items) != len(keys):
        raise EvalError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    if not is_ordered(keys[0]):
        raise EvalError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvalError("list elements must have the same type")
    return List(items[index] for index in _sorted_indices(keys))


def _sorted_indices(keys: List) -> list[int]:
    if len(keys) <= _INSERTION_SORT:
        return _inserted_indices(keys)

    def order(left: int, right: int) -> int:
        return order_of(keys[left], keys[right]) or 0

    # Differs from kube-scheduler: its sort of more than 12 items is not stable.
    return sorted(range(len(keys)), key=cmp_to_key(order))


def _inserted_indices(keys: List) -> list[int]:
    indices: list[int] = []
    for index in range(len(keys)):
        place = index
        while place and order_of(keys[index], keys[indices[place - 1]]) == -1:
            place -= 1
        indices.insert(place, index)
    return indices


def _range(size: int) -> List:
    if size < 0:
        raise EvalError(f"lists.range: size must be non-negative, got {size}")
    if size > _LONGEST_RANGE:
        raise EvalError(f"lists.range: size {size} exceeds maximum allowed ({_LONGEST_RANGE})")
    return List(range(size))


def _range_before_1_37(size: int) -> List:
    return List(range(bounded(max(size, 0))))


def _distinct(items: List) -> List:
    comparisons = Comparisons()
    distinct: list[Value] = []
    for item in items:
        if not comparisons.contains(distinct, item):
            distinct.append(item)
    return List(distinct)


def _output_cost(_: Sequence[Value], result: Value) -> int:
    """Since 1.38 a call that fails makes nothing."""
    return _CALL_COST + (0 if isinstance(result, EvalError) else size_of(result))


def _output_cost_before_1_38(_: Sequence[Value], result: Value) -> int:
    return _CALL_COST + size_of(result)


def _flatten_cost_since_1_38(arguments: Sequence[Value]) -> int:
    depth = _value(arguments[1], int) if len(arguments) > 1 else 1
    return _allocation_cost(size_of(arguments[0]), float(max(depth, 0)))


def _flatten_cost(arguments: Sequence[Value]) -> int:
    depth = _value(arguments[1], int) if len(arguments) > 1 else 1
    return _allocation_cost(size_of(arguments[0]), 1.0 if depth < 0 else float(depth))


def _flatten_cost_before_1_37(arguments: Sequence[Value]) -> int:
    """A negative depth is a negative cost, which wraps around."""
    depth = _value(arguments[1], int) if len(arguments) > 1 else 1
    return (size_of(arguments[0]) * depth + _CALL_COST) % 2**64 if depth < 0 else _flatten_cost(arguments)


def _comparison_cost(keys: Value) -> int:
    """Every pair of the keys, at the worst."""
    items = _value(keys, List)
    factor = 2.0 + (STRING_FACTOR if items and isinstance(items[0], str | bytes) else 0.0)
    return _allocation_cost(len(items) ** 2, factor)


def _allocation_cost(size: int, factor: float) -> int:
    product = float(size) * factor
    # What a uint64 does not hold becomes 2**63 where the reference runs (amd64).
    return (int(product) if product < 2.0**64 else 2**63) + _CALL_COST


def _value(argument: Value, class_: type[_T]) -> _T:
    """The argument, unless it failed: there the reference crashes, and no logic absorbs that."""
    if type(argument) is not class_:
        raise EvalAbortedError("internal error: the argument of a list function failed")
    return argument


def _allocation_estimate(size: Estimate, factor: float) -> CallEstimate:
    return CallEstimate(size.scaled(factor).plus(Estimate(_CALL_COST, _CALL_COST)), size)


def _slice_estimate(operands: Sequence[Operand]) -> CallEstimate:
    size = (_literal(operands[2], operands[0].size.high) - _literal(operands[1], 0)) % 2**64
    return _allocation_estimate(Estimate(size, size, item=operands[0].size.item), 1)


def _range_estimate(operands: Sequence[Operand]) -> CallEstimate:
    size = _literal(operands[0], MAX_UINT)
    return _allocation_estimate(Estimate(size, size, item=ONCE), 1)


def _flatten_estimate(operands: Sequence[Operand]) -> CallEstimate:
    depth = _literal(operands[1], MAX_UINT) if len(operands) > 1 else 1
    return _allocation_estimate(operands[0].size, float(depth))


def _flatten_estimate_since_1_38(operands: Sequence[Operand]) -> CallEstimate:
    """A negative depth, which is an error, bounds nothing."""
    depth = operands[1].literal if len(operands) > 1 else 1
    is_negative = type(depth) is int and depth < 0
    return _allocation_estimate(operands[0].size, float(MAX_UINT)) if is_negative else _flatten_estimate(operands)


def _reverse_estimate(operands: Sequence[Operand]) -> CallEstimate:
    return _allocation_estimate(operands[0].size, 1)


def _comparison_estimate(keys: Operand, of: Operand, item: Type | None = None) -> CallEstimate:
    """of: the list that is sorted by the keys; the reference takes the number of pairs for the size of the result."""
    factor = 2.0 + (STRING_FACTOR if item in (STRING, BYTES) else 0.0)
    return _allocation_estimate(keys.size.times(keys.size)._replace(item=of.size.item), factor)


def _distinct_estimate_before_1_38(operands: Sequence[Operand]) -> CallEstimate:
    return _comparison_estimate(operands[0], operands[0])


def _distinct_estimate(operands: Sequence[Operand]) -> CallEstimate:
    items = operands[0]
    return _comparison_estimate(items, items, items.type.parameters[0] if items.type.parameters else None)


def _literal(operand: Operand, default: int) -> int:
    """The value of a literal int, at least 0; the default for anything else."""
    return max(operand.literal, 0) if type(operand.literal) is int else default


def _sorting(type_: Type) -> Overload:
    return Overload(
        "sort",
        f"list_{type_.name}_sort",
        (list_of(type_),),
        list_of(type_),
        implementation=_sort,
        member=True,
        is_guarded=False,
        cost=lambda arguments: _comparison_cost(arguments[0]),
        unresolved_cost=cost_once,
        estimate=lambda operands: _comparison_estimate(operands[0], operands[0], type_),
    )


def _sorting_by_keys(type_: Type) -> Overload:
    return Overload(
        "@sortByAssociatedKeys",
        f"list_{type_.name}_sortByAssociatedKeys",
        (_LIST, list_of(type_)),
        _LIST,
        implementation=_sort_by_keys,
        member=True,
        is_guarded=False,
        cost=lambda arguments: _comparison_cost(arguments[1]),
        unresolved_cost=cost_once,
        estimate=lambda operands: _comparison_estimate(operands[1], operands[0], type_),
    )


def _flattening(
    cost: Callable[[Sequence[Value]], int], estimate: Callable[[Sequence[Operand]], CallEstimate]
) -> tuple[Overload, Overload]:
    def overload(id_: str, parameters: tuple[Type, ...], result: Type) -> Overload:
        return Overload(
            "flatten",
            id_,
            parameters,
            result,
            implementation=_flatten,
            member=True,
            is_guarded=False,
            cost=cost,
            estimate=estimate,
        )

    by_depth = overload("list_flatten_int", (list_of(DYN), INT), list_of(DYN))
    return overload("list_flatten", (list_of(_LIST),), _LIST), by_depth


class _Changes(NamedTuple):
    """What differs by release: how many elements a range may have, what a call costs, what is estimated."""

    range_: Callable[[int], List]
    output_cost: Callable[[Sequence[Value], Value], int]
    flatten_cost: Callable[[Sequence[Value]], int]
    flatten_estimate: Callable[[Sequence[Operand]], CallEstimate]
    distinct_estimate: Callable[[Sequence[Operand]], CallEstimate]


_LIST: Final = list_of(parameter("T"))


def _library(changes: _Changes) -> Library:
    return Library(
        "cel.lib.ext.lists",
        overloads=(
            Overload(
                "slice",
                "list_slice",
                (_LIST, INT, INT),
                _LIST,
                implementation=_slice,
                member=True,
                result_cost=changes.output_cost,
                estimate=_slice_estimate,
            ),
            *map(_sorting, ORDERED_TYPES),
            *map(_sorting_by_keys, ORDERED_TYPES),
            Overload(
                "reverse",
                "list_reverse",
                (_LIST,),
                _LIST,
                implementation=lambda items: List(items[::-1]),
                member=True,
                result_cost=changes.output_cost,
                estimate=_reverse_estimate,
            ),
            Overload(
                "distinct",
                "list_distinct",
                (_LIST,),
                _LIST,
                implementation=_distinct,
                member=True,
                cost=lambda arguments: _comparison_cost(arguments[0]),
                estimate=changes.distinct_estimate,
            ),
            *_flattening(changes.flatten_cost, changes.flatten_estimate),
            Overload(
                "lists.range",
                "lists_range",
                (INT,),
                list_of(INT),
                implementation=changes.range_,
                result_cost=changes.output_cost,
                estimate=_range_estimate,
            ),
        ),
    )


_AS_OF_1_37: Final = _Changes(
    _range, _output_cost_before_1_38, _flatten_cost, _flatten_estimate, _distinct_estimate_before_1_38
)

LIBRARY: Final = _library(
    _Changes(_range, _output_cost, _flatten_cost_since_1_38, _flatten_estimate_since_1_38, _distinct_estimate)
)
LIBRARY_1_37: Final = _library(_AS_OF_1_37)
LIBRARY_1_36: Final = _library(_AS_OF_1_37._replace(range_=_range_before_1_37, flatten_cost=_flatten_cost_before_1_37))

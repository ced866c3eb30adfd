"""Kubernetes' functions on lists: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf` and `includes`.

Source: k8s.io/apiserver/pkg/cel/library/lists.go, version 1, with the costs of cost.go; `includes` of 1.36 was
k8s.io/dynamic-resource-allocation's own.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cel.check.overloads import CallEstimate, Estimate, Library, Operand, Overload
from cel.errors import EvalError, no_such_overload
from cel.ext.declare import traversal, traversal_estimate
from cel.run.arithmetic import ORDERED_TYPES, Comparisons, add, is_ordered, order_of
from cel.values.types import BOOL, DOUBLE, DURATION, DYN, INT, TIMESTAMP, UINT, Type, list_of, parameter
from cel.values.values import Duration, List, Uint, Value, weight_of

_MOST_VALUES: Final = 48  # of all attributes of a device together
_NAMES: Final = {DURATION: "duration", TIMESTAMP: "timestamp"}


def _ordered(items: List) -> Iterator[Value]:
    for item in items:
        if not is_ordered(item):
            raise no_such_overload()
        yield item


def _is_sorted(items: List) -> bool:
    before: Value = None
    for index, item in enumerate(_ordered(items)):
        if index and order_of(before, item) == 1:
            return False
        before = item
    return True


def _extreme(function: str, better: int) -> Callable[[List], Value]:
    """The first element that no later one is better than; `better` is how it then compares with that one."""

    def implementation(items: List) -> Value:
        best: Value = None
        for index, item in enumerate(_ordered(items)):
            if index == 0 or order_of(best, item) == better:
                best = item
        if not items:
            raise EvalError(f"{function} called on empty list")
        return best

    return implementation


def _sum_from(zero: Value) -> Callable[[List], Value]:
    def implementation(items: List) -> Value:
        total = zero
        for item in items:
            total = add(total, item)
        return total

    return implementation


def _index_of(items: List, wanted: Value) -> int:
    comparisons = Comparisons()
    return next((index for index, item in enumerate(items) if comparisons.is_equal(item, wanted)), -1)


def _last_index_of(items: List, wanted: Value) -> int:
    comparisons = Comparisons()
    indices = range(len(items) - 1, -1, -1)
    return next((index for index in indices if comparisons.is_equal(items[index], wanted)), -1)


def _includes(target: Value, wanted: Value) -> bool:
    comparisons = Comparisons()
    items = target if isinstance(target, List) else (target,)
    return any(comparisons.is_equal(item, wanted) for item in items)


def _includes_before_1_37(target: Value, wanted: Value) -> bool:
    if not isinstance(target, List) or len(target) <= _MOST_VALUES:
        return _includes(target, wanted)
    if _includes(List(target[:_MOST_VALUES]), wanted):
        return True
    raise EvalError(f"'includes' function cannot be applied to lists longer than {_MOST_VALUES} values")


def _estimate_before_1_37(_: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(Estimate(0, _MOST_VALUES))


def _includes_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """A target of unknown type may be a list, whose elements are then compared one by one."""
    if operands[0].type.parameters:
        return traversal_estimate(operands)
    return CallEstimate(operands[0].size.scaled(1))


def _traversing(
    function: str, id_: str, parameters: tuple[Type, ...], result: Type, implementation: Callable[..., Value]
) -> Overload:
    return Overload(
        function,
        id_,
        parameters,
        result,
        implementation=implementation,
        member=True,
        cost=traversal,
        beside=_work_of_comparing,
        estimate=traversal_estimate,
    )


def _work_of_comparing(arguments: Sequence[Value]) -> int:
    return 4 * weight_of(arguments[0])


def _name(type_: Type) -> str:
    return _NAMES.get(type_, type_.name)


_ZEROS: Final = {INT: 0, UINT: Uint(0), DOUBLE: 0.0, DURATION: Duration(0)}
_A: Final = parameter("A")
_LIST_OF_A: Final = list_of(_A)

_OVERLOADS: Final = (
    *(
        _traversing("isSorted", f"list_{_name(type_)}_is_sorted_bool", (list_of(type_),), BOOL, _is_sorted)
        for type_ in ORDERED_TYPES
    ),
    *(
        _traversing("sum", f"list_{_name(type_)}_sum_{_name(type_)}", (list_of(type_),), type_, _sum_from(zero))
        for type_, zero in _ZEROS.items()
    ),
    *(
        _traversing(
            function,
            f"list_{_name(type_)}_{function}_{_name(type_)}",
            (list_of(type_),),
            type_,
            _extreme(function, better),
        )
        for function, better in (("max", -1), ("min", 1))
        for type_ in ORDERED_TYPES
    ),
    _traversing("indexOf", "list_a_index_of_int", (_LIST_OF_A, _A), INT, _index_of),
    _traversing("lastIndexOf", "list_a_last_index_of_int", (_LIST_OF_A, _A), INT, _last_index_of),
)
_INCLUDES: Final = Overload(
    "includes",
    "list_includes_dyn_dyn",
    (DYN, DYN),
    BOOL,
    implementation=_includes,
    member=True,
    cost=traversal,
    beside=_work_of_comparing,
    estimate=_includes_estimate,
)
_INCLUDES_BEFORE_1_37: Final = Overload(
    "includes",
    "dra_includes_dyn_dyn",
    (DYN, DYN),
    BOOL,
    implementation=_includes_before_1_37,
    member=True,
    estimate=_estimate_before_1_37,
)

LIBRARY_WITHOUT_INCLUDES: Final = Library("kubernetes.lists", overloads=_OVERLOADS)
LIBRARY: Final = Library("kubernetes.lists", overloads=(*_OVERLOADS, _INCLUDES))
LIBRARY_1_36: Final = Library("kubernetes.lists", overloads=(*_OVERLOADS, _INCLUDES_BEFORE_1_37))

"""What several libraries declare alike: costs with their estimates, and short forms of common declarations.

Source: k8s.io/apiserver/pkg/cel/library/cost.go, which charges by the name of a function.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from cel.check.overloads import ONCE, REGEX_FACTOR, STRING_FACTOR, CallEstimate, Operand, Overload, scaled
from cel.errors import EvalError
from cel.values.types import Kind, Type
from cel.values.values import List, Map, Value, size_of


def scan(arguments: Sequence[Value]) -> int:
    """The cost of reading the first argument once, such as parsing it."""
    return scaled(size_of(arguments[0]), STRING_FACTOR)


def scan_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """The estimate of `scan`."""
    return CallEstimate(operands[0].size.scaled(STRING_FACTOR))


def scan_estimate_since_1_38(operands: Sequence[Operand]) -> CallEstimate:
    """The same where a size without bound costs without bound."""
    return CallEstimate(operands[0].size.scaled_if_bounded(STRING_FACTOR))


def transformation_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """`scan` for a function whose result is as large as its first argument."""
    return CallEstimate(operands[0].size.scaled(STRING_FACTOR), operands[0].size)


def double_scan(arguments: Sequence[Value]) -> int:
    """The cost of reading the first argument twice, or of reading it and writing it again."""
    return scaled(size_of(arguments[0]), 2 * STRING_FACTOR)


def double_scan_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """The estimate of `double_scan`."""
    return CallEstimate(operands[0].size.scaled(2 * STRING_FACTOR))


def pattern_search(arguments: Sequence[Value]) -> int:
    """The cost of searching the first argument for the pattern in the second; an empty text counts as well."""
    return pattern_cost(size_of(arguments[0]), size_of(arguments[1]))


def pattern_cost(text_size: int, pattern_size: int) -> int:
    """The cost of searching a text for a pattern, by their sizes in characters."""
    return scaled(text_size + 1, STRING_FACTOR) * scaled(pattern_size, REGEX_FACTOR)


def pattern_search_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """The estimate of `pattern_search`; the result is at most as large as the text."""
    text, pattern = operands[0].size, operands[1].size
    cost = text.plus(ONCE).scaled(STRING_FACTOR).times(pattern.scaled(REGEX_FACTOR))
    return CallEstimate(cost, text._replace(low=0))


def traversal(arguments: Sequence[Value]) -> int:
    """The cost of traversing the first argument: a tenth per byte of text, one for any other leaf."""
    cost, pending = 0, [arguments[0]]
    while pending:
        value = pending.pop()
        if isinstance(value, List):
            pending.extend(value)
        elif isinstance(value, Map):
            for pair in value.items():
                pending.extend(pair)
        else:
            cost += _leaf_cost(value)
    return cost


def _leaf_cost(value: Value) -> int:
    if isinstance(value, str):
        return int(len(value.encode()) * STRING_FACTOR)  # rounded down, unlike other costs
    return int(len(value) * STRING_FACTOR) if isinstance(value, bytes) else 1


def traversal_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """The estimate of `traversal`: of a list, or of a string where the type says no more."""
    receiver = operands[0]
    if not receiver.type.parameters:
        return CallEstimate(receiver.size.scaled(STRING_FACTOR))
    item = ONCE
    if receiver.type.parameters[0].kind in (Kind.STRING, Kind.BYTES):
        item = item.plus(receiver.item_size.scaled(STRING_FACTOR))
    return CallEstimate(receiver.size.times(item))


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def method(
    function: str, id_: str, parameters: tuple[Type, ...], result: Type, implementation: Callable[..., Value]
) -> Overload:
    """A member function that costs one unit."""
    return Overload(function, id_, parameters, result, implementation=implementation, member=True)


def scanning(
    function: str, id_: str, parameters: tuple[Type, ...], result: Type, implementation: Callable[..., Value]
) -> Overload:
    """A global function that reads its first argument once, such as a parser."""
    return Overload(
        function,
        id_,
        parameters,
        result,
        implementation=implementation,
        cost=scan,
        estimate=scan_estimate,
    )


def with_eval_errors(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`function` with every ValueError raised as an EvalError of the same text."""

    @wraps(function)
    def implementation(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return function(*arguments, **named)
        except ValueError as error:
            raise EvalError(str(error)) from None

    return implementation


def succeeds(
    function: Callable[Parameters, object], limit: type[ValueError] | None = None
) -> Callable[Parameters, bool]:
    """Whether `function` raises no ValueError; a `limit` of ours becomes an EvalError."""

    def implementation(*arguments: Parameters.args, **named: Parameters.kwargs) -> bool:
        try:
            function(*arguments, **named)
        except ValueError as error:
            if limit is not None and isinstance(error, limit):
                raise EvalError(str(error)) from None
            return False
        return True

    return implementation

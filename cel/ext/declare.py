"""Short forms of common declarations."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from cel.check.overloads import Overload
from cel.errors import EvalError
from cel.ext import costs
from cel.values.types import Type
from cel.values.values import Value

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
        cost=costs.scan,
        estimate=costs.scan_estimate,
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

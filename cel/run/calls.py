"""Calls at run time: dispatch to an overload, check of the arguments, cost.

If the checker left one overload, the values must fit its declared types. If it left several, since an argument is dyn,
the first one that fits runs. If those differ in cost, the call costs one unit or what the library declares for this
case: the reference counts by overload, and does not know which one it is.
Source: common/decls and interpreter/planner.go of github.com/google/cel-go.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from cel.check.overloads import Overload, cost_once
from cel.errors import EvalAbortedError, EvalError, bare
from cel.run.frame import WORK_OF_A_FUNCTION, WORK_OF_AN_ERROR, WORK_OF_AN_OPERATOR, Evaluate, Frame
from cel.run.patterns import PatternBudget
from cel.syntax.ast import MAP_INSERT, NOT
from cel.values import types
from cel.values.types import Kind, Type
from cel.values.values import List, Map, Optional, Uint, Value, type_of

Fits: TypeAlias = Callable[[Value], bool]
PATTERN: Final = 1  # the argument of overloads that take one, the receiver counted
_ANYTHING: Final = frozenset({Kind.DYN, Kind.ANY, Kind.PARAMETER})
_CLASSES: Final = {types.STRING: str, types.INT: int, types.DOUBLE: float, types.BOOL: bool, types.UINT: Uint}
_VARIADIC: Final = frozenset({"format"})  # what the reference binds like a function of any number of arguments
_AGGREGATES: Final = _ANYTHING | {Kind.LIST, Kind.MAP, Kind.OPAQUE}


def planned_call(
    overloads: Sequence[Overload], operands: Sequence[Evaluate], known: PatternBudget | None = None
) -> Evaluate:
    """A call of a function. known: the constant patterns of the expression, if it takes one of them."""
    call = Dispatch(overloads, known)
    # The reference replaces a call with a known pattern by one that stops at the first error of an argument.
    if known is not None or _stops_at_first_error(overloads, len(operands)):
        return _counted(call, operands)
    if len(operands) == 1:
        return _unary(call, operands[0], is_charged=overloads[0].function == NOT)
    return _binary(call, operands[0], operands[1])


class Dispatch:
    """Runs a call of one of several overloads, and charges its cost."""

    __slots__ = (
        "_beside",
        "_cost",
        "_finds_all",
        "_known",
        "_result_cost",
        "_takes_aggregates",
        "_takes_pattern",
        "_work",
        "invoke",
    )

    def __init__(self, overloads: Sequence[Overload], known: PatternBudget | None = None) -> None:
        self.invoke = invocation(overloads) if known is None else _of_underlying(overloads[0])
        self._beside = tuple({one.beside for one in overloads if one.beside is not None})
        self._cost = _cost(overloads)
        self._result_cost = _result_cost(overloads)
        self._takes_aggregates = _takes_aggregates(overloads)
        self._takes_pattern = overloads[0].takes_pattern
        self._finds_all = overloads[0].function == "findAll"
        self._known = known
        self._work = WORK_OF_A_FUNCTION if overloads[0].function[0].isalpha() else WORK_OF_AN_OPERATOR

    def run(self, frame: Frame, *arguments: Value) -> Value:
        """Makes the call, and charges its cost."""
        frame.calls += self._work
        if self._takes_aggregates:
            for argument in arguments:
                frame.spend_elements(argument)
        if self._takes_pattern:
            text, pattern = _underlying(arguments[0]), _underlying(arguments[PATTERN])
            frame.spend_search(text, pattern, self._known, finds_all=self._finds_all)
        for work in self._beside:
            frame.spend_beside(work(arguments))
        if self._result_cost is not None:
            return self._run_for_result(frame, self._result_cost, arguments)
        before = frame.cost
        frame.cost += 1 if self._cost is cost_once else self._cost(arguments)
        if frame.cost > frame.limit:
            frame.stop(frame.cost - before)
        frame.poll_by_cost()
        try:
            return self.invoke(*arguments)
        except EvalAbortedError:
            frame.cost = before
            frame.beside += frame.limit  # it was as much as a call may do
            raise
        except EvalError:
            frame.calls += WORK_OF_AN_ERROR
            raise

    def _run_for_result(
        self, frame: Frame, cost: Callable[[Sequence[Value], Value], int], arguments: Sequence[Value]
    ) -> Value:
        try:
            result = self.invoke(*arguments)
        except EvalAbortedError:
            frame.beside += frame.limit
            raise
        except EvalError as error:
            frame.calls += WORK_OF_AN_ERROR
            frame.charge(cost(arguments, error))
            raise
        frame.cost += cost(arguments, result)
        if frame.cost > frame.limit:
            frame.stop()  # with nothing beyond: it is done
        return result

    def fail(self, frame: Frame, *arguments: Value) -> None:
        """Charges for a call that is not made because an argument is an error."""
        if self._result_cost is None:
            frame.charge(self._cost(arguments))
        else:
            error = next(value for value in arguments if isinstance(value, EvalError))
            frame.charge(self._result_cost(arguments, error))


def invocation(overloads: Sequence[Overload]) -> Callable[..., Value]:
    """A function that runs the first overload that fits the arguments; raises EvalError if none does."""
    if not overloads[0].is_guarded:
        return overloads[0].implementation
    if len(overloads) == 1:
        return _single(overloads[0])
    choices = [(_guards(overload), overload.implementation) for overload in overloads]
    name = overloads[0].function

    def invoke(*arguments: Value) -> Value:
        for guards, implementation in choices:
            if all(map(_is_fit, guards, arguments)):
                return implementation(*arguments)
        raise _no_such_overload(name, arguments)

    return invoke


def _single(overload: Overload) -> Callable[..., Value]:
    """A call of the only overload; parameters of any type need no check."""
    implementation, name = overload.implementation, overload.function
    checks = [(index, guard) for index, guard in enumerate(_guards(overload)) if guard is not None]
    if not checks:
        return implementation

    def invoke(*arguments: Value) -> Value:
        for index, guard in checks:
            if not guard(arguments[index]):
                raise _no_such_overload(name, arguments)
        return implementation(*arguments)

    return invoke


def _of_underlying(overload: Overload) -> Callable[..., Value]:
    """A call with a constant pattern: the reference unwraps the arguments instead of checking their types."""
    invoke = _single(overload)
    return lambda *arguments: invoke(*map(_underlying, arguments))


def _underlying(value: Value) -> Value:
    while isinstance(value, Optional) and value.is_present:
        value = value.value
    return value.name if isinstance(value, Type) else value


def _no_such_overload(name: str, arguments: Sequence[Value]) -> EvalError:
    return EvalError(f"no such overload: {name}({', '.join(type_of(argument).name for argument in arguments)})")


def _is_fit(guard: Fits | None, argument: Value) -> bool:
    return guard is None or guard(argument)


def _guards(overload: Overload) -> list[Fits | None]:
    return [fits(parameter) for parameter in overload.parameters]


def fits(type_: Type) -> Fits | None:
    """A test whether a value has a type (of a list or map: its first entry), or None if every value has it."""
    if type_.kind in _ANYTHING:
        return None
    if type_.kind is Kind.LIST:
        return _list_guard(fits(type_.parameters[0]))
    if type_.kind is Kind.MAP:
        return _map_guard(fits(type_.parameters[0]), fits(type_.parameters[1]))
    class_ = _CLASSES.get(type_)
    if class_ is not None:
        return lambda value: type(value) is class_
    name = type_.name
    return lambda value: type_of(value).name == name


def _list_guard(element: Fits | None) -> Fits:
    if element is None:
        return lambda value: type(value) is List
    return lambda value: type(value) is List and (not value or element(value[0]))


def _map_guard(key: Fits | None, element: Fits | None) -> Fits:
    def fits(value: Value) -> bool:
        if not isinstance(value, Map):
            return False
        first = next(iter(value.items()), None)
        return first is None or ((key is None or key(first[0])) and (element is None or element(first[1])))

    return fits


def _stops_at_first_error(overloads: Sequence[Overload], count: int) -> bool:
    """Whether the reference stops at the first argument that fails, and charges nothing."""
    is_chosen_at_run_time = len(overloads) > 1 and overloads[0].is_guarded
    return count not in (1, 2) or is_chosen_at_run_time or overloads[0].function in _VARIADIC


def _cost(overloads: Sequence[Overload]) -> Callable[[Sequence[Value]], int]:
    if len(overloads) == 1:
        return overloads[0].cost
    if overloads[0].unresolved_cost is not None:
        return overloads[0].unresolved_cost
    is_same = overloads[0].is_guarded and len({overload.cost for overload in overloads}) == 1
    return overloads[0].cost if is_same else cost_once


def _result_cost(overloads: Sequence[Overload]) -> Callable[[Sequence[Value], Value], int] | None:
    costs = {overload.result_cost for overload in overloads}
    has_one = len(costs) == 1 and (len(overloads) == 1 or overloads[0].is_guarded)
    return costs.pop() if has_one else None


def _takes_aggregates(overloads: Sequence[Overload]) -> bool:
    """Whether a call may iterate over a list or map; the insertions of a macro into its own map do not."""
    if overloads[0].function == MAP_INSERT:
        return False
    return any(parameter.kind in _AGGREGATES for overload in overloads for parameter in overload.parameters)


def _unary(call: Dispatch, operand: Evaluate, *, is_charged: bool) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        try:
            argument = operand(frame)
        except EvalAbortedError:
            raise
        except EvalError as error:
            if is_charged or not frame.stops_early:
                call.fail(frame, error)
            raise
        return call.run(frame, argument)

    return evaluate


def _binary(call: Dispatch, left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        first, second, error = both(frame, left, right)
        if error is not None:
            if not frame.stops_early:
                call.fail(frame, first, second)
            raise error
        return call.run(frame, first, second)

    return evaluate


def both(frame: Frame, left: Evaluate, right: Evaluate) -> tuple[Value, Value, EvalError | None]:
    """The values of both operands, with errors in place of values, and the first error.

    Where the frame stops early, an error stands for the right side if the left one fails.
    """
    error: EvalError | None = None
    try:
        first = left(frame)
    except EvalAbortedError:
        raise
    except EvalError as failure:
        first = error = bare(failure)
        if frame.stops_early:
            return first, error, error
    try:
        second = right(frame)
    except EvalAbortedError:
        raise
    except EvalError as failure:
        second = bare(failure)
        error = error or failure
    return first, second, error


def _counted(call: Dispatch, operands: Sequence[Evaluate]) -> Evaluate:
    """Any number of arguments; the first error ends the call, free of charge unless it is the last argument's."""
    last = len(operands) - 1

    def evaluate(frame: Frame) -> Value:
        arguments: list[Value] = []
        for index, operand in enumerate(operands):
            try:
                arguments.append(operand(frame))
            except EvalAbortedError:
                raise
            except EvalError as error:
                if index == last and not frame.stops_early:
                    call.fail(frame, *arguments, error)
                raise
        return call.run(frame, *arguments)

    return evaluate

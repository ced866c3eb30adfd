"""Constant folding, as far as the reference does it and it affects answers, errors or costs.

The conversion of a constant is a constant, or the expression does not compile. An invalid constant pattern does not
compile either. `in` with a list of constants becomes a set lookup, which costs nothing and hashes its left side.
Source: interpreter/decorators.go of github.com/google/cel-go.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from cel.check.checker import CallReference, Checked
from cel.errors import CompileError, EvalError
from cel.run.calls import PATTERN, invocation
from cel.run.frame import Evaluate, Frame
from cel.run.patterns import PatternBudget
from cel.syntax import ast, lexer
from cel.syntax.ast import Call
from cel.values.numbers import int_from_double, uint_from_double
from cel.values.values import MAX_INT, List, Uint, Value, equal, key_of

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_HASHED: Final = frozenset({bool, int, Uint, float, str})


@dataclass(frozen=True, slots=True)
class Constant:
    """A node whose value is known while planning."""

    value: Value


def failure(message: str, node: ast.Expr, checked: Checked) -> CompileError:
    """The error of a constant expression that fails."""
    return lexer.error_at(f"program instantiation failed: {message}", node.position, checked.source)


def converted(node: Call, reference: CallReference, operands: Sequence[object], checked: Checked) -> Constant | None:
    """The result of converting a constant, or None if the call is no such conversion."""
    if reference.function not in _CONVERSIONS or len(operands) != 1 or not isinstance(operands[0], Constant):
        return None
    try:
        return Constant(invocation(reference.overloads)(operands[0].value))
    except EvalError as error:
        raise failure(error.message, node, checked) from None


def has_constant_pattern(
    node: Call, reference: CallReference, operands: Sequence[object], checked: Checked, budget: PatternBudget
) -> bool:
    """Whether a call has a constant pattern; raises CompileError if the pattern is invalid or exceeds the budget."""
    if not reference.overloads[0].takes_pattern:
        return False
    pattern = operands[PATTERN]
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        return False
    try:
        budget.spend(pattern.value)
    except (EvalError, ValueError) as error:
        raise failure(str(error), node, checked) from None
    return True


def membership(
    reference: CallReference, operands: Sequence[object]
) -> Constant | Callable[[Evaluate], Evaluate] | None:
    """`x in [constants]`: a constant for an empty list, else a set lookup of the left side; None for anything else."""
    if [overload.id for overload in reference.overloads] != ["in_list"]:
        return None
    container = operands[1]
    if not isinstance(container, Constant) or not isinstance(container.value, List):
        return None
    if not container.value:
        return Constant(value=False)
    if any(type(item) not in _HASHED for item in container.value):
        return None
    return _looked_up(frozenset(key for item in container.value for key in _keys(item)))


def _looked_up(keys: frozenset[Hashable]) -> Callable[[Evaluate], Evaluate]:
    def step(wanted: Evaluate) -> Evaluate:
        def evaluate(frame: Frame) -> Value:
            return key_of(wanted(frame)) in keys

        return evaluate

    return step


def _keys(item: Value) -> list[Hashable]:
    """The keys of an element: itself and equal numbers of other types; the nearest double counts as equal."""
    keys = [key_of(item)]
    if type(item) is float:
        keys.extend(_integer_keys(item))
    elif type(item) is int:
        keys.append(key_of(float(item)))
        if item >= 0:
            keys.append(key_of(Uint(item)))
    elif type(item) is Uint:
        keys.append(key_of(float(item)))
        if item <= MAX_INT:
            keys.append(key_of(int(item)))
    return keys


def _integer_keys(item: float) -> list[Hashable]:
    keys: list[Hashable] = []
    for convert in (int_from_double, uint_from_double):
        try:
            integer = convert(item)
        except EvalError:
            continue
        if equal(integer, item):
            keys.append(key_of(integer))
    return keys

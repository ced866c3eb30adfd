"""Compiles an expression: lexer, parser with macros, checker, validation, result type, plan.

Each step may reject the expression with a CompileError. `cel.cache` imports this module with the first expression.
Source: k8s.io/dynamic-resource-allocation/cel, CompileCELExpression.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, TypeVar

from cel.cache import LONGEST_SOURCE
from cel.check import cost_since_1_38, validation
from cel.check.checker import Checked, check, declared_in
from cel.check.validation import reads_of
from cel.program import Environment, Program, ValueProgram
from cel.run import interpreter
from cel.syntax import lexer
from cel.syntax.parser import parse
from cel.values import types
from cel.values.types import Kind, Type

_MOST_CHECKED: Final = 32  # a program is first asked for its cost soon after it was compiled
_SCALARS: Final = (types.BOOL, types.INT, types.STRING, types.ANY, types.DYN, types.SEMVER)
_Some = TypeVar("_Some", Program, ValueProgram)


def selector(text: str, environment: Environment) -> Program:
    """A selector; raises CompileError."""
    return _compiled(text, environment, Program, _check_selector)


def attribute(text: str, environment: Environment) -> ValueProgram:
    """The expression of a derived attribute; raises CompileError."""
    return _compiled(text, environment, ValueProgram, _check_attribute)


def _compiled(
    text: str, environment: Environment, class_: type[_Some], check_result: Callable[[Type, Environment], str | None]
) -> _Some:
    """The program of an expression; raises CompileError, also if its types nest too deep for the stack."""
    try:
        checked = _checked(text, environment)
        wanted = check_result(checked.type, environment)
        if wanted is not None:
            raise lexer.error_at(f"must evaluate to {wanted}, not {checked.type}", 0, text)
        planned = interpreter.plan(checked, declared_in(environment))
        return class_(text, reads_of(checked), environment, planned, partial(_estimated_cost, text, environment))
    except RecursionError:
        raise lexer.error_at("expression recursion limit exceeded: its types nest too deep", 0, text) from None


def _check_selector(type_: Type, environment: Environment) -> str | None:
    """The expected result type, if this is another one."""
    return None if type_ in declared_in(environment).results else "bool or the unknown type"


def _check_attribute(type_: Type, _: Environment) -> str | None:
    scalar = type_.parameters[0] if type_.kind is Kind.LIST else type_
    if any(types.is_equivalent(scalar, allowed) for allowed in _SCALARS):
        return None
    return "a primitive scalar (string, integer, boolean, semver) or a list of these scalars"


def _estimated_cost(text: str, environment: Environment) -> int:
    return cost_since_1_38.estimate(_checked(text, environment), counts_all=environment.counts_all).high


@lru_cache(maxsize=_MOST_CHECKED)
def _checked(text: str, environment: Environment) -> Checked:
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        raise lexer.error_at("not a valid Unicode text", error.start, text) from None
    if length > LONGEST_SOURCE:
        raise lexer.error_at(f"longer than {LONGEST_SOURCE} bytes: {length}", 0, text)
    declared = declared_in(environment)
    checked = check(parse(text, declared.syntax), text, declared)
    validation.validate(checked)
    return checked

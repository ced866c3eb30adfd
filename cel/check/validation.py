"""Rejects well-typed expressions with invalid literals, or with aggregates of mixed types.

Runs on the checked expression. Source: cel/validator.go of github.com/google/cel-go, as Kubernetes enables it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from cel.check.checker import Checked
from cel.errors import EvalAbortedError, EvalError
from cel.ext.formatting import misfit
from cel.run.patterns import PatternBudget
from cel.syntax import ast, lexer
from cel.syntax.ast import Call, Expr, ListExpr, Literal, MapExpr
from cel.values import moments
from cel.values.types import Type, is_equivalent


def _check_duration(value: object, _: PatternBudget) -> None:
    if isinstance(value, str):
        moments.duration_from_text(value)


def _check_timestamp(value: object, _: PatternBudget) -> None:
    if isinstance(value, str):
        moments.timestamp_from_text(value)
    elif isinstance(value, int):
        moments.timestamp_from_int(value)


def _check_pattern(value: object, patterns: PatternBudget) -> None:
    if isinstance(value, str):
        patterns.spend(value)


_LITERAL_CHECKS: Final[Mapping[str, Callable[[object, PatternBudget], None]]] = {
    "duration": _check_duration,
    "timestamp": _check_timestamp,
    "matches": _check_pattern,
}


def validate(checked: Checked) -> None:
    """Raises CompileError for the first invalid literal or aggregate."""
    patterns = PatternBudget()
    for node, is_in_format in _nodes(checked.root):
        if isinstance(node, Call):
            _validate_call(checked, node, patterns)
        elif isinstance(node, ListExpr) and not is_in_format:
            _validate_list(checked, node)
        elif isinstance(node, MapExpr) and not is_in_format:
            _validate_map(checked, node)


def _nodes(root: Expr) -> Iterator[tuple[Expr, bool]]:
    """All nodes, and whether they are inside a call of `format`, which allows mixed types."""
    pending: list[tuple[Expr, bool]] = [(root, False)]
    while pending:
        node, is_in_format = pending.pop()
        yield node, is_in_format
        is_in_format = is_in_format or (isinstance(node, Call) and node.function == "format")
        pending.extend([(child, is_in_format) for child in reversed(ast.children(node))])


def _validate_call(checked: Checked, node: Call, patterns: PatternBudget) -> None:
    check = _LITERAL_CHECKS.get(node.function)
    if check is not None and node.arguments and isinstance(node.arguments[0], Literal):
        try:
            check(node.arguments[0].value, patterns)
        except EvalAbortedError as error:
            raise lexer.error_at(error.message, node.arguments[0].position, checked.source) from None
        except (EvalError, ValueError):
            message = f"invalid {node.function} argument"
            raise lexer.error_at(message, node.arguments[0].position, checked.source) from None
    if node.function == "format":
        _validate_format(checked, node)


def _validate_format(checked: Checked, node: Call) -> None:
    if not isinstance(node.target, Literal) or not isinstance(node.target.value, str):
        return
    (arguments,) = node.arguments
    if isinstance(arguments, ListExpr):
        wrong = misfit(node.target.value, arguments.elements, checked.types)
        if wrong is not None:
            position = (wrong.argument or node).position
            raise lexer.error_at(wrong.message, position, checked.source)


def _validate_list(checked: Checked, node: ListExpr) -> None:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        type_ = _inside(checked, element, is_optional=index in node.optionals)
        first = _same(checked, first, type_, element.position)


def _validate_map(checked: Checked, node: MapExpr) -> None:
    key: Type | None = None
    value: Type | None = None
    for entry in node.entries:
        key = _same(checked, key, checked.types[entry.key], entry.key.position)
        type_ = _inside(checked, entry.value, is_optional=entry.is_optional)
        value = _same(checked, value, type_, entry.value.position)


def _inside(checked: Checked, entry: Expr, *, is_optional: bool) -> Type:
    type_ = checked.types[entry]
    if not is_optional:
        return type_
    if not type_.is_optional:
        # The reference crashes here.
        raise lexer.error_at(
            "an entry with a question mark must be of a known optional type", entry.position, checked.source
        )
    return type_.parameters[0]


def _same(checked: Checked, first: Type | None, type_: Type, position: int) -> Type:
    if first is None:
        return type_
    if not is_equivalent(first, type_):
        raise lexer.error_at(f"expected type '{first}' but found '{type_}'", position, checked.source)
    return first

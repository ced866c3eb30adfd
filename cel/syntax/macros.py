"""Macros: calls that the parser replaces by other expressions.

A macro is found by name, number of arguments and whether it has a receiver. It gets the call's position, receiver and
arguments, and gives the expansion, or None where the call is an ordinary one after all.
Source: github.com/google/cel-go: parser/macro.go, ext/comprehensions.go, ext/bindings.go, ext/lists.go, cel/library.go.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from cel.syntax.ast import (
    ACCUMULATOR,
    ADD,
    AND,
    CONDITIONAL,
    EQUALS,
    MAP_INSERT,
    NOT,
    NOT_STRICTLY_FALSE,
    OR,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
)

_FORBIDDEN_VARIABLES: Final = frozenset({ACCUMULATOR, "__result__"})
_UNUSED: Final = "#unused"
_SORTED: Final = "@__sortBy_input__"


class MacroError(Exception):
    """A macro was called with arguments that it can't take; `position` is where."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class MacroCall(NamedTuple):
    """A call that may be a macro's."""

    position: int
    target: Expr | None
    arguments: tuple[Expr, ...]

    def receiver(self) -> Expr:
        """The receiver; only for macros that are found by having one."""
        assert self.target is not None
        return self.target

    def loop(
        self, variables: tuple[str, ...], *, start: Expr, condition: Expr, step: Expr, result: Expr | None = None
    ) -> Comprehension:
        """A comprehension over the receiver, whose answer is the accumulator unless `result` is given."""
        return Comprehension(
            self.position,
            self.receiver(),
            variables[0],
            variables[1] if len(variables) > 1 else None,
            ACCUMULATOR,
            start,
            condition,
            step,
            result or self.accumulator(),
        )

    def accumulator(self) -> Ident:
        """A use of the accumulator."""
        return Ident(self.position, ACCUMULATOR)

    def literal(self, value: bool | int) -> Literal:  # noqa: FBT001 - it is the value, not a switch
        """A constant."""
        return Literal(self.position, value)

    def call(self, function: str, *arguments: Expr) -> Call:
        """A call of a function without receiver."""
        return Call(self.position, function, arguments)

    def member(self, function: str, target: Expr, *arguments: Expr) -> Call:
        """A call of a function of `target`."""
        return Call(self.position, function, arguments, target)


Macro: TypeAlias = Callable[[MacroCall], Expr | None]
MacroKey: TypeAlias = tuple[str, int, bool]


def _variables(call: MacroCall, count: int) -> tuple[str, ...]:
    names = tuple(_variable(argument) for argument in call.arguments[:count])
    if count == 2 and names[0] == names[1]:
        raise MacroError(f"duplicate variable name: {names[0]}", call.arguments[1].position)
    return names


def _variable(argument: Expr) -> str:
    if not isinstance(argument, Ident):
        raise MacroError("argument must be a simple name", argument.position)
    if argument.name in _FORBIDDEN_VARIABLES:
        raise MacroError("iteration variable overwrites accumulator variable", argument.position)
    return argument.name


def _has(call: MacroCall) -> Expr:
    (argument,) = call.arguments
    if not isinstance(argument, Select):
        raise MacroError("invalid argument to has() macro", argument.position)
    return Select(call.position, argument.operand, argument.field, is_test=True)


def _all(call: MacroCall) -> Expr:
    count = len(call.arguments) - 1
    return call.loop(
        _variables(call, count),
        start=call.literal(True),
        condition=call.call(NOT_STRICTLY_FALSE, call.accumulator()),
        step=call.call(AND, call.accumulator(), call.arguments[count]),
    )


def _exists(call: MacroCall) -> Expr:
    count = len(call.arguments) - 1
    return call.loop(
        _variables(call, count),
        start=call.literal(False),
        condition=call.call(NOT_STRICTLY_FALSE, call.call(NOT, call.accumulator())),
        step=call.call(OR, call.accumulator(), call.arguments[count]),
    )


def _exists_one(call: MacroCall) -> Expr:
    count = len(call.arguments) - 1
    one_more = call.call(ADD, call.accumulator(), call.literal(1))
    return call.loop(
        _variables(call, count),
        start=call.literal(0),
        condition=call.literal(True),
        step=call.call(CONDITIONAL, call.arguments[count], one_more, call.accumulator()),
        result=call.call(EQUALS, call.accumulator(), call.literal(1)),
    )


def _collected(call: MacroCall, variables: tuple[str, ...], start: Expr, addition: Expr, where: Expr | None) -> Expr:
    """A loop that grows the accumulator by `addition`, for all elements or `where` a condition holds."""
    step = addition if where is None else call.call(CONDITIONAL, where, addition, call.accumulator())
    return call.loop(variables, start=start, condition=call.literal(True), step=step)


def _listed(call: MacroCall, variables: tuple[str, ...], element: Expr, where: Expr | None) -> Expr:
    addition = call.call(ADD, call.accumulator(), ListExpr(call.position, (element,)))
    return _collected(call, variables, ListExpr(call.position, ()), addition, where)


def _map(call: MacroCall) -> Expr:
    *where, element = call.arguments[1:]
    return _listed(call, _variables(call, 1), element, where[0] if where else None)


def _filter(call: MacroCall) -> Expr:
    return _listed(call, _variables(call, 1), call.arguments[0], call.arguments[1])


def _transform_list(call: MacroCall) -> Expr:
    *where, element = call.arguments[2:]
    return _listed(call, _variables(call, 2), element, where[0] if where else None)


def _transform_map(call: MacroCall) -> Expr:
    *where, value = call.arguments[2:]
    variables = _variables(call, 2)
    addition = call.call(MAP_INSERT, call.accumulator(), Ident(call.position, variables[0]), value)
    return _collected(call, variables, MapExpr(call.position, ()), addition, where[0] if where else None)


def _transform_map_entry(call: MacroCall) -> Expr:
    *where, entry = call.arguments[2:]
    addition = call.call(MAP_INSERT, call.accumulator(), entry)
    return _collected(call, _variables(call, 2), MapExpr(call.position, ()), addition, where[0] if where else None)


def _binding(call: MacroCall, name: str, value: Expr, result: Expr) -> Expr:
    return Comprehension(
        call.position,
        ListExpr(call.position, ()),
        _UNUSED,
        None,
        name,
        value,
        call.literal(False),
        Ident(call.position, name),
        result,
    )


def _bind(call: MacroCall) -> Expr | None:
    if not isinstance(call.target, Ident) or call.target.name != "cel":
        return None
    name, value, result = call.arguments
    if not isinstance(name, Ident):
        raise MacroError("cel.bind() variable names must be simple identifiers", name.position)
    return _binding(call, name.name, value, result)


def _opt_map(call: MacroCall) -> Expr:
    return _if_present(call, "optMap", lambda mapped: call.call("optional.of", mapped))


def _opt_flat_map(call: MacroCall) -> Expr:
    return _if_present(call, "optFlatMap", lambda mapped: mapped)


def _if_present(call: MacroCall, macro: str, wrapped: Callable[[Expr], Expr]) -> Expr:
    name, mapped = call.arguments
    if not isinstance(name, Ident):
        raise MacroError(f"{macro}() variable name must be a simple identifier", name.position)
    value = call.member("value", call.receiver())
    return call.call(
        CONDITIONAL,
        call.member("hasValue", call.receiver()),
        wrapped(_binding(call, name.name, value, mapped)),
        call.call("optional.none"),
    )


def _sort_by(call: MacroCall) -> Expr:
    """Sorts by a list of keys that is computed beside the list, so that every key is computed once."""
    target = call.receiver()
    if not isinstance(target, ListExpr | Select | Ident | Comprehension | Call):
        kinds = "a list, identifier, comprehension, call or select expression"
        raise MacroError(f"sortBy can only be applied to {kinds}", target.position)
    sorted_ = Ident(call.position, _SORTED)
    keys = _map(call._replace(target=sorted_))
    return _binding(call, _SORTED, target, call.member("@sortByAssociatedKeys", sorted_, keys))


_ONE_VARIABLE: Final[Mapping[MacroKey, Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("exists", 2, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
}
_TWO_VARIABLES: Final[Mapping[MacroKey, Macro]] = {
    ("all", 3, True): _all,
    ("exists", 3, True): _exists,
    ("exists_one", 3, True): _exists_one,
    ("existsOne", 3, True): _exists_one,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
MACROS: Final[Mapping[MacroKey, Macro]] = {
    **_ONE_VARIABLE,
    **_TWO_VARIABLES,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("sortBy", 2, True): _sort_by,
}

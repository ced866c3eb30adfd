"""The declarations of an environment: functions, names, messages, macros, and the type of an attribute.

They are built when the first expression is compiled in the environment.
Source: k8s.io/apiserver/pkg/cel/environment, k8s.io/dynamic-resource-allocation/cel.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final, NamedTuple

from cel.check.overloads import Library, Overload
from cel.environment import V1_36, V1_36_LISTS, V1_37, V1_38, Environment
from cel.ext import libraries, messages, optionals, stdlib
from cel.ext.messages import Message
from cel.syntax import ast
from cel.syntax.macros import MACROS
from cel.syntax.parser import Syntax
from cel.values import types
from cel.values.types import Kind, Type
from cel.values.values import GrowingMap, Map, Value


class Signature(NamedTuple):
    """The types of an overload, with type parameters for one call."""

    parameters: tuple[Type, ...]
    result: Type


class Candidate:
    """An overload that a call may resolve to. free: its type parameters."""

    __slots__ = ("_signatures", "free", "overload")

    def __init__(self, overload: Overload) -> None:
        self.overload = overload
        self.free = _free_parameters(overload)
        self._signatures: dict[int, Signature] = {}

    def signature(self, number: int) -> Signature:
        """The types with fresh parameters, numbered from `number`; the first ones are cached."""
        overload = self.overload
        if not self.free:
            return Signature(overload.parameters, overload.result)
        known = self._signatures.get(number)
        if known is not None:
            return known
        names = {free: types.parameter(f"_var{number + index}") for index, free in enumerate(self.free)}
        made = Signature(
            tuple([_renamed(type_, names) for type_ in overload.parameters]), _renamed(overload.result, names)
        )
        if number < _CACHED_SIGNATURES:
            self._signatures[number] = made
        return made


_CACHED_SIGNATURES: Final = 64  # calls of generic functions in one expression; most have fewer


def _renamed(type_: Type, names: Mapping[Type, Type]) -> Type:
    if not type_.parameters:
        return names.get(type_, type_)
    return Type(type_.kind, type_.name, tuple([_renamed(inner, names) for inner in type_.parameters]))


def _free_parameters(overload: Overload) -> tuple[Type, ...]:
    parameters: dict[Type, None] = {}
    for type_ in (*overload.parameters, overload.result):
        _collect_parameters(type_, parameters)
    return tuple(parameters)


def _collect_parameters(type_: Type, found: dict[Type, None]) -> None:
    if type_.kind is Kind.PARAMETER:
        found[type_] = None
    for inner in type_.parameters:
        _collect_parameters(inner, found)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """All overloads of one name. candidates: by number of operands, and whether the first is a receiver."""

    name: str
    overloads: tuple[Overload, ...]
    candidates: Mapping[tuple[int, bool], tuple[Candidate, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Declarations:
    """The declarations of one environment."""

    functions: Mapping[str, Function]
    variables: Mapping[str, Type]
    types: Mapping[str, Type]
    constants: Mapping[str, Value]
    """variables, types, constants: the global names."""
    structs: Mapping[str, Mapping[str, Type]]
    """The fields of types that have any."""
    messages: Mapping[str, Message]
    syntax: Syntax
    results: frozenset[Type]
    """The static types that a selector may have."""


def _functions(libraries: Iterable[Library]) -> dict[str, Function]:
    by_name: dict[str, list[Overload]] = {}
    for library in libraries:
        for overload in library.overloads:
            by_name.setdefault(overload.function, []).append(overload)
    return {name: _function(name, overloads) for name, overloads in by_name.items()}


def _function(name: str, overloads: list[Overload]) -> Function:
    candidates: dict[tuple[int, bool], list[Candidate]] = {}
    for overload in overloads:
        arity = (len(overload.parameters), overload.member)
        candidates.setdefault(arity, []).append(Candidate(overload))
    return Function(name, tuple(overloads), {arity: tuple(found) for arity, found in candidates.items()})


def device_fields(attribute_type: Type) -> dict[str, Type]:
    """The fields of the variable `device`, if attributes have this static type."""
    return {
        "driver": types.STRING,
        "allowMultipleAllocations": types.BOOL,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute_type)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
    }


def _declarations(libraries: Sequence[Library], syntax: Syntax, attribute_type: Type) -> Declarations:
    device = messages.unknown(types.DEVICE.name, device_fields(attribute_type))
    messages_ = {**messages.MESSAGES, device.name: device}
    named = (messages.NAMED, *(library.types for library in libraries))
    return Declarations(
        _functions(libraries),
        variables={"device": types.DEVICE},
        types={type_.name: type_ for names in named for type_ in names},
        constants=messages.CONSTANTS,
        structs={message.name: message.fields for message in messages_.values()},
        messages=messages_,
        syntax=syntax,
        results=frozenset({types.BOOL, attribute_type}),
    )


def _insert(target: Map, *entry: Value) -> Value:
    """Adds an entry, or all entries of another map, to the result of a macro."""
    assert isinstance(target, GrowingMap)
    if len(entry) == 2:
        target.insert(*entry)
        return target
    (more,) = entry
    assert isinstance(more, Map)
    for key, value in more.items():
        target.insert(key, value)
    return target


_K: Final = types.parameter("K")
_V: Final = types.parameter("V")
_MAP: Final = types.map_of(_K, _V)
_COMPREHENSIONS: Final = Library(
    "comprehensions",
    overloads=(
        Overload(ast.MAP_INSERT, "@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, implementation=_insert),
        Overload(ast.MAP_INSERT, "@mapInsert_map_map", (_MAP, _MAP), _MAP, implementation=_insert),
    ),
)
_CORE: Final = (stdlib.LIBRARY, optionals.LIBRARY, _COMPREHENSIONS)
_CORE_1_37: Final = (stdlib.LIBRARY_1_37, optionals.LIBRARY, _COMPREHENSIONS)
_V1_36: Final = partial(_declarations, (*_CORE_1_37, *libraries.V1_36), Syntax(MACROS, has_escaped_identifiers=False))


def _with_dyn_attributes(libraries_: Sequence[Library]) -> Declarations:
    declared = _declarations(libraries_, Syntax(MACROS), types.DYN)
    return replace(declared, results=frozenset({types.BOOL, types.nullable(types.BOOL), types.DYN}))


_BUILDERS: Final[Mapping[Environment, Callable[[], Declarations]]] = {
    V1_38: partial(_with_dyn_attributes, (*_CORE, *libraries.V1_38)),
    V1_37: partial(_with_dyn_attributes, (*_CORE_1_37, *libraries.V1_37)),
    V1_36: partial(_V1_36, types.ANY),
    V1_36_LISTS: partial(_V1_36, types.DYN),
}


@cache
def declared_in(environment: Environment) -> Declarations:
    """The declarations of an environment, built once."""
    return _BUILDERS[environment]()

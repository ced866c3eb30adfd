"""The type checker: finds the type of each node, and resolves names and calls by what an environment declares.

The declarations of an environment are functions, names, messages, macros, and the type of an attribute; they are built
when the first expression is compiled in it. The result of a check is a `Checked`: the expression, with types and
references in two tables. It stops at the first error. `validation` finds errors that need the whole checked expression.
Source: checker.go of github.com/google/cel-go; k8s.io/apiserver/pkg/cel/environment and
k8s.io/dynamic-resource-allocation/cel for the declarations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final, NamedTuple, TypeAlias

from cel import ext
from cel.check.overloads import Library, Overload
from cel.errors import CompileError
from cel.ext import messages, optionals, stdlib
from cel.ext.messages import Message
from cel.program import V1_36, V1_36_LISTS, V1_36_NEW, V1_37, V1_37_NEW, V1_38, V1_38_NEW, Environment
from cel.stack import LEVELS, with_room
from cel.syntax import ast, lexer
from cel.syntax.ast import Call, Comprehension, Expr, Field, Ident, ListExpr, Literal, MapExpr, MessageExpr, Select
from cel.syntax.macros import MACROS
from cel.syntax.parser import Syntax
from cel.values import types
from cel.values.types import DYN, Kind, Substitution, Type
from cel.values.values import GrowingMap, Map, Value, type_of


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
_V1_36: Final = partial(_declarations, (*_CORE_1_37, *ext.V1_36), Syntax(MACROS, has_escaped_identifiers=False))


def _with_dyn_attributes(libraries_: Sequence[Library]) -> Declarations:
    declared = _declarations(libraries_, Syntax(MACROS), types.DYN)
    return replace(declared, results=frozenset({types.BOOL, types.nullable(types.BOOL), types.DYN}))


_BUILDERS: Final[Mapping[Environment, Callable[[], Declarations]]] = {
    V1_38: partial(_with_dyn_attributes, (*_CORE, *ext.V1_38)),
    V1_37: partial(_with_dyn_attributes, (*_CORE_1_37, *ext.V1_37)),
    V1_36: partial(_V1_36, types.ANY),
    V1_36_LISTS: partial(_V1_36, types.DYN),
    V1_38_NEW: partial(_declarations, (*_CORE_1_37, *ext.V1_37), Syntax(MACROS), types.ANY),
    V1_37_NEW: partial(_declarations, (*_CORE_1_37, *ext.V1_36_NEW), Syntax(MACROS), types.ANY),
    V1_36_NEW: partial(
        _declarations, (*_CORE_1_37, *ext.V1_36_NEW), Syntax(MACROS, has_escaped_identifiers=False), types.ANY
    ),
}


@cache
def declared_in(environment: Environment) -> Declarations:
    """The declarations of an environment, built once."""
    return _BUILDERS[environment]()


LARGEST_EXPRESSION: Final = 30_000  # nodes; 10 KiB write a third of that, but a chain of n `optMap` makes 2**n


@dataclass(frozen=True, slots=True)
class VariableReference:
    """A variable. is_global: not that of a macro, even if one has the same name."""

    name: str
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class ConstantReference:
    """A name of a constant: a type, or a member of an enumeration."""

    value: Value


@dataclass(frozen=True, slots=True)
class CallReference:
    """A call of `function`. overloads: those that fit the types. operands: the receiver first, if any."""

    function: str
    overloads: tuple[Overload, ...]
    operands: tuple[Expr, ...]


Reference: TypeAlias = VariableReference | ConstantReference | CallReference


@dataclass(frozen=True, slots=True)
class Checked:
    """A well-typed expression. types: of all nodes, without type parameters. references: of names and calls."""

    source: str
    root: Expr
    types: Mapping[Expr, Type]
    references: Mapping[Expr, Reference]

    @property
    def type(self) -> Type:
        """The type of the whole."""
        return self.types[self.root]


def check(root: Expr, source: str, declared: Declarations) -> Checked:
    """Checks a parsed expression; raises CompileError."""
    return _Checker(source, declared).checked(root)


class _Checker:
    """Checks one expression. scopes: variables of macros, innermost last."""

    def __init__(self, source: str, declared: Declarations) -> None:
        self._source = source
        self._declared = declared
        self._types: dict[Expr, Type] = {}
        self._references: dict[Expr, Reference] = {}
        self._substitution = Substitution()
        self._scopes: list[dict[str, Type]] = []
        self._parameters = 0
        self._visited = 0
        self._depth = 0

    def checked(self, root: Expr) -> Checked:
        self._check(root)
        apply = self._substitution.apply
        final = {node: apply(type_, free_to_dyn=True) for node, type_ in self._types.items()}
        return Checked(self._source, root, final, self._references)

    def _error(self, message: str, position: int) -> CompileError:
        return lexer.error_at(message, position, self._source)

    def _mismatch(self, expected: Type, found: Type, position: int) -> CompileError:
        return self._error(f"expected type '{expected}' but found '{found}'", position)

    def _check(self, node: Expr) -> Type:
        self._visited += 1
        if self._visited > LARGEST_EXPRESSION:
            raise self._error(f"an expression of more than {LARGEST_EXPRESSION} parts", node.position)
        self._depth += 1
        check = _CHECKS[type(node)]
        try:
            type_ = check(self, node) if self._depth % LEVELS else with_room(check, self, node)
        except types.TypeTooLargeError as error:
            raise self._error(str(error), node.position) from None
        self._depth -= 1
        self._types[node] = type_
        return type_

    def _assign(self, target: Type, source: Type) -> bool:
        return self._substitution.assign(target, source)

    def _current(self, type_: Type) -> Type:
        """The type, with all known type parameters replaced."""
        return self._substitution.apply(type_, free_to_dyn=False)

    def _fresh(self) -> Type:
        self._parameters += 1
        return types.parameter(f"_var{self._parameters - 1}")

    # Names

    def _literal(self, node: Literal) -> Type:
        return type_of(node.value)

    def _ident(self, node: Ident) -> Type:
        type_ = self._resolved(node, node.name)
        if type_ is None:
            raise self._undeclared(node.name, node.position)
        return type_

    def _undeclared(self, name: str, position: int) -> CompileError:
        return self._error(f"undeclared reference to '{name}' (in container '')", position)

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            type_ = scope.get(name)
            if type_ is not None:
                return type_
        return None

    def _resolved(self, node: Expr, name: str) -> Type | None:
        """The type of a simple or qualified name; records its reference."""
        plain = name.removeprefix(".")
        local = self._local(plain.partition(".")[0])
        if local is not None and plain is name:
            if "." in name:
                return None  # the field of a macro's variable
            self._references[node] = VariableReference(name)
            return local
        return self._global(node, plain)

    def _global(self, node: Expr, name: str) -> Type | None:
        variable = self._declared.variables.get(name)
        if variable is not None:
            self._references[node] = VariableReference(name, is_global=True)
            return variable
        named = self._declared.types.get(name)
        if named is not None:
            self._references[node] = ConstantReference(named)
            return types.type_of_type(named)
        if name in self._declared.constants:
            self._references[node] = ConstantReference(self._declared.constants[name])
            return type_of(self._declared.constants[name])
        return None

    # Fields

    def _select(self, node: Select) -> Type:
        name = None if node.is_test else _qualified_name(node)
        if name is not None:
            type_ = self._resolved(node, name)
            if type_ is not None:
                return type_
        result, is_optional = self._field(node.operand, node.field, node.position)
        if node.is_test:
            return types.BOOL
        return self._current(types.optional_of(result) if is_optional else result)

    def _optional_select(self, node: Call) -> Type:
        operand, field = node.arguments
        assert isinstance(field, Literal)
        assert isinstance(field.value, str)
        self._types[field] = types.STRING
        result, _ = self._field(operand, field.value, node.position)
        self._references[node] = CallReference(node.function, (), node.arguments)
        return self._current(types.optional_of(result))

    def _field(self, operand: Expr, field: str, position: int) -> tuple[Type, bool]:
        """The type of a field, and whether the field is optional because the operand is."""
        outer = self._current(self._check(operand))
        inner = outer.parameters[0] if outer.is_optional else outer
        return self._field_of(inner, field, position), outer.is_optional

    def _field_of(self, operand: Type, field: str, position: int) -> Type:
        if operand.kind is Kind.MAP:
            return operand.parameters[1]
        if operand.kind is Kind.STRUCT:
            return self._declared_field(operand.name, field, position)
        if operand.kind is Kind.PARAMETER:
            self._assign(DYN, operand)
        elif not operand.is_dynamic:
            raise self._error(f"type '{operand}' does not support field selection", position)
        return DYN

    def _declared_field(self, struct: str, field: str, position: int) -> Type:
        fields = self._declared.structs.get(struct)
        if fields is None:
            raise self._error(f"unexpected failed resolution of '{struct}'", position)
        if field not in fields:
            raise self._error(f"undefined field '{field}'", position)
        return fields[field]

    # Calls

    def _call(self, node: Call) -> Type:
        if node.function == ast.OPTIONAL_SELECT:
            return self._optional_select(node)
        argument_types = tuple([self._check(argument) for argument in node.arguments])
        if node.target is None:
            return self._global_call(node, node.function, argument_types)
        prefix = _qualified_name(node.target)
        if prefix is not None and f"{prefix}.{node.function}".removeprefix(".") in self._declared.functions:
            return self._global_call(node, f"{prefix}.{node.function}", argument_types)
        operand_types = (self._check(node.target), *argument_types)
        function = self._function(node.function, node.position)
        return self._overloaded(node, function, (node.target, *node.arguments), operand_types, is_member=True)

    def _global_call(self, node: Call, name: str, argument_types: tuple[Type, ...]) -> Type:
        function = self._function(name, node.position)
        if function.name in (ast.AND, ast.OR):
            return self._logic(node, function, argument_types)
        return self._overloaded(node, function, node.arguments, argument_types, is_member=False)

    def _function(self, name: str, position: int) -> Function:
        function = self._declared.functions.get(name.removeprefix("."))
        if function is None:
            raise self._undeclared(name, position)
        return function

    def _logic(self, node: Call, function: Function, argument_types: tuple[Type, ...]) -> Type:
        for argument, type_ in zip(node.arguments, argument_types, strict=True):
            if not self._assign(type_, types.BOOL):
                raise self._mismatch(types.BOOL, type_, argument.position)
        self._references[node] = CallReference(function.name, function.overloads, node.arguments)
        return types.BOOL

    def _overloaded(
        self,
        node: Call,
        function: Function,
        operands: tuple[Expr, ...],
        operand_types: tuple[Type, ...],
        *,
        is_member: bool,
    ) -> Type:
        fitting: list[Overload] = []
        result: Type | None = None
        for candidate in function.candidates.get((len(operands), is_member), ()):
            if not all(map(types.may_fit, candidate.overload.parameters, operand_types)):
                continue
            parameters, declared_result = candidate.signature(self._parameters)
            self._parameters += len(candidate.free)
            if not self._substitution.assign_all(operand_types, parameters):
                continue
            fitting.append(candidate.overload)
            own_result = self._current(declared_result)
            if result is None:
                result = own_result
            elif result is not own_result and not result.is_dynamic:
                result = DYN
        if result is None:
            raise self._no_overload(node, function.name, operand_types, is_member=is_member)
        self._references[node] = CallReference(function.name, tuple(fitting), operands)
        return result

    def _no_overload(
        self, node: Call, function: str, operand_types: tuple[Type, ...], *, is_member: bool
    ) -> CompileError:
        known = [str(self._substitution.apply(type_, free_to_dyn=True)) for type_ in operand_types]
        signature = f"{known.pop(0)}." if is_member else ""
        signature += f"({', '.join(known)})"
        return self._error(f"found no matching overload for '{function}' applied to '{signature}'", node.position)

    # Aggregates

    def _list(self, node: ListExpr) -> Type:
        element: Type | None = None
        for index, item in enumerate(node.elements):
            type_ = self._unwrapped(self._check(item), item.position, is_optional=index in node.optionals)
            element = self._joined(element, type_)
        return types.list_of(self._fresh() if element is None else element)

    def _map(self, node: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._joined(key, self._check(entry.key))
            type_ = self._unwrapped(self._check(entry.value), entry.value.position, is_optional=entry.is_optional)
            value = self._joined(value, type_)
        if key is None or value is None:
            key, value = self._fresh(), self._fresh()
        return types.map_of(key, value)

    def _unwrapped(self, type_: Type, position: int, *, is_optional: bool) -> Type:
        """The type of an entry; for one with a question mark, the type inside the optional."""
        if not is_optional:
            return type_
        if type_.is_optional:
            return type_.parameters[0]
        if not type_.is_dynamic:
            raise self._mismatch(types.optional_of(type_), type_, position)
        return type_

    def _joined(self, before: Type | None, type_: Type) -> Type:
        """The common type of entries; `validation` rejects mixed types."""
        if before is None:
            return type_
        return types.more_general(before, type_) if self._assign(before, type_) else DYN

    def _message(self, node: MessageExpr) -> Type:
        message = self._declared.messages.get(node.type_name.removeprefix("."))
        if message is None:
            raise self._undeclared(node.type_name, node.position)
        for field in node.fields:
            given = self._check(field.value)
            if field.name not in message.fields:
                raise self._error(f"undefined field '{field.name}'", field.position)
            self._check_field(field, message.fields[field.name], given)
        return message.result

    def _check_field(self, field: Field, wanted: Type, given: Type) -> None:
        given = self._unwrapped(given, field.value.position, is_optional=field.is_optional)
        if not self._assign(wanted, given):
            problem = f"expected type of field '{field.name}' is '{wanted}' but provided type is '{given}'"
            raise self._error(problem, field.position)

    def _comprehension(self, node: Comprehension) -> Type:
        range_type = self._current(self._check(node.range_))
        accumulator = self._check(node.start)
        with self._scope({node.accumulator: accumulator}):
            with self._scope(self._loop_variables(node, range_type)):
                self._expect(node.condition, types.BOOL)
                self._expect(node.step, accumulator)
            return self._current(self._check(node.result))

    def _loop_variables(self, node: Comprehension, range_type: Type) -> dict[str, Type]:
        if range_type.kind is Kind.LIST:
            first, second = types.INT, range_type.parameters[0]
            if node.second_variable is None:
                first = second
        elif range_type.kind is Kind.MAP:
            first, second = range_type.parameters
        elif range_type.kind in (Kind.DYN, Kind.PARAMETER):
            self._assign(DYN, range_type)
            first = second = DYN
        else:
            problem = f"expression of type '{range_type}' cannot be range of a comprehension"
            raise self._error(f"{problem} (must be list, map, or dynamic)", node.range_.position)
        if node.second_variable is None:
            return {node.variable: first}
        return {node.variable: first, node.second_variable: second}

    @contextmanager
    def _scope(self, variables: dict[str, Type]) -> Iterator[None]:
        self._scopes.append(variables)
        yield
        self._scopes.pop()

    def _expect(self, node: Expr, wanted: Type) -> None:
        given = self._check(node)
        if not self._assign(wanted, given):
            raise self._mismatch(wanted, given, node.position)


def _qualified_name(node: Expr) -> str | None:
    """`a.b.c` as one name, if the node consists of names and dots only."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.is_test:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(fields)])


_CHECKS: Final[dict[type, Callable[..., Type]]] = {
    Literal: _Checker._literal,  # noqa: SLF001 - the table of the class's own methods
    Ident: _Checker._ident,  # noqa: SLF001
    Select: _Checker._select,  # noqa: SLF001
    Call: _Checker._call,  # noqa: SLF001
    ListExpr: _Checker._list,  # noqa: SLF001
    MapExpr: _Checker._map,  # noqa: SLF001
    MessageExpr: _Checker._message,  # noqa: SLF001
    Comprehension: _Checker._comprehension,  # noqa: SLF001
}

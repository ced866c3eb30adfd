"""Estimates the worst-case cost of an expression from types and declared sizes, before any device is seen.

The API server rejects expressions by this estimate, so the figures equal the reference's, oddities included. Sizes come
from the expression (literals, concatenations), or else from the declared maxima of `device`, by the path of the value.
All other sizes are unbounded.
Source: checker/cost.go of github.com/google/cel-go; sizes: k8s.io/dynamic-resource-allocation/cel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from cel.check.checker import CallReference, Checked
from cel.check.overloads import (
    FREE,
    LIST_COST,
    MAP_COST,
    MESSAGE_COST,
    ONCE,
    STRING_FACTOR,
    UNKNOWN_SIZE,
    CallEstimate,
    Estimate,
    Overload,
)
from cel.stack import LEVELS, with_room
from cel.syntax import ast
from cel.syntax.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, MessageExpr, Select
from cel.values import types
from cel.values.types import Kind, Type
from cel.values.values import MAX_UINT, MISSING, Value, size_of

PathTo: TypeAlias = tuple[str, ...]
_NO_ENTRIES: Final = Estimate(MAX_UINT, 0)
SCALARS: Final = frozenset({Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT})
_SELECTABLE: Final = frozenset({Kind.MAP, Kind.STRUCT, Kind.PARAMETER})


@dataclass(frozen=True, slots=True)
class _Declared:
    """The maximum size of a value of `device`, and of the values inside it."""

    most: int
    fields: Mapping[str, "_Declared"] = field(default_factory=dict)
    key: "_Declared | None" = None
    element: "_Declared | None" = None
    has_any_field: bool = False

    def inside(self, step: str) -> "_Declared | None":
        """The value of a field, or of one of @keys, @values and @items."""
        if step in ("@values", "@items"):
            return self.element
        if step == "@keys":
            return self.key
        return self.element if self.has_any_field else self.fields.get(step)


_DOMAIN: Final = _Declared(63)
_ID: Final = _Declared(32)
_ATTRIBUTES: Final = _Declared(32, key=_ID, element=_Declared(64), has_any_field=True)
_CAPACITIES: Final = _Declared(32, key=_ID, element=_Declared(0))
_DEVICE: Final = _Declared(
    0,
    {
        "driver": _Declared(63),
        "allowMultipleAllocations": _Declared(1),
        "attributes": _Declared(32, key=_DOMAIN, element=_ATTRIBUTES),
        "capacity": _Declared(32, key=_DOMAIN, element=_CAPACITIES),
    },
)


def declared_size(path: PathTo) -> Estimate | None:
    """The size of a value of `device`, which the API limits; None for other values."""
    if not path or path[0] != "device":
        return None
    declared: _Declared | None = _DEVICE
    for step in path[1:]:
        if declared is None:
            return None
        declared = declared.inside(step)
    return None if declared is None else Estimate(0, declared.most)


class _Entries(NamedTuple):
    """The sizes of the entries of a list or map."""

    is_list: bool
    key: Estimate
    value: Estimate

    def union(self, other: "_Entries | None") -> "_Entries | None":
        if other is None:
            return None
        return _Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


class Local(NamedTuple):
    """A variable of a macro."""

    path: PathTo
    size: Estimate | None
    entries: _Entries | None


@dataclass(frozen=True, slots=True)
class _Argument:
    """An `overloads.Operand`."""

    type: Type
    size: Estimate
    literal: Value
    path: PathTo

    @property
    def item_size(self) -> Estimate:
        """The declared size of the elements."""
        return (declared_size((*self.path, "@items")) if self.path else None) or UNKNOWN_SIZE


class Estimator:
    """Estimates one expression, in one pass, as up to 1.37. The tables are by node."""

    def __init__(self, checked: Checked) -> None:
        self._types = checked.types
        self._references = checked.references
        self._paths: dict[Expr, PathTo] = {}
        self._sizes: dict[Expr, Estimate] = {}
        self._entries: dict[Expr, _Entries] = {}
        self._locals: dict[str, list[Local]] = {}
        self._depth = 0

    def cost(self, node: Expr) -> Estimate:
        """The range of the cost of one evaluation, in the reference's units."""
        self._depth += 1
        cost: Callable[[Expr], Estimate] = getattr(self, _COSTS[type(node)])
        estimate = cost(node) if self._depth % LEVELS else with_room(cost, node)
        self._depth -= 1
        return estimate

    # Sizes

    def _local(self, node: Expr) -> Local | None:
        if not isinstance(node, Ident):
            return None
        stack = self._locals.get(node.name)
        return stack[-1] if stack else None

    def _path(self, node: Expr) -> PathTo:
        local = self._local(node)
        return self._paths.get(node, ()) if local is None else local.path

    def _size(self, node: Expr) -> Estimate | None:
        known = self._sizes.get(node)
        if known is not None:
            return known
        written = written_size(node)
        if written is not None:
            return written
        declared = declared_size(self._path(node))
        if declared is not None:
            self._sizes[node] = declared
            return declared
        if _is_scalar(self._types[node]):
            return ONCE
        local = self._local(node)
        return None if local is None else local.size

    def _size_or_unknown(self, node: Expr) -> Estimate:
        return self._size(node) or UNKNOWN_SIZE

    def _set_size(self, node: Expr, size: Estimate | None) -> None:
        if size is not None:
            self._sizes[node] = size

    def _entries_of(self, node: Expr) -> _Entries | None:
        known = self._entries.get(node)
        if known is not None:
            return known
        local = self._local(node)
        return None if local is None else local.entries

    def _set_entries(self, node: Expr, entries: _Entries | None) -> None:
        if entries is not None:
            self._entries[node] = entries

    def _push(self, name: str, local: Local) -> None:
        self._locals.setdefault(name, []).append(local)

    # Nodes

    def _literal(self, _: Literal) -> Estimate:
        return FREE

    def _ident(self, node: Ident) -> Estimate:
        local = self._local(node)
        self._paths[node] = (node.name.removeprefix("."),) if local is None else local.path
        return ONCE

    def _select(self, node: Select) -> Estimate:
        if node in self._references:
            return ONCE  # a qualified name
        total = self.cost(node.operand)
        if node.is_test:
            return total
        if self._types[node.operand].kind in _SELECTABLE:
            total = total.plus(ONCE)
        self._paths[node] = (*self._path(node.operand), node.field)
        return total

    def _list(self, node: ListExpr) -> Estimate:
        total = Estimate(LIST_COST, LIST_COST)
        items = _NO_ENTRIES if node.elements else FREE
        for element in node.elements:
            total = total.plus(self.cost(element))
            items = items.union(self._size_or_unknown(element))
        self._entries[node] = _Entries(is_list=True, key=ONCE, value=items)
        return total

    def _map(self, node: MapExpr) -> Estimate:
        total = Estimate(MAP_COST, MAP_COST)
        keys = values = _NO_ENTRIES if node.entries else FREE
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self._size_or_unknown(entry.key))
            values = values.union(self._size_or_unknown(entry.value))
        self._entries[node] = _Entries(is_list=False, key=keys, value=values)
        return total

    def _message(self, node: MessageExpr) -> Estimate:
        total = Estimate(MESSAGE_COST, MESSAGE_COST)
        for field_ in node.fields:
            total = total.plus(self.cost(field_.value))
        return total

    # Comprehensions

    def _comprehension(self, node: Comprehension) -> Estimate:
        is_binding = node.is_binding and node.accumulator != "__result__"
        return self._binding(node) if is_binding else self._loop(node)

    def _binding(self, node: Comprehension) -> Estimate:
        total = self.cost(node.range_).plus(self.cost(node.start))
        self._push(node.accumulator, self._bound(node.start))
        total = total.plus(self.cost(node.result))
        self._locals[node.accumulator].pop()
        self._set_size(node, self._size(node.result))
        self._set_entries(node, self._entries_of(node.result))
        return total

    def _bound(self, value: Expr) -> Local:
        return Local(self._path(value), self._size(value), self._entries_of(value))

    def _loop(self, node: Comprehension) -> Estimate:
        total = self.cost(node.range_).plus(self.cost(node.start))
        self._push(node.accumulator, self._bound(node.start))
        names = self._push_loop_variables(node)
        turn = self.cost(node.condition).plus(self.cost(node.step))
        step = self._step_size(node.step)
        for name in names:
            self._locals[name].pop()
        total = total.plus(self.cost(node.result))
        self._locals[node.accumulator].pop()
        count = self._size_or_unknown(node.range_)
        if isinstance(node.start, Literal):
            self._set_size(node, self._size(node.start))
        elif isinstance(node.start, ListExpr | MapExpr):
            self._set_collected(node, count, step)
        return total.plus(Estimate(count.low, count.high).times(turn))

    def _step_size(self, _: Expr) -> Estimate | None:
        """The size of what a turn ends with, while its variables are known; it counts since 1.38."""
        return None

    def _set_collected(self, node: Comprehension, count: Estimate, _: Estimate | None) -> None:
        self._set_size(node, count)
        self._set_entries(node, self._entries_of(node.step))

    def _push_loop_variables(self, node: Comprehension) -> tuple[str, ...]:
        entries = self._entries_of(node.range_)
        is_list = self._types[node.range_].kind is Kind.LIST if entries is None else entries.is_list
        path = self._path(node.range_)
        key = Local((*path, "@indices" if is_list else "@keys"), entries.key if entries else None, None)
        value = Local((*path, "@items" if is_list else "@values"), entries.value if entries else None, None)
        if node.second_variable is None:
            self._push(node.variable, value if is_list else key)
            return (node.variable,)
        self._push(node.variable, key)
        self._push(node.second_variable, value)
        return node.variable, node.second_variable

    # Calls

    def _call(self, node: Call) -> Estimate:
        reference = self._references[node]
        assert isinstance(reference, CallReference)
        if reference.function == "dyn":
            return self._dyn(node)
        costs = [self.cost(operand) for operand in reference.operands]
        if reference.function in (ast.AND, ast.OR):
            return Estimate(costs[0].low, costs[0].plus(costs[1]).high)
        if reference.function == ast.CONDITIONAL:
            return self._conditional(node, reference, costs)
        if not reference.overloads:
            return _sum(costs).plus(ONCE)
        return _sum(costs).plus(self._overloaded(node, reference))

    def _dyn(self, node: Call) -> Estimate:
        (argument,) = node.arguments
        total = ONCE.plus(self.cost(argument))
        self._set_size(node, self._size(argument))
        self._set_entries(node, self._entries_of(argument))
        return total

    def _conditional(self, node: Call, reference: CallReference, costs: list[Estimate]) -> Estimate:
        _, if_true, if_false = reference.operands
        entries = self._entries_of(if_true)
        self._set_entries(node, entries and entries.union(self._entries_of(if_false)))
        self._set_size(node, self._size_or_unknown(if_true).union(self._size_or_unknown(if_false)))
        return costs[0].plus(costs[1].union(costs[2]))

    def _overloaded(self, node: Call, reference: CallReference) -> Estimate:
        """The range over all overloads that fit, without the operands."""
        operands = [self._argument(operand) for operand in reference.operands]
        total = _NO_ENTRIES
        size: Estimate | None = None
        for overload in reference.overloads:
            cost, result_size = self._single(node, reference, overload, operands)
            total = total.union(cost)
            if result_size is not None:
                size = result_size if size is None else size.union(result_size)
            size = self._indexed_size(node, reference, overload, size)
            if size is None:
                size = self._size(node)
        self._set_size(node, size)
        return total

    def _single(
        self, node: Call, reference: CallReference, overload: Overload, operands: list[_Argument]
    ) -> CallEstimate:
        if overload.function == ast.EQUALS:
            size = self._size(reference.operands[1])
            special = _equality_of_one_type(operands[0].type, operands[1].type, size)
            if special is not None:
                return CallEstimate(special)
        if overload.function == ast.ADD and overload.parameters[0].kind in (Kind.STRING, Kind.BYTES, Kind.LIST):
            entries = self._entries_of(reference.operands[0])
            self._set_entries(node, entries and entries.union(self._entries_of(reference.operands[1])))
        return overload.estimate(operands)

    def _indexed_size(
        self, node: Call, reference: CallReference, overload: Overload, size: Estimate | None
    ) -> Estimate | None:
        """For an index into a list or map: the size of its entries, and the path that continues into it."""
        step = INDEX_STEPS.get(overload.id)
        if step is None:
            return size
        container = reference.operands[0]
        self._paths[node] = (*self._path(container), step)
        entries = self._entries_of(container)
        return None if entries is None else entries.value

    def _argument(self, node: Expr) -> _Argument:
        path = self._path(node)
        if path[:1] == (ast.ACCUMULATOR,):
            path = ()
        literal = node.value if isinstance(node, Literal) else MISSING
        return _Argument(self._types[node], self._size_or_unknown(node), literal, path)


_COSTS: Final[Mapping[type, str]] = {
    Literal: "_literal",
    Ident: "_ident",
    Select: "_select",
    Call: "_call",
    ListExpr: "_list",
    MapExpr: "_map",
    MessageExpr: "_message",
    Comprehension: "_comprehension",
}
INDEX_STEPS: Final = {"index_list": "@items", "index_map": "@values"}
_COMPARED_ONCE: Final = frozenset({types.QUANTITY, types.SEMVER, types.IP, types.CIDR})


def _equality_of_one_type(left: Type, right: Type, size: Estimate | None) -> Estimate | None:
    """The cost of comparing two values of one of Kubernetes' types. size: of the right one, if known."""
    if left is not right:
        return None
    if left in _COMPARED_ONCE:
        return ONCE
    if left is types.NAMED_FORMAT:
        return Estimate(1, 64).scaled(STRING_FACTOR)
    if left is types.URL:
        return Estimate(1, 1 if size is None else size.high).scaled(STRING_FACTOR)
    return None


def _sum(costs: list[Estimate]) -> Estimate:
    total = FREE
    for cost in costs:
        total = total.plus(cost)
    return total


def written_size(node: Expr) -> Estimate | None:
    """The size of a literal."""
    match node:
        case Literal():
            size = size_of(node.value)
        case ListExpr():
            size = len(node.elements)
        case MapExpr():
            size = len(node.entries)
        case _:
            return None
    return Estimate(size, size)


def _is_scalar(type_: Type) -> bool:
    return type_.kind in SCALARS or (type_.is_optional and _is_scalar(type_.parameters[0]))

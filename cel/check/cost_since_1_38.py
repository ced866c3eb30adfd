"""Estimates costs as since 1.38: sizes of lists and maps hold those of their keys and elements, at any depth.

What is in `cost` otherwise holds here, too: where a size comes from, and oddities, are the reference's.
Source: common/cost of cel.dev/cel-go, with its cost model 0, which Kubernetes pins.
"""

from collections.abc import Iterable
from typing import Final

from cel.check.checker import CallReference, Checked
from cel.check.cost import INDEX_STEPS, SCALARS, Estimator, Local, PathTo, declared_size, written_size
from cel.check.overloads import FREE, LIST_COST, MAP_COST, ONCE, UNKNOWN_SIZE, Estimate, either
from cel.stack import with_room
from cel.syntax import ast
from cel.syntax.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select
from cel.values import types
from cel.values.types import Kind, Type

_ANYTHING: Final = frozenset({Kind.DYN, Kind.ANY, Kind.PARAMETER})
_MAY_HOLD: Final = _ANYTHING | {Kind.LIST, Kind.MAP}
_DEEPEST: Final = 32  # levels of declared sizes below a value of any type
_CHAINED: Final = frozenset({ast.INDEX, ast.OPTIONAL_INDEX, ast.OPTIONAL_SELECT})
_OF_ONE: Final = frozenset({"optional.of", "optional.ofNonZeroValue"})


def estimate(checked: Checked, *, counts_all: bool) -> Estimate:
    """The range of the cost of one evaluation, in the reference's units. counts_all: as in `Environment`."""
    estimator = EstimatorSince138(checked) if counts_all else Estimator(checked)
    return estimator.cost(checked.root)


class EstimatorSince138(Estimator):
    """Estimates one expression, in one pass, as since 1.38."""

    # Sizes

    def _size(self, node: Expr) -> Estimate | None:
        known = self._sizes.get(node)
        if known is not None:
            return known
        local = self._local(node)
        if local is not None and local.size is not None:
            size = declared_size(local.path)
            if size is None:
                return local.size
        else:
            size = with_room(self._size_by_type, node, self._path(node), self._types[node])
        self._set_size(node, size)
        return size

    def _size_as(self, node: Expr, type_: Type) -> Estimate:
        """The size of an operand or element; type_: what it is a value of, where it does not tell itself."""
        return self._size(node) or self._size_by_type(node, (), type_) or UNKNOWN_SIZE

    def _size_by_type(self, node: Expr | None, path: PathTo, type_: Type) -> Estimate | None:
        """node: None for what is inside a value of a path."""
        if isinstance(node, Literal):
            return written_size(node)
        if type_.kind is Kind.LIST:
            return self._list_size(node, path, type_)
        if type_.kind is Kind.MAP:
            return self._map_size(node, path, type_)
        if type_.kind in _ANYTHING:
            return self._size_of_any(node, path, type_)
        return declared_size(path) or _fixed_size(type_)

    def _list_size(self, node: Expr | None, path: PathTo, type_: Type) -> Estimate | None:
        of = type_.parameters[0] if type_.parameters else types.DYN
        size = self._made_list(node, type_, of) or declared_size(path)
        item = self._inside(path, "@items", of, size.item if size else None)
        if size is None and item is None and node is not None:
            size = UNKNOWN_SIZE
        return _holding(size, None, item, has_keys=False)

    def _made_list(self, node: Expr | None, type_: Type, of: Type) -> Estimate | None:
        if isinstance(node, ListExpr):
            return self._written_list(node, of)
        return self._made(node, type_, {ast.ADD})

    def _written_list(self, node: ListExpr, of: Type) -> Estimate:
        low, high = len(node.elements) - len(node.optionals), len(node.elements)
        item: Estimate | None = None
        for index, element in enumerate(node.elements):
            inside = self._present(element) if index in node.optionals else element
            if inside is None:
                high -= 1
            else:
                item = either(item, self._size_as(inside, of))
        return Estimate(low, high, None, item)

    def _present(self, element: Expr) -> Expr | None:
        """What an optional element adds to its list, as far as it is written there; None for nothing."""
        reference = self._references.get(element)
        if isinstance(reference, CallReference):
            if reference.function == "optional.none":
                return None
            if reference.function in _OF_ONE:
                return reference.operands[0]
        return element

    def _map_size(self, node: Expr | None, path: PathTo, type_: Type) -> Estimate | None:
        of_keys, of_values = type_.parameters or (types.DYN, types.DYN)
        size = self._made_map(node, type_, of_keys, of_values) or declared_size(path)
        key = self._inside(path, "@keys", of_keys, size.key if size else None)
        item = self._inside(path, "@values", of_values, size.item if size else None)
        if size is None and key is None and item is None and node is not None:
            size = UNKNOWN_SIZE
        return _holding(size, key, item, has_keys=True)

    def _made_map(self, node: Expr | None, type_: Type, of_keys: Type, of_values: Type) -> Estimate | None:
        if isinstance(node, MapExpr):
            key = self._union([entry.key for entry in node.entries], of_keys)
            item = self._union([entry.value for entry in node.entries], of_values)
            optional = sum(entry.is_optional for entry in node.entries)
            return Estimate(len(node.entries) - optional, len(node.entries), key, item)
        reference = self._references.get(node) if isinstance(node, Call) else None
        if isinstance(reference, CallReference) and reference.function == ast.MAP_INSERT:
            into, *more = reference.operands
            size = self._size_as(into, type_)
            if len(more) == 1:
                return size.plus(self._size_as(more[0], type_))
            return size.plus(Estimate(1, 1, self._size_as(more[0], of_keys), self._size_as(more[1], of_values)))
        return self._made(node, type_, frozenset())

    def _made(self, node: Expr | None, type_: Type, sums: Iterable[str]) -> Estimate | None:
        """The size of what an operator makes of two operands: of `? :` the union, of sums the sum."""
        reference = self._references.get(node) if isinstance(node, Call) else None
        if not isinstance(reference, CallReference) or reference.function not in {ast.CONDITIONAL, *sums}:
            return None
        left, right = (self._size_as(operand, type_) for operand in reference.operands[-2:])
        return left.union(right) if reference.function == ast.CONDITIONAL else left.plus(right)

    def _union(self, nodes: Iterable[Expr], type_: Type) -> Estimate | None:
        size: Estimate | None = None
        for node in nodes:
            size = either(size, self._size_as(node, type_))
        return size

    def _size_of_any(self, node: Expr | None, path: PathTo, type_: Type) -> Estimate | None:
        if isinstance(node, ListExpr):
            return self._list_size(node, path, type_)
        if isinstance(node, MapExpr):
            return self._map_size(node, path, type_)
        made = self._made(node, type_, frozenset())
        if made is not None:
            return made
        size = declared_size(path)
        item = self._declared_inside(path, "@items")
        if item is not None:
            return _holding(size, None, item, has_keys=False)
        key, item = self._declared_inside(path, "@keys"), self._declared_inside(path, "@values")
        return size if key is None and item is None else _holding(size, key, item, has_keys=True)

    def _declared_inside(self, path: PathTo, step: str) -> Estimate | None:
        if not path or len(path) >= _DEEPEST or declared_size((*path, step)) is None:
            return None
        size = self._size_by_type(None, (*path, step), types.DYN)
        return None if size == UNKNOWN_SIZE else size

    def _inside(self, path: PathTo, step: str, of: Type, known: Estimate | None) -> Estimate | None:
        """The size of the keys or elements of a value: as known from the expression, or declared, or of their type."""
        if path and (known is None or (known.item is None and of.kind in _MAY_HOLD)):
            declared = self._size_by_type(None, (*path, step), of) or UNKNOWN_SIZE
            if declared != UNKNOWN_SIZE:
                known = declared if known is None else known._replace(key=declared.key, item=declared.item)
        return known or _fixed_size(of)

    # Nodes

    def _select(self, node: Select) -> Estimate:
        if node in self._references:
            return ONCE  # a qualified name
        total = self.cost(node.operand).plus(self._cost_of_branch(node.operand) if node.is_test else ONCE)
        path = self._path(node.operand)
        if path:
            self._paths[node] = (*path, node.field)
        return total

    def _cost_of_branch(self, operand: Expr) -> Estimate:
        """What `has` pays for a condition at the root of its operand: the branch that is taken is read once more."""
        root = self._root(operand)
        reference = self._references.get(root)
        if not isinstance(reference, CallReference) or reference.function != ast.CONDITIONAL:
            return FREE
        _, if_true, if_false = reference.operands
        return self._cost_of_taken(if_true).union(self._cost_of_taken(if_false))

    def _cost_of_taken(self, branch: Expr) -> Estimate:
        is_chain = isinstance(branch, Ident | Select) or self._function(branch) in _CHAINED | {ast.CONDITIONAL}
        if not is_chain or (isinstance(branch, Select) and branch.is_test):
            return ONCE
        return self._cost_of_branch(branch)

    def _root(self, node: Expr) -> Expr:
        """Where a chain of fields and indices begins."""
        while True:
            if isinstance(node, Select) and not node.is_test:
                node = node.operand
            elif isinstance(node, Call) and node.function in _CHAINED and node.arguments:
                node = node.arguments[0]
            else:
                return node

    def _function(self, node: Expr) -> str:
        return node.function if isinstance(node, Call) else ""

    def _list(self, node: ListExpr) -> Estimate:
        return self._sum(node.elements).plus(Estimate(LIST_COST, LIST_COST))

    def _map(self, node: MapExpr) -> Estimate:
        parts = [part for entry in node.entries for part in (entry.key, entry.value)]
        return self._sum(parts).plus(Estimate(MAP_COST, MAP_COST))

    def _sum(self, nodes: Iterable[Expr]) -> Estimate:
        total = FREE
        for node in nodes:
            total = total.plus(self.cost(node))
        return total

    # Comprehensions

    def _binding(self, node: Comprehension) -> Estimate:
        total = self._sum((node.range_, node.start))
        self._push(node.accumulator, self._bound(node.start))
        total = total.plus(self.cost(node.result))
        path = self._path(node.result)
        if path:
            self._paths[node] = path
        self._set_size(node, self._size(node.result))
        self._locals[node.accumulator].pop()
        return total

    def _step_size(self, step: Expr) -> Estimate | None:
        return self._size(step)

    def _set_collected(self, node: Comprehension, count: Estimate, step: Estimate | None) -> None:
        """To a list or map each turn adds at most one entry."""
        has_keys = isinstance(node.start, MapExpr)
        is_filter = self._function(node.step) == ast.CONDITIONAL
        key = ((step.key if step else None) or count.key) if has_keys else None
        item = (step.item if step else None) or count.item
        self._set_size(node, Estimate(0 if is_filter else count.low, count.high, key, item))

    def _push_loop_variables(self, node: Comprehension) -> tuple[str, ...]:
        size, path = self._size_or_unknown(node.range_), self._path(node.range_)
        is_list = self._types[node.range_].kind is Kind.LIST
        key = Local((*path, "@indices" if is_list else "@keys"), ONCE if is_list else size.key, None)
        value = Local((*path, "@items" if is_list else "@values"), size.item, None)
        if node.second_variable is None:
            is_any_list = self._types[node.range_].kind is Kind.DYN and size.key is None and size.item is not None
            self._push(node.variable, value._replace(path=(*path, "@items")) if is_list or is_any_list else key)
            return (node.variable,)
        self._push(node.variable, key)
        self._push(node.second_variable, value)
        return node.variable, node.second_variable

    # Calls

    def _conditional(self, node: Call, reference: CallReference, costs: list[Estimate]) -> Estimate:
        _, if_true, if_false = reference.operands
        self._set_size(node, self._size_or_unknown(if_true).union(self._size_or_unknown(if_false)))
        return costs[0].plus(costs[1].union(costs[2]))

    def _overloaded(self, node: Call, reference: CallReference) -> Estimate:
        operands = [self._argument(operand) for operand in reference.operands]
        total: Estimate | None = None
        size: Estimate | None = None
        for overload in reference.overloads:
            cost, result_size = self._single(node, reference, overload, operands)
            total = either(total, cost)
            if overload.id in INDEX_STEPS:
                path = self._path(reference.operands[0])
                if path:
                    self._paths[node] = (*path, INDEX_STEPS[overload.id])
                result_size = operands[0].size.item or UNKNOWN_SIZE
            size = either(size, result_size or self._size(node))
        self._set_size(node, size)
        assert total is not None
        return total


def _holding(size: Estimate | None, key: Estimate | None, item: Estimate | None, *, has_keys: bool) -> Estimate | None:
    """The size of a list or map with the sizes of what it holds, which only of an empty one are not there."""
    if size is None:
        if key is None and item is None:
            return None
        size = UNKNOWN_SIZE
    if size.high > 0:
        item = item or UNKNOWN_SIZE
        key = key or (UNKNOWN_SIZE if has_keys else None)
    return size._replace(key=key, item=item)


def _fixed_size(type_: Type) -> Estimate | None:
    inner = type_.parameters[0] if type_.is_optional else type_
    return ONCE if inner.kind in SCALARS or inner.kind is Kind.TYPE else None

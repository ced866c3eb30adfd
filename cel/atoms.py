"""A selector as a tree of logic over atoms, for evaluation over many devices at once.

`&&`, `||` and `!` are taken apart, also inside of `cel.bind`; what is left between them is an atom: an expression that
reads few paths of a device, and so has few different answers over a fleet. An atom is evaluated by the exact
evaluator; the commonest shapes have a test beside it that is quick on plain strings and integers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from cel import ast, interpreter
from cel.ast import Call, Comprehension, Expr, ListExpr, Literal, Select
from cel.checker import Checked
from cel.environment import Environment
from cel.ext.patterns import compile_pattern
from cel.interpreter import Planned
from cel.reads import Path, path_under, reads_of

_LEVELS: Final = 32  # of logic that are taken apart; what is deeper is evaluated as one
_TABLES: Final = frozenset({"attributes", "capacity"})
_FIELDS: Final = frozenset({("driver",), ("allowMultipleAllocations",)})


@dataclass(frozen=True, slots=True)
class Quick:
    """A test of many values of one kind at once; kind: None where every value that is there gives the same.

    only: the values for which alone the test is true, where they are known.
    """

    kind: str | None
    test: Callable[[Sequence[Any]], Sequence[bool]]
    only: frozenset[object] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """An expression without logic at its top.

    paths: what it reads, each a single value; None where it reads more than single values. is_root: it is the whole
    selector, whose result may also be an optional bool.
    """

    planned: Planned
    paths: tuple[Path, ...] | None
    quick: Quick | None
    is_root: bool


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    """`!operand`."""

    operand: "Tree"


@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """`left && right`."""

    left: "Tree"
    right: "Tree"


@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """`left || right`."""

    left: "Tree"
    right: "Tree"


Tree: TypeAlias = Atom | Not | Both | Either


def atoms_of(tree: Tree) -> list[Atom]:
    """All atoms of a tree, in the order of the expression."""
    if isinstance(tree, Atom):
        return [tree]
    if isinstance(tree, Not):
        return atoms_of(tree.operand)
    return atoms_of(tree.left) + atoms_of(tree.right)


def count_of_nots(tree: Tree) -> int:
    """How many `!` a tree has; each costs one unit."""
    if isinstance(tree, Atom):
        return 0
    if isinstance(tree, Not):
        return 1 + count_of_nots(tree.operand)
    return count_of_nots(tree.left) + count_of_nots(tree.right)


def split(checked: Checked, environment: Environment) -> Tree:
    """The tree of a checked selector."""
    return _Splitter(checked, environment).tree(checked.root, (), _LEVELS, is_root=True)


class _Splitter:
    """One selector. bindings: the `cel.bind` around the current part, outermost first. levels: that may follow."""

    def __init__(self, checked: Checked, environment: Environment) -> None:
        self._checked = checked
        self._environment = environment

    def tree(self, node: Expr, bindings: tuple[Comprehension, ...], levels: int, *, is_root: bool) -> Tree:
        if levels and isinstance(node, Comprehension) and node.is_binding:
            return self.tree(node.result, (*bindings, node), levels - 1, is_root=is_root)
        if levels and isinstance(node, Call) and node.function in (ast.AND, ast.OR):
            left, right = [self.tree(argument, bindings, levels - 1, is_root=False) for argument in node.arguments]
            return Both(left, right) if node.function == ast.AND else Either(left, right)
        if levels and isinstance(node, Call) and node.function == ast.NOT:
            return Not(self.tree(node.arguments[0], bindings, levels - 1, is_root=False))
        return self._atom(node, bindings, is_root=is_root)

    def _atom(self, node: Expr, bindings: tuple[Comprehension, ...], *, is_root: bool) -> Atom:
        bound = node
        for binding in reversed(bindings):
            bound = replace(binding, result=bound)
        part = replace(self._checked, root=bound)
        planned = interpreter.plan(part, self._environment)
        paths = tuple(sorted(reads_of(part).paths))
        if not all(map(_is_single, paths)):
            return Atom(planned, None, None, is_root)
        quick = None
        if len(paths) == 1:
            path = path_under(part, bindings)
            quick = _Shapes(lambda operand: _is_plain(operand) and path(operand) == paths[0]).quick(node)
        return Atom(planned, paths, quick, is_root)


def _is_single(path: Path) -> bool:
    return path in _FIELDS or (len(path) == 3 and path[0] in _TABLES and "/" not in path[1])


def _is_plain(node: Expr) -> bool:
    """Whether a path has no question mark, so that its value is the device's own."""
    while isinstance(node, Select) or (isinstance(node, Call) and node.function == ast.INDEX):
        node = node.operand if isinstance(node, Select) else node.arguments[0]
    return isinstance(node, ast.Ident)


class _Shapes:
    """The commonest shapes of an atom. is_path: whether an expression is just the path that the atom reads.

    What a shape says holds for values of one kind, and costs no more than for the longest of them.
    """

    def __init__(self, is_path: Callable[[Expr], bool]) -> None:
        self._is_path = is_path

    def quick(self, node: Expr) -> Quick | None:
        """The quick test of an atom, if it has one of the shapes."""
        if isinstance(node, Select) and node.is_test and self._is_path(node):
            return Quick(None, lambda values: [True] * len(values))
        if not isinstance(node, Call) or len(node.arguments) > 2:
            return None
        return self._operator(node) if node.target is None else self._method(node)

    def _operator(self, node: Call) -> Quick | None:
        if len(node.arguments) != 2:
            return None
        left, right = node.arguments
        if isinstance(left, Literal) and node.function in _MIRRORED:
            return self._comparison(_MIRRORED[node.function], right, left)
        if node.function == ast.IN and isinstance(right, ListExpr):
            return self._membership(left, right)
        return self._comparison(node.function, left, right)

    def _comparison(self, function: str, left: Expr, right: Expr) -> Quick | None:
        compare = _COMPARISONS.get(function)
        if compare is None or not isinstance(right, Literal) or not self._is_path(left):
            return None
        wanted, kind = right.value, _KINDS.get(type(right.value))
        if kind is None:
            return None
        only = frozenset([wanted]) if function == ast.EQUALS else None
        return Quick(kind, lambda values: compare(values, wanted), only)

    def _membership(self, left: Expr, right: ListExpr) -> Quick | None:
        items = [item.value for item in right.elements if isinstance(item, Literal) and type(item.value) is str]
        if len(items) != len(right.elements) or not self._is_path(left):
            return None
        wanted = frozenset(items)
        return Quick("string", lambda values: [value in wanted for value in values], wanted)

    def _method(self, node: Call) -> Quick | None:
        if len(node.arguments) != 1 or node.target is None or not self._is_path(node.target):
            return None
        (argument,) = node.arguments
        make = _METHODS.get(node.function)
        if make is None or not isinstance(argument, Literal) or not isinstance(argument.value, str):
            return None
        return Quick("string", make(argument.value))


_KINDS: Final[dict[type, str]] = {str: "string", int: "int"}
# Plain values of one kind: the comparisons are Python's own.
_Comparison: TypeAlias = Callable[[Sequence[Any], Any], list[bool]]
_COMPARISONS: Final[dict[str, _Comparison]] = {
    ast.EQUALS: lambda values, wanted: [value == wanted for value in values],
    ast.NOT_EQUALS: lambda values, wanted: [value != wanted for value in values],
    ast.LESS: lambda values, wanted: [value < wanted for value in values],
    ast.LESS_EQUALS: lambda values, wanted: [value <= wanted for value in values],
    ast.GREATER: lambda values, wanted: [value > wanted for value in values],
    ast.GREATER_EQUALS: lambda values, wanted: [value >= wanted for value in values],
}
_MIRRORED: Final = {
    ast.EQUALS: ast.EQUALS,
    ast.NOT_EQUALS: ast.NOT_EQUALS,
    ast.LESS: ast.GREATER,
    ast.LESS_EQUALS: ast.GREATER_EQUALS,
    ast.GREATER: ast.LESS,
    ast.GREATER_EQUALS: ast.LESS_EQUALS,
}
_Test: TypeAlias = Callable[[Sequence[Any]], list[bool]]


def _matching(pattern: str) -> _Test:
    matches = compile_pattern(pattern).matches
    return lambda values: [matches(value) for value in values]


_METHODS: Final[dict[str, Callable[[str], _Test]]] = {
    "startsWith": lambda wanted: lambda values: [value.startswith(wanted) for value in values],
    "endsWith": lambda wanted: lambda values: [value.endswith(wanted) for value in values],
    "contains": lambda wanted: lambda values: [wanted in value for value in values],
    "matches": _matching,
}

"""Finds the paths of a device that an expression reads.

Devices that agree on these paths get the same answer. If the expression computes a domain, or uses `device` as a whole,
everything below counts. Variables of `cel.bind` stand for their paths.
"""

from collections.abc import Iterator
from typing import Final

from cel.check.checker import Checked, VariableReference
from cel.run.device_paths import DevicePath, Reads
from cel.stack import LEVELS, with_room
from cel.syntax import ast
from cel.syntax.ast import Call, Comprehension, Expr, ListExpr, Literal, Select

_DEEPEST: Final = 3  # field, domain, identifier
_COMPARING: Final = frozenset({ast.EQUALS, ast.NOT_EQUALS, ast.IN})
_INDEXING: Final = frozenset({ast.INDEX, ast.OPTIONAL_INDEX, ast.OPTIONAL_SELECT})


def reads_of(checked: Checked) -> Reads:
    """Finds the paths in a checked expression."""
    collector = _PathCollector(checked)
    collector.visit(checked.root)
    paths = frozenset(path for path in collector.paths if not _is_covered(path, collector.paths))
    return Reads(paths, frozenset(collector.texts))


def _is_covered(path: DevicePath, paths: set[DevicePath]) -> bool:
    return any(path[:length] in paths for length in range(len(path)))


class _PathCollector:
    """Collects paths, and texts that they are compared with.

    aliases: the paths of the variables of macros, None if a variable is not a path.
    """

    def __init__(self, checked: Checked) -> None:
        self._references = checked.references
        self._aliases: list[dict[str, DevicePath | None]] = []
        self.paths: set[DevicePath] = set()
        self.texts: set[tuple[DevicePath, str]] = set()
        self._depth = 0

    def visit(self, node: Expr) -> None:
        self._depth += 1
        if self._depth % LEVELS:
            self._visit(node)
        else:
            with_room(self._visit, node)
        self._depth -= 1

    def _visit(self, node: Expr) -> None:
        path = self._path(node)
        if path is not None:
            self.paths.add(path[:_DEEPEST])
        elif isinstance(node, Comprehension):
            self._comprehension(node)
        else:
            if isinstance(node, Call) and node.function in _COMPARING:
                self._compare(*node.arguments)
            for child in ast.children(node):
                self.visit(child)

    def _compare(self, left: Expr, right: Expr) -> None:
        for side, other in ((left, right), (right, left)):
            if path := self._path(side):
                self.texts.update((path[:_DEEPEST], text) for text in _texts(other))

    def _path(self, node: Expr) -> DevicePath | None:
        """The path that the node denotes, if any."""
        steps: list[str] = []
        while True:
            step = None if isinstance(node, Select) and node in self._references else _step(node)
            if step is None:
                break
            node, name = step
            steps.append(name)
        start = self._start(node)
        return None if start is None else (*start, *reversed(steps))

    def _start(self, node: Expr) -> DevicePath | None:
        reference = self._references.get(node)
        if not isinstance(reference, VariableReference):
            return None
        if reference.is_global:
            return ()
        for scope in reversed(self._aliases):
            if reference.name in scope:
                return scope[reference.name]
        return None

    def _comprehension(self, node: Comprehension) -> None:
        if node.is_binding:
            alias = self._path(node.start)
            if alias is None:
                self.visit(node.start)
            self._aliases.append({node.accumulator: alias})
        else:
            self._loop(node)
        self.visit(node.result)
        self._aliases.pop()

    def _loop(self, node: Comprehension) -> None:
        self.visit(node.range_)
        self._aliases.append({node.accumulator: None})
        self._aliases.append(dict.fromkeys([node.variable, node.second_variable or node.variable]))
        self.visit(node.condition)
        self.visit(node.step)
        self._aliases.pop()


def _texts(node: Expr) -> Iterator[str]:
    """The literal strings that the node is, or is a list of."""
    for element in node.elements if isinstance(node, ListExpr) else (node,):
        if isinstance(element, Literal) and isinstance(element.value, str):
            yield element.value


def _step(node: Expr) -> tuple[Expr, str] | None:
    """The operand and the key of a field or of an index that is a literal string."""
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, Call) and node.function in _INDEXING:
        operand, index = node.arguments
        if isinstance(index, Literal) and isinstance(index.value, str):
            return operand, index.value
    return None

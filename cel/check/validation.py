"""What is known of a checked expression before it runs: whether its literals are valid, what it reads of a device.

Rejected are invalid literals, and aggregates of mixed types. Devices that agree on the paths that are read get the same
answer. If the expression computes a domain, or uses `device` as a whole, everything below counts. Variables of
`cel.bind` stand for their paths.
Source: cel/validator.go of github.com/google/cel-go, as Kubernetes enables it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from cel.check.checker import Checked, VariableReference
from cel.errors import EvalAbortedError, EvalError
from cel.ext.formatting import misfit
from cel.run.frame import DevicePath, Reads
from cel.run.patterns import PatternBudget
from cel.stack import LEVELS, with_room
from cel.syntax import ast, lexer
from cel.syntax.ast import Call, Comprehension, Expr, ListExpr, Literal, MapExpr, Select
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

"""What may be wrong in a source file: each mutation changes one place of it, as a slip of the pen would.

Nothing is changed that no test could notice or that a type checker finds: annotations, aliases of types, decorators,
assertions, texts.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

Place = ast.expr | ast.stmt
Change = tuple[Place, ast.AST]
"""What stands there, and what shall."""
Operator = Callable[[ast.AST], Iterable[Change]]


@dataclass(frozen=True)
class Mutation:
    """One place changed.

    function: the qualified name of the function around it, or `<module>`. start, end: in bytes. text: what stands
    there instead.
    """

    operator: str
    function: str
    line: int
    start: int
    end: int
    text: str

    def applied_to(self, source: str) -> str:
        """The source with the change."""
        raw = source.encode()
        return (raw[: self.start] + self.text.encode() + raw[self.end :]).decode()


def mutations(source: str) -> Iterator[Mutation]:
    """All there are, in the order of the source."""
    lines = source.encode().splitlines(keepends=True)
    starts = list(accumulate(map(len, lines), initial=0))
    for node, function in _mutable(ast.parse(source), ()):
        for operator in OPERATORS:
            for place, changed in operator(node):
                start, end = _span(place, starts)
                what = operator.__name__.replace("_", " ")
                yield Mutation(what, function, place.lineno, start, end, _text(changed, instead_of=place))


def _span(place: Place, starts: Sequence[int]) -> tuple[int, int]:
    assert place.end_lineno is not None
    assert place.end_col_offset is not None
    return starts[place.lineno - 1] + place.col_offset, starts[place.end_lineno - 1] + place.end_col_offset


def _text(changed: ast.AST, instead_of: ast.AST) -> str:
    """In parentheses where it may bind less than what was there."""
    text = ast.unparse(changed)
    binds_less = (ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.NamedExpr, ast.Lambda)
    return f"({text})" if isinstance(changed, binds_less) and type(changed) is not type(instead_of) else text


def _mutable(node: ast.AST, scope: tuple[str, ...]) -> Iterator[tuple[ast.AST, str]]:
    """The node and all within it, each with the function that it is in."""
    yield node, _function(scope)
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            within: Iterable[ast.AST | None] = (*node.args.defaults, *node.args.kw_defaults, *node.body)
            scope = (*scope, node.name, "<locals>")
        case ast.ClassDef():
            within = node.body
            scope = (*scope, node.name)
        case ast.AnnAssign():
            within = (node.value,)
        case ast.Assert() | ast.JoinedStr():  # Python 3.11 does not know where the parts of an f-string stand
            within = ()
        case ast.Module():
            within = (statement for statement in node.body if not _names_a_type(statement))
        case _:
            within = ast.iter_child_nodes(node)
    for child in within:
        if child is not None:
            yield from _mutable(child, scope)


def _function(scope: tuple[str, ...]) -> str:
    """As Python writes `co_qualname`; classes do not count, since what stands there runs with the module."""
    end = len(scope) - scope[::-1].index("<locals>") - 1 if "<locals>" in scope else 0
    return ".".join(scope[:end]) or "<module>"


def _names_a_type(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Subscript | ast.BinOp)


_COMPARISONS: dict[type[ast.cmpop], Sequence[ast.cmpop]] = {
    ast.Lt: (ast.LtE(), ast.GtE()),
    ast.LtE: (ast.Lt(), ast.Gt()),
    ast.Gt: (ast.GtE(), ast.LtE()),
    ast.GtE: (ast.Gt(), ast.Lt()),
    ast.Eq: (ast.NotEq(),),
    ast.NotEq: (ast.Eq(),),
    ast.Is: (ast.IsNot(),),
    ast.IsNot: (ast.Is(),),
    ast.In: (ast.NotIn(),),
    ast.NotIn: (ast.In(),),
}
_ARITHMETIC: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.FloorDiv(),
    ast.FloorDiv: ast.Mult(),
    ast.Div: ast.Mult(),
    ast.Mod: ast.Mult(),
    ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(),
    ast.BitXor: ast.BitOr(),
    ast.LShift: ast.RShift(),
    ast.RShift: ast.LShift(),
}
_FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min"}


def comparison_changed(node: ast.AST) -> Iterator[Change]:
    """Off by one, or the other way round."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in _COMPARISONS[type(operator)]:
                ops = [*node.ops[:place], other, *node.ops[place + 1 :]]
                yield node, ast.Compare(node.left, ops, node.comparators)


def and_or_exchanged(node: ast.AST) -> Iterator[Change]:
    """`and` for `or`, and the other way round."""
    if isinstance(node, ast.BoolOp):
        yield node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def operand_dropped(node: ast.AST) -> Iterator[Change]:
    """One part of a condition forgotten."""
    if isinstance(node, ast.BoolOp):
        for rest in _without_each(node.values):
            yield node, ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]


def condition_negated(node: ast.AST) -> Iterator[Change]:
    """What other operators do not negate: neither a comparison nor a negation."""
    conditions = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else getattr(node, "ifs", ())
    for condition in conditions:
        if not isinstance(condition, ast.Compare | ast.UnaryOp):
            yield condition, ast.UnaryOp(ast.Not(), condition)


def unary_operator_dropped(node: ast.AST) -> Iterator[Change]:
    """`not`, `-` or `~` forgotten."""
    if isinstance(node, ast.UnaryOp):
        yield node, node.operand


def arithmetic_changed(node: ast.AST) -> Iterator[Change]:
    """Plus for minus, `&` for `|`; also where they assign."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield node, ast.BinOp(node.left, _ARITHMETIC[type(node.op)], node.right)
    if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield node, ast.AugAssign(node.target, _ARITHMETIC[type(node.op)], node.value)


def constant_changed(node: ast.AST) -> Iterator[Change]:
    """A number one more and one less, True for False; so defaults of arguments and fields change, too."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node, ast.Constant(node.value + 1)
        yield node, ast.Constant(node.value - 1)


def function_exchanged(node: ast.AST) -> Iterator[Change]:
    """`any` for `all`, `min` for `max`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        yield node.func, ast.Name(_FUNCTIONS[node.func.id])


def tuple_element_dropped(node: ast.AST) -> Iterator[Change]:
    """One part of a key forgotten."""
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        for rest in _without_each(node.elts):
            yield node, ast.Tuple(rest, ast.Load())


def return_value_lost(node: ast.AST) -> Iterator[Change]:
    """None instead of an answer."""
    if isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
        yield node, ast.Return(ast.Constant(None))


def statement_removed(node: ast.AST) -> Iterator[Change]:
    """What is there for its effect; without an assignment to a name there would be no such name."""
    match node:
        case ast.Expr(ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield node, ast.Pass()
        case ast.AugAssign() | ast.Delete() | ast.Raise():
            yield node, ast.Pass()
        case ast.Assign() if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            yield node, ast.Pass()


def continue_break_exchanged(node: ast.AST) -> Iterator[Change]:
    """The rest of a loop skipped, or not."""
    if isinstance(node, ast.Continue):
        yield node, ast.Break()
    if isinstance(node, ast.Break):
        yield node, ast.Continue()


def _without_each(parts: Sequence[ast.expr]) -> Iterator[list[ast.expr]]:
    for place in range(len(parts)):
        yield [*parts[:place], *parts[place + 1 :]]


OPERATORS: Sequence[Operator] = (
    comparison_changed,
    and_or_exchanged,
    operand_dropped,
    condition_negated,
    unary_operator_dropped,
    arithmetic_changed,
    constant_changed,
    function_exchanged,
    tuple_element_dropped,
    return_value_lost,
    statement_removed,
    continue_break_exchanged,
)

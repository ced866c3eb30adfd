"""The abstract syntax tree: immutable nodes, compared and hashed by identity.

The parser makes nodes, macros combine them, and the checker writes its findings in tables by node. `position` is a code
point of the source, at which people would look for the node: an operator's sign,
a call's parenthesis, a field's dot.
"""

from dataclasses import dataclass
from typing import TypeAlias

from cel.values.values import Value


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant of the source, or one that a macro adds."""

    position: int
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Ident:
    """A name; with a leading dot it skips the variables of macros."""

    position: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """`operand.field`; is_test: `has(operand.field)`."""

    position: int
    operand: "Expr"
    field: str
    is_test: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a function or operator; `target` is the receiver, or the first part of a qualified name."""

    position: int
    function: str
    arguments: "tuple[Expr, ...]"
    target: "Expr | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class ListExpr:
    """`[a, ?b]`; optionals: the indices of the entries with a question mark."""

    position: int
    elements: "tuple[Expr, ...]"
    optionals: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapEntry:
    """`key: value` of a map."""

    position: int
    key: "Expr"
    value: "Expr"
    is_optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MapExpr:
    """`{key: value}`."""

    position: int
    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """`name: value` of a message."""

    position: int
    name: str
    value: "Expr"
    is_optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MessageExpr:
    """`type_name{name: value}`."""

    position: int
    type_name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension:
    """The expansion of all looping macros.

    `accumulator` starts as `start`; for each element of `range_`, bound to `variable` (with two variables: index and
    element, or key and value), while `condition` holds, it becomes `step`; `result` is the answer.
    `cel.bind` is one over an empty list, whose `start` is evaluated when it is first used.
    """

    position: int
    range_: "Expr"
    variable: str
    second_variable: str | None
    accumulator: str
    start: "Expr"
    condition: "Expr"
    step: "Expr"
    result: "Expr"

    @property
    def is_binding(self) -> bool:
        """Whether it only gives a name to a value."""
        condition = self.condition
        is_never_run = isinstance(condition, Literal) and condition.value is False
        return is_never_run and isinstance(self.range_, ListExpr) and not self.range_.elements


Expr: TypeAlias = Literal | Ident | Select | Call | ListExpr | MapExpr | MessageExpr | Comprehension


def children(node: Expr) -> tuple[Expr, ...]:
    """The children of a node, in the order of the source."""
    nodes: tuple[Expr, ...] = ()
    match node:
        case Call():
            nodes = node.arguments if node.target is None else (node.target, *node.arguments)
        case Select():
            nodes = (node.operand,)
        case ListExpr():
            nodes = node.elements
        case MapExpr():
            nodes = tuple([child for entry in node.entries for child in (entry.key, entry.value)])
        case MessageExpr():
            nodes = tuple([field.value for field in node.fields])
        case Comprehension():
            nodes = (node.range_, node.start, node.condition, node.step, node.result)
    return nodes


ACCUMULATOR = "@result"  # no identifier of a user can have this name

# The names that operators have as functions, in messages and in overload tables.
ADD, SUBTRACT, NEGATE = "_+_", "_-_", "-_"
MULTIPLY, DIVIDE, MODULO = "_*_", "_/_", "_%_"
LESS, LESS_EQUALS, GREATER, GREATER_EQUALS = "_<_", "_<=_", "_>_", "_>=_"
EQUALS, NOT_EQUALS, IN = "_==_", "_!=_", "@in"
AND, OR, NOT, CONDITIONAL = "_&&_", "_||_", "!_", "_?_:_"
INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT = "_[_]", "_[?_]", "_?._"
NOT_STRICTLY_FALSE = "@not_strictly_false"
MAP_INSERT = "cel.@mapInsert"

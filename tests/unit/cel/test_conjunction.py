"""An expression as its operands of `&&`: all true together where it is, and none else."""

from dataclasses import fields, is_dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cel
from cel.check.checker import declared_in
from cel.syntax.ast import AND, Call, Expr
from cel.syntax.parser import parse

DEVICE = cel.PlainDevice("d.example", {"a": ("bool", True), "b": ("bool", False)})
A, B, NONE = (f'device.attributes["d.example"].{name}' for name in ("a", "b", "none"))


@pytest.mark.parametrize(
    ("source", "operands"),
    [
        ("true", ("true",)),
        ("true && false", ("true", "false")),
        ("a && b && c", ("a", "b", "c")),
        ("(a && b) && (c)", ("a", "b", "(c)")),
        ("((a && b))", ("a", "b")),
        ("(a) && (b)", ("(a)", "(b)")),
        ("a || b && c", ("a || b && c",)),
        ("a ? b && c : d", ("a ? b && c : d",)),
        ("a && (b || c)", ("a", "(b || c)")),
        ("[1, 2].all(x, x > 0 && x < 3) && b", ("[1, 2].all(x, x > 0 && x < 3)", "b")),
        ('"a && b" == "(" && b // && c', ('"a && b" == "("', "b")),
        ("a\n  &&\n  b.startsWith('x')", ("a", "b.startsWith('x')")),
    ],
)
def test_operands_are_as_they_are_written(source: str, operands: tuple[str, ...]) -> None:
    assert cel.conjuncts(source) == operands


@pytest.mark.parametrize("second", [A, B, NONE, f"!{B}"])
@pytest.mark.parametrize("first", [A, B, NONE, f"({A} || {NONE})"])
def test_operands_say_together_what_the_expression_says(first: str, second: str) -> None:
    source = f"{first} && ({second} && true)"
    whole = cel.compile(source).run(DEVICE)
    parts = [cel.compile(one).run(DEVICE) for one in cel.conjuncts(source)]
    is_false = any(one.error is None and one.value is False for one in parts)
    assert (whole.error is None) == (is_false or not any(one.error for one in parts))
    assert whole.error or whole.value == (not is_false)


atoms = st.sampled_from(["a", "b", "!c", "x.y == 1", '"&&" == z', "[p, q].all(i, i > 0 && i < 3)", "f(a && b)[0]"])
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(" && ".join),
        st.tuples(inner, inner).map(" || ".join),
        st.tuples(inner, inner, inner).map(lambda three: "{} ? {} : {}".format(*three)),
        inner.map("({})".format),
        inner.map("!({})".format),
        inner.map("( {}\n) // && comment\n".format),
    ),
    max_leaves=8,
)


def tree(source: str) -> Expr:
    return parse(source, declared_in(cel.V1_37).syntax)


def shown(node: object) -> object:
    """The node without positions, so that equal trees are equal."""
    if not is_dataclass(node) or isinstance(node, type):
        return tuple(map(shown, node)) if isinstance(node, tuple) else node
    inner = [(field.name, shown(getattr(node, field.name))) for field in fields(node) if field.name != "position"]
    return type(node).__name__, tuple(inner)


def flat(node: Expr) -> list[Expr]:
    """The operands of the conjunction that the syntax tree has at its top."""
    if isinstance(node, Call) and node.function == AND:
        return [one for argument in node.arguments for one in flat(argument)]
    return [node]


@given(expressions)
def test_operands_are_those_of_the_syntax_tree_and_slices_of_the_source(source: str) -> None:
    parts = cel.conjuncts(source)
    assert all(part in source for part in parts)
    assert [shown(tree(part)) for part in parts] == list(map(shown, flat(tree(source))))

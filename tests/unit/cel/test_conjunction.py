"""An expression as its operands of `&&`: all true together where it is, and none else."""

import pytest

import cel

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

from random import Random

from tests.generators.expressions import Node, well_typed
from tests.generators.grammar import kind
from tests.generators.shrinking import shrink_expression, shrink_json, shrink_text


def long_expression_with(text: str, rng: Random) -> Node:
    many = (well_typed(rng, depth=4) for _ in range(50_000))
    return next(e for e in many if text in str(e) and len(str(e)) > 60)


def test_expression_shrinks_to_the_part_that_differs() -> None:
    rng = Random(1)  # noqa: S311
    found = next(
        e for e in (well_typed(rng, depth=4) for _ in range(10_000)) if "isSorted" in str(e) and len(str(e)) > 60
    )
    small = shrink_expression(found, lambda node: ".isSorted()" in str(node))
    assert str(small) == ".isSorted()"


def balanced(text: str) -> bool:
    return text.count("(") == text.count(")") and text.count("[") == text.count("]")


def test_expression_keeps_to_its_grammar_where_the_difference_needs_it() -> None:
    rng = Random(2)  # noqa: S311
    found = long_expression_with("].sum()", rng)
    small = shrink_expression(found, lambda node: "].sum()" in str(node) and balanced(str(node)))
    assert len(str(small)) < 40
    assert balanced(str(small))


def test_shrunk_expression_is_never_longer() -> None:
    rng = Random(3)  # noqa: S311
    for _ in range(20):
        expression = well_typed(rng, kind("bool"), depth=3)
        assert len(str(shrink_expression(expression, lambda _: True))) <= 1


def test_text_shrinks_to_what_matters() -> None:
    assert shrink_text("aaaaXbbbbbbYccc", lambda text: "X" in text and "Y" in text) == "XY"


def test_json_loses_every_entry_that_does_not_matter() -> None:
    value = {"a": {"b": [1, 2, {"c": 3, "d": 4}]}, "e": [5]}
    assert shrink_json(value, lambda v: "c" in str(v)) == {"a": {"b": [{"c": 3}]}}


def test_json_keeps_the_keys_that_make_an_object() -> None:
    value = {"name": "n", "a": [{"name": "x", "b": 1}, {"name": "y", "c": 2}]}
    assert shrink_json(value, lambda v: "c" in str(v), keep=["name"]) == {"name": "n", "a": [{"name": "y", "c": 2}]}

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.generators.expressions import (
    MAX_CHARACTERS,
    Node,
    broken,
    ill_typed,
    productions_of,
    selector,
    some,
    spaced,
    well_typed,
)
from tests.generators.grammar import LITERALS, PRODUCTIONS, VARIABLES, WORDS, Hole, Kind, kind

COUNT = 6000

FUNCTIONS = (Path(__file__).parent / "language" / "functions.txt").read_text().split()
OPERATORS = ["&&", "||", "!", "? ", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "[?", ".?", "{?", "`"]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [str(e) for e in some(selector, Random(1), COUNT)]  # noqa: S311


def test_same_seed_gives_the_same_expressions() -> None:
    first, second = (list(some(selector, Random(5), 100)) for _ in range(2))  # noqa: S311
    assert first == second


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_and_macro_occurs(texts: list[str], name: str) -> None:
    call = re.compile(rf"\b{name} " if name == "in" else rf"\b{name}\(")
    assert sum(1 for text in texts if call.search(text)) >= 5


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_occurs(texts: list[str], operator: str) -> None:
    assert sum(operator in text for text in texts) >= 5


def test_every_production_occurs() -> None:
    rng, remaining = Random(2), set(PRODUCTIONS)  # noqa: S311
    for of in sorted({str(p.result) for p in PRODUCTIONS}):
        for bound in (
            kind(of).bind({v: kind("int") for v in VARIABLES}),
            kind(of).bind({v: kind("string") for v in VARIABLES}),
        ):
            remaining -= set(productions_of(bound, leaf=False))
    assert remaining == set()
    assert all(str(well_typed(rng, kind(k))) for k in VARIABLES["T"])


def test_every_hole_can_be_filled() -> None:
    rng = Random(3)  # noqa: S311
    for production in PRODUCTIONS:
        for hole in (p for p in production.parts if isinstance(p, Hole)):
            of = hole.kind.bind(dict.fromkeys(VARIABLES, kind("int")))
            assert of.name in WORDS or of.name in LITERALS or productions_of(of, leaf=True), production.text
            assert len(str(well_typed(rng, of, depth=0))) > 0


def test_most_expressions_are_short_and_none_is_longer_than_the_bound(texts: list[str]) -> None:
    lengths = sorted(map(len, texts))
    assert lengths[len(lengths) // 2] < 200
    assert lengths[-1] <= MAX_CHARACTERS


def test_expressions_are_diverse(texts: list[str]) -> None:
    assert len(set(texts)) > COUNT * 0.8
    assert Counter(texts).most_common(1)[0][1] < COUNT * 0.03


def test_slips_of_type_put_other_kinds_into_holes() -> None:
    rng = Random(4)  # noqa: S311
    assert any(node.kind != kind("bool") for node in (ill_typed(rng) for _ in range(200)))


def test_broken_text_differs_from_the_expression() -> None:
    rng = Random(5)  # noqa: S311
    expression = well_typed(rng, depth=3)
    changed = sum(str(broken(rng, expression)) != str(expression) for _ in range(100))
    assert changed > 80


def test_spaced_expression_differs_in_white_space_and_comments_only() -> None:
    rng = Random(6)  # noqa: S311
    text = str(spaced(rng, Node(kind("bool"), ("1 + 2 == 3",))))
    assert text.replace("// why", "").split() == ["1", "+", "2", "==", "3"]


def test_descendants_are_all_expressions_inside() -> None:
    leaf = Node(kind("int"), ("1",))
    inner = Node(kind("int"), (leaf, " + ", leaf), is_operation=True)
    outer = Node(kind("bool"), (inner, " > ", leaf), is_operation=True)
    assert str(outer) == "1 + 1 > 1"
    assert list(outer.descendants()) == [inner, leaf, leaf, leaf]


@pytest.mark.parametrize("text", ["int", "list(int)", "map(string, list(int))", "optional(map(K, T))"])
def test_kind_reads_and_writes_the_same_text(text: str) -> None:
    assert str(kind(text)) == text


def test_pattern_matches_one_type_for_one_variable() -> None:
    chosen: dict[str, Kind] = {}
    assert kind("map(K, T)").match(kind("map(string, list(int))"), chosen)
    assert {name: str(of) for name, of in chosen.items()} == {"K": "string", "T": "list(int)"}
    assert not kind("map(T, T)").match(kind("map(string, int)"), {})
    assert not kind("map(K, T)").match(kind("map(double, int)"), {})

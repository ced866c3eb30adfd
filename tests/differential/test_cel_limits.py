"""Long and deeply nested selectors against the reference: the same ones are refused, the others cost the same."""

from collections.abc import Callable
from random import Random

import pytest

from tests.differential.comparison import Comparison
from tests.differential.peer import Json, Peer

DEVICE: Json = {"driver": "d.io", "attributes": {"a": {"string": "x" * 64}, "n": {"int": 3}}}

SIZES = (1, 32, 84, 125, 126, 249, 250, 251, 252)  # around what has turned out to be a limit

SHAPES: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "(" * n + "true" + ")" * n,
    "not": lambda n: "!" * n + "true",
    "minus": lambda n: "-" * n + "n == 1",
    "minus one": lambda n: "-" * n + "1 == 1",
    "and": lambda n: " && ".join(["true"] * n),
    "or": lambda n: " || ".join(["false"] * n),
    "and or": lambda n: " || true && ".join(["true"] * n),
    "sum": lambda n: " + ".join(["1"] * n) + " > 0",
    "sum on the right": lambda n: "1 + (" * n + "1" + ")" * n + " > 0",
    "product": lambda n: " * ".join(["1"] * n) + " > 0",
    "comparisons": lambda n: " == ".join(["true"] * n),
    "in": lambda n: " in ".join(["1"] + ["[1]"] * n),
    "conditional on the right": lambda n: "true ? true : " * n + "true",
    "conditional in the condition": lambda n: "(" * n + "true" + " ? true : false)" * n,
    "lists": lambda n: "[" * n + "]" * n + " == []",
    "maps": lambda n: "{1: " * n + "1" + "}" * n + " == {}",
    "indices": lambda n: "dyn([])" + "[0]" * n + " == 1",
    "fields": lambda n: "device.attributes.x" + ".y" * n + " == 1",
    "optional fields": lambda n: "device.attributes" + ".?y" * n + ".hasValue()",
    "calls": lambda n: '"a"' + ".trim()" * n + ' == "a"',
    "calls in arguments": lambda n: "string(" * n + '"a"' + ")" * n + ' == "a"',
    "dyn": lambda n: "dyn(" * n + "true" + ")" * n,
    "list of many": lambda n: f"1 in [{', '.join(map(str, range(n)))}]",
    "list of many attributes": lambda n: f"{', '.join(['device.driver'] * n)}".join(["[", "].size() > 0"]),
    "map of many": lambda n: "{" + ", ".join(f"{i}: {i}" for i in range(n)) + "}.size() > 0",
    "all in all": lambda n: "[1].all(x, " * n + "true" + ")" * n,
    "map of filter": lambda n: "[1]" + ".map(x, x).filter(x, true)" * n + ".size() == 1",
    "bind": lambda n: "".join(f"cel.bind(v{i}, {i}, " for i in range(n)) + "true" + ")" * n,
    "range": lambda n: f"lists.range({n * 10}).all(x, x >= 0)",
    "range of range": lambda n: f"lists.range({n}).all(x, lists.range({n}).all(y, x + y >= 0))",
    "concatenation": lambda n: " + ".join(['device.attributes["d.io"].a'] * n) + ' != ""',
    "string literal": lambda n: f'"{"x" * n * 10}" != device.driver',
    "regular expression": lambda n: f'device.driver.matches("{"a?" * n}")',
    "doubled text": lambda n: f'"{"a" * n}".replace("a", "{"b" * n}").contains("{"b" * n}c")',
    "format": lambda n: f'"{"%s" * n}".format([{", ".join(["1"] * n)}]) != ""',
    "lines": lambda n: "\n" * n + "true // " + "x" * n,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_long_selectors_end_as_in_the_reference(cel_peer: Peer, shape: str) -> None:
    comparison = Comparison(cel_peer)
    expressions = [SHAPES[shape](n) for n in SIZES]
    answers = cel_peer.ask_all([comparison.question(expression, DEVICE) for expression in expressions])
    found = {
        n: (kind, ours, theirs)
        for n, expression, theirs in zip(SIZES, expressions, answers, strict=True)
        if (kind := comparison.difference(ours := comparison.our_answer(expression, DEVICE), theirs))
    }
    assert found == {}


OPEN_AND_CLOSE = (
    ("(", ")"),
    ("(?:", ")"),
    ("(?P<g>", ")"),
    ("(?i:", ")"),
    ("b(", ")"),
    ("(", ")*"),
    ("(?:", ")?"),
    ("(d|", ")"),
    ("(d|[c(]", ")"),
    ("bb+(", ")"),
)
"""Ways to nest: groups that capture or not, in sequences, repeated, and among choices."""


@pytest.mark.parametrize("seed", range(3))
def test_patterns_that_nest_as_deeply_are_refused_as_in_the_reference(cel_peer: Peer, seed: int) -> None:
    """Around the limit of each way to nest, and of some that are drawn."""
    comparison, draw = Comparison(cel_peer), Random(f"nests {seed}")  # noqa: S311
    compared = [nested([one] * n) for one in OPEN_AND_CLOSE for n in (333, 334, 499, 500, 501, 998, 999, 1000)]
    compared += [nested([draw.choice(OPEN_AND_CLOSE) for _ in range(draw.choice((500, 700, 900)))]) for _ in range(40)]
    expressions = [f"device.driver.matches(r'{pattern}')" for pattern in compared]
    answers = list(cel_peer.ask_all([comparison.question(expression, DEVICE) for expression in expressions]))
    found = {
        expression: (kind, ours, theirs)
        for expression, theirs in zip(expressions, answers, strict=True)
        if (kind := comparison.difference(ours := comparison.our_answer(expression, DEVICE), theirs))
    }
    assert found == {}
    assert {"result" in theirs for theirs in answers} == {True, False}


def nested(levels: list[tuple[str, str]]) -> str:
    """The levels around a character; names of groups differ."""
    opened = [start.replace("<g>", f"<g{number}>") for number, (start, _) in enumerate(levels)]
    return "".join(opened) + "a" + "".join(end for _, end in reversed(levels))

"""cel-python as a second opinion, on the part of the core language where it follows CEL's specification.

Whole numbers that do not overflow, texts, lists, logic that meets no error, and macros. Its other answers often
differ from the reference's (docs/adr/0001), so they say nothing.
"""

import sys
from collections.abc import Callable
from random import Random

import celpy
import pytest

import cel

EXPRESSIONS = 400
DEEPEST = 4
DEVICE = cel.PlainDevice("d.io")


def truth(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    if depth == 0:
        return rng.choice(["true", "false"])
    return rng.choice(_TRUTHS)(rng, depth - 1, variables)


def number(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    if depth == 0:
        return rng.choice([*variables, *map(str, range(10))])
    return rng.choice(_NUMBERS)(rng, depth - 1, variables)


def text(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    if depth == 0:
        return rng.choice(["''", "'a'", "'ab'", '"é€"', "'b\\n'", r"r'\n'"])
    parts = text(rng, depth - 1, variables), text(rng, depth - 1, variables)
    return rng.choice([f"({parts[0]} + {parts[1]})", f"({truth(rng, depth - 1, variables)} ? {parts[0]} : {parts[1]})"])


def numbers(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    return f"[{', '.join(number(rng, depth, variables) for _ in range(rng.randrange(4)))}]"


def _compared(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    operand = rng.choice([number, text])
    operator = rng.choice(["==", "!=", "<", "<=", ">", ">="])
    return f"({operand(rng, depth, variables)} {operator} {operand(rng, depth, variables)})"


def _combined(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    return f"({truth(rng, depth, variables)} {rng.choice(['&&', '||'])} {truth(rng, depth, variables)})"


def _negated(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    return f"!{truth(rng, depth, variables)}"


def _chosen(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    parts = (truth(rng, depth, variables) for _ in range(3))
    return "({} ? {} : {})".format(*parts)


def _contained(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    return f"({number(rng, depth, variables)} in {numbers(rng, depth, variables)})"


def _tested(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    method = rng.choice(["contains", "startsWith", "endsWith"])
    # A text that cel-python has concatenated has no methods.
    return f"{text(rng, 0, variables)}.{method}({text(rng, depth, variables)})"


def _of_all(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    variable, macro = f"x{len(variables)}", rng.choice(["all", "exists", "exists_one"])
    condition = truth(rng, depth, (*variables, variable))
    return f"{numbers(rng, depth, variables)}.{macro}({variable}, {condition})"


def _sized(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    return f"size({rng.choice([text, numbers])(rng, depth, variables)})"


def _computed(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    return f"({number(rng, depth, variables)} {rng.choice('+-*')} {number(rng, depth, variables)})"


def _divided(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    return f"({number(rng, depth, variables)} {rng.choice('/%')} {rng.choice('123')})"


def _filtered(rng: Random, depth: int, variables: tuple[str, ...]) -> str:
    variable = f"x{len(variables)}"
    condition = truth(rng, depth, (*variables, variable))
    kept = f"{numbers(rng, depth, variables)}.filter({variable}, {condition})"
    return f"size({kept}.map({variable}, {number(rng, depth, (*variables, variable))}))"


_Writer = Callable[[Random, int, tuple[str, ...]], str]
_TRUTHS: list[_Writer] = [_compared, _combined, _negated, _chosen, _contained, _tested, _of_all]
_NUMBERS: list[_Writer] = [_sized, _computed, _divided, _filtered]


def second_opinion(expression: str) -> bool:
    limit = sys.getrecursionlimit()
    environment = celpy.Environment()
    sys.setrecursionlimit(limit)  # which the line before has lowered
    return bool(environment.program(environment.compile(expression)).evaluate({}))


@pytest.mark.parametrize("seed", range(4))
def test_core_language_answers_as_cel_python_does(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    answers = []
    for _ in range(EXPRESSIONS // 4):
        expression = truth(rng, rng.randint(1, DEEPEST), ())
        answers.append(cel.compile(expression).evaluate(DEVICE))
        assert answers[-1] == second_opinion(expression), expression
    assert set(answers) == {True, False}

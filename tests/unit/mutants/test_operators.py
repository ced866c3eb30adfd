import ast
from pathlib import Path

import pytest

from tests.mutants.operators import OPERATORS, mutations

ROOT = Path(__file__).resolve().parents[3]


def mutated(source: str, operator: str = "") -> list[str]:
    """What becomes of the source, by one operator or by all."""
    return [m.applied_to(source) for m in mutations(source) if operator in ("", m.operator)]


CASES: list[tuple[str, str, list[str]]] = [
    ("comparison changed", "a < b", ["a <= b", "a >= b"]),
    ("comparison changed", "a >= b", ["a > b", "a < b"]),
    ("comparison changed", "a == b", ["a != b"]),
    ("comparison changed", "a is None", ["a is not None"]),
    ("comparison changed", "a not in b", ["a in b"]),
    ("comparison changed", "0 < a < b", ["0 <= a < b", "0 >= a < b", "0 < a <= b", "0 < a >= b"]),
    ("and or exchanged", "a and b and c", ["a or b or c"]),
    ("and or exchanged", "(a or b) and c", ["(a or b) or c", "(a and b) and c"]),
    ("operand dropped", "a and b", ["b", "a"]),
    ("operand dropped", "a or b or c", ["b or c", "a or c", "a or b"]),
    ("operand dropped", "not (a and b == c)", ["not ((b == c))", "not (a)"]),
    ("condition negated", "if a: b()", ["if (not a): b()"]),
    ("condition negated", "if a and b: c()", ["if (not (a and b)): c()"]),
    ("condition negated", "while a(): pass", ["while (not a()): pass"]),
    ("condition negated", "x = a if b else c", ["x = a if (not b) else c"]),
    ("condition negated", "[a for a in b if a]", ["[a for a in b if (not a)]"]),
    ("condition negated", "if a == b: c()", []),
    ("unary operator dropped", "not a", ["a"]),
    ("unary operator dropped", "a & ~b", ["a & b"]),
    ("unary operator dropped", "-(a + b) * c", ["(a + b) * c"]),
    ("arithmetic changed", "a + b", ["a - b"]),
    ("arithmetic changed", "1 << a | b", ["1 << a & b", "1 >> a | b"]),
    ("arithmetic changed", "a |= b", ["a &= b"]),
    ("constant changed", "a = 7", ["a = 8", "a = 6"]),
    ("constant changed", "f(x=True)", ["f(x=False)"]),
    ("constant changed", "def f(a: int = 0, *, b: bool = False): ...", [
        "def f(a: int = 1, *, b: bool = False): ...",
        "def f(a: int = -1, *, b: bool = False): ...",
        "def f(a: int = 0, *, b: bool = True): ...",
    ]),
    ("function exchanged", "any(a)", ["all(a)"]),
    ("function exchanged", "min(a, b)", ["max(a, b)"]),
    ("tuple element dropped", "key = (a, b, c)", ["key = (b, c)", "key = (a, c)", "key = (a, b)"]),
    ("tuple element dropped", "memo[a, b]", ["memo[b,]", "memo[a,]"]),
    ("tuple element dropped", "a, b = c", []),
    ("return value lost", "def f(): return 1", ["def f(): return None"]),
    ("return value lost", "def f(): return None", []),
    ("return value lost", "def f(): return", []),
    ("statement removed", "f()", ["pass"]),
    ("statement removed", "raise E", ["pass"]),
    ("statement removed", "a.b = c[0] = d", ["pass"]),
    ("statement removed", "a += b", ["pass"]),
    ("statement removed", "del a[0]", ["pass"]),
    ("statement removed", "def f():\n    yield 1", ["def f():\n    pass"]),
    ("statement removed", "a = b", []),
    ("statement removed", '"""A docstring."""', []),
    ("continue break exchanged", "for a in b: continue", ["for a in b: break"]),
    ("continue break exchanged", "for a in b: break", ["for a in b: continue"]),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "source", "expected"), CASES)
def test_operator_changes_one_place(operator: str, source: str, expected: list[str]) -> None:
    assert [ast.dump(ast.parse(text)) for text in mutated(source, operator)] == [
        ast.dump(ast.parse(text)) for text in expected
    ]


def test_every_operator_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == {operator.__name__.replace("_", " ") for operator in OPERATORS}


@pytest.mark.parametrize(
    "source",
    [
        "a: dict[int, bool] | None",
        "def f(a: X | Y) -> tuple[int, str]: ...",
        "Key = tuple[int, str]",
        "Kind = A | B",
        "@dataclass(frozen=True)\nclass A: ...",
        "@cache(maxsize=100)\ndef f(): ...",
        "assert a and b < 1",
        "x = f'{a + 1} of {b}'",
        "'a text'",
        "import a",
    ],
)
def test_what_no_test_could_notice_is_left(source: str) -> None:
    assert mutated(source) == []


def test_everything_else_stays_as_it_is_written() -> None:
    source = 'x = "ä€"  # a comment\nif (\n    a  # why\n    and b\n):  # so\n    c( 1,2 )\n'
    assert mutated(source, "operand dropped") == [
        'x = "ä€"  # a comment\nif (\n    b\n):  # so\n    c( 1,2 )\n',
        'x = "ä€"  # a comment\nif (\n    a\n):  # so\n    c( 1,2 )\n',
    ]
    assert mutated("f('ä', 1)", "constant changed") == ["f('ä', 2)", "f('ä', 0)"]


def test_mutation_knows_its_line_and_function() -> None:
    source = """
A = 1
class C:
    b: int = 1
    def d(self, e=1):
        def f():
            return lambda: 1
        class G:
            h = 1
        return 1
"""
    found = [(m.line, m.function) for m in mutations(source) if m.operator == "constant changed"]
    assert found[::2] == [
        (2, "<module>"),
        (4, "<module>"),
        (5, "C.d"),
        (7, "C.d.<locals>.f"),
        (9, "C.d"),
        (10, "C.d"),
    ]


@pytest.mark.parametrize(
    "path", ["allocator/search/backtracking.py", "allocator/policies/contract.py", "scheduler/queue.py"]
)
def test_every_mutation_of_a_source_is_valid_python_and_another_program(path: str) -> None:
    source = (ROOT / path).read_text()
    unchanged = ast.dump(ast.parse(source))
    for mutation in list(mutations(source))[::5]:
        assert ast.dump(ast.parse(mutation.applied_to(source))) != unchanged

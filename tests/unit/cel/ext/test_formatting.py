"""`format` in expressions: what the clauses print, and what is refused before evaluation."""

import pytest

from tests.unit.cel.ext.expressions import costs_of, failure_of, holds, refusal_of


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ('"%s %s".format(["a", 1])', "a 1"),
        ('"%%%s%%".format(["x"])', "%x%"),
        ('"%s".format([1e6])', "1e+06"),
        ('"%s".format([[1.5, "a", b"b", null, true, 5u]])', '[1.500000, "a", b"b", null, true, 5]'),
        ('"%s".format([[double("Inf"), double("NaN")]])', '["+Inf", "NaN"]'),
        ('"%s".format([{"b": [1], "a": {2: "x"}}])', '{"a":{2:"x"}, "b":[1]}'),
        ('"%s".format([{1: 0, 1u: 0, "1": 0, true: 0}])', '{"1":0, 1:0, 1:0, true:0}'),
        ('"%s".format([["\\n\\u200b\\U0001f600\\""]])', '["\\n\\u200b\U0001f600\\""]'),
        ('"%s".format([["\\u0cf3\\u0378"]])', '["\u0cf3\\u0378"]'),  # new in Unicode 15, not assigned
        ('"%s".format([duration("90m")])', "5400s"),
        ('"%s".format([[duration("90s"), timestamp("2024-01-01T00:00:00Z")]])',
         '[duration("90s"), timestamp("2024-01-01T00:00:00Z")]'),
        ('"%s".format([[type(1), type("")]])', "[int, string]"),
        ('"%d %d".format([-5, 7u])', "-5 7"),
        ('"%f".format([1234567.891])', "1,234,567.891000"),
        ('"%.2f".format([0.125])', "0.12"),
        ('"%.0f".format([2.5])', "2"),
        ('"%.3f".format([-0.0001])', "-0.000"),
        ('"%f".format([-0.0])', "0.000000"),
        ('"%.257f".format([1.25])', "1.25"),
        ('"%.99999999f".format([1.0])', "%!(NOVERB)"),
        ('"%f %f".format(["Infinity", "NaN"])', "\N{INFINITY} NaN"),
        ('"%e".format([1234.5])', "1.234500\N{MULTIPLICATION SIGN}10⁰³"),
        ('"%e".format([-0.000012345])', "-1.234500\N{MULTIPLICATION SIGN}10⁻⁰⁵"),
        ('"%.16e".format([1.0])', "   1.000000\N{MULTIPLICATION SIGN}10⁰⁰"),
        ('"%.5e".format(["-Infinity"])', "   -\N{INFINITY}"),
        ('"%b %b %o".format([5, true, -8])', "101 1 -10"),
        ('"%x %X %x".format([255, "é", b"\\xff"])', "ff C3A9 ff"),
    ],
)  # fmt: skip
def test_clause_prints(call: str, text: str) -> None:
    assert holds(f"{call} == {_literal(text)}")


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('"%".format([1])', "unexpected end of string"),
        ('"%.2".format([1.0])', "could not find end of precision specifier"),
        ('"%.f".format([1.0])', "could not parse formatting clause"),
        ('"%.99999999999999999999f".format([1.0])', "could not parse formatting clause"),
        ('"%q".format([1])', 'unrecognized formatting clause "q"'),
        ('"%s %s".format([1])', "index 1 out of range"),
        ('"%s".format([1, 2])', "too many arguments supplied to string.format (expected 1, got 2)"),
        ('"%d".format(["5"])', "decimal clause can only be used on integers, was given string"),
        ('"%f".format([1])', "fixed-point clause can only be used on doubles, was given int"),
        ('"%s".format([[1, [quantity("1")]]])', "was given kubernetes.Quantity"),
        ('"%s".format([{"a": quantity("1")}])', "was given kubernetes.Quantity"),
        ('"%x".format([true])', "can be formatted as hex, was given bool"),
        ('"%b".format([1.0])', "can be formatted as binary, was given double"),
        ('"%o".format([true])', "octal clause can only be used on integers, was given bool"),
    ],
)
def test_literal_arguments_are_checked_before_evaluation(call: str, message: str) -> None:
    assert message in refusal_of(call)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            '"%d".format([dyn("5")])',
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ('"%e".format([dyn(5)])', "scientific clause can only be used on doubles, was given int"),
        ('"%s".format([dyn(quantity("1"))])', "was given kubernetes.Quantity"),
        ('"%s".format([[dyn(quantity("1"))]])', "no formatting function, was given kubernetes.Quantity"),
        ('"%s".format([{1.5: 2}])', "no formatting function for map key, was given double"),
        ('"%s".format([b"\\xff"])', "invalid UTF-8 in bytes"),
        ('"%s".format([].map(x, x))', "index 0 out of range"),
        ('(device.driver + "%").format([1])', "unexpected end of string"),
    ],
)
def test_other_arguments_are_checked_when_they_are_there(call: str, message: str) -> None:
    assert message in failure_of(call)


def test_arguments_that_are_not_literal_may_be_too_many() -> None:
    assert holds('"%s".format([1, 2].map(x, x)) == "1"')


@pytest.mark.parametrize("arguments", [["x", "x", "x"], ["[x, x, x]"]])
def test_what_one_call_prints_is_bounded(arguments: list[str]) -> None:
    heavy = f'cel.bind(x, lists.range(100000), "{"%s" * len(arguments)}".format([{", ".join(arguments)}]))'
    assert "operation cancelled: a value with more than 262144 parts" in failure_of(heavy)


def test_nesting_without_bound_is_printed() -> None:
    deep = (
        "cel.bind(a, "
        + "[" * 200
        + "]" * 200
        + ", "
        + '"%s".format(['
        + "[" * 40
        + "a"
        + "]" * 40
        + "]).size() == 480)"
    )
    assert holds(deep)


def test_cost_counts_the_format_only() -> None:
    assert costs_of('"%s abcdefgh".format([[1, 2, 3].map(x, x)]) == ""')[0] == 52

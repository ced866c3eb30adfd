"""What is said of an expression that fails, and where of one that does not compile. Which do: tests/conformance."""

import pytest

import cel

DEVICE = cel.PlainDevice(
    "d.io",
    {
        "i": ("int", 3),
        "s": ("string", "ünï"),
        "b": ("bool", True),
        "v": ("version", "1.2.3-rc.1"),
        "l": ("ints", (1, 2, 3)),
        "other.io/s": ("string", "x"),
    },
)

ERRORS = {
    "9223372036854775807 + 1 > 0": "integer overflow",
    "-9223372036854775808 - 1 < 0": "integer overflow",
    "18446744073709551615u + 1u > 0u": "unsigned integer overflow",
    "1u - 2u == 0u": "unsigned integer overflow",
    "1 / 0 == 0": "division by zero",
    "1 % 0 == 0": "modulus by zero",
    "dyn(1) + 1u == 2u": "no such overload",
    "dyn(1) && true": "no such overload",
    "0.0 / 0.0 < 1.0": "NaN values cannot be ordered",
    "[1][2] == 1": "index out of bounds: 2",
    "dyn([1])['a'] == 1": "unsupported index type 'string' in list",
    "{'a': 1}.b == 1": "no such key: b",
    "device.attributes['d.io'].x == 1": "no such key: x",
    "optional.none().value() == 1": "optional.none() dereference",
    "dyn(1).exists(x, true)": "got 'int', expected iterable type",
    "[0].exists(x, 1 / x == 1)": "division by zero",
    "{1: 1, 2: 2}.transformMapEntry(k, v, {'a': v}) == {}": "insert failed: key a already exists",
    "timestamp('9999-12-31T23:59:59Z') + duration('1s') > timestamp(0)": "timestamp overflow",
    "timestamp(0).getHours('2562048:00') == 0": "an offset of more than 292 years",
    "timestamp(0).getHours('No/Where') == 0": "unknown time zone No/Where",
    "string(dyn(b'\\xff') + b'') == ''": "invalid UTF-8 in bytes, cannot convert to string",
    "device.attributes['d.io'].v in ['1.2.3']": "hash of unhashable type cel.Semver",
    "dyn({1: 1})[device] == 1": "invalid qualifier type: map",
}


@pytest.mark.parametrize(("expression", "message"), ERRORS.items())
def test_fails_while_running(expression: str, message: str) -> None:
    outcome = cel.compile(expression).run(DEVICE)
    assert outcome.error is not None
    assert outcome.error.phase == "runtime"
    assert message in outcome.error.message


REFUSED = {
    "": (1, 1, "mismatched input '<EOF>'"),
    "1 +": (1, 4, "mismatched input '<EOF>'"),
    "true true": (1, 6, "expecting <EOF>"),
    "-!true": (1, 2, "mismatched input '!'"),
    "a ? b ? c : d : e": (1, 7, "expecting ':'"),
    "size([1],)": (1, 10, "mismatched input ')'"),
    "[1,,2]": (1, 4, "mismatched input ','"),
    "'unterminated": (1, 1, "token recognition error"),
    "'\\z'": (1, 1, "token recognition error"),
    "'\\ud800' == ''": (1, 1, "invalid unicode code point"),
    "b'\\u0041' == b''": (1, 1, "unable to unescape string"),
    "9223372036854775808 > 0": (1, 1, "invalid int literal"),
    "1e999 > 0.0": (1, 1, "invalid double literal"),
    "for == 1": (1, 1, "reserved identifier: for"),
    "device.in": (1, 8, "expecting IDENTIFIER"),
    "nothing == 1": (1, 1, "undeclared reference to 'nothing' (in container '')"),
    "device.nothing": (1, 7, "undefined field 'nothing'"),
    "device.nothing()": (1, 15, "undeclared reference to 'nothing'"),
    "1 == 1.0": (1, 3, "found no matching overload for '_==_' applied to '(int, double)'"),
    "'a'.startsWith(1)": (1, 15, "applied to 'string.(int)'"),
    "[1, 'a'] == []": (1, 5, "expected type 'int' but found 'string'"),
    "[1, dyn(1)] == []": (1, 8, "expected type 'int' but found 'dyn'"),
    "true || 1": (1, 9, "expected type 'bool' but found 'int'"),
    "'a'.b": (1, 4, "type 'string' does not support field selection"),
    "1.exists(x, true)": (1, 1, "cannot be range of a comprehension"),
    "has(1)": (1, 5, "invalid argument to has() macro"),
    "[1].all(1, true)": (1, 9, "argument must be a simple name"),
    "[1].all(x, x, true)": (1, 12, "duplicate variable name: x"),
    "[1].all(__result__, true)": (1, 9, "overwrites accumulator variable"),
    "duration('1d') == duration('24h')": (1, 10, "invalid duration argument"),
    "true || 'a'.matches('[')": (1, 21, "invalid matches argument"),
    "true || int('x') == 1": (1, 12, "program instantiation failed"),
    "true || 'a'.matches(dyn('['))": (1, 20, "program instantiation failed"),
    "1": (1, 1, "must evaluate to bool or the unknown type, not int"),
    "google.protobuf.Nothing{}": (1, 24, "undeclared reference to 'google.protobuf.Nothing'"),
    "google.protobuf.Int64Value{nothing: 1} == 1": (1, 35, "undefined field 'nothing'"),
    "google.protobuf.Int64Value{value: 'a'} == 1": (1, 33, "is 'int' but provided type is 'string'"),
    "true &&\n  nothing": (2, 3, "undeclared reference"),
}


@pytest.mark.parametrize(("expression", "expected"), REFUSED.items())
def test_is_refused_with_its_position(expression: str, expected: tuple[int, int, str]) -> None:
    with pytest.raises(cel.CompileError) as caught:
        cel.compile(expression)
    line, column, message = expected
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message in caught.value.message


def test_compile_error_points_at_its_place() -> None:
    with pytest.raises(cel.CompileError) as caught:
        cel.compile("true &&\n\tdevice.nothing")
    assert str(caught.value) == "2:8: undefined field 'nothing'\n |  device.nothing\n | .......^"


def test_result_that_is_no_bool_is_an_output_error() -> None:
    outcome = cel.compile("dyn(1)").run(DEVICE)
    assert outcome.error is not None
    assert (outcome.error.phase, outcome.error.message) == (
        "output",
        "CEL result of type int could not be converted to bool",
    )


def test_aborted_evaluation_is_not_absorbed_by_logic() -> None:
    endless = "lists.range(1000).all(a, lists.range(1000).all(b, true))"
    outcome = cel.compile(f"{endless} || true").run(DEVICE)
    assert isinstance(outcome.error, cel.EvalAbortedError)
    assert outcome.cost == 1_000_001

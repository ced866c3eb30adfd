import gc
from contextlib import suppress

import pytest

import cel
from cel import cache

DEVICE = cel.PlainDevice("d.io", {"i": ("int", 3), "v": ("version", "1.2.3"), "l": ("bools", (True, False))})


def test_program_is_compiled_once_for_each_environment() -> None:
    assert cel.compile("device.driver == 'once'") is cel.compile("device.driver == 'once'")
    assert cel.compile("device.driver == 'once'", cel.V1_36) is not cel.compile("device.driver == 'once'")


def test_refusal_is_remembered_and_raised_anew() -> None:
    errors = []
    for _ in range(2):
        with pytest.raises(cel.CompileError) as caught:
            cel.compile("device.driver == 'refused' +")
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert errors[0] is not errors[1]


def test_text_that_is_longer_than_any_expression_is_not_remembered() -> None:
    before = len(cache._selectors), len(cache._values)
    for compiled in (cel.compile, cel.compile_value):
        with pytest.raises(cel.CompileError, match="longer than 10240 bytes"):
            compiled("x" * 1_000_000)
    assert (len(cache._selectors), len(cache._values)) == before


def test_long_expressions_leave_room_for_few_others() -> None:
    """One of 10 KiB takes megabytes when it is compiled: 4,096 of them would take all that a machine has."""
    for number in range(cache.MOST_TEXT // cache.LONGEST_SOURCE + 5):
        cel.compile(f"{number} == 0".ljust(cache.LONGEST_SOURCE))
    assert cache._selectors.weight <= cache.MOST_TEXT
    compiled = cel.compile("device.driver == 'short'")
    assert cel.compile("device.driver == 'short'") is compiled


def test_expression_may_have_10_kib() -> None:
    assert cel.compile("true".ljust(cache.LONGEST_SOURCE)).evaluate(DEVICE)
    with pytest.raises(cel.CompileError, match="longer than 10240 bytes: 10241"):
        cel.compile("true".ljust(cache.LONGEST_SOURCE + 1))


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(cel.CompileError, match="not a valid Unicode text"):
        cel.compile("'\ud800' == ''")


MISSING = "device.attributes['d.io'].missing == 1"
RAISING = "[semver(device.driver)]"


@pytest.mark.parametrize(
    "expression",
    [
        MISSING,
        f"[1, 2, 3].all(x, [1, 2, 3].all(y, x > y || {MISSING}))",
        f"[1, 2, 3].exists(x, [1, 2, 3].exists(y, {MISSING} && x == y))",
        f"cel.bind(a, {MISSING}, a || a || a)",
        f"{MISSING} || true",
        f"true || {MISSING}",
        f"{MISSING} ? true : false",
        f"{RAISING} + [semver('1.0.0')] == {RAISING}",
        f"{RAISING} == {RAISING} || {RAISING} != {RAISING}",
        f"[1, 2].map(x, semver(device.driver)).exists(y, y == semver('1.0.0')) || {MISSING}",
    ],
)
def test_errors_leave_nothing_that_waits_for_the_garbage_collector(expression: str) -> None:
    """A device that fails in a loop would leave the frames of thousands of calls, and so megabytes, behind."""
    compiled = cel.compile(expression)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            with suppress(cel.EvalError):
                compiled.evaluate(DEVICE)
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("device.attributes['d.io'].i + 1", "int", 4),
        ("device.driver", "string", "d.io"),
        ("device.driver == 'd.io'", "bool", True),
        ("device.attributes['d.io'].v", "version", "1.2.3"),
        ("semver('1.0.0-rc.1')", "version", "1.0.0-rc.1"),
        ("device.attributes['d.io'].l", "bools", (True, False)),
        ("['a', 'b'].map(x, x + 'c')", "strings", ("ac", "bc")),
        ("[semver('1.0.0')]", "versions", ("1.0.0",)),
        ("['a'].filter(x, false)", "strings", ()),
        ("dyn(optional.of(optional.of(4)))", "int", 4),
        ("[1, 2].map(x, dyn(optional.of(x)))", "ints", (1, 2)),
    ],
)
def test_derived_attribute_has_kind_and_value(expression: str, kind: str, value: object) -> None:
    assert cel.compile_value(expression).evaluate(DEVICE) == (kind, value)


@pytest.mark.parametrize("expression", ["1.0", "{}", "null", "[1.0]", "duration('1s')", "quantity('1')", "[[1]]"])
def test_derived_attribute_is_of_a_type_that_attributes_have(expression: str) -> None:
    with pytest.raises(cel.CompileError, match="must evaluate to a primitive scalar"):
        cel.compile_value(expression)


@pytest.mark.parametrize(
    "expression", ["dyn(1.0)", "dyn([1, 2][?5])", "dyn(optional.of([1]))", "dyn([dyn(1), dyn('a')])", "dyn({})"]
)
def test_derived_attribute_of_another_kind_at_run_time_is_an_output_error(expression: str) -> None:
    outcome = cel.compile_value(expression).run(DEVICE)
    assert outcome.error is not None
    assert outcome.error.phase == "output"


def test_environments_differ_as_the_releases_do() -> None:
    assert cel.compile("device.attributes['d.io'].l.exists(x, x)").evaluate(DEVICE)
    with pytest.raises(cel.CompileError, match="cannot be range of a comprehension"):
        cel.compile("device.attributes['d.io'].l.exists(x, x)", cel.V1_36)
    assert cel.compile("device.attributes['d.io'].l.exists(x, x)", cel.V1_36_LISTS).evaluate(DEVICE)
    with pytest.raises(cel.CompileError, match="not wrapper"):
        cel.compile("google.protobuf.BoolValue{value: true}", cel.V1_36)
    assert cel.compile("google.protobuf.BoolValue{value: true}").evaluate(DEVICE)


def test_each_evaluation_stands_alone() -> None:
    compiled = cel.compile("[1, 2].map(x, x + device.attributes['d.io'].i) == [4, 5]")
    assert [compiled.evaluate(DEVICE) for _ in range(3)] == [True] * 3


LOOPS = "[0,1,2,3,4,5,6,7,8,9]"


@pytest.mark.parametrize("absorbing", ["{}", "{} || true", "!{} ? false : true", "[0].exists(x, {})"])
def test_evaluation_that_takes_long_ends_when_its_answer_is_not_wanted_any_more(absorbing: str) -> None:
    asked = 0

    def is_cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked == 2

    nested = f"{LOOPS}.all(a, {LOOPS}.all(b, {LOOPS}.all(c, a + b + c + device.attributes['d.io'].i >= 0)))"
    with pytest.raises(cel.Cancelled):
        cel.compile(absorbing.format(nested)).evaluate(DEVICE, is_cancelled)
    assert asked == 2
    assert cel.compile(nested).evaluate(DEVICE, lambda: False)


def test_attribute_that_takes_long_ends_likewise() -> None:
    nested = f"{LOOPS}.all(a, {LOOPS}.all(b, {LOOPS}.all(c, a + b + c >= 0)))"
    with pytest.raises(cel.Cancelled):
        cel.compile_value(nested).evaluate(DEVICE, lambda: True)

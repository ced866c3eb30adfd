"""Columns give the answers of the exact evaluator, and need it only where they can't do without."""

from itertools import product

import numpy as np
import pytest

import cel
from cel.quantity import Quantity

G = "device.attributes['d.io']"


def a_device(number: int) -> cel.PlainDevice:
    """Devices that differ in all the ways that selectors look at; every seventh has no model, some can't be read."""
    attributes: dict[str, tuple[str, object]] = {
        "uuid": ("string", f"GPU-{number:04}"),
        "index": ("int", number % 8),
        "numa": ("int", number % 2) if number % 5 else ("string", "none"),
        "other.io/version": ("version", f"1.{number % 3}.0"),
        "tags": ("strings", ("a", "b") if number % 2 else ("c",)),
        "healthy": ("bool", number % 4 != 0),
    }
    if number % 7:
        attributes["model" if number % 2 else "d.io/model"] = ("string", f"A{number % 4}00")
    if number % 31 == 30:
        attributes["broken"] = ("version", "1")
    amount = Quantity.parse(("1Gi", "1024Mi", "2Gi", "1.5Gi")[number % 4])
    return cel.PlainDevice("d.io" if number % 11 else "e.io", attributes, {"memory": amount}, number % 3 == 0)


DEVICES = [a_device(number) for number in range(200)]

SINGLE = [
    f"{G}.model == 'A100'",
    f"'A100' == {G}.model",
    f"{G}.model != 'A100'",
    f"{G}.index > 3",
    f"3 >= {G}.index",
    f"{G}.numa < 1",
    f"{G}.uuid == 'GPU-0007'",
    f"{G}.uuid.startsWith('GPU-00')",
    f"{G}.uuid.endsWith('7')",
    f"{G}.uuid.contains('00')",
    f"{G}.uuid.matches('-0*7$')",
    f"{G}.model in ['A000', 'A100']",
    f"has({G}.model)",
    f"{G}.?model.orValue('') == 'A100'",
    f"{G}.healthy",
    f"dyn({G}.model)",
    "device.attributes['other.io'].version.isLessThan(semver('1.2.0'))",
    "device.attributes['other.io'].version in ['1.0.0']",
    f"{G}.tags.exists(t, t == 'a')",
    "device.driver == 'd.io'",
    "device.allowMultipleAllocations",
    "device.capacity['d.io'].memory.isInteger()",
    "device.capacity['d.io'].memory.compareTo(quantity('1Gi')) == 0",
    f"{G}.index == {G}.numa",
    f"{G}.index > 2 ? {G}.healthy : {G}.model == 'A100'",
    "1 / 0 == 1",
    "true",
    f"cel.bind(g, {G}, g.model == 'A100' && g.index > 3)",
    "cel.bind(d, device.driver + '!', d == 'd.io!' || d == 'e.io')",
]
WHOLE = [f"{G}.size() > 5", "device.attributes.exists(d, d == 'other.io')", f"{G}[device.driver] == 1"]


def assert_exact(expression: str, columns: cel.Columns) -> cel.Matches:
    program = cel.compile(expression)
    matches = program.matches(columns)
    outcomes = [program.run(columns.device(position)) for position in range(len(columns))]
    assert matches.mask.tolist() == [outcome.value is True for outcome in outcomes], expression
    assert matches.errors.tolist() == [outcome.error is not None for outcome in outcomes], expression
    for position in np.flatnonzero(matches.errors)[:2]:
        error, expected = matches.error(int(position)), outcomes[position].error
        assert error is not None
        assert expected is not None
        assert error.message == expected.message
    return matches


@pytest.mark.parametrize("expression", SINGLE)
def test_single_values_need_no_evaluation_by_device(expression: str) -> None:
    matches = assert_exact(expression, cel.Columns(DEVICES))
    aborts = "version in" in expression
    assert (matches.evaluated_exactly > 0) is aborts


@pytest.mark.parametrize(("left", "right"), list(product(SINGLE[::3], [SINGLE[0], SINGLE[5], SINGLE[17], *WHOLE[:1]])))
def test_logic_of_columns_is_that_of_the_language(left: str, right: str) -> None:
    columns = cel.Columns(DEVICES[:40])
    for expression in (f"({left}) && ({right})", f"({left}) || ({right})", f"!({left}) || !({right})"):
        assert_exact(expression, columns)


@pytest.mark.parametrize("expression", WHOLE)
def test_what_reads_a_whole_device_is_evaluated_by_device_and_counted(expression: str) -> None:
    readable = int((~cel.Columns(DEVICES).invalid()).sum())
    assert assert_exact(expression, cel.Columns(DEVICES)).evaluated_exactly == readable


def test_evaluation_by_device_is_left_to_what_columns_leave_open() -> None:
    columns = cel.Columns(DEVICES)
    matches = assert_exact(f"{WHOLE[0]} && device.driver == 'e.io'", columns)
    assert 0 < matches.evaluated_exactly < 25


def test_cost_beyond_the_limit_is_noticed_over_all_atoms() -> None:
    half = "lists.range(600000).size() > 0"
    assert cel.compile(half).run(DEVICES[1]).cost < cel.COST_LIMIT
    matches = assert_exact(f"{half} && device.driver == 'd.io' && {half}", cel.Columns(DEVICES[1:3]))
    assert matches.evaluated_exactly == 2
    assert matches.errors.all()


def test_changed_block_is_encoded_alone() -> None:
    class Counting(list[cel.Device]):
        read = 0

        def __iter__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204
            Counting.read += 1
            return super().__iter__()

    columns = cel.Columns()
    columns.put("a", Counting(DEVICES[:100]))
    columns.put("b", DEVICES[100:150])
    assert_exact(SINGLE[0], columns)
    before = Counting.read
    columns.put("b", DEVICES[150:])
    assert_exact(SINGLE[0], columns)
    assert Counting.read == before
    assert columns.span("b") == slice(100, 150)
    columns.remove("a")
    assert_exact(SINGLE[0], columns)
    assert len(columns) == 50
    with pytest.raises(KeyError):
        columns.span("a")


def test_columns_forget_values_that_are_out_of_use() -> None:
    columns = cel.Columns()
    for round_ in range(40):
        columns.put("a", [cel.PlainDevice("d.io", {"uuid": ("string", f"{round_}-{i}")}) for i in range(100)])
        assert int(cel.compile(f"{G}.uuid == '{round_}-7'").matches(columns).mask.sum()) == 1
    assert columns.info().values < 1500


def test_names_with_several_slashes_are_found_as_the_evaluator_finds_them() -> None:
    devices = [
        cel.PlainDevice("d.io", {"a.b/c/d": ("int", 1), "/x": ("int", 2), "y": ("int", 3), "d.io/y": ("int", 4)}),
        cel.PlainDevice("a.b/c", {"d": ("int", 1)}),
        cel.PlainDevice("", {"x": ("int", 2)}),
    ]
    for expression in (
        "device.attributes['a.b']['c/d'] == 1",
        "device.attributes['a.b/c'].d == 1",
        "device.attributes[''].x == 2",
        "device.attributes['d.io'].y == 3",
    ):
        assert_exact(expression, cel.Columns(devices))


def test_empty_columns_match_nothing() -> None:
    matches = cel.compile(f"{SINGLE[0]} && {SINGLE[23]}").matches(cel.Columns())
    assert (len(matches.mask), len(matches.errors)) == (0, 0)


def test_columns_belong_to_one_release() -> None:
    old = cel.compile("device.driver == 'd.io'", cel.V1_36)
    with pytest.raises(ValueError, match="another version"):
        old.matches(cel.Columns(DEVICES))
    matches = old.matches(cel.Columns(DEVICES, has_lists=False))
    assert matches.errors.all()
    assert "unsupported attribute value" in str(matches.error(0))

import math

import pytest

import cel.ext.semver  # noqa: F401 - makes versions values of CEL
from cel.errors import EvalAbortedError, EvalError
from cel.values import types, values
from cel.values.semver import Semver
from cel.values.values import MISSING, List, Map, Uint, equal

VERSION = Semver.parse("1.2.3")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1, True),
        (1, Uint(1), True),
        (1, 1.0, True),
        (Uint(1), 1.0, True),
        (2**63 - 1, 2.0**63, True),
        (True, 1, False),
        (1, "1", False),
        (None, None, True),
        (None, 0, False),
        (math.nan, math.nan, False),
        ("a", "a", True),
        ("a", b"a", False),
        (List([1, 2]), List([1.0, Uint(2)]), True),
        (List([1]), List([1, 2]), False),
        (Map([("a", 1)]), Map([("a", 1.0)]), True),
        (Map([("a", 1)]), Map([("b", 1)]), False),
        (Map([(1, "x")]), Map([(Uint(1), "x")]), True),
        (types.INT, types.INT, True),
        (types.list_of(types.INT), types.LIST, True),
        ("1.2.3", VERSION, False),
        (List([VERSION]), List(["1.2.3"]), True),
    ],
)
def test_equality(left: object, right: object, *, expected: bool) -> None:
    assert equal(left, right) is expected


def test_types_of_kubernetes_compare_only_with_themselves_on_the_left() -> None:
    assert equal(VERSION, Semver.parse("1.2.3+build"))
    with pytest.raises(EvalError, match="no such overload"):
        equal(VERSION, "1.2.3")


def test_joined_list_does_not_hide_an_error() -> None:
    with pytest.raises(EvalError):
        equal(List([VERSION], joined=True), List(["1.2.3"]))


def test_keys_compare_across_integers_but_not_doubles() -> None:
    entries = Map([(1, "int"), ("a", "text"), (True, "bool")])
    assert [entries.find(key) for key in (1, Uint(1), 1.0, "a", True)] == ["int", "int", "int", "text", "bool"]
    assert entries.find(2) is MISSING
    assert Map([(1.0, "x")]).find(1) is MISSING


def test_what_go_cannot_hash_ends_the_evaluation() -> None:
    with pytest.raises(EvalAbortedError, match="hash of unhashable type"):
        Map([("a", 1)]).find(VERSION)
    assert Map().find(VERSION) is MISSING


def test_weight_counts_through_shared_parts() -> None:
    shared = List([1, 2, 3])
    for _ in range(10):
        shared = List([shared, shared])
    assert shared.weight == 2**10 * 4 + 2**10 - 1
    for _ in range(7):
        shared = List([shared, shared])
    with pytest.raises(EvalAbortedError, match="parts"):
        List([shared, shared])


def test_sizes_are_those_that_costs_count() -> None:
    assert [values.size_of(value) for value in ("üñ", b"\xc3\xbc", List([1, 2]), 7, values.Optional("abc"))] == [
        2,
        2,
        2,
        1,
        1,
    ]


def test_zero_values() -> None:
    zeros: list[object] = [0, 0.0, "", b"", False, None, List(), Map(), values.Duration(0)]
    assert all(map(values.is_zero, zeros))
    assert not any(map(values.is_zero, [1, "a", List([0]), values.ABSENT, values.Timestamp(0)]))

"""The list functions in expressions: CEL's, Kubernetes' and the sets."""

import pytest

import cel
from tests.unit.cel.ext.expressions import costs_of, failure_of, holds, refusal_of

PORTS = 'device.attributes["d.io"].ports'


@pytest.mark.parametrize(
    "expression",
    [
        "[1, 2, 3, 4].slice(1, 3) == [2, 3] && [1].slice(1, 1) == []",
        "[[1], [2, 3], []].flatten() == [1, 2, 3] && [[1, 2]].flatten(0) == [[1, 2]]",
        "[[[1]], [[2]]].flatten(9) == [1, 2] && dyn([dyn(1), dyn([2])]).flatten() == [1, 2]",
        '[3, 1, 2].sort() == [1, 2, 3] && ["b", "a"].sort() == ["a", "b"] && [true, false].sort() == [false, true]',
        '[b"b", b"a"].sort() == [b"a", b"b"] && [2u, 1u].sort() == [1u, 2u] && [2.5, -1.0].sort() == [-1.0, 2.5]',
        '["bb", "a", "ccc"].sortBy(x, -size(x)) == ["ccc", "bb", "a"]',
        '["b1", "a1", "b2", "a2"].sortBy(x, x.charAt(0)) == ["a1", "a2", "b1", "b2"]',
        "lists.range(14).sortBy(x, -x) == lists.range(14).reverse()",
        "lists.range(3) == [0, 1, 2] && lists.range(0) == []",
        "[1, 2, 2, 1].distinct() == [1, 2] && [[1], [1]].distinct() == [[1]]",
        "[1, 2].reverse() == [2, 1]",
        "[1, 1, 2].isSorted() && ![2, 1].isSorted() && [].isSorted()",
        "[1, 2].sum() == 3 && [1.5, 2.0].sum() == 3.5 && [1u].sum() == 1u && [].sum() == 0",
        'dyn([1.5, 2.0]).sum() == 3.5 && [duration("1s"), duration("2s")].sum() == duration("3s")',
        '[1, 3, 2].max() == 3 && ["b", "a"].min() == "a"',
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1",
        f"{PORTS}.includes(20) && {PORTS}.includes(20u) && {PORTS}.includes(20.0) && !{PORTS}.includes('20')",
        'device.attributes["d.io"].name.includes("card-7")',
        "sets.contains([1, 2], [2, 2]) && !sets.contains([1], [1, 2]) && sets.contains([], [])",
        "sets.equivalent([1, 2], [2, 1, 1]) && !sets.equivalent([1], [1, 2])",
        "sets.intersects([1], [dyn(1.0)]) && !sets.intersects([1], []) && !sets.intersects([1], [2])",
    ],
)
def test_list_functions_give(expression: str) -> None:
    assert holds(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[1].slice(-1, 1)", "cannot slice(-1, 1), negative indexes not supported"),
        ("[1].slice(1, 0)", "cannot slice(1, 0), start index must be less than or equal to end index"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("[[1]].flatten(-1)", "level must be non-negative"),
        ('dyn("a").flatten()', "no such overload"),
        ("lists.range(-1)", "lists.range: size must be non-negative, got -1"),
        ("lists.range(1000001)", "lists.range: size 1000001 exceeds maximum allowed (1000000)"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        ("dyn([[1]]).sort()", "list elements must be comparable"),
        ("dyn([[1]]).max()", "no such overload: max(list)"),
        ("[].max()", "max called on empty list"),
        ("[9223372036854775807, 1].sum()", "integer overflow"),
    ],
)
def test_list_functions_refuse(expression: str, message: str) -> None:
    assert failure_of(expression) == message


def test_pairs_without_order_are_passed_over() -> None:
    assert holds('[double("NaN"), 0.5].isSorted() && [0.5, double("NaN")].max() == 0.5')
    assert holds("[dyn(1), dyn('a')].isSorted()")


def test_quantities_and_versions_have_no_order_in_lists() -> None:
    assert "no matching overload" in refusal_of('[quantity("1")].sort()')
    assert "no matching overload" in refusal_of('[semver("1.0.0")].isSorted()')


def test_failed_argument_of_a_comparing_function_is_the_reference_crash() -> None:
    assert "internal error" in failure_of("[1 / 0].sort() == [1] || true")
    assert "internal error" in failure_of("[[1]].flatten(1 / 0) == [1] || true")
    assert holds("[1 / 0].reverse() == [1] || true")


def test_1_36_takes_any_range_and_short_lists_only_for_includes() -> None:
    assert holds("lists.range(-1) == []", cel.V1_36_LISTS)
    assert "operation cancelled" in failure_of("lists.range(9223372036854775807).size()", cel.V1_36_LISTS)
    assert holds("lists.range(60).includes(47)", cel.V1_36_LISTS)
    assert "longer than 48 values" in failure_of("lists.range(60).includes(48)", cel.V1_36_LISTS)
    assert holds("lists.range(60).includes(48)")


def test_nesting_without_bound_is_flattened_without_recursion() -> None:
    expression = "cel.bind(a, " + "[" * 200 + "1" + "]" * 200 + ", "
    deep = expression + "cel.bind(b, " + "[" * 30 + "a" + "]" * 30 + ", b.flatten(9999) == [1]))"
    assert holds(deep)


def test_comparing_heavy_elements_is_cancelled_rather_than_endless() -> None:
    heavy = "cel.bind(x, lists.range(2000), cel.bind(l, lists.range(600).map(i, x + [i]), l.distinct().size() == 600))"
    assert "operation cancelled" in failure_of(heavy)


def test_costs_count_pairs_where_elements_are_compared() -> None:
    assert costs_of("[1, 2, 3].distinct() == []") == (29, 49)
    assert costs_of("sets.equivalent([1, 2], [3])") == (5, 25)
    assert costs_of("[1, 2, 3].slice(0, 2) == []") == (13, 33)
    assert costs_of('["a", "b"].sort() == []')[0] == 8 + 11
    assert costs_of(f"{PORTS}.includes(20)") == (7, 68)
    assert costs_of(f"{PORTS}.includes(20)", cel.V1_36_LISTS)[1] == 52


def test_list_of_unknown_elements_is_sorted_for_one_unit() -> None:
    assert costs_of("dyn([3, 1, 2]).sort() == [1, 2, 3]") == (2, 52)

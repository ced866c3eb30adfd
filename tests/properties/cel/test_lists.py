"""Functions on lists against a plain way to say the same."""

from hypothesis import given
from hypothesis import strategies as st

from cel.check.overloads import Library
from cel.ext import k8s_lists, lists, sets
from cel.values.values import List, Value

_INTS = st.lists(st.integers(-5, 5), max_size=30)


def call(library: Library, id_: str, *arguments: Value) -> Value:
    """What the overload of this id gives."""
    return next(overload for overload in library.overloads if overload.id == id_).implementation(*arguments)


@given(_INTS)
def test_sorting_gives_the_sorted_list(items: list[int]) -> None:
    assert call(lists.LIBRARY, "list_int_sort", List(items)) == List(sorted(items))
    assert call(k8s_lists.LIBRARY, "list_int_is_sorted_bool", List(items)) is (items == sorted(items))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers()), max_size=30))
def test_sorting_by_keys_keeps_equals_in_order(pairs: list[tuple[int, int]]) -> None:
    keys, items = List(key for key, _ in pairs), List(item for _, item in pairs)
    expected = List(item for _, item in sorted(pairs, key=lambda pair: pair[0]))
    assert call(lists.LIBRARY, "list_int_sortByAssociatedKeys", items, keys) == expected


@given(_INTS)
def test_distinct_keeps_the_first_of_each(items: list[int]) -> None:
    assert call(lists.LIBRARY, "list_distinct", List(items)) == List(dict.fromkeys(items))


@given(_INTS, _INTS)
def test_sets_are_sets(left: list[int], right: list[int]) -> None:
    one, other = List(left), List(right)
    assert call(sets.LIBRARY, "list_sets_contains_list", one, other) is set(right).issubset(left)
    assert call(sets.LIBRARY, "list_sets_equivalent_list", one, other) is (set(left) == set(right))
    assert call(sets.LIBRARY, "list_sets_intersects_list", one, other) is bool(set(left) & set(right))


@given(_INTS, st.integers(-5, 5))
def test_index_is_the_first_or_the_last(items: list[int], wanted: int) -> None:
    indices = [index for index, item in enumerate(items) if item == wanted] or [-1]
    assert call(k8s_lists.LIBRARY, "list_a_index_of_int", List(items), wanted) == indices[0]
    assert call(k8s_lists.LIBRARY, "list_a_last_index_of_int", List(items), wanted) == indices[-1]
    assert call(k8s_lists.LIBRARY, "list_includes_dyn_dyn", List(items), wanted) is (wanted in items)


_NESTED = st.recursive(st.integers(0, 9), lambda inner: st.lists(inner, max_size=3).map(List), max_leaves=12)


def _flattened(items: List, depth: int) -> list[Value]:
    found: list[Value] = []
    for item in items:
        found.extend(_flattened(item, depth - 1) if isinstance(item, List) and depth > 0 else [item])
    return found


@given(st.lists(_NESTED, max_size=4).map(List), st.integers(0, 5))
def test_flattening_removes_as_many_levels_as_asked(items: List, depth: int) -> None:
    assert call(lists.LIBRARY, "list_flatten_int", items, depth) == List(_flattened(items, depth))

"""Nodes are found by their labels, and nothing stays of those that are gone."""

import pytest

from allocator.bits import bits
from allocator.fleet.nodes import MOST_KEYS, NodeTable
from tests.builders import a_node


def labelled_nodes(*values: str) -> NodeTable:
    index = NodeTable()
    for number, value in enumerate(values):
        index.set(number, a_node(f"n{number}", {"host": value}))
    return index


def test_nodes_are_found_by_a_label_whenever_they_came() -> None:
    index = labelled_nodes("a", "b", "a")
    assert set(bits(index.with_one_of([("host", "a")]))) == {0, 2}
    index.set(3, a_node("n3", {"host": "a"}))
    index.set(0, a_node("n0", {"host": "b"}))
    assert set(bits(index.with_one_of([("host", "a")]))) == {2, 3}
    assert set(bits(index.with_one_of([("host", "b")]))) == {0, 1}
    assert set(bits(index.with_one_of([("host", "c"), ("other", "a")]))) == set()


def test_labels_go_with_the_last_node_that_has_them() -> None:
    index = labelled_nodes("a")
    assert set(bits(index.with_one_of([("host", "a")]))) == {0}
    for number in range(50):
        index.set(1, a_node("n1", {"host": f"h{number}"}))
        assert set(bits(index.with_one_of([("host", f"h{number}")]))) == {1}
    index.remove(1)
    index.remove(0)
    assert index._by_label == {"host": {}}


@pytest.mark.parametrize("times", [1, 3])
def test_no_more_keys_are_kept_than_are_allowed(times: int) -> None:
    index = labelled_nodes("a", "b")
    for key in [f"key{number}" for number in range(times * MOST_KEYS)]:
        assert set(bits(index.with_one_of([("host", "a")]))) == {0}
        assert set(bits(index.with_one_of([(key, "a")]))) == set()
    assert len(index._by_label) == MOST_KEYS
    assert "host" in index._by_label

"""The one index of labels: after any history, nodes are found by labels and selectors as if each was looked at."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.bits import bits
from allocator.cluster.node_affinity import all_hold
from allocator.fleet import nodes as fleet_nodes
from allocator.fleet.nodes import NodeTable
from allocator.model import Requirement, Term
from scheduler.state.labels import NodeLabels
from tests.builders import a_node

KEYS = ["zone", "size", "metadata.name"]  # the last is a label as any other: only slices ask for nodes by their names
VALUES = ["1", "2", "n3"]
OPERATORS = {"In": 2, "NotIn": 2, "Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}

numbers = st.integers(0, 5)
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
requirements = st.sampled_from(sorted(OPERATORS)).flatmap(
    lambda operator: st.builds(
        Requirement,
        st.sampled_from(KEYS),
        st.just(operator),
        st.sampled_from([("1", "2"), ("2", "n3")]).map(lambda values: values[: OPERATORS[operator]]),
    )
)
events = st.lists(st.tuples(numbers, st.none() | labels), max_size=20)


@pytest.mark.parametrize("most_keys", [1, 64])
@given(events, st.lists(requirements, min_size=1, max_size=2))
@settings(max_examples=100)
def test_nodes_are_found_as_if_each_was_looked_at(
    most_keys: int, history: Sequence[tuple[int, Mapping[str, str] | None]], asked: Sequence[Requirement]
) -> None:
    """most_keys: how many keys are indexed at a time."""
    table, there = NodeTable(), dict[int, Mapping[str, str]]()
    found, selector = NodeLabels(table), (Term(tuple(asked), ()),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet_nodes, "MOST_KEYS", most_keys)
        for number, given_labels in history:
            version, before = found.version, there.get(number)
            if given_labels is None:
                table.remove(number)
                there.pop(number, None)
            else:
                table.set(number, a_node(f"n{number}", given_labels))
                there[number] = given_labels
            assert (found.version == version) == (before == given_labels)
            assert list(bits(found.all)) == sorted(there)
            meant = {number for number, one in there.items() if all_hold(asked, one)}
            assert set(bits(found.selected(selector))) == meant
            assert set(bits(found.having("zone"))) == {number for number, one in there.items() if "zone" in one}
            by_label = table.with_one_of([("zone", "1"), ("metadata.name", "n3")])
            assert set(bits(by_label)) == {n for n, one in there.items() if one.get("zone") == "1" or n == 3}

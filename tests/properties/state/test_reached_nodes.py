"""The nodes that an allocation's selector reaches, found by an index of labels, are those found one by one."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allocator.model import Node, Requirement, Term
from scheduler.decision.cluster import Cluster
from scheduler.state.invariants import is_reached
from tests.builders import a_node, kubernetes

NAMES, KEYS, VALUES = ("n0", "n1", "n2", "n3"), ("zone", "size"), ("a", "3", "-7")

labels = st.fixed_dictionaries({}, optional={key: st.sampled_from(VALUES) for key in KEYS})
operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"])
expressions = st.builds(
    lambda key, operator, values: Requirement(key, operator, tuple(values)),
    st.sampled_from(KEYS),
    operators,
    st.lists(st.sampled_from(VALUES), max_size=2),
)
fields = st.builds(
    lambda key, operator, name: Requirement(key, operator, (name,)),
    st.sampled_from(["metadata.name", "metadata.name", "metadata.uid"]),
    operators,
    st.sampled_from(NAMES),
)
terms = st.builds(
    lambda expressions, fields: Term(tuple(expressions), tuple(fields)),
    st.lists(expressions, max_size=2),
    st.one_of(st.just([]), st.lists(fields, max_size=2)),
)
events = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.builds(a_node, st.sampled_from(NAMES), labels)),
        st.tuples(st.just("gone"), st.sampled_from(NAMES)),
        st.tuples(st.just("ask"), st.lists(terms, min_size=1, max_size=2).map(tuple)),
    ),
    max_size=20,
)


@given(events)
def test_a_selector_reaches_the_nodes_that_match_it_whatever_happened_before(history: list[tuple[str, Any]]) -> None:
    cluster, nodes = Cluster(kubernetes(), is_ours=None), dict[str, Node]()
    for event, value in history:
        match event:
            case "node":
                cluster.set_node(value)
                nodes[value.name] = value
            case "gone" if value in nodes:
                cluster.remove_node(value)
                del nodes[value]
            case "ask":
                found = {name for name in nodes if cluster.reached(value) >> (cluster.number_of(name) or 0) & 1}
                assert found == {name for name, node in nodes.items() if is_reached(value, node)}
                assert cluster.reached(value).bit_count() == len(found)

import pytest

from allocator.cluster import node_affinity
from allocator.cluster.node_affinity import (
    USUAL_WORDS,
    InvalidNodeSelector,
    labels_match,
    reaches,
    selects,
    selects_leniently,
    term_problem,
)
from allocator.model import NOWHERE, Node, NodeSelector, Reach, Requirement, Term
from tests.builders import a_node, a_term, everywhere, labelled, named, on_node, requires, where

NODE = a_node("node-0", {"region": "1", "rank": "5", "empty": ""})


def matches(*requirements: Requirement, node: Node = NODE) -> bool:
    return selects((a_term(*requirements),), node)


@pytest.mark.parametrize(
    "requirement",
    [
        requires("region", "In", "0", "1"),
        requires("empty", "In", ""),
        requires("region", "NotIn", "0"),
        requires("absent", "NotIn", "1"),
        requires("region", "Exists"),
        requires("empty", "Exists"),
        requires("absent", "DoesNotExist"),
        requires("rank", "Gt", "4"),
        requires("rank", "Gt", "04"),
        requires("rank", "Lt", "6"),
    ],
)
def test_requirement_holds(requirement: Requirement) -> None:
    assert matches(requirement)


@pytest.mark.parametrize(
    "requirement",
    [
        requires("region", "In", "0"),
        requires("absent", "In", "1"),
        requires("absent", "In", ""),
        requires("region", "NotIn", "0", "1"),
        requires("absent", "Exists"),
        requires("region", "DoesNotExist"),
        requires("rank", "Gt", "5"),
        requires("rank", "Lt", "5"),
        requires("absent", "Gt", "0"),
        requires("absent", "Lt", "0"),
        requires("empty", "Lt", "9"),
    ],
)
def test_requirement_does_not_hold(requirement: Requirement) -> None:
    assert not matches(requirement)


LOW, HIGH = requires("n", "Gt", str(-(2**63))), requires("n", "Lt", str(2**63 - 1))


@pytest.mark.parametrize("label", ["7", "007", "+7", "-0", str(2**63 - 1), str(-(2**63))])
def test_label_is_a_number_as_go_reads_one(label: str) -> None:
    node = a_node(labels={"n": label})
    assert matches(LOW, node=node) or matches(HIGH, node=node)


@pytest.mark.parametrize(
    "label",
    [
        str(2**63),
        str(-(2**63) - 1),
        "7.0",
        "1e3",
        "0x10",
        " 7",
        "7 ",
        "1_000",
        "",
        "+",
        "--7",
        "\N{DIGIT SEVEN}\N{SUPERSCRIPT TWO}",
        "\N{ARABIC-INDIC DIGIT SEVEN}",
    ],
)
def test_label_that_go_does_not_read_as_a_number_is_neither_less_nor_greater(label: str) -> None:
    node = a_node(labels={"n": label})
    assert not matches(LOW, node=node)
    assert not matches(HIGH, node=node)


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        (requires("rank", "Gt", "high"), "integer"),
        (requires("rank", "Lt", "1.5"), "integer"),
        (requires("rank", "Gt", str(2**63)), "integer"),
        (requires("rank", "Gt"), "one value"),
        (requires("rank", "Lt", "1", "2"), "one value"),
        (requires("region", "Exists", "1"), "takes no value"),
        (requires("region", "DoesNotExist", "1"), "takes no value"),
        (requires("region", "In"), "takes some values"),
        (requires("region", "NotIn"), "takes some values"),
        (requires("rank", "Near", "1"), "'Near' is not a valid operator"),
        (requires("rank", "in", "1"), "'in' is not a valid operator"),
    ],
)
def test_requirement_that_makes_no_sense_is_an_error(requirement: Requirement, words: str) -> None:
    with pytest.raises(InvalidNodeSelector, match=words):
        matches(requirement)


def test_bound_that_makes_no_sense_is_an_error_on_a_node_without_the_label_too() -> None:
    with pytest.raises(InvalidNodeSelector, match="integer"):
        matches(requires("absent", "Gt", "high"))


def test_all_requirements_of_a_term_have_to_hold() -> None:
    assert matches(requires("region", "In", "1"), requires("rank", "Exists"))
    assert not matches(requires("region", "In", "1"), requires("rank", "DoesNotExist"))


def test_one_term_is_enough() -> None:
    assert selects((labelled(region="2"), labelled(region="1")), NODE)
    assert not selects((labelled(region="2"), labelled(region="3")), NODE)


def test_empty_term_matches_nothing() -> None:
    assert not selects((Term(),), NODE)
    assert selects((Term(), labelled(region="1")), NODE)


def test_selector_without_terms_matches_nothing() -> None:
    assert not selects((), NODE)


def test_field_is_the_name_of_the_node() -> None:
    assert selects(named("node-0"), NODE)
    assert not selects(named("node-1"), NODE)
    assert selects((Term(fields=(requires("metadata.name", "NotIn", "node-1"),)),), NODE)


def test_fields_and_labels_of_a_term_both_have_to_hold() -> None:
    field = requires("metadata.name", "In", "node-0")
    assert selects((Term((requires("region", "In", "1"),), (field,)),), NODE)
    assert not selects((Term((requires("region", "In", "2"),), (field,)),), NODE)


def test_label_named_like_the_field_is_not_the_field() -> None:
    node = a_node("node-0", {"metadata.name": "other"})
    assert selects(named("node-0"), node)
    assert matches(requires("metadata.name", "In", "other"), node=node)


def test_node_has_no_other_field() -> None:
    assert not selects((Term(fields=(requires("spec.unschedulable", "In", "true"),)),), NODE)
    assert selects((Term(fields=(requires("spec.unschedulable", "NotIn", "true"),)),), NODE)


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        (requires("metadata.name", "Exists"), "'Exists' is not a valid operator for a field"),
        (requires("metadata.name", "In"), "a field takes one value"),
        (requires("metadata.name", "In", "node-0", "node-1"), "a field takes one value"),
    ],
)
def test_field_takes_in_and_not_in_with_one_value(requirement: Requirement, words: str) -> None:
    with pytest.raises(InvalidNodeSelector, match=words):
        selects((Term(fields=(requirement,)),), NODE)


NONSENSE = requires("rank", "Gt", "high")


@pytest.mark.parametrize(
    "selector",
    [
        (a_term(requires("region", "In", "2"), NONSENSE),),
        (a_term(requires("region", "In", "1")), a_term(NONSENSE)),
        (a_term(NONSENSE), a_term(requires("region", "In", "1"))),
        (Term((NONSENSE,), (requires("metadata.name", "In", "node-1"),)),),
    ],
)
def test_nonsense_is_an_error_wherever_it_stands(selector: NodeSelector) -> None:
    with pytest.raises(InvalidNodeSelector, match="integer"):
        selects(selector, NODE)


def test_term_of_a_pod_that_makes_no_sense_matches_nothing() -> None:
    sensible = a_term(requires("region", "In", "1"))
    assert not selects_leniently((a_term(NONSENSE),), NODE)
    assert not selects_leniently((a_term(requires("region", "In", "1"), NONSENSE),), NODE)
    assert selects_leniently((a_term(NONSENSE), sensible), NODE)
    assert selects_leniently((sensible, a_term(NONSENSE)), NODE)


@pytest.mark.parametrize(
    "reach",
    [
        on_node("node-0"),
        everywhere(),
        where(labelled(region="1")),
        Reach(all_nodes=True, node_selector=(labelled(region="2"),)),
        Reach(node_name="node-0", node_selector=(labelled(region="2"),)),
    ],
)
def test_reach_includes_the_node(reach: Reach) -> None:
    assert reaches(reach, NODE)


@pytest.mark.parametrize(
    "reach",
    [
        on_node("node-1"),
        where(labelled(region="2")),
        NOWHERE,
        Reach(node_name="node-1", all_nodes=True),
        Reach(node_name="node-1", node_selector=(labelled(region="1"),)),
    ],
)
def test_reach_does_not_include_the_node(reach: Reach) -> None:
    assert not reaches(reach, NODE)


def test_without_a_node_only_what_all_nodes_reach_is_reached() -> None:
    assert reaches(everywhere(), None)
    assert not any(reaches(reach, None) for reach in (on_node("node-0"), where(labelled(region="1")), NOWHERE))


def test_wanted_labels_have_to_be_there_with_their_values() -> None:
    assert labels_match({}, {})
    assert labels_match({"a": "1"}, {"a": "1", "b": "2"})
    assert not labels_match({"a": "1"}, {"a": "2"})
    assert not labels_match({"a": ""}, {})


def test_nothing_is_kept_of_terms_with_thousands_of_words() -> None:
    values = tuple(str(number) for number in range(USUAL_WORDS))
    kept = node_affinity._term_problem.cache_info().currsize
    assert not term_problem(a_term(Requirement("zone", "In", values)))
    assert term_problem(a_term(Requirement("zone", "Exists", values)))
    assert node_affinity._term_problem.cache_info().currsize == kept

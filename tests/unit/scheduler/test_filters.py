import pytest

from allocator.gates import Features
from allocator.model import Node, Requirement, Taint, Term, Toleration
from scheduler.core_v1.pod import Pod
from scheduler.plugins.node_affinity import node_affinity
from scheduler.plugins.node_name import node_name
from scheduler.plugins.node_unschedulable import node_unschedulable
from scheduler.plugins.profile import PLUGINS, in_order, refusal
from scheduler.plugins.taint_toleration import taint_toleration

ANYWHERE = Pod("default", "p")
NODE = Node("n1", labels={"zone": "a", "disk": "ssd", "gpus": "8"})
CORDONED = Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule")


def tainted(*taints: Taint) -> Node:
    return Node("n1", taints=taints)


def tolerant(*tolerations: Toleration) -> Pod:
    return Pod("default", "p", tolerations=tolerations)


def selecting(**labels: str) -> Pod:
    return Pod("default", "p", node_selector=labels)


def affine_to(*terms: Term) -> Pod:
    return Pod("default", "p", affinity=terms)


def an_expression(key: str, operator: str, *values: str) -> Term:
    return Term((Requirement(key, operator, values),))


def test_a_pod_that_asks_for_nothing_fits_a_node_that_refuses_nothing() -> None:
    assert refusal(ANYWHERE, NODE) == ""


def test_node_name_takes_the_named_node_only() -> None:
    pod = Pod("default", "p", node_name="n1")
    assert node_name(pod, Node("n1")) == ""
    assert node_name(pod, Node("n2")) == "node is not the one in spec.nodeName"
    assert node_name(ANYWHERE, Node("n2")) == ""


def test_a_cordoned_node_is_refused_unless_its_taint_is_tolerated() -> None:
    node = Node("n1", unschedulable=True)
    assert node_unschedulable(ANYWHERE, node) == "node is unschedulable"
    assert node_unschedulable(tolerant(CORDONED), node) == ""
    assert node_unschedulable(tolerant(Toleration("", "Exists")), node) == ""
    assert node_unschedulable(tolerant(Toleration("other", "Exists")), node) != ""
    assert node_unschedulable(ANYWHERE, Node("n1")) == ""


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_blocking_taint_is_refused_with_its_key_and_value(effect: str) -> None:
    assert taint_toleration(ANYWHERE, tainted(Taint("k", "v", effect))) == "node has untolerated taint {k: v}"


@pytest.mark.parametrize("effect", ["PreferNoSchedule", "", "Unknown"])
def test_other_taints_block_nothing(effect: str) -> None:
    assert taint_toleration(ANYWHERE, tainted(Taint("k", "v", effect))) == ""


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("k", "Equal", "v", "NoSchedule"),
        Toleration("k", "", "v", "NoSchedule"),
        Toleration("k", "Equal", "v"),
        Toleration("k", "Exists", "", "NoSchedule"),
        Toleration("k", "Exists"),
        Toleration("", "Exists"),
        Toleration("", "Exists", "", "NoSchedule"),
    ],
)
def test_a_toleration_that_matches_lets_the_pod_in(toleration: Toleration) -> None:
    assert taint_toleration(tolerant(toleration), tainted(Taint("k", "v", "NoSchedule"))) == ""


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("k", "Equal", "other", "NoSchedule"),
        Toleration("k", "Equal"),
        Toleration("other", "Exists"),
        Toleration("k", "Exists", "", "NoExecute"),
        Toleration("k", "exists", "v"),
    ],
)
def test_a_toleration_that_does_not_match_does_not(toleration: Toleration) -> None:
    assert taint_toleration(tolerant(toleration), tainted(Taint("k", "v", "NoSchedule"))) != ""


def test_every_blocking_taint_needs_a_toleration() -> None:
    node = tainted(Taint("a", "", "NoSchedule"), Taint("b", "", "NoExecute"))
    assert taint_toleration(tolerant(Toleration("a", "Exists")), node) == "node has untolerated taint {b: }"
    assert taint_toleration(tolerant(Toleration("a", "Exists"), Toleration("b", "Exists")), node) == ""


def test_every_label_of_a_node_selector_must_be_there() -> None:
    assert node_affinity(selecting(zone="a", disk="ssd"), NODE) == ""
    for pod in (selecting(zone="b"), selecting(zone="a", rack="1")):
        assert node_affinity(pod, NODE) == "node did not match the pod's node affinity/selector"


@pytest.mark.parametrize(
    "term",
    [
        an_expression("zone", "In", "a", "b"),
        an_expression("zone", "NotIn", "b"),
        an_expression("rack", "NotIn", "b"),
        an_expression("zone", "Exists"),
        an_expression("rack", "DoesNotExist"),
        an_expression("gpus", "Gt", "7"),
        an_expression("gpus", "Lt", "9"),
        Term((), (Requirement("metadata.name", "In", ("n1",)),)),
        Term((), (Requirement("metadata.name", "NotIn", ("n2",)),)),
    ],
)
def test_a_required_term_that_holds_lets_the_pod_in(term: Term) -> None:
    assert node_affinity(affine_to(term), NODE) == ""


@pytest.mark.parametrize(
    "term",
    [
        an_expression("zone", "In", "b"),
        an_expression("rack", "In", "a"),
        an_expression("zone", "NotIn", "a"),
        an_expression("rack", "Exists"),
        an_expression("zone", "DoesNotExist"),
        an_expression("gpus", "Gt", "8"),
        an_expression("gpus", "Lt", "8"),
        an_expression("zone", "Gt", "1"),
        an_expression("rack", "Lt", "1"),
        Term((), (Requirement("metadata.name", "In", ("n2",)),)),
        Term(),
    ],
)
def test_a_required_term_that_does_not_hold_refuses(term: Term) -> None:
    assert node_affinity(affine_to(term), NODE) == "node did not match the pod's node affinity/selector"


def test_one_term_is_enough_and_all_of_its_requirements_are_needed() -> None:
    no, yes = an_expression("zone", "In", "b"), an_expression("zone", "In", "a")
    assert node_affinity(affine_to(no, yes), NODE) == ""
    assert node_affinity(affine_to(Term((*no.expressions, *yes.expressions))), NODE) != ""


def test_affinity_without_terms_takes_no_node() -> None:
    assert node_affinity(affine_to(), NODE) != ""


def test_selector_and_affinity_must_both_hold() -> None:
    pod = Pod("default", "p", node_selector={"zone": "b"}, affinity=(an_expression("zone", "In", "a"),))
    assert node_affinity(pod, NODE) != ""


@pytest.mark.parametrize(
    "term",
    [
        an_expression("zone", "Near", "a"),
        an_expression("gpus", "Gt", "many"),
        an_expression("gpus", "Lt", "1", "2"),
        an_expression("zone", "In"),
        an_expression("zone", "Exists", "a"),
        Term((), (Requirement("spec.x", "In", ("n1",)),)),
    ],
)
def test_a_term_that_makes_no_sense_matches_nothing_and_spoils_no_other(term: Term) -> None:
    assert node_affinity(affine_to(term), NODE) == "node did not match the pod's node affinity/selector"
    assert node_affinity(affine_to(term, an_expression("zone", "In", "a")), NODE) == ""


def test_the_first_filter_that_speaks_is_heard() -> None:
    node = Node("n1", unschedulable=True, taints=(Taint("k", "", "NoSchedule"),))
    assert refusal(selecting(zone="b"), node) == "node is unschedulable"
    assert refusal(selecting(zone="b"), tainted(Taint("k", "", "NoSchedule"))).startswith("node has untolerated taint")


@pytest.mark.parametrize(
    ("release", "first"),
    [
        ("1.36", ["NodeUnschedulable", "NodeName"]),
        ("1.37", ["NodeName", "NodeUnschedulable"]),
        ("1.38", ["NodeName", "NodeUnschedulable"]),
    ],
)
def test_from_1_37_on_another_node_is_named_before_a_cordon(release: str, first: list[str]) -> None:
    asked = in_order(PLUGINS, Features.of(release).release)
    assert [one.name for one in asked[:2]] == first
    assert asked[2:] == PLUGINS[2:]

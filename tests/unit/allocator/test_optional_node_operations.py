import pytest

from allocator.gates import Features
from allocator.model import Node
from allocator.outcome import Outcome
from tests.builders import a_claim, a_node, a_request, a_slice, a_snapshot, all_devices, everywhere, kubernetes
from tests.unit.allocator.answers import blocked, decide, funnel, names, results, shortage

GATE = "DRAOptionalNodeOperations"
ON = kubernetes(DRAOptionalNodeOperations=True)
ABLE = a_node(declared_features=frozenset([GATE, "Other"]))
SKIPPING = a_slice("x", skip_node_operations=("NodePrepareResources", "NodeUnprepareResources"))
PLAIN = a_slice("y", pool="plain", reach=everywhere())


def test_node_that_declares_the_feature_gets_such_devices_and_the_result_says_what_is_skipped() -> None:
    outcome = decide(a_snapshot(SKIPPING, PLAIN, features=ON), a_claim(a_request(count=2)), node=ABLE)
    assert {result.device: result.skip_node_operations for result in results(outcome)} == {
        "x": ("NodePrepareResources", "NodeUnprepareResources"),
        "y": (),
    }


@pytest.mark.parametrize("node", [a_node(), a_node(declared_features=frozenset(["Other"]))])
def test_node_that_does_not_declare_the_feature_gets_other_devices(node: Node) -> None:
    snapshot = a_snapshot(SKIPPING, PLAIN, features=ON)
    assert names(decide(snapshot, a_claim(), node=node)) == ["y"]
    found = shortage(decide(snapshot, a_claim(a_request(count=2)), node=node))
    assert funnel(found) == [(f"skip node operations, and the node does not declare {GATE}", ["x"])]


def test_such_devices_are_not_used_without_the_gate() -> None:
    snapshot = a_snapshot(SKIPPING, PLAIN)
    assert names(decide(snapshot, a_claim(), node=ABLE)) == ["y"]
    found = shortage(decide(snapshot, a_claim(a_request(count=2)), node=ABLE))
    assert funnel(found) == [(f"skip node operations, and {GATE} is off", ["x"])]


def test_such_devices_are_given_unseen_where_strict_unless_one_of_the_newest_gates_is_on() -> None:
    def answer(features: Features) -> Outcome:
        return decide(a_snapshot(SKIPPING, PLAIN, features=features), a_claim(a_request(count=2)))

    given = results(answer(kubernetes(is_strict=True)))
    assert {result.device: result.skip_node_operations for result in given} == {"x": (), "y": ()}
    assert shortage(answer(kubernetes(is_strict=True, DRADerivedAttributes=True))).left == 1


def test_all_fails_on_a_node_that_cannot_skip() -> None:
    assert blocked(decide(a_snapshot(SKIPPING, PLAIN, features=ON), a_claim(all_devices()))).total == 2
    assert names(decide(a_snapshot(SKIPPING, PLAIN, features=ON), a_claim(all_devices()), node=ABLE)) == ["y", "x"]

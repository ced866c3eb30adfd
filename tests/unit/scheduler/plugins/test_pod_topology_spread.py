from dataclasses import replace
from typing import Any

import pytest

from allocator.model import Node, Taint
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import SERVICE, decode_pod_selector
from scheduler.decision.cluster import Cluster
from scheduler.plugins.pod_topology_spread import POD_TOPOLOGY_SPREAD, SKEWED, UNLABELLED
from scheduler.state.cluster_changes import Event, NodeChanged, PodChanged
from tests.unit.scheduler.plugins.raw_pods import HOST, WEB, ZONE, a_constraint, a_pod_of
from tests.unit.scheduler.plugins.world import a_world, in_zone, is_helped, left, said, scored

ALL = ["a1", "a2", "b1"]
ON_A, ON_B = a_pod_of("q", "a1", WEB), a_pod_of("r", "b1", WEB)


def a_web(*constraints: dict[str, Any], **spec: Any) -> Pod:
    return a_pod_of("p", labels=WEB, topologySpreadConstraints=list(constraints), **spec)


def a_world_of(*pods: Pod, nodes: tuple[Node, ...] = (), **more: Any) -> Cluster:
    world = a_world(*nodes, **more)
    for pod in pods:
        world.set_pod(pod)
    return world


def left_for(pod: Pod, *others: Pod, nodes: tuple[Node, ...] = (), **more: Any) -> list[str]:
    return left(POD_TOPOLOGY_SPREAD, a_world_of(*others, nodes=nodes, **more), pod)


def test_a_domain_that_would_get_ahead_is_refused_until_its_pods_end() -> None:
    refused = said(POD_TOPOLOGY_SPREAD, a_world_of(ON_A), a_web(a_constraint()))
    assert refused == dict.fromkeys(("a1", "a2"), ([SKEWED], True))
    assert left_for(a_web(a_constraint(skew=2)), ON_A) == ALL


def test_a_pod_that_is_not_selected_itself_puts_no_domain_ahead() -> None:
    assert left_for(a_pod_of("p", topologySpreadConstraints=[a_constraint()]), ON_A) == ALL


def test_a_node_without_the_key_is_refused_for_good() -> None:
    refused = said(POD_TOPOLOGY_SPREAD, a_world_of(nodes=(in_zone("n"),)), a_web(a_constraint()))
    assert refused == {"n": ([UNLABELLED], False)}


def test_fewer_domains_than_required_count_as_if_one_were_empty() -> None:
    assert left_for(a_web(a_constraint(minDomains=3)), ON_A, ON_B) == []
    assert left_for(a_web(a_constraint(minDomains=2)), ON_A, ON_B) == ALL


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(ON_A, is_deleting=True), id="terminating"),
        pytest.param(a_pod_of("q", "a1", WEB, namespace="blue"), id="of another namespace"),
        pytest.param(a_pod_of("q", "a1", {"app": "db"}), id="not selected"),
    ],
)
def test_some_pods_do_not_count(other: Pod) -> None:
    assert left_for(a_web(a_constraint()), other) == ALL


def test_nodes_that_the_pod_cannot_be_on_are_no_domains_unless_the_policy_says_so() -> None:
    pool = {"pool": "x"}
    nodes = (in_zone("a1", "A", **pool), in_zone("b1", "B", **pool), in_zone("c1", "C"))
    honoring = a_web(a_constraint(), nodeSelector=pool)
    ignoring = a_web(a_constraint(nodeAffinityPolicy="Ignore"), nodeSelector=pool)
    assert left_for(honoring, ON_A, ON_B, nodes=nodes) == [*ALL, "c1"]  # NodeAffinity refuses a2 and c1
    assert left_for(ignoring, ON_A, ON_B, nodes=nodes) == ["c1"]


def test_tainted_nodes_are_domains_unless_the_policy_says_so() -> None:
    nodes = (replace(in_zone("c1", "C"), taints=(Taint("k", "", "NoSchedule"),)),)
    assert left_for(a_web(a_constraint()), ON_A, ON_B, nodes=nodes) == ["c1"]
    assert left_for(a_web(a_constraint(nodeTaintsPolicy="Honor")), ON_A, ON_B, nodes=nodes) == [*ALL, "c1"]


def test_only_nodes_with_the_keys_of_all_constraints_are_counted() -> None:
    nodes = in_zone("a1", "A", rack="1"), in_zone("b1", "B", rack="2")
    pod = a_web(a_constraint(), a_constraint("rack"))
    on_a2 = [a_pod_of(name, "a2", WEB) for name in ("s", "t")]
    assert left_for(pod, ON_A, *on_a2, nodes=nodes) == ["b1"]
    assert left_for(pod, *on_a2, nodes=nodes) == ["a1", "b1"]


@pytest.mark.parametrize(("release", "nodes"), [("1.37", ALL), ("1.38", ["b1"])])
def test_an_empty_selector_counts_all_pods_of_the_namespace_from_1_38_on(release: str, nodes: list[str]) -> None:
    others = [a_pod_of(name, "a1", {"app": "db"}) for name in ("q", "r")]
    elsewhere = [a_pod_of(name, "b1", namespace="blue") for name in ("s", "t")]
    assert left_for(a_web(a_constraint(labels={})), *others, *elsewhere, release=release) == nodes
    assert left_for(a_web(a_constraint(labels=None)), *others, release=release) == ALL


def test_only_pods_count_that_are_alike_in_the_labels_that_have_to_match() -> None:
    pod = a_pod_of("p", labels=WEB | {"v": "2"}, topologySpreadConstraints=[a_constraint(matchLabelKeys=["v"])])
    assert left_for(pod, a_pod_of("q", "a1", WEB | {"v": "1"})) == ALL
    assert left_for(pod, a_pod_of("q", "a1", WEB | {"v": "2"})) == ["b1"]


def test_a_soft_constraint_scores_domains_by_how_few_pods_they_have() -> None:
    world = a_world_of(ON_A, a_pod_of("s", "a1", WEB), ON_B)
    assert scored(POD_TOPOLOGY_SPREAD, world, a_web(a_constraint(is_hard=False))) == {"a1": 33, "a2": 33, "b1": 100}


def test_a_node_without_the_key_of_a_soft_constraint_is_the_worst() -> None:
    world = a_world_of(ON_A, nodes=(in_zone("n"),))
    found = scored(POD_TOPOLOGY_SPREAD, world, a_web(a_constraint(is_hard=False)))
    assert found is not None
    assert found["n"] == 0 < found["b1"]


def test_an_unknown_action_neither_refuses_nor_scores_and_is_a_constraint_all_the_same() -> None:
    pod = a_web({**a_constraint(), "whenUnsatisfiable": "Never"})
    assert left_for(pod, ON_A) == ALL
    assert scored(POD_TOPOLOGY_SPREAD, with_service(a_world_of(ON_A)), pod) is None


def test_an_unknown_policy_is_not_honored() -> None:
    """Zone B is not for the pod, and holds none like it."""
    near = {"nodeSelector": {ZONE: "A"}}
    assert left_for(a_web({**a_constraint(), "nodeAffinityPolicy": "Honour"}, **near), ON_A) == ["b1"]
    assert left_for(a_web({**a_constraint(), "nodeAffinityPolicy": "Honor"}, **near), ON_A) == ALL


def with_service(world: Cluster) -> Cluster:
    raw = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}}
    selector, errors = decode_pod_selector(SERVICE, raw)
    assert selector, errors
    world.selectors.set(selector)
    return world


def test_a_service_spreads_its_pods_that_do_not_say_how() -> None:
    world = with_service(a_world_of(ON_A, a_pod_of("s", "a1", WEB)))
    assert scored(POD_TOPOLOGY_SPREAD, world, a_web()) == {"a1": 50, "a2": 75, "b1": 100}
    assert scored(POD_TOPOLOGY_SPREAD, world, a_web(a_constraint(skew=9))) is None
    assert scored(POD_TOPOLOGY_SPREAD, world, a_pod_of("p", labels={"app": "db"})) is None
    assert scored(POD_TOPOLOGY_SPREAD, a_world_of(ON_A), a_web()) is None


def test_the_missing_zone_favors_a_node_in_strict_mode_alone() -> None:
    world = with_service(a_world_of(ON_A, nodes=(in_zone("n"),), is_strict=True))
    assert scored(POD_TOPOLOGY_SPREAD, world, a_web()) == {"a1": 22, "a2": 33, "b1": 55, "n": 100}
    world = with_service(a_world_of(ON_A, nodes=(in_zone("n"),)))
    found = scored(POD_TOPOLOGY_SPREAD, world, a_web())
    assert found is not None
    assert found["n"] == found["b1"] == 100


SPREADS = a_web(a_constraint())
SOFTLY = a_web(a_constraint(is_hard=False))
TAINTED = replace(in_zone("m", "A"), taints=(Taint("k", "", "NoSchedule"),))


@pytest.mark.parametrize(
    ("pod", "event", "helps"),
    [
        pytest.param(SPREADS, PodChanged(ON_A, None), True, id="a counted pod goes"),
        pytest.param(SPREADS, PodChanged(None, ON_B), True, id="a counted pod comes elsewhere"),
        pytest.param(SPREADS, PodChanged(a_pod_of("q", "a1", {"app": "db"}), ON_A), True, id="a pod comes to count"),
        pytest.param(SPREADS, PodChanged(a_pod_of("q", "a1", {"app": "db"}), None), False, id="another pod goes"),
        pytest.param(SPREADS, PodChanged(a_pod_of("q", "a1", WEB, namespace="x"), None), False, id="elsewhere"),
        pytest.param(SOFTLY, PodChanged(ON_A, None), False, id="it only scores"),
        pytest.param(SPREADS, NodeChanged(None, in_zone("m", "C")), True, id="a domain comes"),
        pytest.param(SPREADS, NodeChanged(in_zone("m", "C"), None), True, id="a domain goes"),
        pytest.param(SPREADS, NodeChanged(in_zone("m", "A"), TAINTED), True, id="taints change"),
        pytest.param(SPREADS, NodeChanged(None, in_zone("m")), False, id="a node without the key"),
        pytest.param(SPREADS, NodeChanged(in_zone("m", "C"), in_zone("m", "C")), False, id="a node reports"),
    ],
)
def test_what_may_even_out_the_domains_helps(pod: Pod, event: Event, *, helps: bool) -> None:
    assert is_helped(POD_TOPOLOGY_SPREAD, pod, event) is helps


def test_host_and_zone_are_reported_by_their_labels() -> None:
    assert left_for(a_web(a_constraint(HOST)), ON_A) == ["a2", "b1"]
    assert left_for(a_web(a_constraint(ZONE)), ON_A) == ["b1"]

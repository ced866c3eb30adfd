from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from allocator.model import Node, Taint, Term
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.resources import HostPort
from scheduler.decision.filters import PodSignatures, feasible, fit_error, refused_by_all, rejections
from scheduler.plugins.node_affinity import NODE_AFFINITY
from scheduler.plugins.plugin import Cycle, Dynamic, Plugin, Reason, Rejected
from scheduler.plugins.profile import PLUGINS
from scheduler.state.node_infos import NodeInfos
from tests.builders import a_container, a_cycle, a_node, a_pod, amounts, requires

FITS = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"


class FeasibilityCluster:
    """Nodes, and the pods on them."""

    def __init__(self, *nodes: Node) -> None:
        self.infos, self.templates = NodeInfos({}), PodSignatures()
        for number, node in enumerate(nodes):
            self.infos.set_node(number, node)
            self.templates.set_node(number, node)

    def feasible(self, pod: Pod) -> int:
        return feasible(self.cycle(pod), self.templates.plugins)

    def rejections(self, pod: Pod) -> list[tuple[str, Rejected]]:
        return [(plugin.name, one) for plugin, one in rejections(self.cycle(pod), self.templates)]

    def cycle(self, pod: Pod) -> Cycle:
        return a_cycle(pod, self.infos, self.templates)


def test_nodes_that_are_known_to_pass_are_not_asked_why_not() -> None:
    asked: list[int] = []

    def rejections_of(_cycle: Cycle, nodes: int) -> Sequence[Rejected]:
        asked.append(nodes)
        return [Rejected("no", nodes)]

    plugin = Plugin("No", (Reason("No"),), dynamic=Dynamic(lambda _: 0, rejections_of))
    cluster = FeasibilityCluster(offering("a"), offering("b"))
    cluster.templates = PodSignatures(plugins=(plugin,))
    for number, name in enumerate("ab"):
        cluster.templates.set_node(number, offering(name))
    cycle = cluster.cycle(a_pod())
    assert [one.nodes for _, one in rejections(cycle, cluster.templates, 0b01)] == [0b10]
    assert not list(rejections(cycle, cluster.templates, 0b11))
    assert asked == [0b10]


def offering(name: str, cpu: str = "4", memory: str = "8Gi", pods: str = "10", **more: str) -> Node:
    return a_node(name, allocatable=amounts(cpu=cpu, memory=memory, pods=pods, **more))


def test_a_pod_fits_what_is_left_and_not_a_thousandth_more() -> None:
    cluster = FeasibilityCluster(offering("a"))
    cluster.infos.add_pod(0, a_pod(a_container(cpu="3"), name="other"))
    assert cluster.feasible(a_pod(a_container(cpu="1"))) == 0b1
    assert cluster.feasible(a_pod(a_container(cpu="1001m"))) == 0


def test_a_node_lacks_each_resource_of_which_too_little_is_left() -> None:
    cluster = FeasibilityCluster(offering("a"), offering("b", memory="16Gi"), offering("c", cpu="8", memory="16Gi"))
    for number in range(3):
        cluster.infos.add_pod(number, a_pod(a_container(cpu="3", memory="6Gi"), name=f"other-{number}"))
    found = cluster.rejections(a_pod(a_container(cpu="2", memory="4Gi")))
    assert found == [
        ("NodeResourcesFit", Rejected("Insufficient cpu", 0b011, 0b011)),
        ("NodeResourcesFit", Rejected("Insufficient memory", 0b001, 0b001)),
    ]


def test_a_node_that_never_has_as_much_of_one_resource_is_not_helped_by_the_end_of_pods() -> None:
    cluster = FeasibilityCluster(offering("a", cpu="1"), offering("b"))
    for number in range(2):
        cluster.infos.add_pod(number, a_pod(a_container(cpu="500m", memory="6Gi"), name=f"other-{number}"))
    found = cluster.rejections(a_pod(a_container(cpu="4", memory="4Gi")))
    assert found == [
        ("NodeResourcesFit", Rejected("Insufficient cpu", 0b11, 0b10)),
        ("NodeResourcesFit", Rejected("Insufficient memory", 0b11, 0b10)),
    ]


def test_a_full_node_has_too_many_pods_for_one_that_requests_nothing() -> None:
    cluster = FeasibilityCluster(offering("a", pods="1"), offering("b", pods="2"))
    for number in range(2):
        cluster.infos.add_pod(number, a_pod(name=f"other-{number}"))
    assert cluster.feasible(a_pod()) == 0b10
    assert cluster.rejections(a_pod()) == [("NodeResourcesFit", Rejected("Too many pods", 0b01, 0b01))]


def test_a_resource_that_no_node_offers_is_insufficient_everywhere() -> None:
    cluster = FeasibilityCluster(offering("a"), offering("b"))
    pod = a_pod(a_container(gpu__gpu="1"))
    assert cluster.feasible(pod) == 0
    assert cluster.rejections(pod) == [("NodeResourcesFit", Rejected("Insufficient gpu.example.com/gpu", 0b11, 0))]


def test_a_node_that_is_refused_by_one_filter_is_not_reported_with_a_later_one() -> None:
    tainted = a_node("a", taints=(Taint("k", "", "NoSchedule"),))
    cluster = FeasibilityCluster(tainted, offering("b"), offering("c", cpu="1"), offering("d"))
    for number in (0, 1, 2):
        cluster.infos.add_pod(number, a_pod(name=f"other-{number}", host_ports=(HostPort(80),) * (number < 2)))
    pod = a_pod(a_container(cpu="2"), host_ports=(HostPort(80),))
    assert cluster.feasible(pod) == 0b1000
    assert [(one.reason, one.nodes, one.resolvable) for _, one in cluster.rejections(pod)] == [
        ("node(s) had untolerated taint(s)", 0b0001, 0),
        (PORTS, 0b0010, 0b0010),
        ("Insufficient cpu", 0b0100, 0),
    ]


def test_the_message_reports_counts_and_reasons_in_the_order_of_their_text() -> None:
    refused = Counter({FITS: 3, "Insufficient cpu": 2, "x": 1})
    assert fit_error(6, refused) == f"0/6 nodes are available: 1 x, 2 Insufficient cpu, 3 {FITS}."
    assert fit_error(12, Counter({"a": 10, "b": 2})) == "0/12 nodes are available: 10 a, 2 b."


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            fit_error(2, Counter(), before="request R: device class C does not exist"),
            "0/2 nodes are available: request R: device class C does not exist.",
        ),
        (
            fit_error(2, Counter({"cannot allocate all claims": 2}), explanation="2 nodes: no device left\nmore"),
            "0/2 nodes are available: 2 cannot allocate all claims. 2 nodes: no device left",
        ),
        (fit_error(0, Counter()), "no nodes available to schedule pods"),
        (fit_error(2, Counter()), "0/2 nodes are available:"),
    ],
)
def test_the_message_holds_what_refuses_all_nodes_and_the_first_line_of_the_explanation(
    message: str, expected: str
) -> None:
    assert message == expected


def test_a_node_has_the_reasons_of_the_first_plugin_that_refuses_it_also_where_a_later_one_needs_no_pods() -> None:
    tainted = replace(offering("c", cpu="1"), taints=(Taint("k", "", "NoSchedule"),))
    cluster = FeasibilityCluster(offering("a", cpu="1"), offering("b"), tainted)
    pod = a_pod(a_container(cpu="2"), required_features=frozenset({"Some"}))
    assert cluster.feasible(pod) == 0
    assert cluster.rejections(pod) == [
        ("TaintToleration", Rejected("node(s) had untolerated taint(s)", 0b100)),
        ("NodeResourcesFit", Rejected("Insufficient cpu", 0b001)),
        ("NodeDeclaredFeatures", Rejected("node(s) didn't match Pod's required features", 0b010)),
    ]


def test_terms_that_name_nodes_and_exclude_each_other_refuse_every_node_at_once() -> None:
    fields = (requires("metadata.name", "In", "a"), requires("metadata.name", "In", "b"))
    cluster, pod = FeasibilityCluster(offering("a")), a_pod(affinity=(Term(fields=fields),))
    found = refused_by_all(cluster.cycle(pod), PLUGINS)
    assert found == (NODE_AFFINITY, "pod affinity terms conflict")
    assert refused_by_all(cluster.cycle(a_pod(affinity=(Term(fields=fields[:1]),))), PLUGINS) is None
    assert refused_by_all(cluster.cycle(a_pod(affinity=())), PLUGINS) is None

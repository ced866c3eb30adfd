"""A new filter is one value: decisions, refusals, events that wake pods and remedies follow (docs/architecture.md)."""

from collections.abc import Iterator
from dataclasses import replace

from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.decision.why_not import plugin_refusal, refusing_plugins
from scheduler.plugins.plugin import Change, Cycle, Plugin, RefusingNode, Static
from scheduler.plugins.profile import PLUGINS, Profile
from scheduler.queue import helps
from scheduler.state.cluster_changes import NodeChanged
from tests.builders import a_node, a_pod, amounts, kubernetes

READY = a_node("n", allocatable=amounts(cpu="4", memory="8Gi", pods="10"))
SERVICED = replace(READY, labels={"serviced": ""})


def maintenance(pod: Pod, node: Node) -> str:
    return "is being serviced" if "serviced" in node.labels and "serviced" not in pod.labels else ""


def changes(_: Cycle, place: RefusingNode) -> Iterator[Change]:
    yield Change("label serviced removed", node=replace(place.node, labels={}))


MAINTENANCE = Plugin.of_nodes(
    "Maintenance",
    Static("node(s) were being serviced", maintenance, changes),
    pod_fields=("labels",),
    node_fields=("labels",),
)


def a_cluster(node: Node) -> Cluster:
    cluster = Cluster(kubernetes(), is_ours=lambda _: True, profiles=[Profile(plugins=(*PLUGINS, MAINTENANCE))])
    cluster.set_node(node)
    return cluster


def test_a_new_filter_refuses_nodes_and_says_why() -> None:
    refused = decide(a_cluster(SERVICED), a_pod(), [])
    assert isinstance(refused, NotPlaced)
    assert refused.refusal.message == "0/1 nodes are available: 1 node(s) were being serviced."
    assert isinstance(decide(a_cluster(READY), a_pod(), []), Placed)
    assert isinstance(decide(a_cluster(SERVICED), a_pod(labels={"serviced": ""}), []), Placed)


def test_a_pod_that_it_refuses_is_woken_by_a_node_that_it_lets_pass() -> None:
    refused = decide(a_cluster(SERVICED), a_pod(), [])
    assert isinstance(refused, NotPlaced)
    assert helps(a_pod(), refused.refusal, NodeChanged(SERVICED, READY))
    assert not helps(a_pod(), refused.refusal, NodeChanged(READY, SERVICED))


def test_what_would_help_is_found_and_verified() -> None:
    cycle = PodCycle(a_cluster(SERVICED), a_pod(), [])
    assert refusing_plugins(cycle) == {"n": "Maintenance"}
    found = plugin_refusal(cycle, SERVICED, 0)
    assert found is not None
    assert found.plugin == "Maintenance"
    assert list(found.remedies) == ["label serviced removed"]

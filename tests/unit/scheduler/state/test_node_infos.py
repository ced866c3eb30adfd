from dataclasses import replace
from typing import Any

import pytest

from allocator.model import Container
from scheduler.core_v1.label_selectors import AffinityTerm, PodAffinity, equal_labels
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.resources import HostPort
from scheduler.state.node_infos import MOST_UNOFFERED, Miscounted, NodeInfos
from scheduler.state.pods import CPU, MEMORY, PODS
from scheduler.state.pods_by_labels import SelectedPods
from tests.builders import a_container, a_node, a_pod, amounts

GI = 2**30
OFFER = amounts(cpu="4", memory="8Gi", pods="10")


def a_cluster(nodes: int = 2) -> NodeInfos:
    infos = NodeInfos({})
    for number in range(nodes):
        infos.set_node(number, a_node(f"n{number}", allocatable=OFFER))
    return infos


def requesting(name: str = "pod", **requests: str) -> Pod:
    return a_pod(a_container(**requests), name=name)


def free(infos: NodeInfos, resource: str, number: int = 0) -> int:
    return int(infos.columns[resource].free[number])


def test_a_pod_takes_what_it_requests_and_a_place_of_its_node_only() -> None:
    infos = a_cluster()
    infos.add_pod(1, requesting(cpu="1500m", memory="1Gi"))
    assert (free(infos, "cpu", 1), free(infos, "memory", 1), free(infos, "pods", 1)) == (2500, 7 * GI, 9)
    assert (free(infos, "cpu", 0), free(infos, "memory", 0), free(infos, "pods", 0)) == (4000, 8 * GI, 10)


def test_a_pod_that_is_removed_gives_back_what_it_took_also_if_it_says_otherwise_by_then() -> None:
    infos = a_cluster()
    infos.add_pod(0, requesting(cpu="1"))
    infos.remove_pod(0, requesting(cpu="3", memory="1Gi"))
    assert (free(infos, "cpu"), free(infos, "memory"), free(infos, "pods")) == (4000, 8 * GI, 10)
    assert (infos.scored_cpu[0], infos.scored_memory[0]) == (0, 0)


@pytest.mark.parametrize("more", [-1, 0, 1, 1000])
def test_there_is_room_for_any_number_of_nodes(more: int) -> None:
    infos = a_cluster()
    number = infos.size + more
    infos.add_pod(number, requesting(cpu="1"))
    infos.set_node(number, a_node("far", allocatable=OFFER))
    assert (free(infos, "cpu", number), free(infos, "pods", number)) == (3000, 9)
    assert infos.size > number
    infos.set_node(0, a_node("n0", allocatable=amounts(cpu="5")))
    assert (free(infos, "cpu"), free(infos, "cpu", 1)) == (5000, 4000)


def test_a_pod_is_counted_once() -> None:
    infos = a_cluster()
    infos.add_pod(0, requesting(cpu="1"))
    with pytest.raises(Miscounted, match=r"pod default/pod \(uid-pod\) is counted on node number 0 already"):
        infos.add_pod(1, requesting(cpu="1"))
    with pytest.raises(Miscounted, match="is not counted on node number 1"):
        infos.remove_pod(1, requesting(cpu="1"))
    assert free(infos, "cpu") == 3000


def test_a_node_that_comes_to_offer_more_or_less_keeps_its_pods() -> None:
    infos = a_cluster()
    infos.add_pod(0, requesting(cpu="1"))
    infos.set_node(0, a_node("n0", allocatable=amounts(cpu="2", pods="1", gpu__gpu="3")))
    assert (free(infos, "cpu"), free(infos, "memory"), free(infos, "pods")) == (1000, 0, 0)
    assert free(infos, "gpu.example.com/gpu") == 3
    infos.set_node(0, a_node("n0", allocatable=OFFER))
    assert (free(infos, "cpu"), free(infos, "gpu.example.com/gpu")) == (3000, 0)


def test_a_node_that_is_gone_offers_nothing_and_its_pods_count_until_they_go() -> None:
    infos = a_cluster()
    pod = requesting(cpu="1")
    infos.add_pod(0, pod)
    infos.remove_node(0)
    assert (free(infos, "cpu"), free(infos, "pods")) == (-1000, -1)
    infos.remove_pod(0, pod)
    assert (free(infos, "cpu"), free(infos, "pods")) == (0, 0)


def test_pods_may_come_before_their_node_and_numbers_in_any_order() -> None:
    infos = NodeInfos({})
    infos.add_pod(1000, requesting(cpu="1", gpu__gpu="2"))
    assert free(infos, "cpu", 1000) == -1000
    infos.set_node(1000, a_node(allocatable={**OFFER, **amounts(gpu__gpu="8")}))
    assert (free(infos, "cpu", 1000), free(infos, "gpu.example.com/gpu", 1000)) == (3000, 6)
    assert infos.size > 1000


@pytest.mark.parametrize(
    ("held", "wanted", "clash"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80), True),
        (HostPort(80), HostPort(80, "TCP", "10.0.0.1"), True),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.1"), True),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False),
    ],
)
def test_a_port_on_every_address_clashes_with_any_and_else_the_address_counts(
    held: HostPort, wanted: HostPort, *, clash: bool
) -> None:
    infos = a_cluster()
    infos.add_pod(1, a_pod(Container("c"), host_ports=(held,)))
    assert infos.ports.clashes((wanted,)) == (0b10 if clash else 0)


def test_a_port_is_free_once_the_last_pod_that_holds_it_is_gone() -> None:
    infos = a_cluster()
    first, second = (a_pod(name=name, host_ports=(HostPort(80), HostPort(80))) for name in "ab")
    infos.add_pod(0, first)
    infos.add_pod(0, second)
    infos.remove_pod(0, first)
    assert infos.ports.clashes((HostPort(80),)) == 0b1
    infos.remove_pod(0, second)
    assert infos.ports.clashes((HostPort(80),)) == 0


def test_what_no_node_offers_takes_no_memory_and_counts_as_soon_as_one_does() -> None:
    infos = a_cluster()
    known = set(infos.columns)
    for number in range(10):
        infos.add_pod(0, a_pod(a_container(gpu__gpu="1", **{f"r{number}__x": "1"}), name=f"pod-{number}"))
    assert set(infos.columns) == known
    infos.set_node(0, a_node("n0", allocatable={**OFFER, **amounts(gpu__gpu="16")}))
    assert free(infos, "gpu.example.com/gpu") == 6
    infos.remove_pod(0, a_pod(name="pod-3"))
    assert free(infos, "gpu.example.com/gpu") == 7


WEB = {"app": "web"}
APART_FROM_WEB = PodAffinity(required_anti=(AffinityTerm("zone", frozenset({"default"}), equal_labels(WEB)),))
BEFORE = a_pod(a_container(cpu="1", memory="1Gi"), host_ports=(HostPort(80),), labels=WEB, pod_affinity=APART_FROM_WEB)


def counted(infos: NodeInfos) -> object:
    pods = infos.pods.on_nodes(SelectedPods("default", equal_labels(WEB)))
    ports = [infos.ports.clashes((HostPort(port),)) for port in (80, 81)]
    scored = infos.scored_cpu[0], infos.scored_memory[0]
    kept = infos.terms.kept_from(a_pod(labels=WEB))
    return free(infos, "cpu"), free(infos, "memory"), scored, ports, list(pods), kept


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"containers": (a_container(cpu="2"),)}, id="requests"),
        pytest.param({"host_ports": (HostPort(81),)}, id="ports"),
        pytest.param({"labels": {"app": "db"}}, id="labels"),
        pytest.param({"is_deleting": True}, id="deletion"),
        pytest.param({"pod_affinity": PodAffinity()}, id="affinity"),
        pytest.param({"containers": (), "host_ports": (), "labels": {}}, id="several"),
    ],
)
def test_a_pod_that_changes_counts_as_if_it_had_come_so(change: dict[str, Any]) -> None:
    now = replace(BEFORE, **change)
    infos, others = (NodeInfos({}) for _ in range(2))
    for one in (infos, others):
        one.set_node(0, a_node("n0", {"zone": "a"}, allocatable=OFFER))
    infos.add_pod(0, BEFORE)
    assert counted(infos) != counted(others)
    infos.change_pod(0, BEFORE, now)
    others.add_pod(0, now)
    assert counted(infos) == counted(others)
    infos.remove_pod(0, BEFORE)
    others.remove_pod(0, now)
    assert counted(infos) == counted(others)


def test_a_pod_that_gets_other_labels_changes_nothing_that_follows_from_its_row() -> None:
    infos = a_cluster()
    infos.add_pod(0, BEFORE)
    changes = infos.by_row.changes.now
    infos.change_pod(0, BEFORE, replace(BEFORE, labels={**WEB, "topology.kubernetes.io/zone": "a"}))
    assert infos.by_row.changes.now == changes


def test_a_pod_cannot_change_where_it_is_not_counted() -> None:
    infos = a_cluster()
    infos.add_pod(0, BEFORE)
    with pytest.raises(Miscounted, match="is not counted on node number 1"):
        infos.change_pod(1, BEFORE, BEFORE)


def test_nothing_is_kept_of_resources_that_no_node_offers_any_more() -> None:
    infos = NodeInfos({})
    for number in range(3 * MOST_UNOFFERED):
        offer = {"cpu": "1", f"example.com/r-{number}": "1", "example.com/none": "0"}
        infos.set_node(0, a_node("n", allocatable=amounts(**offer)))
    assert len(infos.columns) <= MOST_UNOFFERED + len((CPU, MEMORY, PODS)) + 1
    assert f"example.com/r-{3 * MOST_UNOFFERED - 1}" in infos.columns
    infos.remove_node(0)
    infos.set_node(0, a_node("n", allocatable=amounts(**{"example.com/r-0": "1"})))
    assert free(infos, "example.com/r-0") == 1

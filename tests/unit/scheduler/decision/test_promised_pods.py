"""Pods that are promised a node (`status.nominatedNodeName`) keep their place there, devices aside."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import Handle, PodVolumes
from scheduler.core_v1.resources import HostPort
from scheduler.core_v1.storage_objects import CSINode
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.state.node_infos import MOST_TERMS
from tests.builders import a_container, a_node, amounts, kubernetes
from tests.unit.scheduler.plugins.raw_pods import HOST, WEB, a_pod_of, a_term, apart, near

PORT = (HostPort(80),)


def a_pod(name: str, cpu: str = "0", *, priority: int = 5, labels: dict[str, str] | None = None, **more: Any) -> Pod:
    spec = {"affinity": more.pop("affinity")} if "affinity" in more else {}
    made = a_pod_of(name, labels=labels, priority=priority, **spec)
    return replace(made, containers=(a_container(cpu=cpu),), **more)


def promised(name: str = "n", cpu: str = "0", node: str = "a1", **more: Any) -> Pod:
    return a_pod(name, cpu, nominated_node=node, **more)


def a_cluster(*pods: Pod, is_strict: bool = False, **cpu: str) -> Cluster:
    """Nodes with as much CPU as is given; a1 with 2 where nothing is."""
    cluster = Cluster(kubernetes(is_strict=is_strict), is_ours=lambda _: True)
    for name, amount in (cpu or {"a1": "2"}).items():
        cluster.set_node(a_node(name, {HOST: name}, allocatable=amounts(cpu=amount, memory="8Gi", pods="110")))
    for pod in pods:
        cluster.set_pod(pod)
    return cluster


def node_of(cluster: Cluster, pod: Pod) -> str:
    result = decide(cluster, pod, [])
    assert isinstance(result, Placed | NotPlaced)
    return result.node if isinstance(result, Placed) else ""


@pytest.mark.parametrize(("priority", "node"), [(4, ""), (5, ""), (6, "a1")])
def test_what_is_promised_is_kept_from_pods_of_no_higher_priority(priority: int, node: str) -> None:
    assert node_of(a_cluster(promised(cpu="2")), a_pod("p", "1", priority=priority)) == node


def test_the_promise_ends_with_the_pod() -> None:
    cluster = a_cluster(promised(cpu="2"))
    cluster.remove_pod("default-n")
    assert node_of(cluster, a_pod("p", "1")) == "a1"


def test_a_promise_that_has_come_true_counts_once() -> None:
    cluster = a_cluster(replace(promised(cpu="1"), node_name="a1"))
    assert node_of(cluster, a_pod("p", "1")) == "a1"


def test_a_promise_of_one_node_says_nothing_of_others() -> None:
    there = promised(cpu="2", labels=WEB)
    pod = a_pod("p", "1", affinity=apart(a_term("zone", WEB)))
    assert node_of(a_cluster(there, a1="2", b1="2"), pod) == "b1"
    assert node_of(a_cluster(promised(cpu="2", node="gone")), a_pod("p", "1")) == "a1"


def test_a_promised_pod_is_no_company_yet() -> None:
    assert node_of(a_cluster(promised(labels=WEB)), a_pod("p", affinity=near(a_term(HOST, WEB)))) == ""


def test_a_promised_pod_keeps_others_away_whether_they_say_anything_of_pods_or_not() -> None:
    holder = promised(affinity=apart(a_term(HOST, WEB)))
    silent = a_pod("p", labels=WEB)
    wordy = a_pod("p", labels=WEB, affinity=apart(a_term(HOST, {"no": "such"})))
    assert node_of(a_cluster(holder), silent) == node_of(a_cluster(holder), wordy) == ""
    assert node_of(a_cluster(holder, is_strict=True), silent) == "a1"
    assert node_of(a_cluster(holder, is_strict=True), wordy) == ""


def test_a_promised_port_is_kept() -> None:
    assert node_of(a_cluster(promised(host_ports=PORT)), a_pod("p", host_ports=PORT)) == ""


def test_a_pod_goes_where_it_was_promised_a_place_however_good_others_are() -> None:
    assert node_of(a_cluster(a1="2", b1="64"), promised("p", "1")) == "a1"
    assert node_of(a_cluster(a1="1", b1="64"), promised("p", "2")) == "b1"


def test_its_own_promise_is_not_in_a_pods_way() -> None:
    own = promised("p", "2")
    assert node_of(a_cluster(own), own) == "a1"


def handles(number: int) -> PodVolumes:
    return PodVolumes(handles=tuple(Handle("d.io", f"volume-{one}") for one in range(number)))


@pytest.mark.parametrize(("number", "is_strict", "counts"), [(16, False, True), (17, False, False), (17, True, True)])
def test_volumes_of_a_promised_pod_count_where_they_are_few(number: int, is_strict: bool, counts: bool) -> None:  # noqa: FBT001
    cluster = a_cluster(promised(volumes=handles(number)), is_strict=is_strict)
    cluster.volumes.set_csi_node(CSINode("a1", limits={"d.io": number}, drivers=frozenset({"d.io"})))
    other = PodVolumes(handles=(Handle("d.io", "another"),))
    assert node_of(cluster, a_pod("p", volumes=other)) == ("" if counts else "a1")
    assert node_of(cluster, a_pod("plain")) == "a1"


def test_the_first_terms_of_a_promised_pod_count() -> None:
    terms = [a_term(HOST, {"app": f"x{number}"}) for number in range(MOST_TERMS + 1)]
    cluster = a_cluster(promised(affinity=apart(*terms)))
    last = MOST_TERMS - 1
    assert [node_of(cluster, a_pod("p", labels={"app": f"x{one}"})) for one in (0, last, MOST_TERMS)] == ["", "", "a1"]

"""Who may preempt, what is written, and what devices can be won, one rule at a time."""

from dataclasses import replace
from typing import Any

import pytest

from allocator.api.allocation import Consumer
from allocator.model import Reach
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import Condition
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced
from scheduler.preemption.preemption import ENDING, NEVER, Preemption, Preemptor
from tests.builders import (
    NODE,
    a_claim,
    a_class,
    a_container,
    a_node,
    a_pod,
    a_slice,
    a_user,
    amounts,
    an_allocated_claim,
    everywhere,
    kubernetes,
    named,
    on_node,
    watched,
)

HELD = an_allocated_claim("gpu-0", name="held")
OWN = a_claim(name="own")
BY_PREEMPTION = Condition("DisruptionTarget", "True", "PreemptionByScheduler")


def low(name: str, **more: Any) -> Pod:
    return a_pod(a_container(cpu="2"), name=name, **{"node_name": NODE, "priority": 1, **more})


def urgent(**more: Any) -> Pod:
    return a_pod(a_container(cpu="2"), name="urgent", **{"priority": 10, **more})


def a_cluster(*pods: Pod, release: str = "1.36", is_strict: bool = False) -> Cluster:
    cluster = Cluster(kubernetes(release, is_strict=is_strict), is_ours=lambda _: True)
    cluster.set_class(a_class())
    cluster.set_node(a_node(allocatable=amounts(cpu="2", memory="1Gi", pods="9")))
    for pod in pods:
        cluster.set_pod(pod)
    return cluster


def preemption(cluster: Cluster, pod: Pod, *claims: Any) -> Preemption:
    refused = decide(cluster, pod, claims)
    assert isinstance(refused, NotPlaced)
    return Preemptor(cluster).preemption(PodCycle(cluster, pod, claims), refused)


def victims(found: Preemption) -> list[str]:
    return [pod.name for pod in found.candidate.pods] if found.candidate else []


def test_pod_with_policy_never_preempts_nobody() -> None:
    found = preemption(a_cluster(low("x")), urgent(preempts=False, nominated_node="old"))
    assert found.text == f"no new claims to deallocate, preemption: {NEVER}"
    assert (found.nominated, found.candidate) == (None, None)


def test_pod_waits_for_victims_of_an_earlier_attempt_on_its_node() -> None:
    ending = low("x", is_deleting=True, conditions=(BY_PREEMPTION,))
    assert preemption(a_cluster(ending), urgent(nominated_node=NODE)).text.endswith(ENDING)
    otherwise = low("x", is_deleting=True)
    assert victims(preemption(a_cluster(otherwise), urgent(nominated_node=NODE))) == ["x"]
    assert victims(preemption(a_cluster(ending), urgent(nominated_node="gone"))) == ["x"]


def test_nobody_lower_clears_the_nomination() -> None:
    found = preemption(a_cluster(low("x", priority=10)), urgent(nominated_node="gone"))
    assert found.nominated == ""
    assert found.text.endswith("0/1 nodes are available: 1 No preemption victims found for incoming pod.")


def test_writes_come_in_order() -> None:
    promised = a_pod(name="promised", priority=2, nominated_node=NODE)
    found = preemption(a_cluster(low("x"), promised), urgent(scheduler_name="ours"))
    assert [(one.pod.name, one.is_delete) for one in found.writes] == [("promised", False), ("x", False), ("x", True)]
    clear, condition, _ = [one.patch for one in found.writes]
    assert clear == {"status": {"nominatedNodeName": None}}
    assert condition is not None
    (written,) = condition["status"]["conditions"]
    assert written["message"] == "ours: preempting to accommodate a higher priority pod"


def test_whoever_is_refused_everywhere_costs_no_look_at_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, pod = a_cluster(low("x")), a_user("urgent", "own", priority=10)
    cluster.set_namespace(Namespace(pod.namespace, {}, is_deleted=True))

    def asked(*_: object) -> None:
        raise AssertionError("asked for devices")

    for name in ("able", "scores", "allocate"):
        monkeypatch.setattr(cluster.fleet, name, asked)
    assert preemption(cluster, pod, OWN).text.endswith("1 Preemption is not helpful for scheduling.")


def test_victims_that_end_already_are_waited_for() -> None:
    promised = a_pod(name="promised", priority=2, nominated_node=NODE)
    found = preemption(a_cluster(low("x", is_deleting=True), promised), urgent())
    assert (victims(found), list(found.writes), found.nominated) == (["x"], [], NODE)


def test_mirror_pods_are_spared_but_by_kube_scheduler() -> None:
    static = low("x", is_static=True)
    assert preemption(a_cluster(static), urgent()).candidate is None
    assert victims(preemption(a_cluster(static, is_strict=True), urgent())) == ["x"]


def test_newer_releases_say_where_and_how_many() -> None:
    found = preemption(a_cluster(low("x"), release="1.37"), urgent())
    assert found.text == f"preemption: found a potential placement for pod on node {NODE}, preempting 1 victims"


# -- devices


def with_device(*users: Pod, others: tuple[Consumer, ...] = (), reach: Reach = on_node(NODE)) -> Cluster:  # noqa: B008 - a value
    """The node with one device, which the claim `held` of these pods has."""
    cluster = a_cluster(*users)
    cluster.set_slice(a_slice("gpu-0", reach=reach))
    found = watched(HELD, users=users)
    cluster.set_claim(replace(found, reserved_for=(*found.reserved_for, *others)), 1)
    cluster.set_claim(watched(OWN), 1)
    return cluster


def a_holder(name: str, **more: Any) -> Pod:
    return a_user(name, "held", **{"node_name": NODE, "priority": 1, **more})


WANTS = a_user("urgent", "own", priority=10)


def test_device_is_won_with_all_users_of_its_claim() -> None:
    found = preemption(with_device(a_holder("x"), a_holder("y")), WANTS, OWN)
    assert sorted(victims(found)) == ["x", "y"]
    assert found.claims == (HELD.uid,)
    (claim,) = found.given
    assert claim.allocation is not None
    assert [result.device for result in claim.allocation.results] == ["gpu-0"]


@pytest.mark.parametrize(
    "cluster",
    [
        with_device(a_holder("x"), a_holder("y", priority=10)),
        with_device(a_holder("x"), a_holder("y", node_name="other")),
        with_device(a_holder("x"), others=(Consumer("scheduling.k8s.io", "podgroups", "g", "u"),)),
        with_device(a_holder("x"), reach=everywhere()),
        with_device(a_holder("x", is_static=True)),
    ],
    ids=["equal priority", "on another node", "a group", "reached by all nodes", "mirror pod"],
)
def test_device_that_does_not_come_free_costs_nobody(cluster: Cluster) -> None:
    found = preemption(cluster, WANTS, OWN)
    assert (found.candidate, list(found.writes)) == (None, [])


def test_device_of_a_claim_that_is_reserved_for_nobody_is_held() -> None:
    cluster = with_device(a_holder("x"))
    cluster.set_claim(watched(HELD), 2)
    assert preemption(cluster, WANTS, OWN).candidate is None


def test_device_whose_users_are_gone_is_waited_for() -> None:
    cluster = with_device(a_holder("x"))
    cluster.remove_pod("uid-x")
    found = preemption(cluster, WANTS, OWN)
    assert (victims(found), list(found.writes), found.nominated) == ([], [], NODE)
    assert found.claims == (HELD.uid,)


def test_claim_of_its_own_that_pins_the_pod_goes_first() -> None:
    cluster = with_device(a_holder("x"))
    cluster.set_node(a_node("other", allocatable=amounts(cpu="2", memory="1Gi", pods="9")))
    pinned = an_allocated_claim("gpu-1", name="own")
    assert pinned.allocation is not None
    pinned = replace(pinned, allocation=replace(pinned.allocation, node_selector=named("gone")))
    cluster.set_claim(watched(pinned, users=[WANTS]), 2)
    found = preemption(cluster, WANTS, pinned)
    assert (found.deallocates, found.candidate, found.nominated) == ((pinned,), None, None)

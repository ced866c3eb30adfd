import itertools
from dataclasses import replace
from typing import Any

import pytest

from allocator.model import Allocation, Claim, Device, Taint
from cel.values.quantity import Quantity
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import Failed, NotPlaced, OutOfTime, Placed, ScheduleResult
from scheduler.decision.time_limits import DecisionTimeLimit
from scheduler.plugins.dynamic_resources import ADMIN_ACCESS, CLAIMS, CLASSES, DEVICES
from scheduler.plugins.node_affinity import NODE_AFFINITY
from scheduler.plugins.node_declared_features import NODE_DECLARED_FEATURES
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.plugins.plugin import NAMESPACE, UNSUPPORTED, Refusal
from scheduler.plugins.taint_toleration import TAINT_TOLERATION
from tests.builders import (
    a_claim,
    a_class,
    a_container,
    a_node,
    a_pod,
    a_request,
    a_result,
    a_slice,
    amounts,
    an_allocated_claim,
    an_alternative,
    first_available,
    kubernetes,
    named,
    on_node,
    watched,
)

ROOM = amounts(cpu="4", memory="8Gi", pods="10")


def a_cluster(*devices: int, time_limit: DecisionTimeLimit | None = None) -> Cluster:
    """Nodes with so many devices each."""
    cluster = Cluster(kubernetes(), is_ours=lambda _: True, time_limit=time_limit)
    cluster.set_class(a_class())
    for number, count in enumerate(devices):
        add_node(cluster, number, *(f"gpu-{n}" for n in range(count)))
    return cluster


def add_node(cluster: Cluster, number: int, *devices: str | Device, **more: Any) -> None:
    name = f"node-{number}"
    cluster.set_node(a_node(name, **{"allocatable": ROOM, **more}))
    cluster.set_slice(a_slice(*devices, name=name, pool=name, reach=on_node(name)))


def outcome(cluster: Cluster, *claims: Claim, pod: Pod | None = None, full: tuple[Claim, ...] = ()) -> ScheduleResult:
    return decide(cluster, pod or a_pod(), claims, full)


def placed(found: ScheduleResult) -> Placed:
    assert isinstance(found, Placed), found
    return found


def refused(found: ScheduleResult) -> NotPlaced:
    assert isinstance(found, NotPlaced), found
    return found


def test_pod_goes_where_its_devices_are() -> None:
    found = placed(outcome(a_cluster(1, 2, 1), a_claim(a_request(count=2))))
    assert found.node == "node-1"
    assert [result.device for one in found.allocations for result in one.results] == ["gpu-0", "gpu-1"]


def test_requests_that_want_more_together_than_a_node_has_are_named_with_what_they_want() -> None:
    claim = a_claim(a_request("a", count=8), a_request("b", count=8))
    assert refused(outcome(a_cluster(8, 2), claim)).refusal.message == (
        "0/2 nodes are available: 2 cannot allocate all claims. nearest is node node-0: requests a, b need 16 devices "
        "together, 8 are left (claims default/claim)"
    )


def test_gist_of_a_refusal_is_the_same_whatever_others_take_and_another_for_another_reason_or_question() -> None:
    def refusal(cluster: Cluster, claim: Claim, **pod: Any) -> Refusal:
        return refused(outcome(cluster, claim, pod=a_pod(**pod))).refusal

    asked = a_claim(a_request(count=3))
    found = [refusal(a_cluster(2, 1), asked), refusal(a_cluster(2, 2, 2), asked)]
    for taken in (["gpu-0"], ["gpu-0", "gpu-1"]):
        cluster = a_cluster(2, 1)
        cluster.set_claim(watched(an_allocated_claim(*(a_result(one, pool="node-0") for one in taken))), 1)
        found.append(refusal(cluster, asked))
    assert len({one.message for one in found}) == len(found)
    assert len({one.gist for one in found}) == 1
    others = [
        refusal(a_cluster(2, 1), a_claim(a_request(count=4))),
        refusal(a_cluster(2, 1), asked, node_selector={"zone": "mars"}),
        refusal(a_cluster(), asked),
        refusal(a_cluster(2, 1), a_claim(a_request(class_name="none"))),
    ]
    assert len({one.gist for one in (*others, *found)}) == len(others) + 1


def test_claim_whose_devices_failed_is_of_use_on_no_node_and_is_named_as_what_keeps_the_pod_from_them() -> None:
    reason = "device binding failed: device gpu.example/node-0/gpu-0 has the condition example.com/broken"
    cluster, held = a_cluster(1, 1), an_allocated_claim(a_result(pool="node-0"))
    assert isinstance(outcome(cluster, held), Placed)
    found = refused(decide(cluster, a_pod(), [held, a_claim()], failed={held.uid: reason}))
    assert found.stuck == (held,)
    assert found.refusal.reasons == {DEVICES}
    assert found.refusal.message == f"0/2 nodes are available: 2 resourceclaim not available on the node. {reason}"


def test_claim_whose_devices_failed_is_left_alone_while_no_node_could_take_its_pod_without_it() -> None:
    held = an_allocated_claim(a_result(pool="node-0"))
    found = refused(decide(a_cluster(1), a_pod(a_container(cpu="5")), [held], failed={held.uid: "broken"}))
    assert found.stuck == ()
    assert found.refusal.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_pod_without_claims_goes_to_the_emptiest_node() -> None:
    cluster = a_cluster(0, 0)
    cluster.set_pod(a_pod(a_container(cpu="3"), name="other", node_name="node-0"))
    assert placed(outcome(cluster)).node == "node-1"


def test_of_nodes_that_are_as_empty_the_one_with_the_earlier_alternative_is_taken() -> None:
    wanted = first_available("r", an_alternative("two", count=2), an_alternative("one"))
    assert placed(outcome(a_cluster(1, 2), a_claim(wanted))).node == "node-1"


def test_refusal_counts_nodes_by_reason_and_explains_the_nearest() -> None:
    cluster = a_cluster(1, 3)
    add_node(cluster, 2, "gpu-0", taints=(Taint("k", "v", "NoSchedule"),))
    found = refused(outcome(cluster, a_claim(a_request(count=4))))
    assert found.refusal.reasons == {DEVICES, TAINT_TOLERATION.reason}
    assert found.refusal.message == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 cannot allocate all claims. "
        "no other node has 4 devices for request gpus, the most is 3, on node-1 (of 3 devices)"
    )


def test_pod_that_lacks_room_and_devices_waits_for_both() -> None:
    cluster = a_cluster(1)
    add_node(cluster, 1, "gpu-0", allocatable={**ROOM, "cpu": Quantity.parse("1")})
    pod = a_pod(a_container(cpu="2"))
    found = refused(outcome(cluster, a_claim(a_request(count=2)), pod=pod))
    assert found.refusal.reasons == {DEVICES, NODE_RESOURCES_FIT.reason}


def test_pod_that_lacks_devices_and_a_feature_waits_for_devices_first() -> None:
    cluster, pod = a_cluster(0, 1, 1), a_pod(required_features=frozenset({"Some"}))
    add_node(cluster, 2, "gpu-0", declared_features=frozenset({"Some"}))
    assert placed(outcome(cluster, a_claim(), pod=pod)).node == "node-2"
    cluster.remove_node("node-2")
    found = refused(outcome(cluster, a_claim(), pod=pod))
    assert found.refusal.reasons == {DEVICES, NODE_DECLARED_FEATURES.reason}
    assert found.refusal.message == (
        "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) didn't match Pod's required features."
    )


@pytest.mark.parametrize(("nominated", "node"), [("node-0", "node-0"), ("node-1", "node-1"), ("node-2", "node-1")])
def test_pod_goes_to_the_node_that_it_was_promised_where_it_still_fits(nominated: str, node: str) -> None:
    cluster = a_cluster(1, 1, 0)
    add_node(cluster, 0, "gpu-0", taints=(Taint("k", "", "PreferNoSchedule"),))
    assert placed(outcome(cluster, a_claim(), pod=a_pod(nominated_node=nominated))).node == node


def test_missing_class_is_named_and_waited_for() -> None:
    found = refused(outcome(a_cluster(1), a_claim(a_request(class_name="nic"))))
    assert found.refusal.reasons == {CLASSES}
    assert found.refusal.classes == {"nic"}
    assert "request gpus: device class nic does not exist" in found.refusal.message


def test_pod_of_a_group_is_refused_by_name() -> None:
    found = refused(outcome(a_cluster(1), pod=a_pod(group="workers")))
    assert found.refusal.reasons == {UNSUPPORTED}
    reason = "pods of a PodGroup (spec.schedulingGroup) are not supported"
    assert found.refusal.message == f"0/1 nodes are available: {reason}."
    assert [reason.plugin for reason in found.refusal.reasons] == ["GangScheduling"]


def test_claim_that_is_full_keeps_the_pod_from_every_node() -> None:
    claim = an_allocated_claim("gpu-0")
    found = refused(outcome(a_cluster(1), claim, full=(claim,)))
    assert found.refusal.reasons == {CLAIMS}


@pytest.mark.parametrize("pod", [a_pod(), a_pod(node_name="node-0")])
def test_pod_of_a_namespace_that_is_being_deleted_is_refused_until_that_is_another_one(pod: Pod) -> None:
    cluster = a_cluster(1)
    cluster.set_namespace(Namespace("default", is_deleted=True))
    found = refused(outcome(cluster, a_claim(), pod=pod))
    assert found.refusal.reasons == {NAMESPACE}
    assert found.refusal.message == "0/1 nodes are available: namespace default is being deleted."
    assert found.resolvable == 0
    cluster.remove_namespace("default")
    assert isinstance(outcome(cluster, a_claim(), pod=a_pod()), Placed)
    cluster.set_namespace(Namespace("default", is_deleted=True))
    cluster.set_namespace(Namespace("default"))
    assert isinstance(outcome(cluster, a_claim(), pod=a_pod()), Placed)


@pytest.mark.parametrize(("label", "is_placed"), [("true", True), ("false", False)])
def test_admin_access_is_for_labelled_namespaces(label: str, *, is_placed: bool) -> None:
    cluster = a_cluster(1)
    cluster.set_namespace(Namespace("default", {"resource.kubernetes.io/admin-access": label}))
    found = outcome(cluster, a_claim(a_request(admin_access=True)))
    assert isinstance(found, Placed) == is_placed
    assert is_placed or refused(found).refusal.reasons == {ADMIN_ACCESS}


def test_allocated_claim_keeps_the_pod_to_the_nodes_that_reach_it() -> None:
    allocation = Allocation((a_result("gpu-0"),), node_selector=named("node-1"))
    claim = a_claim(allocation=allocation)
    found = placed(outcome(a_cluster(1, 1, 1), claim))
    assert (found.node, found.allocations) == ("node-1", ())


def test_claim_that_keeps_the_pod_from_all_nodes_is_stuck() -> None:
    allocation = Allocation((a_result("gpu-0"),), node_selector=named("node-9"))
    claim, other = a_claim(allocation=allocation), a_claim(name="other")
    found = refused(outcome(a_cluster(1), claim, other))
    assert found.stuck == (claim,)
    assert "1 resourceclaim not available on the node" in found.refusal.message


def test_pod_that_has_its_node_gets_devices_there_or_none() -> None:
    cluster = a_cluster(2, 1)
    pod = a_pod(node_name="node-1")
    assert placed(outcome(cluster, a_claim(), pod=pod)).node == "node-1"
    refused(outcome(cluster, a_claim(a_request(count=2)), pod=pod))
    refused(outcome(cluster, a_claim(), pod=replace(pod, node_name="node-7")))


def test_claim_that_cannot_be_decided_fails_the_attempt() -> None:
    found = outcome(a_cluster(1), a_claim(a_request("gpus", 1, "device.attributes['x'].y")))
    assert isinstance(found, Failed)
    assert "CEL" in found.reason


def test_decision_that_takes_too_long_fails_and_the_attempts_after_it_go_on_from_there() -> None:
    clock = itertools.count()  # a second for each look at it
    cluster = a_cluster(1, 1, 1, 1, 1, time_limit=DecisionTimeLimit(lambda: next(clock), 3))
    pod = a_pod(node_selector={"no": "node"})
    first, *_, last = [outcome(cluster, pod=pod) for _ in range(4)]
    assert first == OutOfTime("timed out: the decision takes more than 3 s")
    assert refused(last).refusal.reasons == {NODE_AFFINITY.reason}


def test_limit_within_another_leaves_what_that_has_left() -> None:
    now = [0.0]
    limit = DecisionTimeLimit(lambda: now[0], 3)
    with limit.limited():
        now[0] = 2.0
        with limit.limited():
            now[0] = 2.5
            assert not limit.is_over()
            now[0] = 3.0
            assert limit.is_over()
        assert limit.is_over()
    assert not limit.is_over()


@pytest.mark.parametrize(
    ("by_clock", "by_processor", "is_over"), [(5.9, 2.9, False), (3.0, 3.0, True), (6.0, 0.1, True)]
)
def test_decision_of_a_busy_machine_has_its_time_of_the_processor(
    by_clock: float, by_processor: float, *, is_over: bool
) -> None:
    now, used = [10.0], [1.0]
    limit = DecisionTimeLimit(lambda: now[0], processor=lambda: used[0])
    limit.give(3.0, kept_waiting_s=3.0)
    with limit.limited():
        now[0] += by_clock
        used[0] += by_processor
        assert limit.is_over() == is_over
    limit.give(3.0)
    with limit.limited():
        now[0] += 3.0
        assert limit.is_over()


def test_time_is_limited_for_decisions_only() -> None:
    clock = itertools.count()
    time_limit = DecisionTimeLimit(lambda: next(clock), 1)
    assert not any(time_limit.is_over() for _ in range(10))
    with time_limit.limited():
        assert time_limit.is_over()
    assert not time_limit.is_over()


def test_decision_changes_nothing() -> None:
    cluster = a_cluster(1)
    first = outcome(cluster, a_claim())
    assert outcome(cluster, a_claim()) == first

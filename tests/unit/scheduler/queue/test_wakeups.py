from dataclasses import replace
from typing import Any

import pytest

from allocator.model import Allocation, Node, Taint, Toleration
from scheduler.core_v1.affinity_term import AffinityTerm
from scheduler.core_v1.host_ports import HostPort
from scheduler.core_v1.namespace import Namespace
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.queue.events import (
    ClaimChanged,
    ClassChanged,
    Event,
    GivenBack,
    NamespaceChanged,
    NodeChanged,
    PodChanged,
    SliceChanged,
    TaintRulesChanged,
)
from scheduler.queue.wakeups import Reason, Refusal, claim_keys, concerned, helps
from scheduler.state.pod_requests import pod_requests
from tests.builders import (
    a_claim,
    a_class,
    a_container,
    a_node,
    a_pod,
    a_result,
    a_slice,
    amounts,
    an_allocated_claim,
)

TAINT = Taint("k", "", "NoSchedule")
CLAIM = PodClaim("dev", claim_name="mine")
WANTS = a_pod(a_container(cpu="1"), claims=(CLAIM,), host_ports=(HostPort(80),), node_selector={"zone": "a"})
FITTING = a_node("n", {"zone": "a"}, allocatable=amounts(cpu="2", pods="10"))
BOUND = a_pod(a_container(cpu="2"), name="other", node_name="n", host_ports=(HostPort(80),))


def is_helped(reason: Reason, event: Event, pod: Pod = WANTS) -> bool:
    refusal = Refusal(frozenset({reason}), pod_requests(pod), frozenset({"gpu"}))
    is_found = reason in concerned(event) or own(pod, event)
    answer = helps(pod, refusal, event)
    assert is_found or not answer, "an event that helps has to be told to those that it helps"
    return answer


def own(pod: Pod, event: Event) -> bool:
    if isinstance(event, ClaimChanged):
        return any(one and (one.namespace, one.name) in claim_keys(pod) for one in (event.old, event.new))
    return isinstance(event, PodChanged) and pod.uid in {one.uid for one in (event.old, event.new) if one}


def changed(node: Node, **fields: Any) -> NodeChanged:
    return NodeChanged(node, replace(node, **fields))


@pytest.mark.parametrize(
    "reason",
    [
        Reason.NO_NODES,
        Reason.NODE_UNSCHEDULABLE,
        Reason.NODE_NAME,
        Reason.TAINT_TOLERATION,
        Reason.NODE_AFFINITY,
        Reason.NODE_PORTS,
        Reason.NODE_RESOURCES_FIT,
        Reason.DEVICES,
    ],
)
def test_a_node_that_fits_helps_whatever_was_wrong_with_the_others(reason: Reason) -> None:
    assert is_helped(reason, NodeChanged(None, FITTING))


def test_a_node_that_takes_no_pod_at_all_helps_nobody() -> None:
    allocatable = {name: amount for name, amount in FITTING.allocatable.items() if name != "pods"}
    assert not is_helped(Reason.NODE_RESOURCES_FIT, NodeChanged(None, replace(FITTING, allocatable=allocatable)))


@pytest.mark.parametrize("reason", [Reason.CLAIMS, Reason.CLASSES, Reason.ADMIN_ACCESS, Reason.UNSUPPORTED])
def test_a_node_helps_no_pod_that_no_node_could_take(reason: Reason) -> None:
    assert not is_helped(reason, NodeChanged(None, FITTING))


@pytest.mark.parametrize(
    ("reason", "event", "expected"),
    [
        (Reason.TAINT_TOLERATION, NodeChanged(replace(FITTING, taints=(TAINT,)), FITTING), True),
        (Reason.TAINT_TOLERATION, NodeChanged(None, replace(FITTING, taints=(TAINT,))), False),
        (Reason.TAINT_TOLERATION, changed(FITTING, labels={}), False),
        (Reason.NODE_UNSCHEDULABLE, NodeChanged(replace(FITTING, unschedulable=True), FITTING), True),
        (Reason.NODE_UNSCHEDULABLE, changed(FITTING, unschedulable=True), False),
        (Reason.NODE_AFFINITY, NodeChanged(replace(FITTING, labels={"zone": "b"}), FITTING), True),
        (Reason.NODE_AFFINITY, NodeChanged(None, replace(FITTING, labels={"zone": "b"})), False),
        (Reason.NODE_AFFINITY, changed(FITTING, labels={"zone": "a", "more": "x"}), False),
        (Reason.NODE_RESOURCES_FIT, changed(FITTING, allocatable=amounts(cpu="3", pods="10")), True),
        (Reason.NODE_RESOURCES_FIT, changed(FITTING, allocatable=amounts(cpu="2", pods="11")), True),
        (Reason.NODE_RESOURCES_FIT, changed(FITTING, allocatable=amounts(cpu="1500m", pods="10")), False),
        (Reason.NODE_RESOURCES_FIT, changed(FITTING, allocatable=amounts(cpu="2", pods="10", memory="1")), False),
        (Reason.NODE_RESOURCES_FIT, NodeChanged(None, a_node(allocatable=amounts(cpu="500m", pods="9"))), False),
        (Reason.NODE_PORTS, changed(FITTING, labels={}), False),
        (Reason.DEVICES, changed(FITTING, labels={"rack": "1"}), True),
        (Reason.DEVICES, changed(FITTING, declared_features=frozenset({"X"})), True),
        (Reason.DEVICES, changed(FITTING, allocatable={}, taints=(TAINT,)), False),
        (Reason.DEVICES, NodeChanged(FITTING, None), True),
        (Reason.NODE_RESOURCES_FIT, NodeChanged(FITTING, None), False),
        (Reason.TAINT_TOLERATION, NodeChanged(FITTING, None), False),
    ],
)
def test_a_node_that_changes_helps_where_the_filter_that_refused_would_let_it_pass_now(
    reason: Reason, event: NodeChanged, *, expected: bool
) -> None:
    assert is_helped(reason, event) is expected


@pytest.mark.parametrize("reason", [Reason.DEVICES, Reason.NODE_RESOURCES_FIT])
def test_a_node_that_comes_to_offer_an_extended_resource_itself_helps_pods_that_no_class_could(reason: Reason) -> None:
    """And one that offers it no more, where a class then stands for it."""
    offering = replace(FITTING, allocatable={**FITTING.allocatable, **amounts(**{"example.com/gpu": "1"})})
    refusal = Refusal(frozenset({reason}), pod_requests(WANTS), resources=frozenset({"example.com/gpu"}))
    for event in (NodeChanged(FITTING, offering), NodeChanged(offering, FITTING)):
        assert reason in concerned(event)
        assert helps(WANTS, refusal, event)


@pytest.mark.parametrize(
    ("reason", "old", "new", "expected"),
    [
        (Reason.NODE_RESOURCES_FIT, BOUND, None, True),
        (Reason.NODE_RESOURCES_FIT, BOUND, replace(BOUND, phase="Succeeded"), True),
        (Reason.NODE_RESOURCES_FIT, BOUND, replace(BOUND, containers=(a_container(cpu="1"),)), True),
        (Reason.NODE_RESOURCES_FIT, BOUND, replace(BOUND, containers=(a_container(cpu="3"),)), False),
        (Reason.NODE_RESOURCES_FIT, BOUND, replace(BOUND, phase="Running"), False),
        (Reason.NODE_RESOURCES_FIT, replace(BOUND, node_name=""), None, False),
        (Reason.NODE_RESOURCES_FIT, replace(BOUND, node_name=""), BOUND, False),
        (Reason.NODE_RESOURCES_FIT, None, BOUND, False),
        (Reason.NODE_PORTS, BOUND, None, True),
        (Reason.NODE_PORTS, replace(BOUND, host_ports=(HostPort(81),)), None, False),
        (Reason.NODE_PORTS, BOUND, replace(BOUND, phase="Failed"), True),
        (Reason.NODE_PORTS, BOUND, replace(BOUND, containers=()), False),
        (Reason.DEVICES, BOUND, None, False),
        (Reason.TAINT_TOLERATION, BOUND, None, False),
    ],
)
def test_a_pod_helps_by_what_it_gives_back(reason: Reason, old: Pod | None, new: Pod | None, *, expected: bool) -> None:
    assert is_helped(reason, PodChanged(old, new)) is expected


@pytest.mark.parametrize("reason", list(Reason))
def test_a_pod_that_comes_to_ask_for_something_else_is_tried_whatever_was_wrong(reason: Reason) -> None:
    tolerant = replace(WANTS, tolerations=(Toleration("k", "Exists"),))
    assert is_helped(reason, PodChanged(WANTS, tolerant))
    assert is_helped(reason, PodChanged(WANTS, replace(WANTS, claim_statuses={"dev": "mine"})))
    assert not is_helped(reason, PodChanged(WANTS, replace(WANTS, resource_version="9", nominated_node="n", phase="x")))


MINE = a_claim(name="mine")
HELD = an_allocated_claim("gpu-0")


@pytest.mark.parametrize(
    ("reason", "event", "expected"),
    [
        (Reason.CLAIMS, ClaimChanged(None, MINE), True),
        (Reason.CLAIMS, ClaimChanged(MINE, MINE), True),
        (Reason.CLAIMS, ClaimChanged(MINE, None), True),
        (Reason.CLAIMS, ClaimChanged(None, replace(MINE, namespace="other")), False),
        (Reason.CLAIMS, ClaimChanged(HELD, None), False),
        (Reason.DEVICES, ClaimChanged(MINE, an_allocated_claim("gpu-0", name="mine")), True),
        (Reason.DEVICES, ClaimChanged(HELD, None), True),
        (Reason.DEVICES, ClaimChanged(HELD, replace(HELD, allocation=None)), True),
        (Reason.DEVICES, ClaimChanged(HELD, replace(HELD, allocation=Allocation((a_result("gpu-1"),)))), True),
        (Reason.DEVICES, ClaimChanged(HELD, replace(HELD, uid="again")), False),
        (Reason.DEVICES, ClaimChanged(None, HELD), False),
        (Reason.DEVICES, ClaimChanged(replace(HELD, allocation=None), HELD), False),
        (Reason.NODE_RESOURCES_FIT, ClaimChanged(HELD, None), False),
        (Reason.NODE_RESOURCES_FIT, ClaimChanged(None, MINE), False),
    ],
)
def test_a_claim_helps_its_own_pods_and_by_what_it_gives_back(
    reason: Reason, event: ClaimChanged, *, expected: bool
) -> None:
    assert is_helped(reason, event) is expected


def test_a_claim_made_of_a_template_is_the_pods_own_once_its_status_says_so() -> None:
    pod = a_pod(claims=(PodClaim("dev", template_name="t"),))
    assert list(claim_keys(pod)) == []
    assert list(claim_keys(replace(pod, claim_statuses={"dev": None}))) == []
    assert list(claim_keys(replace(pod, claim_statuses={"dev": "pod-dev-x"}))) == [("default", "pod-dev-x")]


@pytest.mark.parametrize(
    ("reason", "event", "expected"),
    [
        (Reason.DEVICES, SliceChanged(None, a_slice("gpu-0")), True),
        (Reason.DEVICES, SliceChanged(a_slice("gpu-0"), None), True),
        (Reason.CLAIMS, SliceChanged(None, a_slice("gpu-0")), False),
        (Reason.DEVICES, TaintRulesChanged(), True),
        (Reason.CLASSES, TaintRulesChanged(), False),
        (Reason.CLASSES, ClassChanged(None, a_class("gpu")), True),
        (Reason.CLASSES, ClassChanged(None, a_class("nic")), False),
        (Reason.DEVICES, ClassChanged(a_class("gpu"), a_class("gpu", "true")), True),
        (Reason.DEVICES, ClassChanged(None, a_class("nic")), False),
        (Reason.UNSUPPORTED, ClassChanged(a_class("x"), None), False),
        (Reason.ADMIN_ACCESS, NamespaceChanged(Namespace("default"), Namespace("default", {"a": "b"})), True),
        (Reason.ADMIN_ACCESS, NamespaceChanged(None, Namespace("other")), False),
        (Reason.DEVICES, NamespaceChanged(None, Namespace("default")), False),
    ],
)
def test_slices_rules_classes_and_namespaces_help_those_that_wait_for_them(
    reason: Reason, event: Event, *, expected: bool
) -> None:
    assert is_helped(reason, event) is expected


@pytest.mark.parametrize(
    ("reason", "event", "expected"),
    [
        (Reason.NODE_RESOURCES_FIT, GivenBack(BOUND), True),
        (Reason.NODE_PORTS, GivenBack(BOUND), True),
        (Reason.NODE_PORTS, GivenBack(replace(BOUND, host_ports=())), False),
        (Reason.DEVICES, GivenBack(BOUND, (a_claim(),)), True),
        (Reason.DEVICES, GivenBack(BOUND), False),
        (Reason.CLAIMS, GivenBack(BOUND, (MINE,)), True),
        (Reason.CLAIMS, GivenBack(BOUND, (a_claim(),)), False),
        (Reason.TAINT_TOLERATION, GivenBack(BOUND, (MINE,)), False),
    ],
)
def test_an_attempt_that_comes_to_nothing_helps_by_what_it_had_taken(
    reason: Reason, event: GivenBack, *, expected: bool
) -> None:
    assert is_helped(reason, event) is expected


@pytest.mark.parametrize("reason", list(Reason))
def test_a_pod_is_not_helped_by_its_own_failed_attempt_or_end(reason: Reason) -> None:
    assert not is_helped(reason, GivenBack(WANTS, (MINE,)))
    assert not is_helped(reason, PodChanged(replace(WANTS, node_name="n"), None))


def test_a_reason_tells_the_plugin_of_kube_scheduler_that_refuses_for_it() -> None:
    assert Reason.NODE_PORTS.plugin == "NodePorts"
    assert {one.plugin for one in (Reason.CLAIMS, Reason.CLASSES, Reason.DEVICES)} == {"DynamicResources"}


def test_pod_that_keeps_nobody_away_helps_nobody_who_was_kept_away() -> None:
    keeper = replace(BOUND, anti_affinity=(AffinityTerm("zone", frozenset({"default"}), None),))
    assert is_helped(Reason.INTER_POD_AFFINITY, PodChanged(keeper, None))
    assert is_helped(Reason.INTER_POD_AFFINITY, GivenBack(keeper))
    assert not is_helped(Reason.INTER_POD_AFFINITY, PodChanged(BOUND, None))
    assert not is_helped(Reason.INTER_POD_AFFINITY, GivenBack(BOUND))

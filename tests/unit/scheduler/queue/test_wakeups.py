from dataclasses import replace
from typing import Any

import pytest

from allocator.model import Allocation, Node, Taint, Toleration
from scheduler.core_v1.label_selectors import AffinityTerm, PodAffinity
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod, PodClaim, claim_keys
from scheduler.core_v1.resources import HostPort
from scheduler.plugins.dynamic_resources import ADMIN_ACCESS, CLAIMS, CLASSES, DEVICES
from scheduler.plugins.inter_pod_affinity import INTER_POD_AFFINITY
from scheduler.plugins.node_affinity import NODE_AFFINITY
from scheduler.plugins.node_name import NODE_NAME
from scheduler.plugins.node_ports import NODE_PORTS
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.plugins.node_unschedulable import NODE_UNSCHEDULABLE
from scheduler.plugins.plugin import NAMESPACE, NO_NODES, UNSUPPORTED, Reason, Refusal
from scheduler.plugins.profile import REASONS
from scheduler.plugins.taint_toleration import TAINT_TOLERATION
from scheduler.queue import concerned, helps
from scheduler.state.cluster_changes import (
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
from scheduler.state.pods import pod_requests
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
    is_found = reason in concerned(event, REASONS) or own(pod, event)
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
        NO_NODES,
        NODE_UNSCHEDULABLE.reason,
        NODE_NAME.reason,
        TAINT_TOLERATION.reason,
        NODE_AFFINITY.reason,
        NODE_PORTS.reason,
        NODE_RESOURCES_FIT.reason,
        DEVICES,
    ],
)
def test_a_node_that_fits_helps_whatever_was_wrong_with_the_others(reason: Reason) -> None:
    assert is_helped(reason, NodeChanged(None, FITTING))


def test_a_node_that_takes_no_pod_at_all_helps_nobody() -> None:
    allocatable = {name: amount for name, amount in FITTING.allocatable.items() if name != "pods"}
    assert not is_helped(NODE_RESOURCES_FIT.reason, NodeChanged(None, replace(FITTING, allocatable=allocatable)))


@pytest.mark.parametrize(
    ("nominated", "before", "after", "helps"),
    [
        pytest.param("n", {"cpu": "2"}, {"cpu": "500m"}, True, id="its own shrinks"),
        pytest.param("m", {"cpu": "2"}, {"cpu": "500m"}, False, id="another one shrinks"),
        pytest.param("n", {"cpu": "500m"}, {"cpu": "100m"}, False, id="its own was too small before"),
        pytest.param("n", {"cpu": "4"}, {"cpu": "2"}, False, id="its own still takes it"),
    ],
)
def test_a_pod_looks_for_another_node_once_the_one_it_is_promised_can_never_take_it(
    nominated: str, before: dict[str, str], after: dict[str, str], *, helps: bool
) -> None:
    old = replace(FITTING, allocatable=amounts(pods="10", **before))
    event = changed(old, allocatable=amounts(pods="10", **after))
    assert is_helped(NODE_RESOURCES_FIT.reason, event, replace(WANTS, nominated_node=nominated)) is helps


@pytest.mark.parametrize("reason", [CLAIMS, CLASSES, ADMIN_ACCESS, NAMESPACE, UNSUPPORTED])
def test_a_node_helps_no_pod_that_no_node_could_take(reason: Reason) -> None:
    assert not is_helped(reason, NodeChanged(None, FITTING))


@pytest.mark.parametrize(
    ("reason", "event", "expected"),
    [
        (TAINT_TOLERATION.reason, NodeChanged(replace(FITTING, taints=(TAINT,)), FITTING), True),
        (TAINT_TOLERATION.reason, NodeChanged(None, replace(FITTING, taints=(TAINT,))), False),
        (TAINT_TOLERATION.reason, changed(FITTING, labels={}), False),
        (NODE_UNSCHEDULABLE.reason, NodeChanged(replace(FITTING, unschedulable=True), FITTING), True),
        (NODE_UNSCHEDULABLE.reason, changed(FITTING, unschedulable=True), False),
        (NODE_AFFINITY.reason, NodeChanged(replace(FITTING, labels={"zone": "b"}), FITTING), True),
        (NODE_AFFINITY.reason, NodeChanged(None, replace(FITTING, labels={"zone": "b"})), False),
        (NODE_AFFINITY.reason, changed(FITTING, labels={"zone": "a", "more": "x"}), False),
        (NODE_RESOURCES_FIT.reason, changed(FITTING, allocatable=amounts(cpu="3", pods="10")), True),
        (NODE_RESOURCES_FIT.reason, changed(FITTING, allocatable=amounts(cpu="2", pods="11")), True),
        (NODE_RESOURCES_FIT.reason, changed(FITTING, allocatable=amounts(cpu="1500m", pods="10")), False),
        (NODE_RESOURCES_FIT.reason, changed(FITTING, allocatable=amounts(cpu="2", pods="10", memory="1")), False),
        (NODE_RESOURCES_FIT.reason, NodeChanged(None, a_node(allocatable=amounts(cpu="500m", pods="9"))), False),
        (NODE_PORTS.reason, changed(FITTING, labels={}), False),
        (DEVICES, changed(FITTING, labels={"rack": "1"}), True),
        (DEVICES, changed(FITTING, declared_features=frozenset({"X"})), True),
        (DEVICES, changed(FITTING, allocatable={}, taints=(TAINT,)), False),
        (DEVICES, NodeChanged(FITTING, None), True),
        (NODE_RESOURCES_FIT.reason, NodeChanged(FITTING, None), False),
        (TAINT_TOLERATION.reason, NodeChanged(FITTING, None), False),
    ],
)
def test_a_node_that_changes_helps_where_the_filter_that_refused_would_let_it_pass_now(
    reason: Reason, event: NodeChanged, *, expected: bool
) -> None:
    assert is_helped(reason, event) is expected


@pytest.mark.parametrize("reason", [DEVICES, NODE_RESOURCES_FIT.reason])
def test_a_node_that_comes_to_offer_an_extended_resource_itself_helps_pods_that_no_class_could(reason: Reason) -> None:
    """And one that offers it no more, where a class then stands for it."""
    offering = replace(FITTING, allocatable={**FITTING.allocatable, **amounts(**{"example.com/gpu": "1"})})
    refusal = Refusal(frozenset({reason}), pod_requests(WANTS), resources=frozenset({"example.com/gpu"}))
    for event in (NodeChanged(FITTING, offering), NodeChanged(offering, FITTING)):
        assert reason in concerned(event, REASONS)
        assert helps(WANTS, refusal, event)


@pytest.mark.parametrize(
    ("reason", "old", "new", "expected"),
    [
        (NODE_RESOURCES_FIT.reason, BOUND, None, True),
        (NODE_RESOURCES_FIT.reason, BOUND, replace(BOUND, phase="Succeeded"), True),
        (NODE_RESOURCES_FIT.reason, BOUND, replace(BOUND, containers=(a_container(cpu="1"),)), True),
        (NODE_RESOURCES_FIT.reason, BOUND, replace(BOUND, containers=(a_container(cpu="3"),)), False),
        (NODE_RESOURCES_FIT.reason, BOUND, replace(BOUND, phase="Running"), False),
        (NODE_RESOURCES_FIT.reason, replace(BOUND, node_name=""), None, False),
        (NODE_RESOURCES_FIT.reason, replace(BOUND, node_name=""), BOUND, False),
        (NODE_RESOURCES_FIT.reason, None, BOUND, False),
        (NODE_PORTS.reason, BOUND, None, True),
        (NODE_PORTS.reason, replace(BOUND, host_ports=(HostPort(81),)), None, False),
        (NODE_PORTS.reason, BOUND, replace(BOUND, phase="Failed"), True),
        (NODE_PORTS.reason, BOUND, replace(BOUND, containers=()), False),
        (DEVICES, BOUND, None, False),
        (TAINT_TOLERATION.reason, BOUND, None, False),
    ],
)
def test_a_pod_helps_by_what_it_gives_back(reason: Reason, old: Pod | None, new: Pod | None, *, expected: bool) -> None:
    assert is_helped(reason, PodChanged(old, new)) is expected


@pytest.mark.parametrize("reason", list(REASONS))
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
        (CLAIMS, ClaimChanged(None, MINE), True),
        (CLAIMS, ClaimChanged(MINE, MINE), True),
        (CLAIMS, ClaimChanged(MINE, None), True),
        (CLAIMS, ClaimChanged(None, replace(MINE, namespace="other")), False),
        (CLAIMS, ClaimChanged(HELD, None), False),
        (DEVICES, ClaimChanged(MINE, an_allocated_claim("gpu-0", name="mine")), True),
        (DEVICES, ClaimChanged(HELD, None), True),
        (DEVICES, ClaimChanged(HELD, replace(HELD, allocation=None)), True),
        (DEVICES, ClaimChanged(HELD, replace(HELD, allocation=Allocation((a_result("gpu-1"),)))), True),
        (DEVICES, ClaimChanged(HELD, replace(HELD, uid="again")), False),
        (DEVICES, ClaimChanged(None, HELD), False),
        (DEVICES, ClaimChanged(replace(HELD, allocation=None), HELD), False),
        (NODE_RESOURCES_FIT.reason, ClaimChanged(HELD, None), False),
        (NODE_RESOURCES_FIT.reason, ClaimChanged(None, MINE), False),
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
        (DEVICES, SliceChanged(None, a_slice("gpu-0")), True),
        (DEVICES, SliceChanged(a_slice("gpu-0"), None), True),
        (CLAIMS, SliceChanged(None, a_slice("gpu-0")), False),
        (DEVICES, TaintRulesChanged(), True),
        (CLASSES, TaintRulesChanged(), False),
        (CLASSES, ClassChanged(None, a_class("gpu")), True),
        (CLASSES, ClassChanged(None, a_class("nic")), False),
        (DEVICES, ClassChanged(a_class("gpu"), a_class("gpu", "true")), True),
        (DEVICES, ClassChanged(None, a_class("nic")), False),
        (UNSUPPORTED, ClassChanged(a_class("x"), None), False),
        (ADMIN_ACCESS, NamespaceChanged(Namespace("default"), Namespace("default", {"a": "b"})), True),
        (ADMIN_ACCESS, NamespaceChanged(None, Namespace("other")), False),
        (NAMESPACE, NamespaceChanged(None, Namespace("default")), True),
        (NAMESPACE, NamespaceChanged(Namespace("other", is_deleted=True), None), False),
        (DEVICES, NamespaceChanged(None, Namespace("default")), False),
    ],
)
def test_slices_rules_classes_and_namespaces_help_those_that_wait_for_them(
    reason: Reason, event: Event, *, expected: bool
) -> None:
    assert is_helped(reason, event) is expected


@pytest.mark.parametrize(
    ("reason", "event", "expected"),
    [
        (NODE_RESOURCES_FIT.reason, GivenBack(BOUND), True),
        (NODE_PORTS.reason, GivenBack(BOUND), True),
        (NODE_PORTS.reason, GivenBack(replace(BOUND, host_ports=())), False),
        (DEVICES, GivenBack(BOUND, (a_claim(),)), True),
        (DEVICES, GivenBack(BOUND), False),
        (CLAIMS, GivenBack(BOUND, (MINE,)), True),
        (CLAIMS, GivenBack(BOUND, (a_claim(),)), False),
        (TAINT_TOLERATION.reason, GivenBack(BOUND, (MINE,)), False),
    ],
)
def test_an_attempt_that_comes_to_nothing_helps_by_what_it_had_taken(
    reason: Reason, event: GivenBack, *, expected: bool
) -> None:
    assert is_helped(reason, event) is expected


@pytest.mark.parametrize("reason", list(REASONS))
def test_a_pod_is_not_helped_by_its_own_failed_attempt_or_end(reason: Reason) -> None:
    assert not is_helped(reason, GivenBack(WANTS, (MINE,)))
    assert not is_helped(reason, PodChanged(replace(WANTS, node_name="n"), None))


def test_a_reason_reports_the_plugin_of_kube_scheduler_that_refuses_for_it() -> None:
    assert NODE_PORTS.reason.plugin == "NodePorts"
    assert {one.plugin for one in (CLAIMS, CLASSES, DEVICES)} == {"DynamicResources"}


def test_pod_that_keeps_nobody_away_helps_nobody_who_was_kept_away() -> None:
    keeper = replace(BOUND, pod_affinity=PodAffinity(required_anti=(AffinityTerm("zone", frozenset({"default"}), ()),)))
    assert is_helped(INTER_POD_AFFINITY.reason, PodChanged(keeper, None))
    assert is_helped(INTER_POD_AFFINITY.reason, GivenBack(keeper))
    assert not is_helped(INTER_POD_AFFINITY.reason, PodChanged(BOUND, None))
    assert not is_helped(INTER_POD_AFFINITY.reason, GivenBack(BOUND))

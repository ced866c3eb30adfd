"""Pods whose extended resources some nodes give by claim, and others by their device plugin."""

from dataclasses import replace
from typing import Any

import pytest

from allocator.explain.text import OPERATOR, node_text
from allocator.model import Claim, Container
from allocator.outcome import Refused
from allocator.policies import policy_of
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.decision.why_not import answers_of, unfit
from scheduler.plugins.dynamic_resources import DEVICES
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.plugins.profile import Profile
from scheduler.state.claims import Waiting
from scheduler.state.pod_resources import claim_name
from tests.builders import (
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_slice,
    amounts,
    kubernetes,
    on_node,
    watched,
)

GPU, FPGA = "example.com/gpu", "example.com/fpga"
GPUS = ("gpu-0", "gpu-1")


def a_cluster(*, policy: str = "first-fit", has_gate: bool = True) -> Cluster:
    cluster = Cluster(
        kubernetes(DRAExtendedResource=has_gate),
        is_ours=bool,
        profiles=(Profile(policy=policy_of(policy)),),
        makes_claims=True,
    )
    cluster.set_class(a_class("gpu", extended_resource_name=GPU))
    return cluster


def add_node(cluster: Cluster, number: int, *devices: str, **offered: str) -> None:
    name = f"node-{number}"
    room = {**amounts(cpu="8", memory="8Gi", pods="9"), **{key: Quantity.parse(n) for key, n in offered.items()}}
    cluster.set_node(a_node(name, allocatable=room))
    cluster.set_slice(a_slice(*devices, name=name, pool=name, reach=on_node(name)))


def asking(gpus: int = 1, fpgas: int = 0, **more: Any) -> Pod:
    asked = {**amounts(cpu="1"), GPU: Quantity.of(gpus), FPGA: Quantity.of(fpgas)}
    requests = {name: amount for name, amount in asked.items() if amount.sign > 0}
    return a_pod(Container("main", requests), **more)


def placed(cluster: Cluster, pod: Pod, *claims: Claim) -> Placed:
    found = decide(cluster, pod, claims)
    assert isinstance(found, Placed), found
    return found


def refused(cluster: Cluster, pod: Pod, *claims: Claim) -> NotPlaced:
    found = decide(cluster, pod, claims)
    assert isinstance(found, NotPlaced), found
    return found


def test_node_without_a_device_plugin_gives_the_resource_by_claim() -> None:
    cluster, pod = a_cluster(), asking(2)
    add_node(cluster, 0, *GPUS)
    found = placed(cluster, pod)
    assert found.extended is not None
    assert found.extended.claim.name == claim_name(pod)
    assert [result.device for result in found.allocations[-1].results] == list(GPUS)
    mappings = [{"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-1"}]
    assert found.extended.status == {"resourceClaimName": claim_name(pod), "requestMappings": mappings}


def test_node_with_a_device_plugin_needs_no_claim() -> None:
    cluster = a_cluster()
    add_node(cluster, 0, **{GPU: "1"})
    found = placed(cluster, asking(1))
    assert (found.node, found.extended, found.allocations) == ("node-0", None, ())


def test_plugin_that_has_too_few_left_is_not_helped_by_a_class() -> None:
    cluster = a_cluster()
    add_node(cluster, 0, *GPUS, **{GPU: "1"})
    found = refused(cluster, asking(2))
    assert found.refusal.message == f"0/1 nodes are available: 1 Insufficient {GPU}."


def test_each_node_is_asked_for_what_it_has_to_give() -> None:
    cluster = a_cluster()
    cluster.set_class(a_class("fpga", extended_resource_name=FPGA))
    add_node(cluster, 0, **{GPU: "4"})
    add_node(cluster, 1, "gpu-0", **{GPU: "4", FPGA: "0"})
    found = placed(cluster, asking(1, 1))
    assert found.node == "node-1"
    assert found.extended is not None
    (request,) = found.extended.requests
    assert (request.class_name, request.count) == ("fpga", 1)


def test_claim_of_the_pod_and_that_for_its_extended_resources_fit_together_or_not_at_all() -> None:
    cluster = a_cluster()
    add_node(cluster, 0, "gpu-0")
    assert refused(cluster, asking(1), a_claim()).refusal.reasons == {DEVICES}
    add_node(cluster, 1, *GPUS)
    found = placed(cluster, asking(1), a_claim())
    assert (found.node, len(found.claims), len(found.allocations)) == ("node-1", 1, 2)


def test_refusal_names_the_resource_in_place_of_the_generated_request_and_the_container_if_several_ask() -> None:
    cluster = a_cluster()
    add_node(cluster, 0, *GPUS)
    pod = asking(3)
    assert refused(cluster, pod).refusal.message == (
        "0/1 nodes are available: 1 cannot allocate all claims. no node has 3 devices for request example.com/gpu, "
        "the most is 2, on node-0 (of 2 devices)"
    )
    ((_, answer),) = answers_of(PodCycle(cluster, pod, ()))
    assert isinstance(answer, Refused)
    assert node_text(answer, reader=OPERATOR) == "request example.com/gpu needs 3 devices, 2 are left (2 devices)"
    both = a_pod(*(Container(name, {GPU: Quantity.of(3)}) for name in ("main", "side")))
    assert "for request example.com/gpu of container main" in refused(cluster, both).refusal.message


def test_resource_that_nobody_offers_is_insufficient() -> None:
    cluster = a_cluster()
    add_node(cluster, 0, *GPUS)
    found = refused(cluster, asking(1, 1))
    assert found.refusal.message == f"0/1 nodes are available: 1 Insufficient {FPGA}."
    assert NODE_RESOURCES_FIT.reason in found.refusal.reasons
    assert GPU in found.refusal.resources


def test_without_the_gate_no_class_stands_for_a_resource() -> None:
    cluster = a_cluster(has_gate=False)
    add_node(cluster, 0, *GPUS)
    assert refused(cluster, asking(1)).refusal.message == f"0/1 nodes are available: 1 Insufficient {GPU}."


def test_pod_that_has_its_node_already_gets_no_claim_made() -> None:
    cluster = a_cluster()
    add_node(cluster, 0, *GPUS)
    assert placed(cluster, asking(1, node_name="node-0")).extended is None


def test_what_was_taken_for_a_claim_to_be_is_in_use_and_goes_over_to_the_claim() -> None:
    cluster, pod = a_cluster(), asking(2)
    add_node(cluster, 0, *GPUS)
    found = placed(cluster, pod)
    cluster.reserve(pod, found)
    other = asking(1, name="other")
    assert refused(cluster, other).refusal.reasons == {DEVICES}
    assert found.extended is not None
    cluster.made(found.extended.claim.uid, "uid-of-the-server")
    assert refused(cluster, other).refusal.reasons == {DEVICES}
    assert cluster.claims.reservation("uid-of-the-server") is not None
    assert cluster.claims.holding(found.extended.claim.uid) is None
    cluster.unreserve(pod.uid)
    assert isinstance(decide(cluster, other, ()), Placed)


def test_refusals_are_reported_by_reason_with_the_first_node_of_each() -> None:
    cluster = a_cluster()
    add_node(cluster, 0, "gpu-0")
    add_node(cluster, 1, **{GPU: "1"})
    add_node(cluster, 2, "gpu-0")
    found = unfit(PodCycle(cluster, asking(2), ()), refused(cluster, asking(2)))
    reported = {(one.node, one.number): one.answer for one in found}
    assert reported["node-1", 1] == f"Insufficient {GPU}"
    assert reported.keys() == {("node-1", 1), ("node-0", 2)}
    assert [name for name, _ in answers_of(PodCycle(cluster, asking(2), ()))] == ["node-0", "node-1", "node-2"]


@pytest.mark.parametrize(("policy", "node"), [("first-fit", "node-1"), ("pack", "node-0")])
def test_named_policy_ranks_nodes_before_scores(policy: str, node: str) -> None:
    cluster = a_cluster(policy=policy)
    add_node(cluster, 0, *GPUS)
    add_node(cluster, 1, *GPUS)
    first = asking(1, name="first")
    cluster.reserve(first, placed(cluster, first))
    assert placed(cluster, asking(1, name="second")).node == node


def waits(cluster: Cluster, pod: Pod) -> tuple[str, str]:
    """Why the pod waits, and which claim is in its way that may be taken away; empty where it does not."""
    found = cluster.claims_of(pod)
    if not isinstance(found, Waiting):
        return "", ""
    return found.reason, found.kept.claim.name if found.kept else ""


def test_claim_that_an_earlier_attempt_left_is_to_go_first() -> None:
    cluster, pod = a_cluster(), asking(1)
    left = watched(a_claim(name="left"), owner=pod.uid, extended=True)
    cluster.set_claim(left, 1)
    reason = "ResourceClaim default/left of an earlier attempt must be deleted first"
    assert waits(cluster, pod) == (reason, "left")
    assert waits(cluster, asking(1, name="other")) == ("", "")
    assert waits(cluster, a_pod(uid=pod.uid)) == (reason, "left"), "also where no class stands for it any more"
    assert waits(cluster, replace(pod, node_name="node-0")) == ("", "")
    cluster.remove_claim(left.claim.uid)
    assert waits(cluster, pod) == ("", "")


def test_claim_is_no_pods_any_more_whose_owner_or_annotation_went() -> None:
    cluster, pod = a_cluster(), asking(1)
    others = [watched(a_claim(), owner="uid-other", extended=True), watched(a_claim(), owner=pod.uid)]
    for version, other in enumerate(others):
        cluster.set_claim(watched(a_claim(), owner=pod.uid, extended=True), 2 * version + 1)
        assert waits(cluster, pod)[1] == "claim"
        cluster.set_claim(other, 2 * version + 2)
        assert waits(cluster, pod) == ("", "")


def test_claim_of_somebody_else_that_has_the_name_is_waited_for() -> None:
    cluster, pod = a_cluster(), asking(1)
    name = claim_name(pod)
    cluster.set_claim(watched(a_claim(name=name)), 1)
    assert waits(cluster, pod) == (
        f"ResourceClaim default/{name} was not created for Pod default/pod (Pod is not owner)",
        "",
    )

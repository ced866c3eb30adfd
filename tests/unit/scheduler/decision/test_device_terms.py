"""Devices of several claims of a pod: what they have in common, and what not, in one search."""

from dataclasses import replace

import pytest

from allocator.model import Allocation
from scheduler.core_v1.group_terms import DISTINCT, MATCH
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from tests.builders import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_result,
    a_slice,
    amounts,
    kubernetes,
    on_node,
    watched,
)

RAIL = f"{DRIVER}/rail"


def a_cluster(*rails: int | None, strict: bool = False) -> Cluster:
    """A node with a device on each of the rails; None for one that does not say."""
    cluster = Cluster(kubernetes(is_strict=strict), is_ours=None)
    cluster.set_class(a_class())
    cluster.set_node(a_node("n0", allocatable=amounts(cpu="8", pods="9")))
    devices = [
        a_device(f"d{place}", {} if rail is None else {"rail": rail}, pool="n0") for place, rail in enumerate(rails)
    ]
    cluster.set_slice(a_slice(*devices, name="slice", pool="n0", reach=on_node("n0")))
    return cluster


def rails_of(cluster: Cluster, requests: dict[str, str], held: str = "", **grouping: str) -> list[str] | str:
    """The devices that a pod gets for claims with a request each, by name of the claim, or why none."""
    claims = []
    for name, request in requests.items():
        claim = a_claim(a_request(request, 1), name=name)
        if name == held:
            result = replace(a_result("d1", pool="n0"), request=request)
            claim = replace(claim, allocation=Allocation((result,)))
        claims.append(claim)
        cluster.set_claim(watched(claim), 1)
    pod = a_pod(claims=tuple(PodClaim(name, name) for name in requests), grouping=grouping)
    found = decide(cluster, pod, claims)
    if isinstance(found, Placed):
        return [result.device for one in found.allocations for result in one.results]
    assert isinstance(found, NotPlaced)
    return found.refusal.message


TWO = {"gpu": "gpu", "nic": "nic"}


def test_devices_of_all_claims_of_a_pod_match() -> None:
    assert rails_of(a_cluster(0, None, 1, 2, 1), TWO, **{MATCH: f"*={RAIL}"}) == ["d2", "d4"]
    assert rails_of(a_cluster(0, None, 1), {"gpu": "gpu"}, **{MATCH: f"*={RAIL}"}) == ["d0"]


def test_devices_of_all_claims_of_a_pod_are_distinct() -> None:
    assert rails_of(a_cluster(0, 0, None, 1), TWO, **{DISTINCT: f"*={RAIL}"}) == ["d0", "d3"]


def test_only_the_named_requests_are_compared() -> None:
    three = {**TWO, "disk": "disk"}
    terms = {DISTINCT: f"gpu={RAIL},nic={RAIL}"}
    assert rails_of(a_cluster(0, 0, 0), three, **terms) == ["d0", "d1", "d2"]
    assert rails_of(a_cluster(0, 0, 1), {"a": "nic", "b": "nic", "c": "disk"}, **terms) == ["d0", "d2", "d1"]


def test_what_a_claim_has_already_decides_for_the_others() -> None:
    assert rails_of(a_cluster(0, 1, 1), TWO, held="gpu", **{MATCH: f"*={RAIL}"}) == ["d2"]
    assert rails_of(a_cluster(1, 1, 0), TWO, held="gpu", **{DISTINCT: f"*={RAIL}"}) == ["d2"]


def test_refusal_names_the_claims() -> None:
    refused = rails_of(a_cluster(0, 1, 2), TWO, **{MATCH: f"*={RAIL}"})
    assert "no choice of devices satisfies everything together (claims default/gpu, default/nic)" in refused


@pytest.mark.parametrize("name", [MATCH, DISTINCT])
def test_a_term_that_cannot_be_read_refuses_the_pod_by_name(name: str) -> None:
    refused = rails_of(a_cluster(0, 0), TWO, **{name: "rail"})
    assert f"metadata.annotations[{name}]" in refused
    assert "must be REQUEST=DOMAIN/NAME" in refused


def test_kube_scheduler_knows_no_such_terms() -> None:
    assert rails_of(a_cluster(0, 1, strict=True), TWO, **{MATCH: f"*={RAIL}"}) == ["d0", "d1"]


def a_pod_with(**grouping: str) -> Pod:
    return a_pod(grouping=grouping)


def test_a_pod_without_claims_keeps_to_nothing() -> None:
    cluster = a_cluster(0)
    assert isinstance(decide(cluster, a_pod_with(**{MATCH: "rail"}), []), Placed)

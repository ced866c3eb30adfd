"""Devices that take something of their node beside the pod (KEP-5517), over a cluster."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from allocator.model import Claim, Container
from cel.values.quantity import Quantity
from scheduler.attempt.pod_calls import device_status
from scheduler.core_v1.pod import Pod, PodClaim, decode_pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import NO_ROOM_BESIDE, PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.decision.why_not import answers_of, unfit
from scheduler.plugins.dynamic_resources import DEVICES
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT
from scheduler.state.pods import pod_requests
from tests.builders import a_claim, a_class, a_device, a_node, a_pod, a_request, a_slice, amounts, kubernetes, on_node

CPUS = {"cpu": {"mapping": {"deviceMultiplier": Quantity.of(4)}}}


def a_cluster(*cpus: str, has_gate: bool = True, release: str = "1.37", taken: Mapping[str, Any] = CPUS) -> Cluster:
    """Nodes with so much cpu, and two devices each that stand for four."""
    cluster = Cluster(kubernetes(release, DRANodeAllocatableResources=has_gate), is_ours=bool, makes_claims=True)
    cluster.set_class(a_class())
    for number, cpu in enumerate(cpus):
        name = f"node-{number}"
        cluster.set_node(a_node(name, allocatable=amounts(cpu=cpu, memory="8Gi", pods="9")))
        devices = [a_device(f"gpu-{n}", node_allocatable=taken) for n in range(2)]
        cluster.set_slice(a_slice(*devices, name=name, pool=name, reach=on_node(name)))
    return cluster


def a_user(name: str = "pod", **more: Any) -> Pod:
    """A pod whose container requests one cpu and uses its claim."""
    container = Container("main", amounts(cpu="1"), claims=("dev",))
    return a_pod(container, name=name, claims=(PodClaim("dev", "claim"),), **more)


def decided(cluster: Cluster, pod: Pod, claim: Claim) -> Placed | NotPlaced:
    found = decide(cluster, pod, [claim])
    assert isinstance(found, Placed | NotPlaced), found
    return found


def test_pod_goes_where_it_has_room_with_its_devices() -> None:
    found = decided(a_cluster("4", "5"), a_user(), a_claim())
    assert isinstance(found, Placed)
    assert found.node == "node-1"
    (taken,) = found.by_claims
    assert (taken.claim, taken.containers) == ("claim", ("main",))
    assert {name: amount.nanos for name, amount in taken.resources.items()} == {"cpu": 4 * 10**9}


def test_without_the_gate_nothing_is_counted() -> None:
    found = decided(a_cluster("4", has_gate=False), a_user(), a_claim())
    assert isinstance(found, Placed)
    assert found.by_claims == ()


def test_pod_that_has_room_nowhere_waits_for_room_or_other_devices() -> None:
    cluster, claim = a_cluster("4", "8"), a_claim(a_request(count=2))
    found = decided(cluster, a_user(), claim)
    assert isinstance(found, NotPlaced)
    assert found.refusal.message == f"0/2 nodes are available: 2 {NO_ROOM_BESIDE}."
    assert found.refusal.reasons == {NODE_RESOURCES_FIT.reason, DEVICES}
    assert "memory" in found.refusal.resources
    reported = [(one.node, one.answer) for one in unfit(PodCycle(cluster, a_user(), [claim]), found)]
    assert reported == [
        ("node-0", "needs 9 of cpu with its devices, the node has 4"),
        ("node-1", "needs 9 of cpu with its devices, the node has 8"),
    ]
    assert [answer for _, answer in answers_of(PodCycle(cluster, a_user(), [claim]))] == [text for _, text in reported]


def test_what_devices_take_counts_for_the_next_pod_once_it_is_decided() -> None:
    cluster, pod = a_cluster("6"), a_user()
    found = decided(cluster, pod, a_claim())
    assert isinstance(found, Placed)
    cluster.reserve(pod, found)
    plain = a_pod(Container("main", amounts(cpu="2")), name="plain")
    assert isinstance(decide(cluster, plain, ()), NotPlaced)
    cluster.unreserve(pod.uid)
    assert isinstance(decide(cluster, plain, ()), Placed)


def test_what_devices_of_a_bound_pod_take_is_as_its_status_says() -> None:
    found = decided(a_cluster("6"), a_user(), a_claim())
    assert isinstance(found, Placed)
    assert pod_requests(replace(a_user(), by_claims=found.by_claims)).amounts["cpu"] == 5000


BOTH = {"cpu": {**CPUS["cpu"], "overhead": {"perPod": Quantity.of(1), "perContainer": Quantity.of(2)}}}


@pytest.mark.parametrize(
    ("release", "fields"),
    [
        ("1.36", {"resources": {"cpu": "7"}}),
        (
            "1.37",
            {
                "mapping": [{"name": "cpu", "quantity": "4"}],
                "overhead": [{"name": "cpu", "perPod": "1", "perContainer": "2"}],
            },
        ),
    ],
)
def test_what_devices_take_is_written_as_the_release_reads_it(release: str, fields: Mapping[str, object]) -> None:
    pod = a_user()
    found = decided(a_cluster("8", release=release, taken=BOTH), pod, a_claim())
    assert isinstance(found, Placed)
    status = device_status(pod, found)
    entry = {"resourceClaimName": "claim", "containers": ["main"], **fields}
    assert status == {"nodeAllocatableResourceClaimStatuses": [entry]}
    raw = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}, "status": status}
    read, _ = decode_pod(raw)
    assert read
    assert read.by_claims == found.by_claims
    assert pod_requests(read).amounts["cpu"] == 7000


def test_the_status_does_not_name_the_claim_for_extended_resources_which_the_api_server_would_refuse() -> None:
    cluster = a_cluster("8")
    cluster.set_class(a_class(extended_resource_name="example.com/gpu"))
    pod = a_pod(Container("main", amounts(cpu="1", **{"example.com/gpu": "1"})))
    found = decide(cluster, pod, [])
    assert isinstance(found, Placed)
    assert [one.resources["cpu"].nanos for one in found.by_claims] == [4 * 10**9]
    assert list(device_status(pod, found)) == ["extendedResourceClaimStatus"]

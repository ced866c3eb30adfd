"""Policies that look at whole nodes, in decisions: what is kept is what would be worked out anew."""

from dataclasses import replace
from random import Random

import pytest

from allocator.model import Claim, Device, RequestPolicy, ValidRange
from allocator.outcome import AllocationError
from allocator.policies import policy_of
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide, decide_claim
from scheduler.decision.schedule_result import Placed
from scheduler.node_policies.free_resources import FreeByNode
from scheduler.node_policies.scores import NodeScores
from scheduler.plugins.profile import Profile
from scheduler.state.pods import pod_requests
from tests.builders import (
    a_claim,
    a_class,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_slice,
    amounts,
    kubernetes,
    on_node,
    watched,
)

POLICIES = ("fgd", "best-fit", "dot-product", "gpu-packing", "gpu-clustering", "random")


def a_gpu(name: str, model: str = "A") -> Device:
    steps = ValidRange(Quantity.parse("1"), Quantity.parse("1000"), Quantity.parse("1"))
    return a_device(
        name,
        {"gpu.example/model": model},
        capacity={"milli": "1000"},
        policies={"milli": RequestPolicy(Quantity.parse("1000"), (), steps)},
        allow_multiple_allocations=True,
    )


def a_cluster(policy: str, *devices: int) -> Cluster:
    profiles = [Profile(policy=policy_of(policy))]
    cluster = Cluster(kubernetes(DRAConsumableCapacity=True), is_ours=lambda _: True, profiles=profiles)
    cluster.set_class(a_class())
    for number, count in enumerate(devices):
        add_node(cluster, f"node-{number}", count)
    return cluster


def add_node(cluster: Cluster, name: str, count: int, cpu: str = "32") -> None:
    cluster.set_node(a_node(name, allocatable=amounts(cpu=cpu, memory="64Gi", pods="110")))
    members = [a_gpu(f"gpu-{n}", "AB"[count % 2]) for n in range(count)]
    cluster.set_slice(a_slice(*members, name=name, pool=name, reach=on_node(name)))


def a_share(name: str, milli: int, count: int = 1, *selectors: str) -> Claim:
    request = a_request("gpus", count, *selectors, capacity={"milli": Quantity.parse(str(milli))})
    return a_claim(request, name=name)


def take(cluster: Cluster, pod: Pod, claim: Claim, found: Placed, version: int) -> None:
    given = replace(claim, allocation=found.allocations[0])
    cluster.set_claim(watched(given, users=[pod]), version)
    cluster.set_pod(replace(pod, node_name=found.node))


def test_best_fit_fills_the_node_with_the_least_left() -> None:
    cluster = a_cluster("best-fit", 8, 2, 4)
    found = decide(cluster, a_pod(), [a_share("claim", 500)])
    assert isinstance(found, Placed)
    assert found.node == "node-1"


def test_a_claim_without_a_pod_goes_where_the_policy_says() -> None:
    found = decide_claim(a_cluster("best-fit", 8, 2, 4), a_share("claim", 500))
    assert isinstance(found, Placed)
    assert found.node == "node-1"


def test_fgd_takes_the_device_that_the_workload_misses_least() -> None:
    cluster = a_cluster("fgd", 2)
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [a_share("w", 400)])])
    first = a_share("first", 700)
    pod = a_pod(uid="first")
    found = decide(cluster, pod, [first])
    assert isinstance(found, Placed)
    take(cluster, pod, first, found, 1)
    # 300 are left of gpu-0, of no use to the workload: 300 more of it break nothing.
    found = decide(cluster, a_pod(uid="second"), [a_share("second", 300)])
    assert isinstance(found, Placed)
    assert [result.device for result in found.allocations[0].results] == ["gpu-0"]


def test_the_workload_is_what_is_expected_each_pod_once() -> None:
    cluster = a_cluster("fgd", 2)
    for _ in range(3):
        cluster.expect(a_pod(uid="one"), [a_share("claim", 400)])
    cluster.expect(a_pod(uid="two"), [a_share("claim", 900)])
    cluster.expect(a_pod(uid="three"), [a_share("claim", 900)])
    assert [round(share, 3) for share, _ in cluster.free_resources.workload.typical()] == [0.667, 0.333]


def test_a_workload_that_is_reported_stays() -> None:
    cluster = a_cluster("fgd", 2)
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [a_share("w", 400)])])
    cluster.expect(a_pod(uid="one"), [a_share("claim", 900)])
    assert [share for share, _ in cluster.free_resources.workload.typical()] == [1.0]


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_kept_is_what_would_be_worked_out_anew(name: str) -> None:
    draw, cluster = Random(name), a_cluster(name, 1, 2, 3, 4)  # noqa: S311 - no secret
    if name == "fgd":
        shapes = [(pod_requests(a_pod()), [a_share("w", milli)]) for milli in (300, 300, 600, 1000)]
        cluster.free_resources.workload.set(shapes)
    on: dict[str, str] = {}
    for number in range(80):
        claim, pod = _drawn(draw, number)
        found = decide(cluster, pod, [claim])
        if isinstance(found, Placed):
            take(cluster, pod, claim, found, number + 1)
            on[pod.uid] = claim.uid
        _change(draw, cluster, on, number)
        _compare(cluster, claim, pod)


def _drawn(draw: Random, number: int) -> tuple[Claim, Pod]:
    milli = draw.choice([100, 300, 600, 1000])
    selectors = draw.choice([[], ['device.attributes["gpu.example"].model == "A"']])
    claim = a_share(f"claim-{number}", milli, draw.choice([1, 2]) if milli == 1000 else 1, *selectors)
    return claim, a_pod(a_container(cpu=draw.choice("124")), name=f"pod-{number}", uid=f"pod-{number}")


def _change(draw: Random, cluster: Cluster, on: dict[str, str], number: int) -> None:
    match draw.randrange(5):
        case 0 if on:
            uid = draw.choice(sorted(on))
            cluster.remove_pod(uid)
            cluster.remove_claim(on.pop(uid))
        case 1 if number % 7 == 0:
            add_node(cluster, f"node-{number}", draw.randrange(1, 5))
        case 2:
            add_node(cluster, "node-0", 1, cpu=draw.choice(["4", "8", "32"]))


def _compare(cluster: Cluster, claim: Claim, pod: Pod) -> None:
    scores, fresh = cluster.scorer_of(pod), FreeByNode(cluster.fleet, cluster.infos)
    assert isinstance(scores, NodeScores)
    fresh.workload, fresh.with_holds = cluster.free_resources.workload, cluster.free_resources.with_holds
    fresh.catch_up()
    cluster.free_resources.catch_up()
    for number in range(len(list(cluster.names()))):
        kept, anew = cluster.free_resources[number], fresh[number]
        assert replace(kept, shapes=anew.shapes) == anew
    able = cluster.fleet.able([claim])
    if able:
        again = NodeScores(scores.policy, fresh)
        requests = pod_requests(pod)
        assert scores.best(str(pod), requests, [claim], able) == again.best(str(pod), requests, [claim], able)


def test_a_claim_that_ends_every_attempt_is_a_shape_that_goes_nowhere() -> None:
    cluster = a_cluster("fgd", 2)
    broken = a_claim(a_request(class_name="missing"))
    with pytest.raises(AllocationError):
        cluster.free_resources.requests(0, [broken])
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [broken])])
    cluster.free_resources.catch_up()
    (shape,) = cluster.free_resources[0].shapes.typical
    assert not shape.requests[0].is_possible

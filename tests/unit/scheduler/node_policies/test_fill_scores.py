"""The policy fill-value in decisions: what is kept is what would be worked out anew, and what it prefers."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from allocator.model import Claim, CounterConsumption, CounterSet, Device, RequestPolicy
from allocator.policies import fill_values, policy_of
from allocator.policies.fill_value import FillValue
from cel import Cancelled
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide, decide_claim
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.node_policies.fill_scores import MOST_FILL_SHAPES, FillScores, FillWorkload, NodeCells
from scheduler.node_policies.free_resources import FreeByNode
from scheduler.state.pods import pod_requests
from tests.builders import (
    a_claim,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_slice,
    all_devices,
    amounts,
    an_alternative,
    first_available,
    on_node,
)
from tests.unit.scheduler.node_policies.test_whole_nodes import a_cluster, a_gpu, a_share, add_node, take

SHAPES = ((100, 1), (300, 1), (600, 1), (1000, 1), (1000, 2))


def a_workload(cluster: Cluster, *shares: tuple[int, int]) -> None:
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [a_share("w", *one)]) for one in shares])


def placed(cluster: Cluster, pod: Pod, claim: Claim) -> Placed:
    found = decide(cluster, pod, [claim])
    assert isinstance(found, Placed)
    return found


def test_a_gpu_is_not_broken_that_the_workload_needs_whole() -> None:
    cluster = a_cluster("fill-value", 2, 2)
    a_workload(cluster, (1000, 2), (1000, 2), (500, 1))
    first, pod = a_share("first", 500), a_pod(uid="first")
    take(cluster, pod, first, placed(cluster, pod, first), 1)
    second = placed(cluster, a_pod(uid="second"), a_share("second", 500))
    assert (second.node, [one.device for one in second.allocations[0].results]) == ("node-0", ["gpu-0"])


def test_a_model_that_others_need_is_spared() -> None:
    """A node has GPUs of model A if their number is even, else of model B; the workload insists on A."""
    cluster = a_cluster("fill-value", 2, 3)
    insisting = a_share("w", 1000, 1, 'device.attributes["gpu.example"].model == "A"')
    any_model = a_share("w", 1000)
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [one]) for one in (insisting, any_model)])
    assert placed(cluster, a_pod(), a_share("claim", 1000)).node == "node-1"


def test_a_pod_of_which_the_workload_knows_nothing_takes_what_is_of_no_use_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """500 are left of a device of node-1, where the workload wants whole devices; on node-0 it would use them."""
    monkeypatch.setattr(fill_values, "FIRST", 1)
    cluster = a_cluster("fill-value")
    for number, model in enumerate("AB"):
        name = f"node-{number}"
        cluster.set_node(a_node(name, allocatable=amounts(cpu="32", memory="64Gi", pods="110")))
        gpus = [a_gpu("gpu-0", model), a_gpu("gpu-1", model)]
        cluster.set_slice(a_slice(*gpus, name=name, pool=name, reach=on_node(name)))
    workload = [*[_insisting(300, "A")] * 6, _insisting(500, "A"), *[_insisting(1000, "B")] * 3]
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [one]) for one in workload])
    for number, (milli, model) in enumerate([(1000, "A"), (200, "A"), (500, "B")]):
        claim, pod = _insisting(milli, model, f"claim-{number}"), a_pod(name=f"pod-{number}", uid=f"pod-{number}")
        take(cluster, pod, claim, placed(cluster, pod, claim), number + 1)
    assert placed(cluster, a_pod(), a_share("unknown", 500)).node == "node-1"


def _insisting(milli: int, model: str, name: str = "w") -> Claim:
    return a_share(name, milli, 1, f'device.attributes["gpu.example"].model == "{model}"')


def test_pods_with_other_memory_are_asked_for_apart() -> None:
    """The larger one leaves no memory for the workload on the small node; the smaller one does."""
    cluster = a_cluster("fill-value", 1)
    scores = cluster.scorer_of(None)
    assert isinstance(scores, FillScores)
    asked = [a_share("claim", 500)]
    workload = pod_requests(a_pod(a_container(memory="16Gi")))
    cluster.free_resources.workload.set([(workload, asked)] * 4)
    costs = [
        scores.best("pod", pod_requests(a_pod(a_container(memory=memory))), asked, 1)[0] for memory in ("1Gi", "63Gi")
    ]
    assert costs[0] > costs[1]


def whole_gpus(count: int) -> Sequence[Device]:
    return [a_device(f"gpu-{number}") for number in range(count)]


def a_cluster_of_whole_gpus(*counts: int) -> Cluster:
    cluster = a_cluster("fill-value")
    for number, count in enumerate(counts):
        name = f"node-{number}"
        cluster.set_node(a_node(name, allocatable=amounts(cpu="32", memory="64Gi", pods="110")))
        cluster.set_slice(a_slice(*whole_gpus(count), name=name, pool=name, reach=on_node(name)))
    return cluster


@pytest.mark.parametrize("order", [(1, 4), (4, 1)])
def test_all_devices_of_a_node_count_as_many_as_they_are(order: tuple[int, int]) -> None:
    """The workload wants one GPU; all of four cost more than all of one."""
    cluster = a_cluster_of_whole_gpus(*order)
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [a_claim(a_request())])])
    assert placed(cluster, a_pod(), a_claim(all_devices())).node == f"node-{order.index(1)}"


@pytest.mark.parametrize("order", [(4, 4, 1, 4), (4, 1, 4, 4)])
def test_a_workload_that_wants_all_devices_needs_nodes_of_which_nothing_is_in_use(order: Sequence[int]) -> None:
    """Most nodes have four GPUs, so what the workload would lose is a whole node of them."""
    cluster = a_cluster_of_whole_gpus(*order)
    everything, one = a_claim(all_devices()), a_claim(a_request())
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [wanted]) for wanted in (everything, everything, one)])
    assert placed(cluster, a_pod(), a_claim(a_request())).node == f"node-{order.index(1)}"


@pytest.mark.parametrize("seed", range(2))
def test_what_is_kept_is_what_would_be_worked_out_anew(seed: int) -> None:
    draw, cluster = Random(seed), a_cluster("fill-value", 1, 2, 3, 4)  # noqa: S311 - no secret
    a_workload(cluster, *SHAPES)
    on: dict[str, str] = {}
    for number in range(12):
        milli, count = draw.choice(SHAPES)
        claim = a_share(f"claim-{number}", milli, count)
        pod = a_pod(a_container(cpu=draw.choice("124")), name=f"pod-{number}", uid=f"pod-{number}")
        found = decide(cluster, pod, [claim])
        if isinstance(found, Placed):
            take(cluster, pod, claim, found, number + 1)
            on[pod.uid] = claim.uid
        if on and draw.random() < 0.3:
            uid = draw.choice(sorted(on))
            cluster.remove_pod(uid)
            cluster.remove_claim(on.pop(uid))
        if draw.random() < 0.1:
            add_node(cluster, f"node-{number}", draw.randrange(1, 5))
        _compare(cluster, pod, claim)


@pytest.mark.parametrize("seed", range(6))
def test_work_that_is_cancelled_again_and_again_ends_with_the_same_values(seed: int) -> None:
    """At each look it may be: what has changed meanwhile is looked at, and what is known is not worked out again."""
    draw, cluster = Random(seed), a_cluster("fill-value", 1, 2, 3, 4)  # noqa: S311 - no secret
    a_workload(cluster, *SHAPES)
    free, cancelled = cluster.free_resources, 0
    for number in range(12):
        milli, count = draw.choice(SHAPES)
        claim, pod = a_share(f"claim-{number}", milli, count), a_pod(name=f"pod-{number}", uid=f"pod-{number}")
        if number % 4 == 3:
            a_workload(cluster, *draw.sample(SHAPES, 3))
        free._is_cancelled = lambda: draw.random() < 0.3
        for _ in range(1000):
            try:
                _best(cluster, pod, claim)
            except Cancelled:
                cancelled += 1
                change_a_node(draw, cluster)
            else:
                break
        free._is_cancelled = lambda: False
        for _ in range(100):  # until the values of the new workload are there
            _best(cluster, pod, claim)
        _compare(cluster, pod, claim)
    assert cancelled > 3


def _best(cluster: Cluster, pod: Pod, claim: Claim) -> None:
    scorer = cluster.scorer_of(pod)
    assert scorer is not None
    scorer.best(str(pod), pod_requests(pod), [claim], cluster.fleet.able([claim]))


def change_a_node(draw: Random, cluster: Cluster) -> None:
    name = f"node-{draw.randrange(5)}"
    match draw.randrange(10):
        case 0:
            add_node(cluster, name, draw.randrange(1, 5))
        case 1 if name in set(cluster.names()):
            cluster.remove_node(name)
            cluster.remove_slice(name)


@pytest.mark.parametrize("seed", range(6))
def test_nodes_change_while_the_values_of_another_workload_are_prepared(seed: int) -> None:
    """Eight steps come with each decision, so that devices change between two steps of one node."""
    draw, cluster = Random(seed), a_cluster("fill-value", 1, 2, 3, 4)  # noqa: S311 - no secret
    a_workload(cluster, *SHAPES)
    for number in range(40):
        milli, count = draw.choice(SHAPES)
        claim, pod = a_share(f"claim-{number}", milli, count), a_pod(name=f"pod-{number}", uid=f"pod-{number}")
        if number % 3 == 2:
            a_workload(cluster, *draw.sample(SHAPES, 3))
        if cluster.fleet.able([claim]):
            _best(cluster, pod, claim)
        change_a_node(draw, cluster)


def _compare(cluster: Cluster, pod: Pod, claim: Claim) -> None:
    scores, fresh = cluster.scorer_of(pod), FreeByNode(cluster.fleet, cluster.infos)
    policy = policy_of("fill-value")
    assert isinstance(scores, FillScores)
    assert isinstance(policy, FillValue)
    fresh.workload = cluster.free_resources.workload
    able = cluster.fleet.able([claim])
    if able:
        of_all = (str(pod), pod_requests(pod), [claim], able)
        score, nodes = scores.best(*of_all)
        anew, same = FillScores(policy, fresh).best(*of_all)
        assert score == pytest.approx(anew, rel=1e-4, abs=1e-3)
        assert nodes & same


ODD_CLAIMS = (
    a_claim(all_devices()),
    a_claim(a_request(count=3)),
    a_claim(a_request("gpus", 1, "device.attributes")),
    a_claim(a_request("gpus", 1, None)),
    a_claim(a_request("gpus", 1, "device.driver == 1")),
    a_claim(a_request(class_name="unknown")),
    a_claim(a_request("monitor", admin_access=True)),
    a_claim(first_available("gpus", an_alternative("gpus/a", count=9), an_alternative("gpus/b"))),
    a_claim(first_available("gpus")),
    a_claim(a_request("one"), a_request("two", 2, capacity={"milli": Quantity.parse("1")})),
    a_claim(a_request(capacity={"unknown": Quantity.parse("1")})),
    a_claim(a_request(count=0)),
)


def an_odd_cluster(policy: str) -> Cluster:
    """Nodes without allocatable, without devices, with contradicting slices, and with devices of all sorts."""
    cluster = a_cluster(policy, 0, 2)
    cluster.set_node(a_node("bare"))
    cluster.set_node(a_node("empty", allocatable=amounts(cpu="0", memory="0")))
    for name, devices in (("bare", [a_device("gpu-0")]), ("node-0", [a_device("gpu-0"), a_device("gpu-1")])):
        cluster.set_slice(a_slice(*devices, name=f"whole-{name}", pool=f"whole-{name}", reach=on_node(name)))
    for name in ("twice", "again"):
        cluster.set_slice(a_slice(a_device("same"), name=name, pool="twice", reach=on_node("node-1"), slice_count=2))
    return cluster


@pytest.mark.parametrize("claim", ODD_CLAIMS)
@pytest.mark.parametrize("is_known", [True, False])
def test_what_first_fit_places_is_placed_whatever_is_requested(claim: Claim, *, is_known: bool) -> None:
    found: dict[str, list[type]] = {}
    for policy in ("first-fit", "fill-value"):
        cluster = an_odd_cluster(policy)
        if is_known:
            cluster.free_resources.workload.set([(pod_requests(a_pod()), [one]) for one in (*ODD_CLAIMS, a_claim())])
        for one in (decide(cluster, a_pod(), [claim]), decide_claim(cluster, claim)):
            found.setdefault(policy, []).append(type(one))
    assert found["fill-value"] == found["first-fit"]


def test_a_cluster_of_nothing_has_no_node() -> None:
    assert isinstance(decide(a_cluster("fill-value"), a_pod(), [a_claim()]), NotPlaced)


def test_pods_without_claims_are_placed() -> None:
    assert placed(an_odd_cluster("fill-value"), a_pod(a_container(cpu="2")), a_claim()).node
    assert isinstance(decide(an_odd_cluster("fill-value"), a_pod(a_container(cpu="2")), []), Placed)


def of_many_shapes(shapes: int) -> FillWorkload:
    """The values for so many shapes that come once, and the most frequent ones."""
    cluster = a_cluster("fill-value", 1, 2, 3, 4)
    claims = [a_share("w", milli) for milli in range(1, 1001)]
    pods = [pod_requests(a_pod(a_container(cpu=f"{cpu}m"))) for cpu in range(1, 11)]
    often = [(pods[0], [claim]) for claim in claims[:MOST_FILL_SHAPES]]
    rare = [(pods[number // 1000], [claims[number % 1000]]) for number in range(shapes)]
    free = cluster.free_resources
    free.workload.set([*often, *often, *rare])
    free.catch_up_amounts()
    nodes = {
        number: NodeCells(free.unit_cells(number), tuple(free.cells(number)), own.cpu, own.memory)
        for number in free.numbers
        if (own := free.get(number))
    }
    workload = FillWorkload(free, nodes)
    workload.prepare()
    return workload


def test_ten_thousand_shapes_cost_no_more_than_the_most_frequent_ones() -> None:
    few, many = of_many_shapes(0), of_many_shapes(10_000)
    assert len(many.units) <= len(few.units)
    assert many.values.rolled_out <= few.values.rolled_out


def test_nothing_is_bounded_by_what_is_known_of_some_nodes_alone() -> None:
    """After a change of classes, nodes that do not change keep their values until there are others."""
    workload = of_many_shapes(0)
    half = workload.units.takes(((500 * 10**9,),))
    requests = [([half] * len(workload.values.units_of(0)), 1)]
    assert workload.least_taken(0, requests) > 0
    workload.renew()
    workload.look_at(0)
    assert workload.least_taken(0, requests) == 0


def test_shares_of_which_there_is_room_for_any_number_are_counted_up_to_a_bound() -> None:
    """Of 80Gi, shares take 1 each, from either of two partitions of one GPU."""
    cluster = a_cluster("fill-value", 0)
    one = {"memory": RequestPolicy(Quantity.parse("1"))}
    cut = [
        a_device(
            f"gpu-{taken}",
            capacity={"memory": "80Gi"},
            policies=one,
            allow_multiple_allocations=True,
            consumes_counters=(CounterConsumption("gpu", amounts(memory=taken)),),
        )
        for taken in ("1n", "2n")
    ]
    sets = (CounterSet("gpu", amounts(memory="80Gi")),)
    devices = a_slice(*cut, name="cut-devices", pool="cut", slice_count=2, reach=on_node("node-0"))
    cluster.set_slice(devices)
    cluster.set_slice(replace(devices, name="cut-counters", devices=(), counter_sets=sets))
    cluster.free_resources.workload.set([(pod_requests(a_pod()), [a_claim(a_request("gpus", 10**18))])])
    assert placed(cluster, a_pod(), a_claim()).node == "node-0"

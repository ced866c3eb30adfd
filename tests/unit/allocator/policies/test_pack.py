"""Pack, and spread as its opposite: the same hardware, the other end first."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from allocator.model import Claim, CounterConsumption, CounterSet, Slice
from tests.builders import a_claim, a_device, a_request, a_result, a_slice, an_allocated_claim, everywhere, kubernetes
from tests.unit.allocator.policies.hardware import (
    a_partition,
    a_share,
    a_shared_device,
    amounts,
    gpu_slice,
    holding,
    homed,
    mig_slices,
    sharing,
)
from tests.unit.allocator.policies.simulation import Simulation, answer, chosen

Case = tuple[Sequence[Slice], Claim, Sequence[Claim], str, str]

THREE_SHARED = (homed(a_slice(*(a_shared_device(f"gpu-{n}") for n in range(3))), "n"),)
FOUR_ROOTS = (gpu_slice("n", [[2, 2], [2, 2]]),)
"""GPUs 0 to 3 on NUMA node 0, 4 to 7 on NUMA node 1, two on each PCIe root."""


@pytest.mark.parametrize(
    ("slices", "claim", "held", "packed", "spread"),
    [
        pytest.param(
            mig_slices("n", 3),
            a_partition("c", "1g"),
            [holding("gpu-1-2g-0")],
            "gpu-1-1g-2",
            "gpu-0-1g-0",
            id="a GPU that is cut, one that is not",
        ),
        pytest.param(
            mig_slices("n", 3),
            a_partition("c", "1g"),
            [holding("gpu-0-1g-0", "gpu-1-3g-0", "gpu-2-2g-0")],
            "gpu-1-1g-4",
            "gpu-0-1g-1",
            id="the GPU that is cut most, least",
        ),
        pytest.param(
            THREE_SHARED,
            a_share("10Gi"),
            [sharing("gpu-0", "20Gi"), sharing("gpu-1", "40Gi", name="other")],
            "gpu-1",
            "gpu-2",
            id="the device of which most is shared, nothing",
        ),
        pytest.param(
            THREE_SHARED,
            a_share("10Gi"),
            [sharing("gpu-0", "20Gi"), sharing("gpu-1", "75Gi", name="other")],
            "gpu-0",
            "gpu-2",
            id="the device with room",
        ),
        pytest.param(
            FOUR_ROOTS, a_claim(), [holding("gpu-05")], "gpu-04", "gpu-00", id="the PCIe root in use, another NUMA node"
        ),
        pytest.param(
            FOUR_ROOTS,
            a_claim(),
            [holding("gpu-00", "gpu-01", "gpu-04", "gpu-05", "gpu-06", "gpu-07")],
            "gpu-02",
            "gpu-02",
            id="what is left",
        ),
        pytest.param(
            FOUR_ROOTS,
            a_claim(),
            [holding("gpu-04", "gpu-05")],
            "gpu-06",
            "gpu-00",
            id="the NUMA node in use where the PCIe roots are as full",
        ),
        pytest.param(
            FOUR_ROOTS, a_claim(), [holding("gpu-00")], "gpu-01", "gpu-04", id="the NUMA node that is emptier"
        ),
    ],
)
def test_the_fullest_is_packed_and_the_emptiest_spread_over(
    slices: Sequence[Slice], claim: Claim, held: Sequence[Claim], packed: str, spread: str
) -> None:
    assert chosen("pack", slices, claim, held=held) == [packed]
    assert chosen("spread", slices, claim, held=held) == [spread]


def test_what_is_picked_for_a_claim_counts_for_its_next_device() -> None:
    two = a_partition("c", "2g").requests[0].alternatives[0]
    claim = a_claim(replace(a_request("partition"), alternatives=(replace(two, count=2),)))
    assert chosen("pack", mig_slices("n", 2), claim) == ["gpu-0-2g-0", "gpu-0-2g-2"]
    assert chosen("spread", mig_slices("n", 2), claim) == ["gpu-0-2g-0", "gpu-1-2g-0"]


def test_what_is_picked_for_one_claim_counts_for_the_next_claim() -> None:
    claims = [a_share("30Gi", name=name) for name in ("a", "b", "c")]
    assert chosen("pack", THREE_SHARED, *claims) == ["gpu-0", "gpu-0", "gpu-1"]
    assert chosen("spread", THREE_SHARED, *claims) == ["gpu-0", "gpu-1", "gpu-2"]


def test_a_share_that_takes_nothing_makes_a_device_used() -> None:
    slices = (homed(a_slice(*(a_device(f"gpu-{n}", allow_multiple_allocations=True) for n in range(2))), "n"),)
    sharer = an_allocated_claim(a_result("gpu-1", pool="n", share_id="s"))
    assert chosen("pack", slices, a_claim(), held=[sharer]) == ["gpu-1"]
    assert chosen("spread", slices, a_claim(), held=[sharer]) == ["gpu-0"]


def test_a_shared_partition_is_cut_once_however_many_share_it() -> None:
    counters = CounterSet("hardware", amounts(compute=4))
    cut = [
        a_device(
            f"part-{n}",
            capacity={"memory": "10Gi"},
            allow_multiple_allocations=True,
            consumes_counters=(CounterConsumption("hardware", amounts(compute=1)),),
        )
        for n in range(2)
    ]
    both = (a_slice(name="counters", counter_sets=(counters,)), a_slice(*cut, name="devices"))
    slices = [homed(slice_, "n", slice_count=2) for slice_ in both]
    claims = [a_share("1Gi", name=name) for name in ("a", "b")]
    shared = [sharing("part-1", "1Gi", name=name) for name in ("x", "y")]
    assert chosen("pack", slices, claims[0], held=shared) == ["part-1"]
    # A quarter is cut, a tenth of the device is shared: together (0.25 + 0.1) / 3 for two devices and the counter set.
    assert answer("pack", slices, claims[0]).score[2] == pytest.approx((0.25 + 0.1) / 3, abs=1e-6)
    assert answer("pack", slices, *claims).score[2] == pytest.approx((0.25 + 0.2) / 3, abs=1e-6)


def test_admin_access_fills_nothing() -> None:
    admin = a_claim(a_request("admin", 1, admin_access=True), name="admin")
    free = [gpu_slice("n", [[1], [2]])]
    assert chosen("pack", free, admin, a_claim()) == ["gpu-00", "gpu-00"]
    assert answer("pack", free, admin).score == (0, 0.0, 0.0)


def test_counters_count_where_their_devices_are_on_another_node() -> None:
    counters = CounterSet("hardware", amounts(compute=4)), CounterSet("spare", amounts(compute=4))

    def cut(name: str, counter_set: str) -> Slice:
        taken = CounterConsumption(counter_set, amounts(compute=1))
        return a_slice(a_device(f"{name}-{counter_set}", consumes_counters=(taken,)), name=f"{name}-{counter_set}")

    here = [homed(cut("here", one), "n", slice_count=4) for one in ("spare", "hardware")]
    away = replace(homed(cut("away", "hardware"), "n", slice_count=4), reach=replace(here[0].reach, node_name="other"))
    slices = [*here, away, homed(a_slice(name="counters", counter_sets=counters), "n", slice_count=4)]
    held = [holding("away-hardware")]
    assert chosen("pack", slices, a_claim(), held=held) == ["here-hardware"]
    assert chosen("spread", slices, a_claim(), held=held) == ["here-spare"]


@pytest.mark.parametrize("policy", ["pack", "spread"])
def test_devices_with_counters_are_no_puzzle_where_partitions_are_off(policy: str) -> None:
    features = kubernetes(DRAPartitionableDevices=False)
    taken = CounterConsumption("hardware", amounts(compute=1))
    slices = [homed(a_slice(a_device("cut", consumes_counters=(taken,)), "whole"), "n")]
    (allocation,) = answer(policy, slices, a_claim(), held=[holding("cut")], features=features).allocations
    assert [result.device for result in allocation.results] == ["whole"]


# -- nodes


def test_nodes_score_by_use_before_and_fullness_after() -> None:
    slices = [gpu_slice(node, [[4]]) for node in ("n", "m")]
    held = [holding("gpu-00", pool="m")]
    assert answer("pack", slices, a_claim(), held=held).score == (0, 0.0, 0.25)
    assert answer("pack", slices, a_claim(), held=held, node="m").score == (0, 1.0, 0.5)
    assert answer("spread", slices, a_claim(), held=held).score == (0, 0.0, -0.25)
    assert answer("spread", slices, a_claim(), held=held, node="m").score == (0, -1.0, -0.5)


def test_a_small_use_of_a_large_node_goes_before_filling_an_empty_one() -> None:
    slices = [gpu_slice("large", [[16]]), gpu_slice("small", [[1]])]
    packed = Simulation("pack", slices)
    packed.hold(holding("gpu-00", pool="large"))
    assert packed.place(a_claim())
    assert packed.placed_on["claim"] == "large"


def test_devices_that_every_node_reaches_say_nothing_about_a_node() -> None:
    network = a_slice(a_device("nic-0"), a_device("nic-1"), pool="network", reach=everywhere())
    held = [holding("nic-0", pool="network")]
    local = a_claim(a_request("gpus", 1, '"numaNode" in device.attributes["resource.kubernetes.io"]'))
    assert answer("pack", [gpu_slice("n", [[2]]), network], local, held=held).score == (0, 0.0, 0.5)


def arrivals(seed: int, number: int) -> list[Claim]:
    random = Random(seed)  # noqa: S311
    return [a_claim(a_request("gpus", random.choice((1, 1, 2, 4))), name=f"claim-{n:02}") for n in range(number)]


@pytest.mark.parametrize("seed", range(5))
def test_pack_leaves_nodes_empty_that_spread_uses(seed: int) -> None:
    simulations = {}
    for policy in ("pack", "spread"):
        simulation = simulations[policy] = Simulation(policy, [gpu_slice(f"node-{n}", [[4], [4]]) for n in range(6)])
        assert all(simulation.place(claim) for claim in arrivals(seed, 8))
    used = sum(len(simulations["pack"].devices_of(name)) for name in simulations["pack"].held)
    assert len(simulations["pack"].empty_nodes) == 6 - -(-used // 8)
    assert simulations["spread"].empty_nodes == []


@pytest.mark.parametrize("seed", range(5))
def test_pack_leaves_gpus_whole_that_spread_cuts(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    profiles = [random.choice(("1g", "1g", "2g")) for _ in range(6)]
    cut = {}
    for policy in ("pack", "spread"):
        simulation = Simulation(policy, mig_slices("n", 6))
        assert all(simulation.place(a_partition(f"claim-{n}", profile)) for n, profile in enumerate(profiles))
        cut[policy] = len({device[:5] for name in simulation.held for device in simulation.devices_of(name)})
    assert cut["spread"] == 6
    assert cut["pack"] <= 2

from collections.abc import Sequence
from random import Random

import pytest

from allocator.model import Claim, Constraint, CounterConsumption, CounterSet
from allocator.policies.hardware import NUMA_NODE, PCIE_ROOT
from tests.builders import DRIVER, a_claim, a_device, a_request, a_slice, kubernetes, match, strings
from tests.unit.allocator.policies.hardware import (
    a_partition,
    a_share,
    a_shared_device,
    amounts,
    gpu_slice,
    holding,
    homed,
    mig_slices,
    placed,
    sharing,
)
from tests.unit.allocator.policies.simulation import Simulation, answer, chosen

POLICY = "least-fragmentation"


def aligned(count: int, attribute: str = NUMA_NODE, name: str = "claim") -> Claim:
    return a_claim(a_request("gpus", count), constraints=[match(attribute)], name=name)


# -- partitions


@pytest.mark.parametrize(
    ("profile", "held", "expected"),
    [
        pytest.param("1g", [], "gpu-0-1g-6", id="out of the way of the larger ones"),
        pytest.param("2g", [], "gpu-0-2g-4", id="beside what is left of a half"),
        pytest.param("3g", [], "gpu-0-3g-4", id="where no 4g can be"),
        pytest.param("1g", ["gpu-1-4g-0"], "gpu-1-1g-6", id="a GPU that is cut before a whole one"),
        pytest.param("1g", ["gpu-0-3g-4", "gpu-1-4g-0"], "gpu-1-1g-6", id="where a 3g is lost, not a 4g"),
        pytest.param("3g", ["gpu-0-3g-4", "gpu-1-4g-0"], "gpu-1-3g-4", id="what is lost anyway"),
        pytest.param("7g", ["gpu-0-1g-0"], "gpu-1-7g-0", id="a whole one"),
    ],
)
def test_a_partition_breaks_the_smallest_that_is_possible(profile: str, held: Sequence[str], expected: str) -> None:
    assert chosen(POLICY, mig_slices("n", 2), a_partition("c", profile), held=[holding(*held)]) == [expected]


def test_partitions_of_one_claim_count_one_after_the_other() -> None:
    claims = [a_partition(name, "1g") for name in "abc"]
    assert chosen(POLICY, mig_slices("n", 2), *claims) == ["gpu-0-1g-6", "gpu-0-1g-4", "gpu-0-1g-5"]


def test_of_plain_counters_it_counts_how_many_of_the_larger_ones_are_left() -> None:
    sets = [CounterSet(f"gpu-{n}", amounts(memory=80)) for n in range(3)]
    cut = [
        a_device(f"{one.name}-{gib}g-{copy}", {"gib": gib}, consumes_counters=(taken(one.name, gib),))
        for one in sets
        for gib in (10, 30)
        for copy in range(3)
    ]
    both = (a_slice(name="counters", counter_sets=tuple(sets)), a_slice(*cut, name="devices"))
    slices = [homed(slice_, "n", slice_count=2) for slice_ in both]
    small = a_claim(a_request("part", 1, 'device.attributes["gpu.example"].gib == 10'))
    with_room_for_two, for_one_and_more, for_one = (
        ("gpu-0-10g-0", "gpu-0-10g-1"),
        ("gpu-1-30g-0",),
        ("gpu-1-10g-0", "gpu-1-10g-1", "gpu-1-30g-0"),
    )
    assert chosen(POLICY, slices, small, held=[holding(*with_room_for_two, *for_one_and_more)]) == ["gpu-1-10g-0"]
    assert chosen(POLICY, slices, small, held=[holding(*with_room_for_two, *for_one)]) == ["gpu-2-10g-0"]


@pytest.mark.parametrize("absurd", ["80Gi", "1e18", "1e9000"])
def test_a_partition_that_its_counter_set_cannot_hold_costs_no_other_its_device(absurd: str) -> None:
    """A slip of the driver: `80` in the set, and `80Gi` in the partition that is the whole of it."""
    counters = CounterSet("gpu-0", amounts(memory=80))
    cut = [
        a_device(name, consumes_counters=(CounterConsumption("gpu-0", amounts(memory=amount)),))
        for name, amount in (("half", 40), ("small", 10), ("whole", absurd))
    ]
    both = (a_slice(name="counters", counter_sets=(counters,)), a_slice(*cut, name="devices"))
    slices = [homed(slice_, "n", slice_count=2) for slice_ in both]
    assert chosen(POLICY, slices, a_claim()) == ["small"]
    assert answer(POLICY, slices, a_claim()).score[1] == -(2**64), "of 32 sizes, an eighth of the set is the fourth"
    assert chosen(POLICY, slices, a_claim(a_request("two", 2))) == ["half", "small"]


def taken(counter_set: str, memory: int) -> CounterConsumption:
    return CounterConsumption(counter_set, amounts(memory=memory))


def sequence(seed: int) -> list[str]:
    random = Random(seed)  # noqa: S311
    return [random.choice(("1g", "1g", "2g", "3g", "4g")) for _ in range(8)]


def wholes(policy: str, profiles: Sequence[str]) -> int:
    """How many whole GPUs of six are still placed after these partitions."""
    simulation = Simulation(policy, mig_slices("n", 6))
    assert all(simulation.place(a_partition(f"claim-{n}", profile)) for n, profile in enumerate(profiles))
    return sum(simulation.place(a_partition(f"whole-{n}", "7g")) for n in range(6))


def test_a_whole_gpu_is_still_placed_where_first_fit_has_none_left() -> None:
    profiles = ["1g", "4g", "1g", "4g"]
    fitting = {}
    for policy in ("first-fit", POLICY):
        simulation = Simulation(policy, mig_slices("n", 3))
        assert all(simulation.place(a_partition(f"claim-{n}", profile)) for n, profile in enumerate(profiles))
        fitting[policy] = simulation.place(a_partition("whole", "7g"))
    assert fitting == {"first-fit": False, POLICY: True}


def test_over_seeded_sequences_more_whole_gpus_are_left_than_by_first_fit() -> None:
    left = {policy: [wholes(policy, sequence(seed)) for seed in range(12)] for policy in ("first-fit", POLICY)}
    assert all(ours >= others for ours, others in zip(left[POLICY], left["first-fit"], strict=True))
    assert sum(left[POLICY]) > sum(left["first-fit"])


# -- groups


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(1, ["gpu-06"], id="one of the smallest"),
        pytest.param(2, ["gpu-04", "gpu-05"], id="two fit into the second"),
        pytest.param(3, ["gpu-00", "gpu-01", "gpu-02"], id="three fit into the largest only"),
    ],
)
def test_an_aligned_claim_gets_the_smallest_group_in_which_it_fits(count: int, expected: list[str]) -> None:
    assert chosen(POLICY, [gpu_slice("n", [[4], [2], [1]])], aligned(count)) == expected


def test_a_group_is_as_large_as_what_is_free_of_it() -> None:
    slices = [gpu_slice("n", [[2], [4]])]
    assert chosen(POLICY, slices, aligned(1), held=[holding("gpu-02", "gpu-03", "gpu-04")]) == ["gpu-05"]


def test_a_claim_that_matches_nothing_takes_from_the_smallest_numa_node_then_pcie_root() -> None:
    slices = [gpu_slice("n", [[2, 2], [2, 1]])]
    assert chosen(POLICY, slices, a_claim()) == ["gpu-06"]
    assert chosen(POLICY, slices, a_claim(a_request(count=4))) == ["gpu-00", "gpu-04", "gpu-05", "gpu-06"]


def test_groups_that_a_claim_has_to_match_go_before_numa_nodes() -> None:
    # The smallest PCIe root with two free devices is on the larger NUMA node.
    slices = [gpu_slice("n", [[3], [2, 2, 2]])]
    assert chosen(POLICY, slices, aligned(2, PCIE_ROOT)) == ["gpu-03", "gpu-04"]
    assert chosen(POLICY, slices, aligned(2)) == ["gpu-00", "gpu-01"]


def test_groups_that_the_user_names_take_the_place_of_numa_nodes() -> None:
    boards = [*(("big", 0),) * 3, *(("small", 1),) * 2, *(("small", 2),) * 0]
    devices = [a_device(f"gpu-{n}", {"board": board, NUMA_NODE: 1 - numa}) for n, (board, numa) in enumerate(boards)]
    more = [a_device(f"gpu-{n}", {"board": "big", NUMA_NODE: 7}) for n in (8, 9)]
    slices = [homed(a_slice(*devices, *more), "n")]
    assert chosen(f"{POLICY}:{DRIVER}/board", slices, a_claim()) == ["gpu-3"]
    assert chosen(POLICY, slices, a_claim()) == ["gpu-3"]
    held = [holding("gpu-0", "gpu-1")]
    assert chosen(POLICY, slices, a_claim(), held=held) == ["gpu-2"]
    assert chosen(f"{POLICY}:{DRIVER}/board", slices, a_claim(), held=held) == ["gpu-3"]


def test_a_derived_attribute_makes_groups_as_the_constraint_sees_them() -> None:
    derived = (("x.example/half", 'device.attributes["gpu.example"].index < 3'),)
    devices = [a_device(f"gpu-{n}", {"index": n}) for n in range(5)]
    claim = a_claim(
        a_request("gpus", 1, derived_attributes=derived), constraints=[Constraint((), match_attribute="x.example/half")]
    )
    features = kubernetes(DRADerivedAttributes=True)
    (allocation,) = answer(POLICY, [homed(a_slice(*devices), "n")], claim, features=features).allocations
    assert [result.device for result in allocation.results] == ["gpu-3"]


def test_a_device_in_several_groups_breaks_the_largest_of_them() -> None:
    roots = {"a": ("r0",), "b": ("r0", "r1"), "c": ("r1",), "d": ("r1",), "e": ("r2",)}
    devices = [a_device(name, {"roots": strings(*values)}) for name, values in roots.items()]
    policy, slices = f"{POLICY}:{DRIVER}/roots", [homed(a_slice(*devices), "n")]
    features = kubernetes(DRAListTypeAttributes=True)
    order: list[str] = []
    for number in range(1, 6):
        (allocation,) = answer(policy, slices, a_claim(a_request(count=number)), features=features).allocations
        (new,) = {result.device for result in allocation.results} - set(order)
        order.append(new)
    assert order == ["e", "a", "b", "c", "d"]


def aligned_after(policy: str, seed: int) -> int:
    """How many claims for four devices of one NUMA node are placed after some for one or two anywhere."""
    random = Random(seed)  # noqa: S311
    devices = [placed(f"gpu-{n}", n % 2, n // 4) for n in range(8)]
    simulation = Simulation(policy, [homed(a_slice(*devices, name=f"node-{n}"), f"node-{n}") for n in range(3)])
    for number in range(12):
        simulation.place(a_claim(a_request("gpus", random.choice((1, 1, 2))), name=f"small-{number:02}"))
        if number % 3 == 2:
            simulation.release(random.choice(sorted(simulation.held)))
    return sum(simulation.place(aligned(4, name=f"large-{n}")) for n in range(6))


def test_over_seeded_sequences_more_aligned_claims_are_placed_than_by_first_fit() -> None:
    found = {policy: [aligned_after(policy, seed) for seed in range(8)] for policy in ("first-fit", POLICY)}
    assert all(ours >= others for ours, others in zip(found[POLICY], found["first-fit"], strict=True))
    assert sum(found[POLICY]) > sum(found["first-fit"])


# -- shares


@pytest.mark.parametrize(
    ("memory", "expected"),
    [("5Gi", "gpu-2"), ("10Gi", "gpu-2"), ("11Gi", "gpu-1"), ("30Gi", "gpu-0"), ("70Gi", "gpu-3")],
)
def test_a_share_is_cut_from_the_smallest_rest_that_has_room(memory: str, expected: str) -> None:
    slices = [homed(a_slice(*(a_shared_device(f"gpu-{n}") for n in range(4))), "n")]
    rests = {"gpu-0": "50Gi", "gpu-1": "60Gi", "gpu-2": "70Gi"}
    held = [sharing(device, used, name=device) for device, used in rests.items()]
    assert chosen(POLICY, slices, a_share(memory), held=held) == [expected]


def test_rests_compare_by_what_they_hold_not_by_how_much_of_the_device_they_are() -> None:
    slices = [homed(a_slice(a_shared_device("large", "80Gi"), a_shared_device("small", "24Gi")), "n")]
    assert chosen(POLICY, slices, a_share("8Gi"), held=[sharing("large", "50Gi")]) == ["small"]
    assert chosen(POLICY, slices, a_share("8Gi"), held=[sharing("large", "60Gi")]) == ["large"]


def test_a_rest_too_large_for_a_float_is_the_largest() -> None:
    slices = [homed(a_slice(a_shared_device("vast", "1e400"), a_shared_device("large", "80Gi")), "n")]
    assert chosen(POLICY, slices, a_share("1")) == ["large"]


def test_shares_of_one_pod_count_one_after_the_other() -> None:
    slices = [homed(a_slice(*(a_shared_device(f"gpu-{n}") for n in range(2))), "n")]
    claims = [a_share(memory, name=memory) for memory in ("50Gi", "60Gi", "20Gi", "30Gi")]
    assert chosen(POLICY, slices, *claims) == ["gpu-0", "gpu-1", "gpu-1", "gpu-0"]


# -- nodes


def test_the_node_with_the_smallest_block_is_taken() -> None:
    simulation = Simulation(POLICY, [gpu_slice(f"node-{gpus}", [[gpus]]) for gpus in (8, 2, 4)])
    for number, (count, node) in enumerate([(1, "node-2"), (2, "node-4"), (2, "node-4"), (1, "node-2"), (6, "node-8")]):
        assert simulation.place(a_claim(a_request("gpus", count), name=f"claim-{number}"))
        assert simulation.placed_on[f"claim-{number}"] == node


def test_a_node_with_a_cut_gpu_is_taken_before_one_with_whole_ones() -> None:
    simulation = Simulation(POLICY, [*mig_slices("a", 1), *mig_slices("b", 2)])
    simulation.hold(holding("gpu-0-4g-0", pool="b"))
    assert simulation.place(a_partition("c", "3g"))
    assert (simulation.placed_on["c"], simulation.devices_of("c")) == ("b", ["gpu-0-3g-4"])


def test_a_share_is_cut_on_the_node_with_the_smallest_rest() -> None:
    slices = [
        homed(a_slice(a_shared_device("gpu-0", memory), name=node), node)
        for node, memory in (("a", "80Gi"), ("b", "24Gi"))
    ]
    simulation = Simulation(POLICY, slices)
    assert simulation.place(a_share("10Gi", name="x"))
    assert simulation.place(a_share("20Gi", name="y"))
    assert simulation.placed_on == {"x": "b", "y": "a"}


def test_a_claim_that_needs_no_device_breaks_nothing() -> None:
    assert answer(POLICY, [gpu_slice("n", [[1]])]).score == (0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_devices_that_the_claim_has_picked_already_are_not_free_any_more() -> None:
    devices = [a_device(f"gpu-{n}", {NUMA_NODE: numa}) for n, numa in enumerate((1, 1, 1, 0, 0))]
    first = a_request("first", 1, f'device.attributes["{NUMA_NODE.partition("/")[0]}"].numaNode == 1')
    claim = a_claim(first, a_request("second"))
    assert chosen(POLICY, [homed(a_slice(*devices), "n")], claim) == ["gpu-0", "gpu-1"]


def test_each_attribute_that_has_to_match_makes_groups_of_its_own() -> None:
    cards = ("x", "x", "x", "y", "z", "z", "w", "w")
    devices = [a_device(f"gpu-{n}", {"card": card, NUMA_NODE: n // 4}) for n, card in enumerate(cards)]
    claim = a_claim(a_request("gpus"), constraints=[match(NUMA_NODE), match(f"{DRIVER}/card")])
    assert chosen(POLICY, [homed(a_slice(*devices), "n")], claim) == ["gpu-3"]

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from allocator.model import Claim, Device
from allocator.policies.hardware import NUMA_NODE, PCIE_ROOT
from allocator.policies.topology import MOST_LINKS, MOST_PLACES, Values, _distances
from tests.builders import DRIVER, a_claim, a_device, a_request, a_slice, kubernetes, match, strings
from tests.unit.allocator.policies.hardware import a_share, a_shared_device, gpu_slice, holding, homed, placed
from tests.unit.allocator.policies.simulation import Simulation, answer, chosen

GPU, NIC = (f'device.attributes["gpu.example"].kind == "{kind}"' for kind in ("gpu", "nic"))


def of_kind(kind: str, number: int, numa: int, root: int | None = None) -> Device:
    """A device of that kind; without a root it is known to be on the NUMA node only."""
    where: Mapping[str, int | str] = (
        {NUMA_NODE: numa} if root is None else {NUMA_NODE: numa, PCIE_ROOT: f"pci{numa}:{root}"}
    )
    return a_device(f"{kind}-{number}", {"kind": kind, **where})


def gpu_and_nic(gpus: int = 1, nics: int = 1) -> Claim:
    return a_claim(a_request("gpu", gpus, GPU), a_request("nic", nics, NIC))


# -- distances


def step_between(one: Values, other: Values) -> int:
    """Twice the number of the first attribute of which both have a value in common; the node comes after the last."""
    common = [set(own) & set(others) for own, others in zip(one, other, strict=True)]
    return 2 * next((level for level, values in enumerate(common, 1) if values), len(one) + 1)


def shortest(places: Sequence[Values]) -> Sequence[Sequence[int]]:
    """The distances by way of one place after the other."""
    found = [[step_between(one, other) for other in places] for one in places]
    for way in range(len(places)):
        found = [[min(old, row[way] + more) for old, more in zip(row, found[way], strict=True)] for row in found]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_distances_are_the_shortest_paths_through_values_in_common(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    levels = random.choice((1, 2, 3, 5))
    drawn = [
        tuple(tuple(sorted(random.sample(range(8), random.choice((0, 1, 1, 1, 2))))) for _ in range(levels))
        for _ in range(24)
    ]
    places = tuple(dict.fromkeys(drawn))
    rows, nearby = _distances(places)
    expected = shortest(places)
    for one, row in enumerate(rows):
        assert [cell for other, cell in enumerate(row) if other != one] == [
            cell for other, cell in enumerate(expected[one]) if other != one
        ]
        assert [row[other] for other in nearby[one]] == sorted(row)


def test_where_there_are_too_many_places_the_attributes_that_count_least_are_left_out() -> None:
    """Each device has a NUMA node of its own; the PCIe roots are few."""
    devices = [a_device(f"gpu-{n:04}", {PCIE_ROOT: f"pci{n % 4}", NUMA_NODE: n}) for n in range(MOST_PLACES + 4)]
    slices = [homed(a_slice(*devices), "n")]
    assert chosen("topology", slices, a_claim(a_request(count=2))) == ["gpu-0000", "gpu-0004"]
    assert chosen("topology:gpu.example/serial", slices, a_claim(a_request(count=2))) == ["gpu-0000", "gpu-0004"]


def test_where_places_have_too_many_values_the_attributes_that_count_least_are_left_out() -> None:
    """Each device has a list of NUMA nodes, most of them in common with the next one; the PCIe roots are few."""
    devices = [
        a_device(f"gpu-{n:04}", {PCIE_ROOT: f"pci{n % 4}", NUMA_NODE: strings(*(f"{n + k:04}" for k in range(64)))})
        for n in range(MOST_LINKS // 64)
    ]
    slices = [homed(a_slice(*devices), "n")]
    (allocation,) = answer(
        "topology", slices, a_claim(a_request(count=5)), features=kubernetes(DRAListTypeAttributes=True)
    ).allocations
    assert [result.device for result in allocation.results] == [f"gpu-{n:04}" for n in range(0, 20, 4)]


def test_score_is_the_mean_distance_of_each_two_devices() -> None:
    """Within a claim, then across claims; a device that is shared is at no distance from itself."""
    slices = [gpu_slice("n", [[2, 2], [2, 2]])]
    claims = [a_claim(a_request(count=count), name=f"claim-{count}") for count in (3, 2)]
    picked = [
        [int(result.device.removeprefix("gpu-")) for result in allocation.results]
        for allocation in answer("topology", slices, *claims).allocations
    ]
    within = [distance(*two) for own in picked for two in combinations(own, 2)]
    across = [distance(one, other) for one in picked[0] for other in picked[1]]
    assert answer("topology", slices, *claims).score[1:] == (-sum(within) / len(within), -sum(across) / len(across))


def distance(one: int, other: int) -> int:
    """Of two devices of different numbers, where each two are on one root, and each four on one NUMA node."""
    return 2 if one // 2 == other // 2 else 4 if one // 4 == other // 4 else 6


# -- devices


def test_the_nic_of_a_claim_is_on_the_pcie_root_of_its_gpu() -> None:
    devices = [of_kind("gpu", 0, 0, 1), *(of_kind("nic", n, 0, n) for n in range(3))]
    assert chosen("topology", [homed(a_slice(*devices), "n")], gpu_and_nic()) == ["gpu-0", "nic-1"]


def test_the_first_device_is_chosen_for_what_the_claim_still_needs() -> None:
    devices = [*(of_kind("gpu", n, n // 2, n) for n in range(4)), of_kind("nic", 0, 1, 3)]
    assert chosen("topology", [homed(a_slice(*devices), "n")], gpu_and_nic()) == ["gpu-3", "nic-0"]


def test_without_a_common_root_the_numa_node_counts() -> None:
    devices = [*(of_kind("gpu", n, n, n) for n in range(3)), of_kind("nic", 0, 2)]
    assert chosen("topology", [homed(a_slice(*devices), "n")], gpu_and_nic()) == ["gpu-2", "nic-0"]


def test_devices_that_say_nothing_of_their_place_are_the_farthest() -> None:
    devices = [a_device("nic-0", {"kind": "nic"}), of_kind("gpu", 0, 1, 1), of_kind("nic", 1, 1, 2)]
    assert chosen("topology", [homed(a_slice(*devices), "n")], gpu_and_nic()) == ["gpu-0", "nic-1"]


def test_devices_of_one_request_are_on_one_numa_node_where_it_has_enough() -> None:
    slices = [gpu_slice("n", [[1, 2], [2, 2]])]
    assert chosen("topology", slices, a_claim(a_request(count=4))) == ["gpu-03", "gpu-04", "gpu-05", "gpu-06"]
    assert chosen("topology", slices, a_claim(a_request(count=2))) == ["gpu-01", "gpu-02"]


def test_devices_in_use_are_no_help() -> None:
    slices = [gpu_slice("n", [[2, 2], [2, 2]])]
    held = [holding("gpu-01", "gpu-02", "gpu-05")]
    assert chosen("topology", slices, a_claim(a_request(count=2)), held=held) == ["gpu-06", "gpu-07"]


def test_devices_that_a_pick_took_are_no_help() -> None:
    slices = [gpu_slice("n", [[1], [2]])]
    claims = [a_claim(a_request(count=1), name="first"), a_claim(a_request(count=2), name="second")]
    assert chosen("topology", slices, *claims) == ["gpu-00", "gpu-01", "gpu-02"]


def test_a_shared_device_is_nearest_to_itself() -> None:
    slices = [homed(a_slice(a_shared_device("gpu-0"), a_shared_device("gpu-1")), "n")]
    claim = a_claim(*(replace(a_share("10Gi").requests[0], name=name) for name in "ab"))
    assert chosen("topology", slices, claim) == ["gpu-0", "gpu-0"]


def test_an_attribute_that_the_user_names_is_closer_than_a_pcie_root() -> None:
    linked = [a_device(f"gpu-{n}", {"bridge": n % 2, NUMA_NODE: 0, PCIE_ROOT: f"pci{n // 2}"}) for n in range(4)]
    slices, claim = [homed(a_slice(*linked), "n")], a_claim(a_request(count=2))
    assert chosen("topology", slices, claim) == ["gpu-0", "gpu-1"]
    assert chosen(f"topology:{DRIVER}/bridge", slices, claim) == ["gpu-0", "gpu-2"]


def test_of_two_attributes_the_one_named_first_is_closer() -> None:
    linked = [a_device(f"gpu-{n}", {"x": n // 2, "y": n % 2}) for n in range(4)]
    slices, claim = [homed(a_slice(*linked), "n")], a_claim(a_request(count=2))
    assert chosen(f"topology:{DRIVER}/x,{DRIVER}/y", slices, claim) == ["gpu-0", "gpu-1"]
    assert chosen(f"topology:{DRIVER}/y,{DRIVER}/x", slices, claim) == ["gpu-0", "gpu-2"]


def test_devices_with_others_between_them_are_closer_than_those_with_nothing() -> None:
    links = {"gpu-0": ("a",), "gpu-1": ("z",), "gpu-2": ("a", "b"), "gpu-3": ("b",)}
    slices = [homed(a_slice(*(a_device(name, {"links": strings(*own)}) for name, own in links.items())), "n")]
    features = kubernetes(DRAListTypeAttributes=True)
    policy = f"topology:{DRIVER}/links"
    outcome = answer(policy, slices, a_claim(a_request(count=2)), held=[holding("gpu-2")], features=features)
    assert [result.device for result in outcome.allocations[0].results] == ["gpu-0", "gpu-3"]
    assert outcome.score == (0, -4.0, 0.0)


def test_claims_of_one_pod_are_close_where_that_costs_neither_anything() -> None:
    devices = [*(of_kind("gpu", n, n, n) for n in range(3)), of_kind("nic", 0, 2, 2)]
    nic, gpu = a_claim(a_request("nic", 1, NIC), name="nic"), a_claim(a_request("gpu", 1, GPU), name="gpu")
    assert chosen("topology", [homed(a_slice(*devices), "n")], nic, gpu) == ["nic-0", "gpu-2"]


def test_what_a_claim_has_to_match_is_matched_first() -> None:
    devices = [a_device(f"gpu-{n}", {"model": n % 2, NUMA_NODE: n // 2}) for n in range(4)]
    claim = a_claim(a_request(count=2), constraints=[match(f"{DRIVER}/model")])
    assert chosen("topology", [homed(a_slice(*devices), "n")], claim) == ["gpu-0", "gpu-2"]


# -- nodes


def test_score_is_the_mean_distance_of_two_devices() -> None:
    slices = [gpu_slice("n", [[2, 1]])]
    assert answer("topology", slices, a_claim(a_request(count=1))).score == (0, 0.0, 0.0)
    assert answer("topology", slices, a_claim(a_request(count=2))).score == (0, -2.0, 0.0)
    assert answer("topology", slices, a_claim(a_request(count=3))).score == (0, -(2 + 4 + 4) / 3, 0.0)
    claims = [a_claim(a_request(count=count), name=f"claim-{count}") for count in (2, 1)]
    assert answer("topology", slices, *claims).score == (0, -2.0, -4.0)


def test_the_node_on_which_the_devices_are_closest_is_taken() -> None:
    simulation = Simulation("topology", [gpu_slice("a", [[1], [1]]), gpu_slice("b", [[1, 1]]), gpu_slice("c", [[2]])])
    for number, node in enumerate(("c", "b", "a")):
        assert simulation.place(a_claim(a_request(count=2), name=f"claim-{number}"))
        assert simulation.placed_on[f"claim-{number}"] == node


# -- how good it is


def apart(devices: Sequence[tuple[int, int]]) -> int:
    """The distances between all pairs of devices, given as (NUMA node, PCIe root), added up."""
    return sum(2 if a == b else 4 if a[0] == b[0] else 6 for a, b in combinations(devices, 2))


def gpus_at(seed: int) -> list[tuple[int, int]]:
    """Twelve devices on random roots of two NUMA nodes, in random order."""
    random = Random(seed)  # noqa: S311
    return [(random.randrange(2), random.randrange(4)) for _ in range(12)]


def chosen_places(policy: str, places: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    devices = [placed(f"gpu-{number:02}", *place) for number, place in enumerate(places)]
    names = chosen(policy, [homed(a_slice(*devices), "n")], a_claim(a_request(count=count)))
    return [places[int(name.removeprefix("gpu-"))] for name in names]


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_devices_are_as_close_as_can_be_in_most_seeded_layouts_and_nearly_so_in_all(count: int) -> None:
    layouts = [gpus_at(seed) for seed in range(25)]
    best = [min(apart(some) for some in combinations(places, count)) for places in layouts]
    ours = [apart(chosen_places("topology", places, count)) for places in layouts]
    first_fit = [apart(chosen_places("first-fit", places, count)) for places in layouts]
    assert sum(one == other for one, other in zip(ours, best, strict=True)) >= 22
    assert all(one <= 1.1 * other for one, other in zip(ours, best, strict=True))
    assert 1.2 * sum(ours) < sum(first_fit)

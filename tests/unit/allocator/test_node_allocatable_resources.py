from collections.abc import Mapping

import pytest

from allocator.model import Allocation, Container, Device, DeviceID, DeviceResult
from allocator.pod_resources import (
    Amounts,
    ClaimResources,
    OverBudget,
    PodResources,
    claim_resources,
    over_budget,
    pod_need,
    requests_of,
    shortages,
)
from cel.values.quantity import Quantity

UNIT = 10**9


def Q(text: str | int) -> Quantity:  # noqa: N802 - as short as the text
    return Quantity.parse(str(text))


def amounts(counts: Mapping[str, str | int]) -> dict[str, Quantity]:
    return {name: Q(count) for name, count in counts.items()}


def nanos(**counts: str | int) -> dict[str, int]:
    return {name: Q(count).nanos for name, count in counts.items()}


def container(*, is_plain_init: bool = False, **requests: str | int) -> Container:
    return Container("c", amounts(requests), is_plain_init)


def of_devices(*entries: Mapping[str, object], consumed: Mapping[str, str] | None = None) -> ClaimResources | None:
    """What a claim comes to that has got a device for each of the entries of nodeAllocatableResources."""
    devices = {f"d{n}": Device(f"d{n}", "drv", "p", node_allocatable=entry) for n, entry in enumerate(entries)}
    results = tuple(
        DeviceResult("r", "drv", "p", name, consumed_capacity=amounts(consumed or {})) for name in (*devices, "gone")
    )

    def published(device: DeviceID) -> Device | None:
        return devices.get(device.device)

    return claim_resources("ns/c", Allocation(results), published)


def shown(found: Amounts) -> dict[str, int]:
    return {name: amount for name, amount in found.items() if amount}


# What devices come to


def test_a_device_that_says_nothing_of_the_node_counts_nothing() -> None:
    assert of_devices({}) is None


def test_a_device_multiplier_counts_for_each_device_of_the_claim() -> None:
    found = of_devices(*[{"cpu": {"mapping": {"deviceMultiplier": Q(8)}}}] * 2)
    assert found == ClaimResources("ns/c", nanos(cpu=16), nanos(cpu=0), nanos(cpu=0))


def test_a_capacity_counts_as_far_as_it_is_consumed() -> None:
    mapping = {"capacityKey": "cores", "capacityMultiplier": Q("500m")}
    found = of_devices({"cpu": {"mapping": mapping}}, consumed={"cores": "3", "other": "9"})
    assert found
    assert found.mapped == nanos(cpu="1500m")


def test_a_product_below_the_smallest_unit_is_rounded_up() -> None:
    mapping = {"capacityKey": "cores", "capacityMultiplier": Q("1n")}
    found = of_devices({"cpu": {"mapping": mapping}}, consumed={"cores": "500m"})
    assert found
    assert found.mapped == {"cpu": 1}


def test_a_capacity_that_is_not_consumed_is_not_mapped() -> None:
    mapping = {"capacityKey": "cores", "capacityMultiplier": Q(2)}
    found = of_devices({"cpu": {"mapping": mapping}}, consumed={"other": "3"})
    assert found
    assert not found.mapped
    assert shown(found.used_by(1)) == {}


def test_overhead_counts_once_for_the_pod_and_for_each_container_that_uses_the_claim() -> None:
    overhead = {"perPod": Q("1Gi"), "perContainer": Q("64Mi")}
    found = of_devices({"memory": {"overhead": overhead}})
    assert found
    assert not found.mapped
    assert found.used_by(0) == nanos(memory="1Gi")
    assert found.used_by(3) == nanos(memory="1216Mi")


def test_mapping_and_overhead_of_one_resource_add_up() -> None:
    entry = {"mapping": {"deviceMultiplier": Q(2)}, "overhead": {"perPod": Q(1), "perContainer": Q("100m")}}
    found = of_devices({"cpu": entry})
    assert found
    assert found.used_by(2) == nanos(cpu="3200m")


# What the pod needs


def test_containers_that_last_request_together() -> None:
    assert requests_of([container(cpu=1, memory=5), container(cpu=2)]) == nanos(cpu=3, memory=5)


@pytest.mark.parametrize(
    ("containers", "cpu"),
    [
        ([container(is_plain_init=True, cpu=5), container(cpu=2)], 5),
        ([container(is_plain_init=True, cpu=1), container(cpu=2)], 2),
        ([container(is_plain_init=True, cpu=5), container(is_plain_init=True, cpu=4), container(cpu=2)], 5),
        ([container(cpu=2), container(is_plain_init=True, cpu=5), container(cpu=1)], 7),
        ([container(is_plain_init=True, cpu=5), container(cpu=2), container(cpu=1)], 5),
    ],
)
def test_an_init_container_runs_with_the_sidecars_before_it(containers: list[Container], cpu: int) -> None:
    assert requests_of(containers) == nanos(cpu=cpu)


def test_a_pod_needs_what_containers_claims_and_runtime_need() -> None:
    pod = PodResources([container(cpu=1)], overhead=amounts({"cpu": "250m"}))
    assert pod_need(pod, [nanos(cpu=2), nanos(cpu=3, memory=7)]) == nanos(cpu="6250m", memory=7)


def test_a_budget_covers_the_claims() -> None:
    pod = PodResources([container(cpu=1)], amounts({"cpu": 8, "memory": 9}), amounts({"cpu": 1}))
    assert over_budget(pod, [nanos(cpu=7)]) is None
    assert pod_need(pod, [nanos(cpu=7)]) == nanos(cpu=9, memory=9)


def test_a_budget_below_containers_and_claims_is_reported() -> None:
    pod = PodResources([container(cpu=2)], amounts({"cpu": 8}))
    assert over_budget(pod, [nanos(cpu=7)]) == OverBudget("cpu", 9 * UNIT, 8 * UNIT)


def test_a_budget_of_another_resource_says_nothing() -> None:
    pod = PodResources([container(storage=2)], amounts({"storage": 1}))
    assert over_budget(pod, []) is None
    assert pod_need(pod, []) == nanos(storage=2)


# What the node has left


def test_a_node_that_has_just_enough_left_will_do() -> None:
    assert shortages(nanos(cpu=3, memory=7), nanos(cpu=1), amounts({"cpu": 4, "memory": 7})) == ()


@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi"])
def test_a_node_that_has_too_little_left_is_short(resource: str) -> None:
    need, used = {resource: 3 * UNIT}, {resource: 2 * UNIT}
    assert shortages(need, used, amounts({resource: 4})) == (resource,)
    assert shortages(need, {}, {}) == (resource,)


def test_all_shortages_are_reported_by_name() -> None:
    assert shortages(nanos(memory=1, cpu=1), {}, {}) == ("cpu", "memory")


def test_nothing_needed_is_no_shortage_even_where_more_is_used_than_there_is() -> None:
    assert shortages(nanos(cpu=0), nanos(cpu=5), amounts({"cpu": 4})) == ()


def test_other_resources_are_not_compared() -> None:
    assert shortages(nanos(pods=5), {}, {}) == ()


def test_cpu_is_compared_in_thousandths_and_memory_in_bytes_rounded_up() -> None:
    assert shortages({"cpu": 1}, {}, amounts({"cpu": "1m"})) == ()
    assert shortages({"cpu": 10**6 + 1}, {}, amounts({"cpu": "1m"})) == ("cpu",)
    assert shortages({"memory": 1}, {}, amounts({"memory": "1m"})) == ()
    assert shortages({"memory": UNIT + 1}, {}, amounts({"memory": "1"})) == ("memory",)

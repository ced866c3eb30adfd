"""What VolumeBinding's score says of the storage that a pod would take on each node, from 1.37 on."""

from fractions import Fraction
from math import floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.model import Requirement
from cel.values.quantity import Quantity
from scheduler.core_v1.pod_volumes import ZONE
from scheduler.core_v1.storage_objects import CSIDriver, PersistentVolume, PersistentVolumeClaim
from scheduler.decision.cluster import Cluster
from scheduler.plugins.plugin import Plugin
from scheduler.plugins.volume_binding import NO_SPACE, VOLUME_BINDING, volume_binding
from tests.builders import a_pod
from tests.storage import DRIVER, a_bound_pvc, a_capacity, a_pod_with, a_pv, a_pvc, a_storage_class, where_label
from tests.unit.scheduler.plugins.world import a_world, said, scored

GI = 2**30
IN_A, IN_B = Requirement(ZONE, "In", ("A",)), Requirement(ZONE, "In", ("B",))


def a_world_with(*objects: Any, publishes: bool = True, **more: Any) -> Cluster:
    """Claims, volumes and capacities, of a class w and a class x of a driver that publishes its capacity."""
    world = a_world(**more)
    for name in ("w", "x"):
        world.volumes.set_class(a_storage_class(name))
    world.volumes.set_driver(CSIDriver(DRIVER, publishes_capacity=publishes))
    for one in objects:
        match one:
            case PersistentVolumeClaim():
                world.volumes.set_claim(one)
            case PersistentVolume():
                world.volumes.set_volume(one)
            case _:
                world.volumes.set_capacity(one)
    return world


def scores(world: Cluster, *claims: str, plugin: Plugin = VOLUME_BINDING) -> list[int] | None:
    """Of a1, a2 and b1."""
    found = scored(plugin, world, a_pod_with(*claims) if claims else a_pod())
    return None if found is None else [found[name] for name in ("a1", "a2", "b1")]


def test_the_less_of_what_is_free_the_pod_takes_the_better() -> None:
    capacities = (a_capacity("a", "9Gi", IN_A, amount="4Gi"), a_capacity("b", "9Gi", IN_B, amount="16Gi"))
    assert scores(a_world_with(a_pvc("v", size="1Gi"), *capacities), "v") == [75, 75, 94]
    assert scores(a_world_with(a_pvc("v", size="4Gi"), *capacities), "v") == [0, 0, 75]
    assert scores(a_world_with(a_pvc("v", size="5Gi"), *capacities), "v") == [0, 0, 69]  # more than all that is free


@pytest.mark.parametrize(
    ("shape", "by_size"),
    [
        ([(0, 0), (100, 10)], {"1Gi": [25, 25, 6], "4Gi": [100, 100, 25], "5Gi": [100, 100, 31]}),  # the least free
        ([(0, 10), (100, 0)], {"1Gi": [75, 75, 94], "4Gi": [0, 0, 75], "5Gi": [0, 0, 69]}),  # as without a shape
        ([(10, 2), (30, 9), (80, 1)], {"1Gi": [72, 72, 20], "4Gi": [10, 10, 72], "5Gi": [10, 10, 89]}),
        ([(50, 7)], {"1Gi": [70, 70, 70], "4Gi": [70, 70, 70], "5Gi": [70, 70, 70]}),
    ],
)
def test_a_shape_says_what_nodes_are_worth_by_utilization(
    shape: list[tuple[int, int]], by_size: dict[str, list[int]]
) -> None:
    capacities = (a_capacity("a", "9Gi", IN_A, amount="4Gi"), a_capacity("b", "9Gi", IN_B, amount="16Gi"))
    worlds = {size: a_world_with(a_pvc("v", size=size), *capacities) for size in by_size}
    plugin = volume_binding(shape)
    assert {size: scores(world, "v", plugin=plugin) for size, world in worlds.items()} == by_size


def test_two_claims_of_a_class_share_what_is_free() -> None:
    world = a_world_with(a_pvc("v", size="1Gi"), a_pvc("u", size="2Gi"), a_capacity("a", "9Gi", amount="10Gi"))
    assert scores(world, "v", "u") == [70, 70, 70]


def test_each_class_counts_alike_and_the_mean_is_rounded_half_up() -> None:
    capacities = (a_capacity("a", amount="4Gi"), a_capacity("b", amount="10Gi", storage_class="x"))
    claims = (a_pvc("v", size="1Gi"), a_pvc("u", size="1Gi", storage_class="x"))
    assert scores(a_world_with(*claims, *capacities), "v", "u") == [83, 83, 83]  # of 75 and 90


def test_only_volumes_that_are_there_count_where_one_of_them_is_taken() -> None:
    near = a_pv("pv1", size="2Gi", storage_class="x", affinity=where_label(ZONE, "A"))
    claims = (a_pvc("v", size="1Gi"), a_pvc("u", size="1Gi", storage_class="x"))
    capacities = (a_capacity("a", amount="4Gi"), a_capacity("b", amount="10Gi", storage_class="x"))
    assert scores(a_world_with(*claims, near, *capacities), "v", "u") == [50, 50, 83]


def test_volumes_of_a_class_count_together_each_claim_with_the_smallest_that_suffices() -> None:
    volumes = (a_pv("pv1", size="2Gi"), a_pv("pv2", size="8Gi"))
    world = a_world_with(a_pvc("v", size="1Gi"), a_pvc("u", size="3Gi"), *volumes)
    assert scores(world, "v", "u") == [60, 60, 60]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((), id="no volume"),
        pytest.param((a_bound_pvc("v"), a_pv("pv1")), id="bound"),
        pytest.param((a_pvc("v"), a_capacity("a", "5Gi")), id="an object without capacity"),
    ],
)
def test_a_pod_for_which_nothing_counts_has_0(objects: tuple[Any, ...]) -> None:
    assert scores(a_world_with(*objects), *(["v"] if objects else [])) == [0, 0, 0]


def test_a_driver_that_does_not_publish_its_capacity_does_not_count() -> None:
    assert scores(a_world_with(a_pvc("v"), a_capacity(amount="4Gi"), publishes=False), "v") == [0, 0, 0]


def test_nothing_is_said_before_1_37() -> None:
    assert scores(a_world_with(a_pvc("v"), a_capacity(amount="4Gi"), release="1.36"), "v") is None


def test_of_several_objects_for_a_node_the_first_by_name_counts() -> None:
    capacities = (a_capacity("b", amount="2Gi"), a_capacity("a", amount="4Gi"))
    assert scores(a_world_with(a_pvc("v"), *capacities), "v") == [75, 75, 75]
    assert scores(a_world_with(a_pvc("v"), *reversed(capacities)), "v") == [75, 75, 75]


def test_what_is_free_is_looked_at_anew_when_it_changes() -> None:
    world = a_world_with(a_pvc("v"), a_capacity(amount="4Gi"))
    assert scores(world, "v") == [75, 75, 75]
    world.volumes.set_capacity(a_capacity(amount="2Gi"))
    assert scores(world, "v") == [50, 50, 50]


@given(
    asked=st.lists(st.integers(1, 2**70), min_size=1, max_size=3),
    free=st.integers(0, 2**70),
)
def test_the_score_is_what_is_left_in_percent_for_amounts_of_any_size(asked: list[int], free: int) -> None:
    claims = [a_pvc(f"v{number}", request=Quantity.of(one)) for number, one in enumerate(asked)]
    world = a_world_with(*claims, a_capacity("a", str(2**71), amount=str(free)))
    most = 2**56  # amounts beyond count as so many
    total, left = min(sum(min(one, most) for one in asked), most), min(free, most)
    expected = 0 if not left or total > left else 100 - floor(Fraction(100 * total, left))
    assert scores(world, *(claim.name for claim in claims)) == [expected] * 3


@pytest.mark.parametrize(("release", "refused"), [("1.37", {}), ("1.38", {"a1": ([NO_SPACE], False)})])
def test_a_size_counts_exactly_from_1_38_on(release: str, refused: dict[str, Any]) -> None:
    """Half a byte more than there is fits while both are rounded up."""
    world = a_world_with(a_pvc("v", size="1000500m"), a_capacity("a", "1000100m"), release=release)
    assert said(VOLUME_BINDING, world, a_pod_with("v")).get("a1") == refused.get("a1")

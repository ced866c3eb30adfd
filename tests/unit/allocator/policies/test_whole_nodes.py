"""Policies that look at whole nodes, on what is free of nodes: the formulas of the source, written out."""

from math import exp
from random import Random as Draw

import pytest

from allocator.policies import policy_of
from allocator.policies.published import FGD, BestFit, DotProduct, GpuClustering, GpuPacking, Random, fragment
from allocator.policies.whole_nodes import (
    NO_SHAPES,
    FreeResources,
    NodePolicy,
    PodNeeds,
    Shape,
    Shapes,
    UnitPick,
    UnitRequest,
    tightest,
)


def needs(amount: int = 0, count: int = 1, *, units: int = 2, cpu: int = 4_000, name: str = "default/pod") -> PodNeeds:
    requests = (UnitRequest(count, (amount,) * units),) if amount else ()
    return PodNeeds(name, cpu, 0, requests)


def free(
    *units: int, cpu: int = 32_000, holds: frozenset[int] = frozenset(), shapes: Shapes = NO_SHAPES
) -> FreeResources:
    return FreeResources("node-0", cpu, 0, units, holds, shapes)


def test_the_tightest_unit_that_suffices_is_taken_the_first_of_equals() -> None:
    assert tightest(needs(300, units=4), (1000, 299, 400, 400)) == [UnitPick(2, 300)]


def test_each_device_of_a_request_has_a_unit_of_its_own() -> None:
    assert tightest(needs(1000, 2, units=4), (1000, 0, 1000, 1000)) == [UnitPick(0, 1000), UnitPick(2, 1000)]


def test_a_later_request_sees_what_an_earlier_one_takes() -> None:
    two = PodNeeds("pod", 0, 0, (UnitRequest(1, (600, 600)), UnitRequest(1, (600, 600))))
    assert tightest(two, (1000, 1000)) == [UnitPick(0, 600), UnitPick(1, 600)]


def test_a_unit_that_cannot_serve_the_request_is_passed_over() -> None:
    assert tightest(PodNeeds("pod", 0, 0, (UnitRequest(1, (0, 500)),)), (500, 1000)) == [UnitPick(1, 500)]


def test_best_fit_prefers_the_node_with_less_left() -> None:
    # 28 of 128 cores and 1.5 of 8 devices are left: 100 - (21.875 + 18.75) / 2
    assert BestFit().score_node(needs(500), free(1000, 1000)) == int(100 - (21.875 + 18.75) / 2)
    assert BestFit().score_node(needs(500), free(500, 0)) > BestFit().score_node(needs(500), free(1000, 0))


def test_dot_product_multiplies_what_is_left_with_what_is_requested() -> None:
    cpu, devices = 32_000 * 4_000 / 128_000**2, 2_000 * 500 / 8_000**2
    assert DotProduct().score_node(needs(500), free(1000, 1000)) == int(100 * (1 - (cpu + devices) / 2))


@pytest.mark.parametrize(
    ("pod", "node", "score"),
    [
        (needs(), free(1000, 1000), 0),
        (needs(500), free(1000, 600), 100 - 60 // 10),
        (needs(500), free(1000, 1000, 1000, 1000), 33 - 4),
        (needs(500, units=32), free(*[1000] * 32), 32),
        (needs(1000, 2), free(1000, 1000, 0, 0), 50 - 2),
        (needs(1000), free(1000, 1000, 300, 0), 50 - 1),
    ],
)
def test_gpu_packing_opens_idle_devices_last(pod: PodNeeds, node: FreeResources, score: int) -> None:
    assert GpuPacking().score_node(pod, node) == score


@pytest.mark.parametrize(
    ("pod", "holds", "score"),
    [
        (needs(), frozenset({0}), 0),
        (needs(500), frozenset({0}), 75 + 18),
        (needs(500), frozenset({0, 2}), 50 + 18),
        (needs(500), frozenset[int](), 25 + 18),
        (needs(500), frozenset({1}), 18),
        (needs(1000), frozenset({1}), 75 + 18),
        (needs(1000, 2), frozenset({2}), 75 + 18),
    ],
)
def test_gpu_clustering_goes_where_claims_of_its_size_are(pod: PodNeeds, holds: frozenset[int], score: int) -> None:
    assert GpuClustering().score_node(pod, free(1000, 1000, 0, 0, holds=holds)) == score


def test_random_is_the_same_for_the_same_seed_and_differs_by_pod() -> None:
    one = Random(1).score_node(needs(name="a"), free(1000))
    assert one == Random(1).score_node(needs(name="a"), free(0, cpu=0))
    assert one != Random(1).score_node(needs(name="b"), free(1000))
    assert one != Random(2).score_node(needs(name="a"), free(1000))
    assert one == 1100134213956824, "the same on every machine"


SHAPES = Shapes(
    (
        Shape(0.5, 4_000, (UnitRequest(1, (500, 500)),)),
        Shape(0.3, 8_000, (UnitRequest(2, (1000, 1000)),)),
        Shape(0.2, 1_000, ()),
    )
)


def test_a_fragment_is_what_the_shapes_cannot_use() -> None:
    # Half a device fits on both; two whole ones do not, so all 1,700 are a fragment for them; so they are without any.
    assert fragment(free(1000, 700, shapes=SHAPES)) == pytest.approx(0.3 * 1700 + 0.2 * 1700)
    # 400 are too little for half a device.
    assert fragment(free(1000, 400, shapes=SHAPES)) == pytest.approx(0.5 * 400 + 0.3 * 1400 + 0.2 * 1400)
    # Without cpu nothing can be used.
    assert fragment(free(1000, 1000, cpu=0, shapes=SHAPES)) == pytest.approx(2000)


def test_a_fragment_is_all_that_is_left_for_a_shape_that_the_hardware_cannot_serve() -> None:
    shapes = Shapes((Shape(1.0, 0, (UnitRequest(1, (0, 0)),)),))
    assert fragment(free(1000, 700, shapes=shapes)) == pytest.approx(1700)


@pytest.mark.parametrize("seed", range(20))
def test_fragments_of_units_that_are_alike_are_those_of_any_units(seed: int) -> None:
    draw = Draw(seed)  # noqa: S311 - no secret
    shares = [draw.random() for _ in range(12)]
    amounts = [draw.choice([None, 0, 250, 500, 1000]) for _ in shares]
    shapes = tuple(
        Shape(share, draw.choice([1_000, 4_000]), (UnitRequest(draw.choice([1, 2, 4]), (amount,) * 4),))
        if amount is not None
        else Shape(share, draw.choice([1_000, 4_000]), ())
        for share, amount in zip(shares, amounts, strict=True)
    )
    # A shape without a share, which asks for two things, is worked out unit by unit, and adds nothing.
    general = Shapes((*shapes, Shape(0.0, 0, (UnitRequest(1, (1,) * 4), UnitRequest(1, (1,) * 4)))))
    units = [draw.choice([0, 100, 300, 500, 700, 1000]) for _ in range(4)]
    cpu, asked = draw.choice([0, 2_000, 8_000]), needs(100, units=4, cpu=0)
    alike, any_units = (free(*units, cpu=cpu, shapes=one) for one in (Shapes(shapes), general))
    assert fragment(alike) == fragment(any_units)
    assert FGD().score_node(asked, alike) == FGD().score_node(asked, any_units)
    assert FGD().picks(asked, alike) == FGD().picks(asked, any_units)


def test_fgd_tries_every_unit_for_a_part_of_a_device() -> None:
    left = free(1000, 600, shapes=SHAPES)
    (pick,) = FGD().picks(needs(100, units=2), left)
    grown = {
        unit: fragment(free(*after, cpu=28_000, shapes=SHAPES)) - fragment(left)
        for unit, after in enumerate([(900, 600), (1000, 500)])
    }
    best = max(grown, key=lambda unit: int(100 / (1 + exp(grown[unit] / 1000))))
    assert pick == UnitPick(best, 100)
    assert FGD().score_node(needs(100, units=2), left) == int(100 / (1 + exp(grown[best] / 1000)))


def test_fgd_is_indifferent_where_the_workload_is_not_known() -> None:
    assert FGD().score_node(needs(100), free(1000, 600)) == 50


@pytest.mark.parametrize("name", ["fgd", "best-fit", "dot-product", "gpu-packing", "gpu-clustering", "random"])
def test_they_are_found_by_name(name: str) -> None:
    assert isinstance(policy_of(name), NodePolicy)


def test_a_policy_without_a_score_cannot_be_made() -> None:
    class Unfinished(NodePolicy):
        name = "unfinished"

    with pytest.raises(TypeError, match="score_node"):
        Unfinished()  # type: ignore[abstract]

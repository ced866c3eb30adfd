"""Scoring strategies of NodeResourcesFit, by numbers worked out by hand."""

from collections.abc import Mapping

import numpy as np
import pytest

from scheduler.plugins.scoring_strategies import (
    ScoringStrategy,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import MOST, pod_requests
from tests.builders import a_container, a_node, a_pod, amounts

GPU = "example.com/gpu"
EQUAL = {"cpu": 1, "memory": 1}
FULLER, EMPTIER = ((0, 0), (100, 10)), ((0, 10), (100, 0))


def score(strategy: ScoringStrategy, pod: Mapping[str, str], taken: Mapping[str, str], **offer: str) -> int:
    """Of a node that offers this, with a pod on it that has taken so much."""
    infos = NodeInfos({})
    infos.set_node(0, a_node(allocatable=amounts(pods="10", **offer)))
    infos.add_pod(0, a_pod(a_container(**taken), name="other"))
    requests = pod_requests(a_pod(a_container(**pod)))
    return int(strategy.scores(requests, infos, np.arange(1))[0])


POD, TAKEN = {"cpu": "1", "memory": "1Gi"}, {"cpu": "500m", "memory": "2Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (EQUAL, (62 + 25) // 2),  # of 4 cpus 2.5 are left: 62.5; of 4 GiB 1: 25
        ({"cpu": 3, "memory": 1}, (3 * 62 + 25) // 4),
        ({"memory": 5}, 25),
        ({"cpu": 1, GPU: 9}, 62),  # the pod asks for none
        ({"cpu": 1, "ephemeral-storage": 1}, (62 + 100) // 2),  # which counts also where nobody asks for it
        ({"cpu": 1, "pods": 1, "nonsense": 3}, 62),
    ],
)
def test_least_allocated_is_the_mean_of_what_is_left(resources: dict[str, int], expected: int) -> None:
    offer = {"cpu": "4", "memory": "4Gi", "ephemeral_storage": "10Gi"}
    assert score(least_allocated(resources), POD, TAKEN, **offer) == expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [(EQUAL, (37 + 75) // 2), ({"cpu": 1, "memory": 3}, (37 + 3 * 75) // 4), ({"cpu": 1}, 37)],
)
def test_most_allocated_is_the_mean_of_what_is_taken(resources: dict[str, int], expected: int) -> None:
    assert score(most_allocated(resources), POD, TAKEN, cpu="4", memory="4Gi") == expected


def test_more_than_a_node_has_is_all_of_it() -> None:
    """A container that says nothing counts as 200 MiB in scores, and may be where that is not."""
    assert score(most_allocated({"memory": 1}), {}, {}, memory="100Mi") == 100
    assert score(least_allocated({"memory": 1}), {}, {}, memory="100Mi") == 0
    assert score(requested_to_capacity_ratio(EMPTIER, {"memory": 1}), {}, {}, memory="100Mi") == 0


@pytest.mark.parametrize("strategy", [least_allocated(EQUAL), most_allocated(EQUAL)])
def test_resource_that_a_node_does_not_offer_is_left_out(strategy: ScoringStrategy) -> None:
    assert score(strategy, {"cpu": "1"}, {"cpu": "1"}, cpu="4") == 50


def test_extended_resources_count_as_they_are_requested() -> None:
    pod, taken = {**POD, GPU: "1"}, {**TAKEN, GPU: "2"}
    offer = {"cpu": "4", "memory": "4Gi", GPU: "4"}
    assert score(most_allocated({GPU: 1}), pod, taken, **offer) == 75
    assert score(most_allocated({GPU: 5, "cpu": 1}), pod, taken, **offer) == (5 * 75 + 37) // 6
    assert score(least_allocated({GPU: 1}), pod, taken, **offer) == 25


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (FULLER, 56),  # 37 and 75: 56
        (EMPTIER, 44),  # 63 and 25: 44
        (((0, 0), (50, 10), (100, 0)), 62),  # 74 and 50: 62
        (((40, 5), (60, 8)), 65),  # before the first point and behind the last: 50 and 80
        (((0, 0),), 0),
    ],
)
def test_ratio_is_read_from_the_shape(shape: tuple[tuple[int, int], ...], expected: int) -> None:
    assert score(requested_to_capacity_ratio(shape, EQUAL), POD, TAKEN, cpu="4", memory="4Gi") == expected


def test_ratio_leaves_out_what_is_worth_nothing_and_rounds_a_half_up() -> None:
    untouched = {"cpu": "1", "memory": "4Gi"}
    emptier = requested_to_capacity_ratio(EMPTIER, EQUAL)
    assert score(emptier, untouched, {"cpu": "1", "memory": "0"}, cpu="4", memory="4Gi") == 50
    assert score(emptier, {"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "0"}, cpu="4", memory="4Gi") == 63


def test_line_that_falls_is_cut_toward_zero() -> None:
    """From 100 to 0 between 0 and 70: at 37 it is 100 - 52.86, and 52 is taken off."""
    assert score(requested_to_capacity_ratio(((0, 10), (70, 0)), {"cpu": 1}), POD, TAKEN, cpu="4") == 48


@pytest.mark.parametrize("strategy", [least_allocated(), most_allocated(), requested_to_capacity_ratio(FULLER)])
def test_amounts_beyond_those_counted_count_as_the_most_and_scores_stay_within_0_and_100(
    strategy: ScoringStrategy,
) -> None:
    most = score(strategy, {"cpu": "1"}, {}, cpu="4", memory=str(MOST))
    assert score(strategy, {"cpu": "1"}, {}, cpu="4", memory=str(2**63 - 1)) == most
    taken = {"cpu": "1", "memory": str(2**63 - 1)}
    assert 0 <= score(strategy, taken, taken, cpu="4", memory=str(2**63 - 1)) <= 100
    assert 0 <= score(strategy, taken, taken, cpu="9223372036854775", memory=str(2**63 - 1)) <= 100

"""Nodes get more the better they are for the pod's devices, and nothing where all are as good."""

import pytest

from allocator.model import Allocation, Claim
from allocator.policies import policy_of
from allocator.policies.contract import FIRST_FIT, Policy
from scheduler.decision.cluster import Cluster
from scheduler.extender.verbs import prioritize
from scheduler.plugins.profile import Profile
from tests.builders import a_claim, a_request, a_result, a_user, an_alternative, first_available, named
from tests.unit.scheduler.extender.clusters import a_cluster, a_user_of

NAMES = ("node-0", "node-1", "node-2", "node-3")
PREFERRED = a_claim(
    first_available("r", an_alternative("three", count=3), an_alternative("two", count=2), an_alternative("one"))
)


def scores(cluster: Cluster, *claims: Claim) -> list[int]:
    """Of node-0, node-1 and so on."""
    found = prioritize(cluster, a_user_of(cluster, *claims), NAMES)
    assert list(found) == list(NAMES)
    return list(found.values())


def test_earlier_alternative_is_better() -> None:
    assert scores(a_cluster(1, 3, 2, 3), PREFERRED) == [0, 10, 5, 10]


def test_nodes_that_are_all_as_good_get_nothing() -> None:
    assert scores(a_cluster(1, 2, 3, 4), a_claim()) == [0, 0, 0, 0]


def test_node_that_cannot_or_is_not_known_gets_nothing() -> None:
    assert scores(a_cluster(2, 3, 0), PREFERRED) == [0, 10, 0, 0]


@pytest.mark.parametrize(("policy", "best"), [("pack", 1), ("spread", 3), ("first-fit", None)])
def test_policy_orders_nodes(policy: str, best: int | None) -> None:
    found = scores(a_cluster(2, 1, 3, 4, profiles=(Profile(policy=policy_of(policy)),)), a_claim())
    assert (found.index(10) if any(found) else None) == best
    assert (len(set(found)) == len(found)) is (best is not None)


@pytest.mark.parametrize("policy", [FIRST_FIT, policy_of("pack")])
def test_pod_whose_claims_are_allocated_has_no_better_node(policy: Policy) -> None:
    claim = a_claim(allocation=Allocation((a_result(pool="node-1"),), node_selector=named("node-1")))
    assert scores(a_cluster(1, 2, 3, 4, profiles=(Profile(policy=policy),)), claim) == [0, 0, 0, 0]


def test_pod_whose_claims_are_gone_meanwhile_has_no_better_node() -> None:
    assert prioritize(a_cluster(1), a_user("pod", "none"), NAMES) == dict.fromkeys(NAMES, 0)


def test_selector_that_fails_makes_no_node_better() -> None:
    broken = a_claim(a_request("gpus", 1, "device.attributes['x'].y"))
    assert scores(a_cluster(1, 2), broken) == [0, 0, 0, 0]


def test_more_places_than_points_keep_their_order() -> None:
    cluster = a_cluster(*range(1, 31), profiles=(Profile(policy=policy_of("spread")),))
    names = [f"node-{number}" for number in range(30)]
    found = prioritize(cluster, a_user_of(cluster, a_claim()), names)
    points = [found[name] for name in names]
    assert points == sorted(points)
    assert set(points) == set(range(11))

"""A policy says what it compares nodes by, and a decision gets the scorer for that."""

import pytest

from allocator.policies import NAMES, policy_of
from allocator.policies.contract import Policy, Scoring, scoring_of
from allocator.policies.own import guarded
from allocator.policies.whole_nodes import FreeResources, NodePolicy, PodNeeds
from scheduler.node_policies import scorer_of
from scheduler.node_policies.fill_scores import FillScores
from scheduler.node_policies.scores import NodeScores, WeightedScores
from tests.unit.scheduler.node_policies.test_whole_nodes import POLICIES, a_cluster


class MostCpu(NodePolicy):
    name = "most-cpu"

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        return free.cpu


def _scorer(policy: Policy) -> type[object]:
    return type(scorer_of(policy, a_cluster("first-fit").free_resources))


@pytest.mark.parametrize("name", NAMES)
def test_each_policy_gets_the_scorer_that_it_asks_for(name: str) -> None:
    by_node: dict[str, type[object]] = dict.fromkeys((*POLICIES, "power"), NodeScores)
    expected = (by_node | {"fill-value": FillScores}).get(name, type(None))
    assert _scorer(policy_of(name)) is expected


def test_policy_of_a_user_is_scored_as_its_class_says() -> None:
    assert _scorer(guarded(MostCpu())) is NodeScores
    assert _scorer(guarded(policy_of("pack"))) is type(None)


def test_attribute_of_a_user_s_class_that_has_the_name_by_chance_decides_nothing() -> None:
    class Own:
        name = "own"
        reads = ()
        scoring = "golf"

        order = score = staticmethod(lambda *_: None)

    own: Policy = Own()  # type: ignore[assignment]  # whatever a user brings
    assert scoring_of(guarded(own)) is Scoring.BY_PICKS


def test_a_policy_with_power_is_scored_by_weight() -> None:
    assert _scorer(policy_of("fgd+power")) is WeightedScores

import numpy as np
import pytest

from allocator.model import Taint
from allocator.policies.contract import Score
from scheduler.core_v1.pod import Pod, Preference
from scheduler.decision.filters import Groups, NodeOrder, PodSignatures, pick
from scheduler.plugins.plugin import normalized
from scheduler.plugins.scoring_strategies import least_allocated
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import pod_requests
from tests.builders import a_container, a_cycle, a_node, a_pod, a_term, amounts, requires

SOFT = Taint("k", "", "PreferNoSchedule")


class ChoiceCluster:
    """Equal nodes but for what a case says: labels, taints, and what pods take."""

    def __init__(self, nodes: int, **offer: str) -> None:
        self.infos, self.templates, self.all = NodeInfos({}), PodSignatures(), (1 << nodes) - 1
        self.order = NodeOrder({})
        self.offer = amounts(**(offer or {"cpu": "4", "memory": "8Gi"}), pods="10")
        for number in range(nodes):
            self.change(number)

    def change(self, number: int, *taints: Taint, **labels: str) -> None:
        node = a_node(f"n{number}", labels, taints=taints, allocatable=self.offer)
        self.infos.set_node(number, node)
        self.templates.set_node(number, node)
        self.order.set_node(number, node.name)

    def take(self, number: int, **requests: str) -> None:
        self.infos.add_pod(number, a_pod(a_container(**requests), name=f"other-{number}"))

    def pick(self, pod: Pod, groups: Groups | None = None, feasible: int | None = None) -> tuple[int, int] | None:
        found = groups or {(0, ()): self.all}
        allowed = self.all if feasible is None else feasible
        return pick(a_cycle(pod, self.infos, self.templates), self.templates.plugins, found, allowed, self.order)

    def left(self, pod: Pod) -> list[int]:
        numbers = np.arange(self.all.bit_length())
        return [int(score) for score in least_allocated().scores(pod_requests(pod), self.infos, numbers)]


@pytest.mark.parametrize(
    ("taken", "pod", "score"),
    [
        ({}, a_pod(), 100),
        ({}, a_pod(a_container(cpu="1", memory="2Gi")), 75),
        ({"cpu": "1", "memory": "2Gi"}, a_pod(a_container(cpu="1", memory="2Gi")), 50),
        ({}, a_pod(a_container(cpu="1", memory="4Gi")), 62),
        ({}, a_pod(a_container()), 97),
        ({}, a_pod(a_container(cpu="5", memory="2Gi")), 37),
        ({"cpu": "4", "memory": "8Gi"}, a_pod(a_container(cpu="1", memory="1Gi")), 0),
    ],
)
def test_the_score_is_the_mean_of_what_is_left_of_cpu_and_memory_in_whole_hundredths(
    taken: dict[str, str], pod: Pod, score: int
) -> None:
    cluster = ChoiceCluster(1)
    if taken:
        cluster.take(0, **taken)
    assert cluster.left(pod) == [score]


def test_a_resource_that_a_node_does_not_offer_is_left_out_of_the_mean() -> None:
    assert ChoiceCluster(1, cpu="4").left(a_pod(a_container(cpu="1", memory="1Gi"))) == [75]
    assert ChoiceCluster(1, gpu__gpu="4").left(a_pod(a_container(cpu="1"))) == [0]


@pytest.mark.parametrize(
    ("raw", "scores", "reversed_scores"),
    [
        ([], [], []),
        ([0, 0], [0, 0], [100, 100]),
        ([1, 3, 2], [33, 100, 66], [67, 0, 34]),
        ([0, 7], [0, 100], [100, 0]),
    ],
)
def test_raw_scores_are_scaled_by_the_largest_in_whole_numbers(
    raw: list[int], scores: list[int], reversed_scores: list[int]
) -> None:
    numbers = np.array(raw, np.int64)
    assert list(normalized(numbers)) == scores
    assert list(normalized(numbers, is_reversed=True)) == reversed_scores


def test_the_emptiest_node_is_picked_and_of_equals_the_lowest_number() -> None:
    cluster = ChoiceCluster(4)
    cluster.take(0, cpu="1")
    worse_balance = 50 + (50 + 87 - 100) // 2
    assert cluster.pick(a_pod(a_container(cpu="1"))) == (1, 3 * 100 + (75 + 97) // 2 + worse_balance)
    assert cluster.pick(a_pod(a_container(cpu="1")), feasible=0b1001) == (3, 386 + worse_balance)


def test_a_soft_taint_weighs_more_than_room_and_a_preference_less_than_the_taint() -> None:
    cluster = ChoiceCluster(3)
    cluster.change(0, SOFT, zone="a")
    cluster.take(1, cpu="4", memory="8Gi")
    pod = a_pod(preferences=(Preference(1, a_term(requires("zone", "In", "a"))),))
    assert cluster.pick(pod) == (2, 300 + 100)
    assert cluster.pick(pod, feasible=0b011) == (0, 200 + 100)
    assert cluster.pick(a_pod(), feasible=0b011) == (1, 300)


def test_better_alternatives_of_devices_weigh_twice_as_much_as_room() -> None:
    cluster = ChoiceCluster(3)
    cluster.take(2, cpu="1")
    groups: Groups = {(7, ()): 0b010, (8, ()): 0b100}
    assert cluster.pick(a_pod(), groups) == (2, 300 + 86 + 200)
    assert cluster.pick(a_pod(), groups, feasible=0b011) == (1, 300 + 100 + 200)
    assert cluster.pick(a_pod(), groups, feasible=0b001) is None


def test_the_policy_goes_before_totals_which_decide_between_its_equals() -> None:
    cluster = ChoiceCluster(6)
    cluster.take(5, cpu="1")
    low, high = (1.0, 0.0), (1.0, 2.0)
    groups: dict[tuple[int, Score], int] = {(8, low): 0b000011, (8, high): 0b111100}
    assert cluster.pick(a_pod(), groups) == (2, 600)
    assert cluster.pick(a_pod(), groups, feasible=0b100011) == (5, 586)


def test_a_pod_without_a_node_that_can_give_its_devices_gets_none() -> None:
    assert ChoiceCluster(2).pick(a_pod(), {(0, ()): 0}) is None


@pytest.mark.parametrize("identity", ["", "kube-system/one", "kube-system/two"])
def test_of_equal_nodes_the_first_by_identity_is_taken_and_a_better_one_before_it(identity: str) -> None:
    cluster, both = ChoiceCluster(8), 0b00001010
    cluster.order.search_as(identity)
    first = cluster.order.first(np.array([1, 3]))
    chosen = cluster.pick(a_pod(), feasible=both)
    assert chosen is not None
    assert chosen[0] == first
    cluster.take(first, cpu="1")
    better = cluster.pick(a_pod(), feasible=both)
    assert better is not None
    assert {better[0], first} == {1, 3}

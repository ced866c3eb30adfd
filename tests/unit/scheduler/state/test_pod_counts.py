import pytest

from scheduler.core_v1.label_selectors import AffinityTerm, equal_labels
from scheduler.state.pods_by_labels import MatchingPods, PodCounts, PodLabels, SelectedPods

WEB, DB = {"app": "web"}, {"app": "db"}
ON_WEB = equal_labels(WEB)
SELECTED = SelectedPods("default", ON_WEB)


def of(labels: dict[str, str], namespace: str = "default", *, is_deleting: bool = False) -> PodLabels:
    return PodLabels(namespace, labels, is_deleting)


def counts(namespaces: dict[str, dict[str, str]] | None = None) -> PodCounts:
    return PodCounts({} if namespaces is None else namespaces, 3)


def test_an_answer_follows_the_pods_that_come_and_go() -> None:
    pods = counts()
    pods.add(0, of(WEB))
    answer = pods.on_nodes(SELECTED)
    assert list(answer) == [1, 0, 0]
    pods.add(2, of(WEB))
    pods.add(2, of(WEB))
    pods.add(1, of(DB))
    pods.remove(0, of(WEB))
    assert list(answer) == list(pods.on_nodes(SELECTED)) == [0, 0, 2]


@pytest.mark.parametrize("pod", [of(DB), of(WEB, "blue"), of(WEB, is_deleting=True)])
def test_spread_counts_pods_of_its_namespace_that_stay(pod: PodLabels) -> None:
    pods = counts()
    pods.add(0, pod)
    assert list(pods.on_nodes(SELECTED)) == [0, 0, 0]


def test_a_selector_of_everything_counts_everything_and_none_counts_nothing() -> None:
    pods = counts()
    pods.add(0, of(DB))
    assert list(pods.on_nodes(SelectedPods("default", ()))) == [1, 0, 0]
    assert list(pods.on_nodes(SelectedPods("default", None))) == [0, 0, 0]
    assert list(pods.on_nodes(MatchingPods((AffinityTerm("zone", frozenset({"default"}), ()),)))) == [1, 0, 0]


def test_affinity_counts_pods_that_match_all_terms_terminating_ones_too() -> None:
    pods = counts()
    own = frozenset({"default"})
    both = MatchingPods((AffinityTerm("zone", own, ON_WEB), AffinityTerm("rack", own, equal_labels({"tier": "1"}))))
    pods.add(0, of(WEB))
    pods.add(1, of(WEB | {"tier": "1"}, is_deleting=True))
    assert list(pods.on_nodes(both)) == [0, 1, 0]


def test_a_namespace_with_other_labels_is_looked_at_anew() -> None:
    namespaces = {"blue": {"team": "blue"}}
    pods = counts(namespaces)
    pods.add(0, of(WEB, "blue"))
    by_team = MatchingPods((AffinityTerm("zone", frozenset(), ON_WEB, equal_labels({"team": "blue"})),))
    assert list(pods.on_nodes(by_team)) == [1, 0, 0]
    namespaces["blue"] = {}
    pods.forget_answers()
    assert list(pods.on_nodes(by_team)) == [0, 0, 0]


def test_more_nodes_than_before_keep_their_pods() -> None:
    pods = counts()
    pods.add(0, of(WEB))
    pods.on_nodes(SELECTED)
    pods.grow(5)
    pods.add(4, of(WEB))
    assert list(pods.on_nodes(SELECTED)) == [1, 0, 0, 0, 1]

from dataclasses import dataclass, field

import pytest

from scheduler.core_v1.label_selectors import AffinityTerm, Labels, equal_labels
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
    assert list(pods.on_nodes(SELECTED)) == [1, 0, 0]
    pods.add(2, of(WEB))
    pods.add(2, of(WEB))
    pods.add(1, of(DB))
    pods.remove(0, of(WEB))
    assert list(pods.on_nodes(SELECTED)) == [0, 0, 2]


@dataclass(frozen=True)
class Asked:
    """A question that says how often it was held against pods."""

    held: list[PodLabels] = field(default_factory=list, hash=False, compare=False)
    words: int = 1

    def counts(self, pods: PodLabels, _namespace_labels: Labels) -> bool:
        self.held.append(pods)
        return True


def test_pods_that_come_and_go_are_held_against_a_question_when_it_is_asked_again() -> None:
    """What they cost is not for those to say who have asked about others."""
    pods, asked = counts(), Asked()
    pods.on_nodes(asked)
    for number in range(3):
        for _ in range(100):
            pods.add(number, of({"name": "promised"}))
            pods.remove(number, of({"name": "promised"}))
    pods.add(1, of(WEB))
    assert asked.held == []
    assert list(pods.on_nodes(asked)) == [0, 1, 0]
    assert asked.held == [of({"name": "promised"}), of(WEB)]
    pods.remove(1, of(WEB))
    assert list(pods.on_nodes(asked)) == [0, 0, 0]
    assert len(asked.held) == 2


@pytest.mark.parametrize(("most", "known"), [(2, 64), (1 << 12, 1)])
def test_more_changes_than_are_kept_are_counted_all_the_same(
    most: int, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """known: kinds of pods of which an answer knows whether it counts them."""
    monkeypatch.setattr("scheduler.state.pods_by_labels.FEWEST_CHANGES", most)
    monkeypatch.setattr("scheduler.state.pods_by_labels.MOST_KNOWN", known)
    monkeypatch.setattr("allocator.memo.LEAST_CHANGES", 2)
    pods = counts()
    for number in range(3):
        pods.add(number, of(WEB | {"name": str(number)}))
        pods.add(number, of(DB))
        assert list(pods.on_nodes(SELECTED)) == [int(one <= number) for one in range(3)]
    for number in range(3):
        pods.remove(number, of(WEB | {"name": str(number)}))
        for _ in range(5):
            pods.add(number, of(DB))
    assert list(pods.on_nodes(SELECTED)) == [0, 0, 0]


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


def test_labels_of_pods_that_are_gone_are_kept_up_to_a_number_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pod has room for thousands, and its owner changes one of them all the time."""
    monkeypatch.setattr("scheduler.state.pods_by_labels.MOST_CHANGED", 1000)
    pods = counts()
    pods.on_nodes(SELECTED)
    for change in range(50):
        labels = of(WEB | {f"label-{number}": str(change) for number in range(100)})
        pods.add(0, labels)
        assert list(pods.on_nodes(SELECTED)) == [1, 0, 0]
        pods.remove(0, labels)
    assert len(pods._changes._kept) <= 10
    (answer,) = pods._answers.values()
    assert answer.known == {}
    assert list(pods.on_nodes(SELECTED)) == [0, 0, 0]

from typing import Any

import pytest

from scheduler.core_v1.label_selectors import PodAffinity, PodAffinityFields, pod_affinity_of
from scheduler.core_v1.object_fields import typed
from scheduler.core_v1.pod import Pod
from scheduler.state.labels import Topology
from scheduler.state.pods_by_labels import HeldTerms
from tests.builders import a_node, a_pod

NOISY = {"matchLabels": {"noisy": "yes"}}
NAMESPACES = {"default": {"team": "a"}, "other": {}}


def apart(namespace: str = "default", **term: Any) -> Pod:
    """A pod that keeps noisy ones out of its zone, unless the term says something else."""
    written = {"topologyKey": "zone", "labelSelector": NOISY, **term}
    terms, _ = typed(PodAffinityFields, {"requiredDuringSchedulingIgnoredDuringExecution": [written]})
    return a_pod(name="apart", pod_affinity=pod_affinity_of(None, terms, namespace))


def three_nodes() -> tuple[HeldTerms, Topology]:
    """Numbers 0 and 1 in one zone, 2 in none."""
    topology = Topology(3)
    for number, labels in enumerate(({"zone": "a"}, {"zone": "a"}, {})):
        topology.set_node(number, a_node(f"node-{number}", labels))
    return HeldTerms(NAMESPACES, topology), topology


def kept_from(holder: Pod, pod: Pod = a_pod(labels={"noisy": "yes"}), on: int = 0) -> int:  # noqa: B008 - a value
    held, _ = three_nodes()
    held.add("default", on, holder.pod_affinity)
    return held.kept_from(pod)


def test_pod_is_kept_from_all_nodes_of_the_domain_and_from_none_outside() -> None:
    assert kept_from(apart()) == 0b011
    assert kept_from(apart(), a_pod(labels={"noisy": "no"})) == 0


def test_node_without_the_label_is_in_no_domain() -> None:
    assert kept_from(apart(), on=2) == 0


@pytest.mark.parametrize(
    ("term", "is_kept"),
    [
        pytest.param({}, True, id="its own namespace"),
        pytest.param({"namespace": "other"}, False, id="another namespace"),
        pytest.param({"namespace": "other", "namespaces": ["default"]}, True, id="by name"),
        pytest.param({"namespaces": ["other"]}, False, id="not its own where others are named"),
        pytest.param({"namespace": "other", "namespaceSelector": {}}, True, id="all namespaces"),
        pytest.param({"namespace": "other", "namespaceSelector": {"matchLabels": {"team": "a"}}}, True, id="by label"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False, id="by the label of another"),
        pytest.param({"labelSelector": None}, False, id="no selector selects nothing"),
        pytest.param({"labelSelector": {}}, True, id="an empty selector selects everything"),
        pytest.param({"labelSelector": {"matchExpressions": [{"key": "noisy", "operator": "Exists"}]}}, True, id="has"),
        pytest.param(
            {"labelSelector": {**NOISY, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
            False,
            id="labels and expressions both have to hold",
        ),
    ],
)
def test_term_says_whom_it_keeps_away(term: dict[str, Any], *, is_kept: bool) -> None:
    assert bool(kept_from(apart(**term))) is is_kept


def test_domain_is_open_once_the_last_pod_that_closes_it_is_gone() -> None:
    (cluster, _), terms, noisy = three_nodes(), apart().pod_affinity, a_pod(labels={"noisy": "yes"})
    cluster.add("default", 0, terms)
    cluster.add("default", 0, terms)
    cluster.remove("default", 0, terms)
    assert cluster.kept_from(noisy) == 0b011
    cluster.remove("default", 0, terms)
    assert cluster.kept_from(noisy) == 0


def test_domains_follow_the_labels_of_nodes() -> None:
    (cluster, topology), noisy = three_nodes(), a_pod(labels={"noisy": "yes"})
    cluster.add("default", 0, apart().pod_affinity)
    assert cluster.kept_from(noisy) == 0b011
    topology.set_node(2, a_node("node-2", {"zone": "a"}))
    topology.remove_node(1)
    assert cluster.kept_from(noisy) == 0b101
    topology.set_node(0, a_node("node-0", {"zone": "b"}))
    assert cluster.kept_from(noisy) == 0b001


@pytest.fixture
def few_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.state.pods_by_labels.MOST_OF_NAMESPACE", 2)


def of_its_own(number: int, namespace: str = "default") -> PodAffinity:
    return apart(namespace, labelSelector={"matchLabels": {f"a{number}": "b"}}).pod_affinity


@pytest.mark.usefixtures("few_terms")
def test_a_namespace_has_so_many_terms_that_count_and_the_others_do_once_there_is_room() -> None:
    (held, _), noisy, keeps = three_nodes(), a_pod(labels={"noisy": "yes"}), apart().pod_affinity
    for number in range(2):
        held.add("default", 0, of_its_own(number))
    for _ in range(2):
        held.add("default", 0, keeps)
    assert held.kept_from(noisy) == 0
    told = "pods of 1 namespace (default) have more than 2 terms about other pods; the rest do not count"
    assert held.trouble == told
    held.remove("default", 0, keeps)
    held.remove("default", 0, of_its_own(0))
    assert (held.kept_from(noisy), held.trouble) == (0b011, "")
    held.remove("default", 0, keeps)
    assert held.kept_from(noisy) == 0
    held.remove("default", 0, of_its_own(1))
    index = held._required_anti
    assert (index._by_namespace, index._size) == ({}, 0)


@pytest.mark.usefixtures("few_terms")
def test_what_one_namespace_has_too_much_of_counts_for_another_one() -> None:
    """Its terms may be the same, word for word."""
    (held, _), noisy = three_nodes(), a_pod(labels={"noisy": "yes"})
    for number in range(2):
        held.add("other", 0, of_its_own(number, "other"))
    same = apart("other", namespaces=["default"]).pod_affinity
    assert same == apart().pod_affinity
    held.add("other", 2, same)
    held.add("default", 0, apart().pod_affinity)
    assert held.kept_from(noisy) == 0b011
    held.remove("default", 0, apart().pod_affinity)
    assert held.kept_from(noisy) == 0

from dataclasses import replace

import pytest

from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.plugins.inter_pod_affinity import AFFINITY, ANTI_AFFINITY, EXISTING, INTER_POD_AFFINITY
from scheduler.state.cluster_changes import Event, NamespaceChanged, NodeChanged, PodChanged
from tests.unit.scheduler.plugins.raw_pods import (
    HOST,
    WEB,
    ZONE,
    a_pod_of,
    a_term,
    apart,
    near,
    rather_apart,
    rather_near,
)
from tests.unit.scheduler.plugins.world import a_world, before, in_zone, is_helped, left, said, scored

ALL = ["a1", "a2", "b1"]
X, Y = {"x": "1"}, {"y": "1"}
BLUE = {"matchLabels": {"team": "blue"}}


def a_world_of(*pods: Pod) -> Cluster:
    """With a node in no zone, and the namespaces default and blue."""
    world = a_world(in_zone("n"))
    world.set_namespace(Namespace("default", {}))
    world.set_namespace(Namespace("blue", {"team": "blue"}))
    for pod in pods:
        world.set_pod(pod)
    return world


def left_for(pod: Pod, *others: Pod) -> list[str]:
    return left(INTER_POD_AFFINITY, a_world_of(*others), pod)


def test_the_first_pod_of_its_kind_may_be_in_every_domain_and_nowhere_else() -> None:
    first = a_pod_of("p", labels=WEB, affinity=near(a_term(ZONE, WEB)))
    assert left_for(first) == ALL
    assert left_for(first, a_pod_of("q", "b1", WEB, namespace="blue")) == ALL
    assert said(INTER_POD_AFFINITY, a_world_of(), first) == {"n": ([AFFINITY], False)}


def test_a_pod_goes_to_the_domain_of_the_pods_that_it_requires() -> None:
    pod = a_pod_of("p", labels=WEB, affinity=near(a_term(ZONE, WEB)))
    refused = said(INTER_POD_AFFINITY, a_world_of(a_pod_of("q", "b1", WEB)), pod)
    assert refused == dict.fromkeys(("a1", "a2", "n"), ([AFFINITY], False))


def test_one_pod_has_to_match_all_required_terms() -> None:
    pod = a_pod_of("p", affinity=near(a_term(ZONE, X), a_term(ZONE, Y)))
    assert left_for(pod, a_pod_of("q", "a1", X), a_pod_of("r", "a2", Y)) == []
    assert left_for(pod, a_pod_of("q", "a1", X | Y)) == ["a1", "a2"]


def test_a_pod_stays_out_of_the_domains_of_those_that_it_keeps_away() -> None:
    pod = a_pod_of("p", affinity=apart(a_term(ZONE, WEB)))
    refused = said(INTER_POD_AFFINITY, a_world_of(a_pod_of("q", "a1", WEB)), pod)
    assert refused == dict.fromkeys(("a1", "a2"), ([ANTI_AFFINITY], True))


def test_a_pod_stays_out_of_the_domains_of_those_that_keep_it_away() -> None:
    holder = a_pod_of("q", "a1", affinity=apart(a_term(ZONE, WEB)))
    refused = said(INTER_POD_AFFINITY, a_world_of(holder), a_pod_of("p", labels=WEB))
    assert refused == dict.fromkeys(("a1", "a2"), ([EXISTING], True))


@pytest.mark.parametrize(
    ("more", "nodes"),
    [
        ({}, ["b1"]),
        ({"namespaces": ["blue"]}, ["a1", "a2"]),
        ({"namespaceSelector": BLUE}, ["a1", "a2"]),
        ({"namespaceSelector": {}}, ALL),
        ({"namespaceSelector": BLUE, "namespaces": ["default"]}, ALL),
    ],
)
def test_a_term_looks_at_the_namespaces_that_it_means(more: dict[str, object], nodes: list[str]) -> None:
    pod = a_pod_of("p", affinity=near(a_term(ZONE, WEB, **more)))
    assert left_for(pod, a_pod_of("q", "a1", WEB, namespace="blue"), a_pod_of("r", "b1", WEB)) == nodes


def test_terminating_pods_count() -> None:
    leaving = replace(a_pod_of("q", "a1", WEB), is_deleting=True)
    assert left_for(a_pod_of("p", affinity=near(a_term(ZONE, WEB))), leaving) == ["a1", "a2"]


def test_without_a_selector_nothing_is_meant_not_even_the_pod_itself() -> None:
    assert left_for(a_pod_of("p", labels=WEB, affinity=near(a_term(ZONE))), a_pod_of("q", "a1", WEB)) == []


def test_keys_of_labels_are_left_to_the_api_server() -> None:
    tenant = {"tenant": "t1"}
    pod = a_pod_of("p", labels=tenant, affinity=near(a_term(ZONE, WEB, mismatchLabelKeys=["tenant"])))
    assert left_for(pod, a_pod_of("q", "a1", WEB | tenant)) == ["a1", "a2"]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"operator": "In"}, "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        ({"operator": "Near"}, '"Near" is not a valid label selector operator'),
        (
            {"operator": "Exists", "values": ["a", "b"]},
            'values: Invalid value: ["a","b"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_a_selector_that_makes_no_sense_refuses_its_pod_and_no_other(wrong: dict[str, object], text: str) -> None:
    term = a_term(ZONE, labelSelector={"matchExpressions": [{"key": "app", **wrong}]})
    pod = a_pod_of("p", affinity=apart(a_term(ZONE, WEB), term))
    assert before(INTER_POD_AFFINITY, a_world_of(), pod) == f"parsing pod: requiredAntiAffinityTerms: {text}"
    there = a_pod_of("q", "a1", affinity=apart(a_term(ZONE, WEB), term))
    assert left_for(a_pod_of("r", labels=WEB), there) == [*ALL, "n"]


@pytest.mark.parametrize(
    ("own", "scores"),
    [
        (rather_near(5, a_term(ZONE, WEB)), [100, 100, 0, 0]),
        (rather_apart(5, a_term(ZONE, WEB)), [0, 0, 100, 100]),
    ],
)
def test_preferred_terms_draw_to_pods_or_away_from_them(own: dict[str, object], scores: list[int]) -> None:
    world = a_world_of(a_pod_of("q", "a1", WEB))
    assert scored(INTER_POD_AFFINITY, world, a_pod_of("p", affinity=own)) == dict(zip([*ALL, "n"], scores, strict=True))


def test_terms_of_pods_on_nodes_draw_as_well() -> None:
    wanting = a_pod_of("q", "a1", affinity=near(a_term(ZONE, WEB)))
    preferring = a_pod_of("r", "b1", affinity=rather_near(3, a_term(ZONE, WEB)))
    found = scored(INTER_POD_AFFINITY, a_world_of(wanting, preferring), a_pod_of("p", labels=WEB))
    assert found == {"a1": 33, "a2": 33, "b1": 100, "n": 0}
    loathing = a_pod_of("q", "a1", affinity=rather_apart(100, a_term(ZONE, WEB)))
    assert scored(INTER_POD_AFFINITY, a_world_of(loathing), a_pod_of("p", labels=WEB)) == {
        "a1": 0,
        "a2": 0,
        "b1": 100,
        "n": 100,
    }


def test_where_no_pod_says_anything_of_others_nothing_is_scored() -> None:
    assert scored(INTER_POD_AFFINITY, a_world_of(a_pod_of("q", "a1", WEB)), a_pod_of("p", labels=WEB)) is None


WANTS = a_pod_of("p", affinity=near(a_term(ZONE, WEB)))
WANTS_BOTH = a_pod_of("p", affinity=near(a_term(ZONE, X), a_term(ZONE, Y)))
WANTS_BLUE = a_pod_of("p", affinity=near(a_term(ZONE, WEB, namespaceSelector=BLUE)))
KEEPS_TWO_AWAY = a_pod_of("p", affinity=apart(a_term(HOST, X), a_term(HOST, Y)))
KEEPS_BLUE_AWAY = a_pod_of("p", affinity=apart(a_term(HOST, WEB, namespaceSelector=BLUE)))
ITSELF = a_pod_of("p", labels=WEB, affinity=near(a_term(ZONE, WEB)))


@pytest.mark.parametrize(
    ("pod", "event", "helps"),
    [
        pytest.param(WANTS, PodChanged(None, a_pod_of("q", "a1", WEB)), True, id="company comes"),
        pytest.param(WANTS, PodChanged(None, a_pod_of("q", "a1", X)), False, id="another pod comes"),
        pytest.param(WANTS, PodChanged(a_pod_of("q", "a1", X), a_pod_of("q", "a1", WEB)), True, id="by its labels"),
        pytest.param(WANTS_BOTH, PodChanged(None, a_pod_of("q", "a1", X)), False, id="matches one of two terms"),
        pytest.param(WANTS_BOTH, PodChanged(None, a_pod_of("q", "a1", X | Y)), True, id="matches both"),
        pytest.param(WANTS_BLUE, PodChanged(None, a_pod_of("q", "a1", WEB, namespace="blue")), True, id="by namespace"),
        pytest.param(ITSELF, PodChanged(a_pod_of("q", "b1", WEB), None), True, id="the last match goes"),
        pytest.param(KEEPS_TWO_AWAY, PodChanged(a_pod_of("q", "a1", X), None), True, id="one of two in the way goes"),
        pytest.param(KEEPS_TWO_AWAY, PodChanged(a_pod_of("q", "a1", WEB), None), False, id="another pod goes"),
        pytest.param(KEEPS_TWO_AWAY, PodChanged(None, a_pod_of("q", "a1", X)), False, id="one more in the way"),
        pytest.param(
            KEEPS_BLUE_AWAY, PodChanged(a_pod_of("q", "a1", WEB, namespace="blue"), None), True, id="by its namespace"
        ),
        pytest.param(
            a_pod_of("p", labels=WEB),
            PodChanged(a_pod_of("q", "a1", affinity=apart(a_term(ZONE, X), a_term(ZONE, WEB))), None),
            True,
            id="one that keeps it away goes",
        ),
        pytest.param(WANTS, NodeChanged(None, in_zone("m", "A")), True, id="a node comes"),
        pytest.param(WANTS, NodeChanged(in_zone("m"), in_zone("m", "A")), True, id="a node gets its label"),
        pytest.param(WANTS, NodeChanged(in_zone("m"), in_zone("m")), False, id="a node reports"),
        pytest.param(
            WANTS_BLUE, NamespaceChanged(Namespace("red", {}), Namespace("red", {"team": "blue"})), True, id="by label"
        ),
    ],
)
def test_what_may_bring_company_or_take_away_what_is_in_the_way_helps(pod: Pod, event: Event, *, helps: bool) -> None:
    assert is_helped(INTER_POD_AFFINITY, pod, event) is helps

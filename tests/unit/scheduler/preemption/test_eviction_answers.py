"""Why nobody can make room for a pod on a node, one reason at a time."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from allocator.api.allocation import Consumer
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced
from scheduler.preemption.eviction_answers import NOT_FOR_DEVICES, EvictionAnswers, eviction_answers
from scheduler.preemption.preemption import ENDING, NEVER
from tests.builders import NODE, a_node, everywhere, watched
from tests.properties.preemption.oracle import answer
from tests.properties.preemption.worlds import a_world, cluster_of_world
from tests.unit.scheduler.preemption.test_preemption import (
    BY_PREEMPTION,
    HELD,
    OWN,
    WANTS,
    a_cluster,
    a_holder,
    low,
    urgent,
    with_device,
)

WORLDS = 150
GROUP = Consumer("scheduling.k8s.io", "podgroups", "gang", "u")


def asked(cluster: Cluster, pod: Pod, *claims: Any, wins_devices: bool = True) -> EvictionAnswers:
    refused = decide(cluster, pod, claims)
    assert isinstance(refused, NotPlaced)
    return eviction_answers(PodCycle(cluster, pod, claims), refused, wins_devices=wins_devices)


def reserved_for_nobody() -> Cluster:
    cluster = with_device(a_holder("x"))
    cluster.set_claim(watched(HELD), 2)
    return cluster


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (
            with_device(a_holder("x"), a_holder("y", priority=20)),
            "claim default/held is shared with pod default/y of priority 20",
        ),
        (with_device(a_holder("y", priority=10)), "claim default/held is used by pod default/y of priority 10"),
        (
            with_device(a_holder("x"), a_holder("y", node_name="far")),
            "claim default/held is shared with pod default/y on node far",
        ),
        (with_device(a_holder("x", is_static=True)), "claim default/held is used by pod default/x, a mirror pod"),
        (with_device(a_holder("x"), others=(GROUP,)), "claim default/held is held by group gang"),
        (with_device(a_holder("x"), reach=everywhere()), "claim default/held has devices that other nodes reach"),
        (reserved_for_nobody(), "claim default/held is allocated, and reserved for nobody"),
    ],
    ids=["shared", "equal", "other node", "mirror", "group", "reached", "nobody"],
)
def test_claim_in_the_way_is_named_with_why_it_stays(cluster: Cluster, reason: str) -> None:
    found = asked(cluster, WANTS, OWN)
    assert found.won is None
    assert reason in found.refused[NODE]


@pytest.mark.parametrize(
    ("pods", "reasons"),
    [
        ([low("x", priority=10)], ["no pod of lower priority", "equal or higher priority: default/x (10)"]),
        (
            [low("x", is_static=True)],
            ["no pod of lower priority", "mirror pods, which the kubelet makes again: default/x"],
        ),
    ],
    ids=["equal", "mirror"],
)
def test_pods_that_cannot_go_are_named(pods: Sequence[Pod], reasons: Sequence[str]) -> None:
    assert list(asked(a_cluster(*pods), urgent()).refused[NODE]) == reasons


def test_pods_that_the_configuration_spares_are_named_as_such() -> None:
    cluster = a_cluster()
    cluster.by_priority.spares = lambda pod: pod.name == "x"
    for pod in (low("x"), low("y", is_static=True)):
        cluster.set_pod(pod)
    assert list(asked(cluster, urgent()).refused[NODE]) == [
        "no pod of lower priority",
        "mirror pods, which the kubelet makes again: default/y",
        "pods that the configuration spares (neverPreempt, preemptPodsOf): default/x",
    ]


def test_what_is_missing_with_everybody_lower_gone_is_named() -> None:
    cluster = a_cluster(low("x"), low("y", priority=10))
    first, second = asked(cluster, urgent()).refused[NODE]
    assert first == "not enough even if 1 pod of lower priority goes: Insufficient cpu"
    assert second == "equal or higher priority: default/y (10)"


def test_devices_that_are_missing_with_everybody_lower_gone_are_named() -> None:
    cluster = with_device(a_holder("x"), a_holder("y", priority=20))
    text = asked(cluster, WANTS, OWN).refused[NODE][0]
    assert text.startswith("not enough even if 1 pod of lower priority goes: request ")
    assert "needs 1 device" in text
    assert "held by default/held" in text


def test_node_that_no_end_of_pods_opens_says_so() -> None:
    cluster = a_cluster(low("x"))
    cluster.set_node(a_node("other", labels={}, unschedulable=True))
    found = asked(cluster, urgent())
    assert found.won is not None
    assert found.refused == {"other": ("evictions do not help there",)}


def test_pod_that_never_preempts_is_told_who_would_go() -> None:
    found = asked(a_cluster(low("x")), urgent(preempts=False))
    assert found.off == NEVER
    assert found.won is not None
    assert [pod.name for pod in found.won.pods] == ["x"]


def test_where_nobody_goes_for_devices_who_would_go_is_told() -> None:
    found = asked(with_device(a_holder("x")), WANTS, OWN, wins_devices=False)
    assert found.off == NOT_FOR_DEVICES
    assert found.won is not None
    assert found.claims == ("default/held",)
    assert asked(with_device(a_holder("x")), WANTS, OWN).off == ""


def test_pod_whose_victims_still_end_waits_for_them() -> None:
    ending = low("x", is_deleting=True, conditions=(BY_PREEMPTION,))
    found = asked(a_cluster(ending), urgent(nominated_node=NODE))
    assert (found.off, found.won, found.refused) == (ENDING, None, {})


def test_every_node_can_be_won_or_says_why_not() -> None:
    for number in range(WORLDS):
        world = a_world(Random(f"why/{number}"))  # noqa: S311 - not for secrets
        cluster, pod, claims = cluster_of_world(world)
        refused = decide(cluster, pod, claims)
        if not isinstance(refused, NotPlaced):
            continue
        found = eviction_answers(PodCycle(cluster, pod, claims), refused)
        expected = answer(world).victims
        assert {name: {one.name for one in won.pods} for name, won in found.candidates.items()} == expected
        assert found.refused.keys() == {one.name for one in world.machines} - expected.keys()
        for node, reasons in found.refused.items():
            assert reasons, node
            assert all(reasons)

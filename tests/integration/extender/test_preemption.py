"""Preemption by kube-scheduler for its own resources: only nodes where the devices would fit afterwards are taken."""

from collections.abc import Iterator

import pytest

from tests.controlplane.profiles import RELEASE
from tests.controlplane.rest import POD, Json
from tests.integration.extender.beside import Beside, an_entry
from tests.integration.extender.between import Between
from tests.integration.live.world import PRIORITY, a_device, a_request, is_free

PRIORITIES = {"lowest": 1, "low": 2, "high": 100}
MOST = {"cpu": "90"}
"""More than half of a node."""


@pytest.fixture(scope="module")
def entry(way: Between) -> Json:
    """Through somebody who keeps what was said."""
    return an_entry(way.url)


@pytest.fixture
def priorities(world: Beside) -> Iterator[None]:
    for name, value in PRIORITIES.items():
        world.a_priority(name, value)
    yield
    for name in PRIORITIES:
        world.api.delete(PRIORITY, name)


def on(node: str) -> dict[str, str]:
    """A selector of the node."""
    return {"kubernetes.io/hostname": node}


def a_fleet(world: Beside) -> None:
    """Two nodes whose cpu two pods take. node-0: another pod has the device. node-1: the same pod has it."""
    world.a_class()
    for node in ("node-0", "node-1"):
        world.a_node(node)
        world.a_slice(node, a_device())
        world.a_claim(f"of-{node}")
    world.a_pod("keeper", "of-node-0", nodeSelector=on("node-0"), priorityClassName="high")
    world.a_pod("small-loss", requests=MOST, nodeSelector=on("node-0"), priorityClassName="lowest")
    world.a_pod("great-loss", "of-node-1", requests=MOST, nodeSelector=on("node-1"), priorityClassName="low")
    for name in ("keeper", "small-loss", "great-loss"):
        world.bound(name)


@pytest.mark.usefixtures("priorities")
def test_victims_are_taken_where_their_devices_serve_and_spared_where_they_would_not(
    world: Beside, between: Between
) -> None:
    """kube-scheduler would rather evict the pod of the lowest priority, where the device is another's."""
    a_fleet(world)
    world.a_claim()
    world.a_pod("pod", "claim", requests=MOST, priorityClassName="high")
    (asked, *_) = between.await_calls("preempt", "pod")
    assert sorted(asked.request["NodeNameToMetaVictims"]) == ["node-0", "node-1"]
    assert list(asked.answer["NodeNameToMetaVictims"]) == ["node-1"]
    assert world.devices_of() == ["node-1/gpu-0"]
    world.gone(POD, "great-loss")
    assert world.node_of("small-loss") == "node-0"
    world.claim_when("of-node-1", is_free)


@pytest.mark.usefixtures("priorities")
def test_pod_without_claims_preempts_as_kube_scheduler_has_chosen(world: Beside, between: Between) -> None:
    a_fleet(world)
    world.a_pod("pod", requests=MOST, priorityClassName="high")
    (asked, *_) = between.await_calls("preempt", "pod")
    assert asked.answer["NodeNameToMetaVictims"] == asked.request["NodeNameToMetaVictims"]
    assert world.node_of() == "node-0"
    world.gone(POD, "small-loss")


@pytest.mark.usefixtures("priorities")
def test_nobody_is_evicted_where_the_devices_would_be_too_few_everywhere(world: Beside, between: Between) -> None:
    a_fleet(world)
    world.a_claim("claim", a_request(count=2))
    world.a_pod("pod", "claim", requests=MOST, priorityClassName="high")
    (asked, *_) = between.await_calls("preempt", "pod")
    assert asked.answer == {"NodeNameToMetaVictims": {}}
    world.refused("pod", "preemption")
    assert world.pod()["status"].get("nominatedNodeName") is None
    for name in ("keeper", "small-loss", "great-loss"):
        assert "deletionTimestamp" not in world.pod(name)["metadata"]


def a_user(world: Beside, name: str, priority: str) -> None:
    world.a_claim(name)
    world.a_pod(name, name, priorityClassName=priority, terminationGracePeriodSeconds=0)


def two_for_one_device(world: Beside) -> Json:
    """A pod of low priority has the only device, and one of high priority asks for it. The answer is the first one."""
    world.a_cluster()
    a_user(world, "first", "low")
    first = world.bound("first")
    a_user(world, "second", "high")
    return first


@pytest.mark.skipif(RELEASE >= "1.38", reason="kube-scheduler asks about nodes without victims from 1.38 on")
@pytest.mark.usefixtures("priorities")
def test_devices_alone_evict_nobody(world: Beside, between: Between) -> None:
    """kube-scheduler's preemption looks at its own resources only: who lacks a device waits for one."""
    two_for_one_device(world)
    world.refused("second", "Preemption is not helpful")
    assert between.of("preempt", "second") == []
    world.delete_pod("first")
    assert world.devices_of("second") == ["node-0/gpu-0"]


@pytest.mark.skipif(RELEASE < "1.38", reason="kube-scheduler asks about nodes without victims from 1.38 on")
@pytest.mark.usefixtures("priorities")
def test_kube_scheduler_evicts_for_devices_whom_the_extender_names(world: Beside, between: Between) -> None:
    first = two_for_one_device(world)
    (asked, *_) = between.await_calls("preempt", "second")
    assert not asked.request["NodeNameToMetaVictims"]["node-0"]["Pods"]
    (victim,) = asked.answer["NodeNameToMetaVictims"]["node-0"]["Pods"]
    assert victim["UID"] == first["metadata"]["uid"]
    assert world.devices_of("second") == ["node-0/gpu-0"]
    world.gone(POD, "first")

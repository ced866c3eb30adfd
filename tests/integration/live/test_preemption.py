"""Pods of high priority take the place of those of low priority: room on a node, and devices."""

from collections.abc import Iterator

import pytest

from tests.controlplane.rest import POD, Json
from tests.integration.live.world import PRIORITY, World

NOMINATION = "dra-scheduler.dev/nomination"
CLASSES = {"low": 1, "middle": 10, "high": 20}


@pytest.fixture
def preempting(world: World) -> Iterator[World]:
    """Pods of three priorities."""
    for name, value in CLASSES.items():
        world.a_priority(name, value)
    yield world
    for name in CLASSES:
        world.api.delete(PRIORITY, name)


def a_user(world: World, name: str, priority: str, **spec: object) -> None:
    """A pod with a claim of its own for one device."""
    world.a_claim(f"of-{name}")
    world.a_pod(name, f"of-{name}", priorityClassName=priority, **spec)


def disruption(pod: Json) -> Json | None:
    """The condition of a victim."""
    return next((one for one in pod["status"].get("conditions", ()) if one["type"] == "DisruptionTarget"), None)


def test_pod_gets_the_device_of_one_of_lower_priority(preempting: World) -> None:
    world = preempting
    world.a_cluster()
    a_user(world, "low", "low", terminationGracePeriodSeconds=0)
    assert world.devices_of("low") == ["node-0/gpu-0"]
    a_user(world, "high", "high")
    assert world.devices_of("high") == ["node-0/gpu-0"]
    world.gone(POD, "low")

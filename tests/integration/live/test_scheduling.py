"""Which pod is next, and which pods are not tried: priority, backoff, gates, and pods that go away meanwhile."""

from collections.abc import Iterator

import pytest

from tests.controlplane.faults import Hold, refuse
from tests.controlplane.identities import OURS
from tests.controlplane.ours import Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.proxy import Proxy
from tests.integration.live.world import (
    PRIORITY,
    World,
    a_device,
    a_request,
    is_allocated,
    is_free,
    settings_file,
)

SLOW = "slow-scheduler"
BACKOFF_S = 3600.0
"""Longer than any test: a pod in backoff stays there."""


@pytest.fixture
def priorities(world: World) -> Iterator[None]:
    """Classes named low, middle and high."""
    values = {"low": 1, "middle": 50, "high": 100}
    for name, value in values.items():
        world.a_priority(name, value)
    yield
    for name in values:
        world.api.delete(PRIORITY, name)


@pytest.fixture(scope="module")
def slow_program(plane: ControlPlane, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    """Another scheduler, for pods that name it, with a long backoff."""
    backoff = {"podInitialBackoffSeconds": BACKOFF_S, "podMaxBackoffSeconds": BACKOFF_S}
    file = settings_file(tmp_path_factory.mktemp("slow"), schedulerName=SLOW, **backoff)
    with scheduler(plane, [f"--config={file}"], kubeconfig=proxy.kubeconfig(OURS), name=f"dra-{SLOW}") as program:
        yield program


@pytest.fixture
def slow(world: World, slow_program: Scheduler) -> World:
    """The same cluster as that scheduler sees it."""
    return World(world.plane, world.proxy, slow_program)


@pytest.mark.usefixtures("priorities")
def test_of_pods_that_can_be_tried_at_once_the_one_of_the_highest_priority_is_first(world: World) -> None:
    world.a_class("gpu")
    world.a_class("fabric", "fabric.example")
    world.a_node()
    world.a_slice("node-0", a_device())
    world.a_slice("fabric", a_device("shared"), allNodes=True, driver="fabric.example")
    for name in ("low", "high", "middle"):
        world.a_claim(name)
        world.a_pod(name, name, "awaited-by-all", priorityClassName=name)
        world.await_queue(name, queue="gated")
    world.a_claim("awaited-by-all", a_request(deviceClassName="fabric"))
    assert world.devices_of("high") == ["node-0/gpu-0", "fabric/shared"]
    for name in ("low", "middle"):
        world.refused(name, "cannot allocate all claims")


def test_refused_pod_waits_for_its_backoff_while_new_ones_are_tried(slow: World) -> None:
    slow.a_class()
    slow.a_node()
    for name in ("first", "second"):
        slow.a_claim(name)
    slow.a_pod("first", "first", schedulerName=SLOW)
    waiting = slow.await_queue("first", queue="unschedulable")
    slow.a_slice("node-0", a_device())
    backing_off = slow.await_queue("first", queue="backoff", attempts=1)
    assert backing_off["ready"] - waiting["since"] == pytest.approx(BACKOFF_S)
    slow.a_pod("second", "second", schedulerName=SLOW)
    assert slow.devices_of("second") == ["node-0/gpu-0"]
    assert slow.queue()["first"]["attempts"] == 1


def test_event_that_cannot_help_a_refused_pod_does_not_wake_it(slow: World) -> None:
    slow.a_class()
    slow.a_node()
    slow.a_claim()
    slow.a_pod("pod", "claim", schedulerName=SLOW)
    slow.await_queue("pod", queue="unschedulable")
    slow.a_claim("another")
    slow.a_pod("another", schedulerName=SLOW)
    slow.bound("another")
    assert slow.queue()["pod"]["queue"] == "unschedulable"


def test_pods_of_other_schedulers_are_left_alone_and_what_they_have_is_counted(world: World) -> None:
    world.a_cluster()
    world.a_pod("theirs", schedulerName="nobody")
    world.a_pod("theirs-placed", schedulerName="nobody", nodeName="node-0", requests={"cpu": "95"})
    world.a_pod("large", requests={"cpu": "2"})
    world.refused("large", "Insufficient cpu")
    world.a_pod("small", requests={"cpu": "1"})
    world.bound("small")
    assert "theirs" not in world.queue()
    assert "nodeName" not in world.pod("theirs")["spec"]


def test_gated_pod_is_not_tried_before_its_last_gate_is_gone(world: World) -> None:
    world.a_cluster()
    world.a_claim()
    world.a_pod("pod", "claim", schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}])
    gated = world.await_queue("pod", queue="gated", attempts=0)
    assert "example.com/a" in gated["gate"]
    world.leave_gates("pod", {"name": "example.com/b"})
    world.await_queue("pod", queue="gated", attempts=0, gate=gated["gate"].replace("example.com/a, ", ""))
    assert is_free(world.claim())
    world.leave_gates()
    assert world.devices_of() == ["node-0/gpu-0"]


def test_pod_that_is_deleted_while_it_waits_is_forgotten(world: World) -> None:
    world.a_class()
    world.a_node()
    for name in ("deleted", "left"):
        world.a_claim(name)
        world.a_pod(name, name)
        world.refused(name)
    world.delete_pod("deleted")
    world.a_slice("node-0", a_device())
    assert world.devices_of("left") == ["node-0/gpu-0"]
    assert "deleted" not in world.queue()
    assert is_free(world.claim("deleted"))


@pytest.mark.parametrize("path", [r"/resourceclaims/deleted$", r"/resourceclaims/deleted/status$"])
def test_pod_that_is_deleted_while_its_claim_is_written_leaves_nothing(world: World, path: str) -> None:
    world.a_cluster()
    world.a_claim("deleted")
    hold = Hold()
    rule = world.proxy.on("PUT", path, hold)
    world.a_pod("deleted", "deleted")
    rule.met.wait()
    world.delete_pod("deleted")
    hold.release()
    world.claim_when("deleted", is_free)
    world.a_claim("next")
    world.a_pod("next", "next")
    assert world.devices_of("next") == ["node-0/gpu-0"]
    assert "deleted" not in world.queue()


def test_pod_that_is_deleted_while_it_is_bound_leaves_nothing(world: World) -> None:
    world.a_cluster()
    world.a_claim("deleted")
    hold = Hold()
    rule = world.proxy.on("POST", r"/pods/deleted/binding$", hold)
    world.a_pod("deleted", "deleted")
    rule.met.wait()
    world.delete_pod("deleted")
    hold.release()
    world.claim_when("deleted", is_free)
    world.a_claim("next")
    world.a_pod("next", "next")
    assert world.devices_of("next") == ["node-0/gpu-0"]


def test_pod_that_lacked_a_right_and_has_gone_leaves_the_scheduler_ready(world: World) -> None:
    world.a_cluster()
    world.a_claim()
    denied = refuse(403, "Forbidden", 'it is forbidden: User "dra" cannot update resource "resourceclaims"')
    world.proxy.on("PUT", r"/resourceclaims/claim$", denied, times=None)
    world.a_pod("pod", "claim")
    world.program.await_ready(lambda: "[-]writes failed" in world.program.reported("/readyz"))
    world.delete_pod()
    world.program.await_readyz()


def test_pod_of_the_same_name_is_another_pod(world: World) -> None:
    world.a_cluster()
    world.a_template()
    first = world.a_pod("pod", template="template")
    world.bound()
    world.delete_pod()
    second = world.a_pod("pod", template="template")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert world.devices_of() == ["node-0/gpu-0"]


def test_next_decisions_do_not_wait_for_a_slow_write(world: World) -> None:
    world.a_cluster(devices=2)
    for name in ("slow", "quick"):
        world.a_claim(name)
    hold = Hold()
    rule = world.proxy.on("PUT", r"/resourceclaims/slow/status$", hold)
    world.a_pod("slow", "slow")
    rule.met.wait()
    world.a_pod("quick", "quick")
    assert world.devices_of("quick") == ["node-0/gpu-1"]
    assert not is_allocated(world.claim("slow"))
    hold.release()
    assert world.devices_of("slow") == ["node-0/gpu-0"]


def test_pods_of_a_group_are_placed_one_by_one_where_the_server_knows_no_groups(world: World) -> None:
    world.a_cluster()
    world.a_claim()
    world.a_pod("pod", "claim", schedulingGroup={"podGroupName": "gang"})
    assert "schedulingGroup" not in world.bound()["spec"]

"""The extender that only advises: kube-scheduler's plugin allocates, and asks which nodes pass and which is best."""

from collections.abc import Iterator

import pytest

from scheduler.attempt.claim_objects import ANNOTATION as INTENT
from scheduler.extender.configuration import Mode
from scheduler.kube_scheduler.conversion import Setup, document, flags
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.process import Process
from tests.integration.extender.beside import SCHEDULER, Beside, Door
from tests.integration.extender.between import call
from tests.integration.live.world import some_devices

SETTINGS = {"mode": Mode.ADVISORY.value, "policy": "spread"}


def start_kube_scheduler(plane: ControlPlane, door: Door, name: str, port: int) -> Process:
    """With the configuration that is written for this mode, as far as it says who is asked and what."""
    tls = door.certificates.tls_of_scheduler()
    ca, certificate, key = (str(tls[field]) for field in ("caFile", "certFile", "keyFile"))
    url = f"https://127.0.0.1:{port}/v1"
    setup = Setup(Mode.ADVISORY, [name], url, ca, certificate, key, http_timeout_s=30)
    own = {"leaderElection": {"leaderElect": False}, "podMaxBackoffSeconds": 1}
    return plane.start_scheduler({**document(setup), **own}, flags=flags(setup))


@pytest.fixture(scope="module")
def kube_scheduler(plane: ControlPlane, door: Door) -> Iterator[Process]:
    program = start_kube_scheduler(plane, door, SCHEDULER, door.port)
    yield program
    program.stop()


@pytest.fixture
def alone(plane: ControlPlane, door: Door) -> Iterator[str]:
    """The name of a kube-scheduler whose extender is away."""
    program = start_kube_scheduler(plane, door, "alone", free_ports(1)[0])
    yield "alone"
    program.stop()


def test_kube_scheduler_allocates_where_the_policy_has_it(world: Beside) -> None:
    world.a_class()
    for number, devices in enumerate((1, 4, 2)):
        world.a_node(f"node-{number}")
        world.a_slice(f"node-{number}", *some_devices(devices))
    world.a_claim()
    world.a_pod("pod", "claim")
    assert world.devices_of() == ["node-1/gpu-0"]
    assert INTENT not in world.claim()["metadata"].get("annotations", {})
    assert world.proxy.writes() == []


def test_pod_without_claims_is_bound(world: Beside) -> None:
    world.a_node()
    world.a_pod()
    assert world.node_of() == "node-0"


@pytest.mark.parametrize("verb", ["preempt", "bind"])
def test_nothing_else_is_served(world: Beside, verb: str) -> None:
    context = world.door.certificates.context(world.door.certificates.client)
    assert call(world.door.port, context, verb, b"{}")[0] == 404


def test_while_the_extender_is_away_pods_are_placed_all_the_same(world: Beside, alone: str) -> None:
    world.a_cluster()
    world.a_claim()
    world.a_pod("pod", "claim", schedulerName=alone)
    assert world.devices_of() == ["node-0/gpu-0"]


@pytest.mark.needs("SchedulerPopFromBackoffQ")  # without it, pods in backoff need no waking
def test_pod_that_was_refused_before_the_new_slice_was_seen_is_woken(world: Beside) -> None:
    """kube-scheduler tries it again as soon as it sees the slice itself, and no more after that."""
    world.a_class()
    world.a_node()
    world.a_claim()
    world.a_pod("pod", "claim")
    world.refused("pod", "cannot allocate all claims")
    world.proxy.silence_watches("/resourceslices")
    world.a_slice("node-0", *some_devices(1))
    world.refused("pod", "request r needs 1 device")
    world.proxy.cut_watches("/resourceslices")
    assert world.devices_of() == ["node-0/gpu-0"]
    assert {write.path.partition("/node-0")[0] for write in world.proxy.writes()} == {"/api/v1/nodes"}

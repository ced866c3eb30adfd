"""The program as an operator meets it: a dry run, the end by SIGTERM, and a cluster with an older API alone."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from tests.controlplane.binaries import Binaries
from tests.controlplane.contents import clear
from tests.controlplane.faults import Hold
from tests.controlplane.identities import OURS
from tests.controlplane.ours import Program, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import POD, Json, Kind
from tests.controlplane.rights import grant
from tests.integration.attempt.conftest import await_right
from tests.integration.live.world import (
    DRIVER,
    NAMESPACE,
    World,
    a_request,
    an_object,
    is_free,
    reported,
    settings_file,
    users_of,
)

Start = Callable[..., World]
DECIDED = "scheduler_scheduling_algorithm_duration_seconds_count"
OLD = "resource.k8s.io/v1beta1"


@pytest.fixture
def start(plane: ControlPlane, proxy: Proxy, tmp_path: Path) -> Iterator[Start]:
    """Starts the program with further options, and gives the cluster as it sees it."""
    proxy.requests.clear()
    with ExitStack() as running:

        def start(*options: str) -> World:
            flags = [f"--config={settings_file(tmp_path)}", *options]
            program = scheduler(plane, flags, kubeconfig=proxy.kubeconfig(OURS), name=f"dra-{tmp_path.name}")
            return World(plane, proxy, running.enter_context(program))

        yield start
    proxy.forget_rules()
    clear(plane, with_rights=False)


def stop_in_the_background(program: Program) -> Thread:
    """Returns when the program has been told to end, and has not ended yet."""
    stopping = Thread(target=program.stop)
    stopping.start()
    program.await_ready(lambda: "stopping: " in program.log.read_text())
    return stopping


def said(program: Program, message: str) -> list[Json]:
    """The entries of its log with that message."""
    entries = [json.loads(line) for line in program.log.read_text().splitlines()]
    return [entry for entry in entries if entry["message"] == message]


def test_dry_run_says_what_it_would_do_and_writes_nothing(start: Start) -> None:
    world = start("--dry-run")
    world.a_cluster(devices=2)
    for name in ("first", "second"):
        world.a_claim(name)
        world.a_pod(name, name)
        world.await_metric(DECIDED, 1 if name == "first" else 2)
    world.a_claim("five", a_request(count=5))
    world.a_pod("too-large", "five")
    world.await_queue("too-large", queue="unschedulable")
    bound = said(world.program, "would be bound")
    assert [(one["pod"], one["node"], one["devices"]) for one in bound] == [
        (f"{NAMESPACE}/first", "node-0", [f"{DRIVER}/node-0/gpu-0"]),
        (f"{NAMESPACE}/second", "node-0", [f"{DRIVER}/node-0/gpu-1"]),
    ]
    (refused,) = said(world.program, "not placed")
    assert refused["message_of_pod"].startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    world.program.stop()
    assert world.proxy.writes() == []
    assert reported(world.pod("too-large")) is None


def test_dry_run_decides_for_a_pod_once_and_gives_back_what_a_deleted_one_would_have(start: Start) -> None:
    world = start("--dry-run")
    world.a_cluster()
    for name in ("first", "second"):
        world.a_claim(name)
    pod = world.a_pod("first", "first")
    world.await_metric(DECIDED, 1)
    world.api.replace({**world.pod("first"), "metadata": {**pod["metadata"], "labels": {"a": "b"}}})
    world.a_pod("second", "second")
    world.await_queue("second", queue="unschedulable")
    world.delete_pod("first")
    world.await_metric(DECIDED, 3)
    decided = [one["pod"] for one in said(world.program, "would be bound")]
    assert decided == [f"{NAMESPACE}/first", f"{NAMESPACE}/second"]
    failed = [line for line in world.program.reported("/metrics").splitlines() if 'result="error"' in line]
    assert [line for line in failed if not line.endswith(" 0.0")] == []


def test_program_that_is_asked_to_end_finishes_what_it_has_begun(start: Start) -> None:
    world = start()
    world.a_cluster()
    world.a_claim()
    hold = Hold()
    rule = world.proxy.on("PUT", r"/resourceclaims/claim/status$", hold)
    world.a_pod("pod", "claim")
    rule.met.wait()
    stopping = stop_in_the_background(world.program)
    hold.release()
    stopping.join()
    assert world.program.exit_code == 0
    assert world.pod()["spec"]["nodeName"] == "node-0"
    assert users_of(world.claim()) == ["pod"]
    assert world.events("pod", "Scheduled")


def test_program_that_is_asked_to_end_takes_back_what_does_not_end_in_time(start: Start) -> None:
    world = start()
    world.a_cluster()
    world.a_claim()
    hold = Hold()
    rule = world.proxy.on("PUT", r"/resourceclaims/claim/status$", hold, times=None)
    world.a_pod("pod", "claim")
    rule.met.wait()
    world.program.stop()
    assert world.program.exit_code == 0
    assert is_free(world.claim())
    world.proxy.forget_rules()
    hold.release()
    again = start()
    assert again.devices_of() == ["node-0/gpu-0"]


def test_program_that_is_asked_to_end_tries_no_further_pod(start: Start) -> None:
    world = start()
    world.a_cluster(devices=2)
    for name in ("begun", "late"):
        world.a_claim(name)
    hold = Hold()
    rule = world.proxy.on("PUT", r"/resourceclaims/begun/status$", hold)
    world.a_pod("begun", "begun")
    rule.met.wait()
    late = an_object(POD, "late", {**world.pod("begun")["spec"], "resourceClaims": [named("late")]}, NAMESPACE)
    stopping = stop_in_the_background(world.program)
    world.api.create(late)
    hold.release()
    stopping.join()
    assert world.program.exit_code == 0
    assert is_free(world.claim("late"))
    assert world.pod("begun")["spec"]["nodeName"] == "node-0"


def named(claim: str) -> Json:
    """An entry of a pod's claims."""
    return {"name": claim, "resourceClaimName": claim}


@pytest.fixture
def old_plane(binaries: Binaries, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane that serves the oldest version of resource.k8s.io and no other."""
    flags = {"kube-apiserver": [f"--runtime-config=resource.k8s.io/v1=false,{OLD}=true"]}
    with ControlPlane(binaries, tmp_path / "plane", flags=flags) as plane:
        grant(plane.client())
        await_right(plane.client(OURS), resource="resourceclaims", subresource="binding", is_given=True)
        yield plane


def test_pod_is_placed_where_only_the_oldest_version_of_the_api_is_served(old_plane: ControlPlane) -> None:
    claim, of_class, of_slice = (Kind(OLD, kind) for kind in ("ResourceClaim", "DeviceClass", "ResourceSlice"))
    with Proxy(old_plane) as proxy, scheduler(old_plane, kubeconfig=proxy.kubeconfig(OURS)) as program:
        assert f"; {OLD}; " in program.log.read_text()
        world = World(old_plane, proxy, program)
        world.a_node()
        world.api.create(an_object(of_class, "gpu", {}))
        pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "gpu-0", "basic": {}}]
        world.api.create(
            an_object(of_slice, "slice", {"driver": DRIVER, "nodeName": "node-0", "pool": pool, "devices": devices})
        )
        request = {"name": "r", "deviceClassName": "gpu"}
        world.api.create(an_object(claim, "claim", {"devices": {"requests": [request]}}, NAMESPACE))
        container = {"name": "c", "image": "none"}
        spec = {"schedulerName": "dra-scheduler", "containers": [container], "resourceClaims": [named("claim")]}
        world.api.create(an_object(POD, "pod", spec, NAMESPACE))
        assert world.node_of() == "node-0"
        stored = world.api.get(claim, "claim", NAMESPACE)
    assert users_of(stored) == ["pod"]
    assert stored["status"]["allocation"]["devices"]["results"] == [
        {"request": "r", "driver": DRIVER, "pool": "node-0", "device": "gpu-0"}
    ]

"""The kubelet agrees: its own DRA manager, with drivers, prepares pods that our scheduler bound, of every kind.

Of each pod: the kubelet admits it, each driver is asked once for each claim, with the devices that the claim has of it,
and the containers get the devices that they ask for. The program is tests/controlplane/kubelet.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.binaries import Unavailable, own_program
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import POD, SLICE, Json
from tests.integration.live.test_features import CONDITIONS, READY, a_part, permit_admin_access, selectors
from tests.integration.live.world import (
    DRIVER,
    NAMESPACE,
    World,
    a_device,
    a_request,
    an_object,
    claims_of,
    is_free,
    results_of,
    some_devices,
)

NIC = "nic.example"
GPU = "example.com/gpu"
NO_GO = "the kubelet's program is not at hand: install Go 1.26 or later (https://go.dev/dl) to have it built"
A_WHILE_S = 30
"""What a pod's node has to end it; ours needs no time."""


@pytest.fixture(scope="session")
def kubelet_program(pytestconfig: pytest.Config) -> Path:
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", file=sys.stderr, flush=True)  # noqa: T201 - a person waits for this

    try:
        return own_program("kubelet", os.environ, tell)
    except Unavailable:
        pytest.skip(NO_GO)


@contextmanager
def running(program: Path, plane: ControlPlane, folder: Path, drivers: Mapping[str, Json]) -> Iterator[Kubelet]:
    kubelet = Kubelet(program, plane, folder, drivers)
    try:
        kubelet.await_registered()
        yield kubelet
    finally:
        kubelet.stop()


@pytest.fixture(scope="module")
def kubelet(kubelet_program: Path, plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    """The kubelet of node-0, where two drivers run that publish nothing: the tests do."""
    with running(kubelet_program, plane, tmp_path_factory.mktemp("kubelet"), {DRIVER: {}, NIC: {}}) as found:
        yield found
        assert found.is_running, found.tail()


def a_pod(world: World, name: str = "pod", *claims: str, template: str = "", **spec: Any) -> None:
    """A pod whose container asks for all devices of all its claims."""
    entries = [*claims, *(["made"] if template else [])]
    container = {"name": "c", "image": "none", "resources": {"claims": [{"name": entry} for entry in entries]}}
    world.a_pod(name, *claims, template=template, **{"containers": [container], **spec})


def started(world: World, name: str) -> Json:
    """The pod when its kubelet has said what becomes of it."""
    return world.pod_when(name, lambda pod: pod["status"]["phase"] in ("Running", "Failed"))


def containers_of(world: World, kubelet: Kubelet, name: str = "pod") -> dict[str, list[str]]:
    """The devices that the containers of a running pod get; each driver was asked for what the claims have of it."""
    pod = started(world, name)
    assert pod["status"]["phase"] == "Running", pod["status"]["message"]
    uid = pod["metadata"]["uid"]
    (admitted,), (prepared,) = kubelet.records("admit", uid), kubelet.records("prepare", uid)
    assert {"error"} & (admitted.keys() | prepared.keys()) == set()
    for claim in all_claims_of(world, pod):
        asked = {one["driver"]: one for one in kubelet.records("NodePrepareResources", claim["metadata"]["uid"])}
        assert asked.keys() == {one["driver"] for one in results_of(claim)}
        for driver, call in asked.items():
            assert "error" not in call
            assert call["results"] == [one for one in results_of(claim) if one["driver"] == driver]
    return {container: sorted(devices) for container, devices in prepared.get("devices", {}).items()}


def all_claims_of(world: World, pod: Json) -> list[Json]:
    """The claims that the pod names, and that of its extended resources."""
    names = claims_of(pod) if "resourceClaims" in pod["spec"] else []
    extended = pod["status"].get("extendedResourceClaimStatus")
    return [world.claim(name) for name in (*names, *([extended["resourceClaimName"]] if extended else []))]


def unprepared(world: World, kubelet: Kubelet, name: str = "pod") -> None:
    """Return when the pod is deleted and gone: its kubelet has unprepared its claims without an error."""
    uid = world.pod(name)["metadata"]["uid"]
    world.api.delete(POD, name, NAMESPACE, grace_s=A_WHILE_S)
    world.gone(POD, name)
    (ended,) = kubelet.records("unprepare", uid)
    assert "error" not in ended


def cdi(*names: str, driver: str = DRIVER) -> list[str]:
    """The devices of node-0 as containers get them."""
    return [f"{driver}/device=node-0.{name}" for name in names]


def calls_for(kubelet: Kubelet, claim: Json) -> list[str]:
    """What the drivers were asked for the claim, in order."""
    return [one["step"] for one in kubelet.records(uid=claim["metadata"]["uid"])]


def test_devices_of_a_claim_are_prepared_and_unprepared(world: World, kubelet: Kubelet) -> None:
    world.a_cluster(devices=3)
    claim = world.a_claim("claim", a_request("pair", count=2), a_request("single"))
    container = {"name": "c", "image": "none", "resources": {"claims": [{"name": "claim", "request": "pair"}]}}
    idle = {"name": "idle", "image": "none"}
    a_pod(world, "pod", "claim", containers=[container, idle])
    assert containers_of(world, kubelet) == {"c": cdi("gpu-0", "gpu-1")}
    unprepared(world, kubelet)
    assert calls_for(kubelet, claim) == ["NodePrepareResources", "NodeUnprepareResources"]
    world.claim_when("claim", is_free)


def test_next_pod_gets_a_device_that_is_unprepared(world: World, kubelet: Kubelet) -> None:
    world.a_cluster()
    for name in ("first", "second"):
        world.a_claim(name)
        a_pod(world, name, name)
    assert containers_of(world, kubelet, "first") == {"c": cdi("gpu-0")}
    world.refused("second")
    unprepared(world, kubelet, "first")
    assert containers_of(world, kubelet, "second") == {"c": cdi("gpu-0")}


def test_claim_of_a_template_is_the_pods_own(world: World, kubelet: Kubelet) -> None:
    world.a_cluster(devices=2)
    world.a_template("template")
    for name in ("first", "second"):
        a_pod(world, name, template="template")
    given = [containers_of(world, kubelet, name)["c"] for name in ("first", "second")]
    assert sorted(given) == [cdi("gpu-0"), cdi("gpu-1")]


def test_pods_of_one_claim_share_what_is_prepared_once(world: World, kubelet: Kubelet) -> None:
    world.a_cluster()
    claim = world.a_claim()
    for name in ("first", "second"):
        a_pod(world, name, "claim")
    for name in ("first", "second"):
        assert containers_of(world, kubelet, name) == {"c": cdi("gpu-0")}
    unprepared(world, kubelet, "first")
    assert calls_for(kubelet, claim) == ["NodePrepareResources"]
    unprepared(world, kubelet, "second")
    assert calls_for(kubelet, claim) == ["NodePrepareResources", "NodeUnprepareResources"]


def test_each_driver_of_a_claim_prepares_its_own_devices(world: World, kubelet: Kubelet) -> None:
    world.a_cluster()
    world.a_class("nic", NIC)
    world.a_slice("node-0", a_device("nic-0"), driver=NIC)
    world.a_claim("claim", a_request("gpu"), {"name": "nic", "exactly": {"deviceClassName": "nic"}})
    a_pod(world, "pod", "claim")
    assert containers_of(world, kubelet) == {"c": [*cdi("gpu-0"), *cdi("nic-0", driver=NIC)]}
    unprepared(world, kubelet)


@pytest.mark.needs("DRAConsumableCapacity")
def test_shares_of_a_device_are_prepared_for_two_pods(world: World, kubelet: Kubelet) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device(allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi"}}))
    for name in ("first", "second"):
        world.a_claim(name, a_request(capacity={"requests": {"memory": "40Gi"}}))
        a_pod(world, name, name)
    for name in ("first", "second"):
        assert containers_of(world, kubelet, name) == {"c": cdi("gpu-0")}


@pytest.mark.needs("DRAPartitionableDevices")
def test_parts_of_a_device_are_prepared_for_two_pods(world: World, kubelet: Kubelet) -> None:
    world.a_class()
    world.a_node()
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    world.a_slice("node-0", pool=pool, sharedCounters=counters)
    parts = [a_part("half-0", "40Gi"), a_part("half-1", "40Gi"), a_part("whole", "80Gi")]
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "node-0", "devices": parts}
    world.api.create(an_object(SLICE, "parts", spec))
    for name in ("first", "second"):
        world.a_claim(name)
        a_pod(world, name, name)
    given = [containers_of(world, kubelet, name)["c"] for name in ("first", "second")]
    assert sorted(given) == [cdi("half-0"), cdi("half-1")]


def test_administrator_gets_a_device_beside_its_user(world: World, kubelet: Kubelet) -> None:
    world.a_cluster()
    world.a_claim("user")
    a_pod(world, "user", "user")
    assert containers_of(world, kubelet, "user") == {"c": cdi("gpu-0")}
    try:
        permit_admin_access(world, is_permitted=True)
        world.a_claim("admin", a_request(adminAccess=True))
        a_pod(world, "admin", "admin")
        assert containers_of(world, kubelet, "admin") == {"c": cdi("gpu-0")}
        unprepared(world, kubelet, "admin")
    finally:
        permit_admin_access(world, is_permitted=False)


def test_container_gets_the_alternative_that_was_chosen(world: World, kubelet: Kubelet) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device("gpu-0", attributes={"size": {"string": "small"}}))
    alternatives = [
        {
            "name": size,
            "deviceClassName": "gpu",
            "selectors": selectors(f'device.attributes["{DRIVER}"].size == "{size}"'),
        }
        for size in ("large", "small")
    ]
    world.a_claim("claim", {"name": "r", "firstAvailable": alternatives})
    container = {"name": "c", "image": "none", "resources": {"claims": [{"name": "claim", "request": "r"}]}}
    a_pod(world, "pod", "claim", containers=[container])
    assert containers_of(world, kubelet) == {"c": cdi("gpu-0")}
    assert [one["request"] for one in results_of(world.claim())] == ["r/small"]


@pytest.mark.needs("DRAExtendedResource")
def test_each_container_gets_its_extended_resources(world: World, kubelet: Kubelet) -> None:
    world.a_class(extendedResourceName=GPU)
    world.a_node()
    world.a_slice("node-0", *some_devices(3))
    sizes = {"one": "1", "two": "2"}
    containers = [
        {"name": name, "image": "none", "resources": {"requests": {GPU: count}, "limits": {GPU: count}}}
        for name, count in sizes.items()
    ]
    world.a_pod("pod", containers=containers)
    given = containers_of(world, kubelet)
    assert {name: len(devices) for name, devices in given.items()} == {"one": 1, "two": 2}
    assert sorted(device for devices in given.values() for device in devices) == cdi("gpu-0", "gpu-1", "gpu-2")
    claim = all_claims_of(world, world.pod())[0]
    unprepared(world, kubelet)
    assert calls_for(kubelet, claim) == ["NodePrepareResources", "NodeUnprepareResources"]


@pytest.mark.needs("DRAExtendedResource")
def test_extended_resources_and_claims_of_one_pod_are_prepared(world: World, kubelet: Kubelet) -> None:
    world.a_class(extendedResourceName=GPU)
    world.a_node()
    world.a_slice("node-0", *some_devices(2))
    world.a_claim()
    amounts = {GPU: "1"}
    resources = {"requests": amounts, "limits": amounts, "claims": [{"name": "claim"}]}
    a_pod(world, "pod", "claim", containers=[{"name": "c", "image": "none", "resources": resources}])
    assert containers_of(world, kubelet) == {"c": cdi("gpu-0", "gpu-1")}


@pytest.mark.needs("DRADeviceBindingConditions")
def test_device_with_conditions_is_prepared_once_they_are_met(world: World, kubelet: Kubelet) -> None:
    world.a_class()
    world.a_node()
    world.a_slice("node-0", a_device("gpu-0", **CONDITIONS))
    claim = world.a_claim()
    a_pod(world, "pod", "claim")
    world.events("pod", "BindingConditionsPending")
    assert calls_for(kubelet, claim) == []
    world.report("claim", READY)
    assert containers_of(world, kubelet) == {"c": cdi("gpu-0")}


def test_driver_gets_the_configuration_of_class_and_claim(world: World, kubelet: Kubelet) -> None:
    of_class, of_claim = ({"opaque": {"driver": DRIVER, "parameters": {"mode": mode}}} for mode in ("slow", "fast"))
    world.a_class(config=[of_class])
    world.a_node()
    world.a_slice("node-0", a_device())
    claim = world.a_claim("claim", config=[{"requests": ["r"], **of_claim}])
    a_pod(world, "pod", "claim")
    containers_of(world, kubelet)
    (call,) = kubelet.records("NodePrepareResources", claim["metadata"]["uid"])
    assert [one["opaque"]["parameters"]["mode"] for one in call["config"]] == ["slow", "fast"]
    assert call["config"] == world.claim()["status"]["allocation"]["devices"]["config"]


@pytest.mark.needs("DRAPartitionableDevices")
def test_devices_that_a_driver_publishes_itself_are_prepared(
    world: World, kubelet_program: Path, tmp_path: Path
) -> None:
    world.a_class()
    world.a_node("own-0")
    counters = {"sharedCounters": [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]}
    parts = {"devices": [a_part("half-0", "40Gi"), a_part("half-1", "40Gi")]}
    published = {DRIVER: {"pools": {"own-0": {"slices": [counters, parts]}}}}
    own = Kubelet(kubelet_program, world.plane, tmp_path, published, "own-0")
    try:
        own.await_registered()
        world.a_claim("claim", a_request(count=2))
        a_pod(world, "pod", "claim")
        assert containers_of(world, own) == {"c": [f"{DRIVER}/device=own-0.half-{index}" for index in (0, 1)]}
        unprepared(world, own)
    finally:
        own.stop()


def test_kubelet_refuses_a_pod_whose_claim_nobody_allocated(world: World, kubelet: Kubelet) -> None:
    """What the others rest on: the program does refuse."""
    world.a_cluster()
    world.a_claim()
    a_pod(world, "pod", "claim", nodeName="node-0")
    pod = started(world, "pod")
    assert pod["status"]["phase"] == "Failed"
    (prepared,) = kubelet.records("prepare", pod["metadata"]["uid"])
    assert "is not allowed to use ResourceClaim claim" in prepared["error"]
    assert pod["status"]["message"] == prepared["error"]


def test_driver_refuses_a_device_that_another_claim_has(world: World, kubelet: Kubelet) -> None:
    """What the others rest on: a device that was given twice would show."""
    world.a_cluster()
    world.a_claim("first")
    a_pod(world, "first", "first")
    containers_of(world, kubelet, "first")
    stored = world.a_claim("second")
    a_pod(world, "second", "second", schedulerName="another")
    pod = world.pod("second")
    users = [{"resource": "pods", "name": "second", "uid": pod["metadata"]["uid"]}]
    allocation = world.claim("first")["status"]["allocation"]
    world.api.replace_status({**stored, "status": {"allocation": allocation, "reservedFor": users}})
    metadata = {"name": "second", "namespace": NAMESPACE}
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    world.api.create({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})
    message = started(world, "second")["status"]["message"]
    assert "device node-0/gpu-0 of claim" in message
    assert "is in use by claim" in message

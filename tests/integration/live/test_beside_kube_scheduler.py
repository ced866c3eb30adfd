"""Ours beside the real kube-scheduler: the guard keeps each to its own drivers, and what should never be is found."""

from collections.abc import Iterator

import pytest

from tests import extent
from tests.controlplane.contents import manifests, restore
from tests.controlplane.identities import STOCK
from tests.controlplane.ours import Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, POD, ApiError, Json, Kind, RestClient
from tests.integration.conftest import ROOT
from tests.integration.live.crowd import (
    GPU,
    NAMESPACE,
    NET,
    WITHIN_S,
    a_claim,
    a_pod,
    await_placed,
    devices_of,
    emptied,
    furnished,
    placed,
    refused,
    send,
    wrongs,
)
from tests.integration.live.history import History
from tests.integration.live.world import EVENT
from tests.soak.checker import HELD_TWICE

NODES, DEVICES, PODS = (20, 13, 250) if extent.is_nightly() else (20, 5, 95)
ADMISSION = "admissionregistration.k8s.io/v1"
POLICY = Kind(ADMISSION, "ValidatingAdmissionPolicy")
POLICY_BINDING = Kind(ADMISSION, "ValidatingAdmissionPolicyBinding")
GUARD = ROOT / "manifests" / "guard" / "policy.yaml"
KUBE_SCHEDULER = "default-scheduler"
FAST = {"clientConnection": {"qps": 5000, "burst": 5000}}


fleet = furnished(NODES, DEVICES, (GPU, NET))
api = emptied()


@pytest.fixture
def guard(plane: ControlPlane, api: RestClient) -> Iterator[None]:
    """The guard, in force: ours allocates GPU, and everybody else the other drivers."""
    restore(api, manifests(GUARD))
    await_guard(plane, api, is_in_force=True)
    yield
    api.delete(POLICY_BINDING, "dra-scheduler-drivers")
    api.delete(POLICY, "dra-scheduler-drivers")
    await_guard(plane, api, is_in_force=False)


def await_guard(plane: ControlPlane, api: RestClient, *, is_in_force: bool) -> None:
    """Ask until a policy that was just written keeps the other scheduler from our driver, or does so no more."""
    claim, stock = api.create(a_claim("asked")), plane.client(STOCK)
    asked = {**claim, "status": an_allocation(GPU, "node-0", "dev-0")}
    poll_until(lambda told: told is is_in_force, lambda: is_refused(stock, asked), f"in force: {is_in_force}")
    api.delete(CLAIM, "asked", NAMESPACE)


def is_refused(client: RestClient, claim: Json) -> bool:
    """Whether it would be forbidden to write the claim's status."""
    try:
        client.replace_status(claim, is_dry=True)
    except ApiError as error:
        if error.reason != "Forbidden":
            raise
        return True
    return False


def an_allocation(driver: str, node: str, device: str) -> Json:
    """As anybody may write it."""
    return {
        "allocation": {"devices": {"results": [{"request": "r", "driver": driver, "pool": node, "device": device}]}}
    }


@pytest.mark.usefixtures("guard", "program")
def test_each_places_the_pods_of_its_own_drivers_and_none_of_the_others(plane: ControlPlane, api: RestClient) -> None:
    """Of the pods of each scheduler, some want a device that is the other's to give: these wait."""
    crowd = [a_pod(f"ours-{number}", GPU) for number in range(PODS - 5)]
    crowd += [a_pod(f"theirs-{number}", NET, scheduler=KUBE_SCHEDULER) for number in range(PODS - 5)]
    strays = [a_pod(f"ours-astray-{number}", NET) for number in range(5)]
    strays += [a_pod(f"theirs-astray-{number}", GPU, scheduler=KUBE_SCHEDULER) for number in range(5)]
    kube_scheduler = plane.start_scheduler(FAST)
    try:
        with History(api) as history:
            send(plane, [*strays, *crowd])
            pods = await_placed(api, len(crowd))
            api.await_all(POD, lambda pods: len(refused(pods)) == len(strays), NAMESPACE, WITHIN_S)
        assert {pod["metadata"]["name"] for pod in placed(pods)} == {pod["metadata"]["name"] for pod in crowd}
    finally:
        kube_scheduler.stop()
    assert history.wrongs() == []
    devices = [device for claim in api.list(CLAIM, NAMESPACE) for device in devices_of(claim)]
    assert len(devices) == len(set(devices)) == len(crowd)


def test_device_that_somebody_gives_away_a_second_time_is_found(
    plane: ControlPlane, api: RestClient, program: Scheduler
) -> None:
    with History(api) as history:
        send(plane, [a_pod("ours", GPU)])
        await_placed(api, 1)
        (given,) = api.list(CLAIM, NAMESPACE)
        give_again(api, given)
        program.await_ready(lambda: violations(program) == 1, WITHIN_S)
        (device,) = devices_of(given)
        assert (
            f"{device}: claims {NAMESPACE}/{given['metadata']['name']}, {NAMESPACE}/theirs" in program.log.read_text()
        )
        both = {given["metadata"]["name"], "theirs"}
        reported = api.await_all(EVENT, lambda events: {*map(warned_of, events)} >= both, NAMESPACE, WITHIN_S)
        assert all(device in one["note"] and one["type"] == "Warning" for one in reported if warned_of(one))
        assert f"warn: devices: {device}" in program.reported("/readyz?verbose")
        assert program.reported("/readyz") == "ok"
        assert wrongs(api)
        api.delete(CLAIM, "theirs", NAMESPACE)
    assert any(wrong.startswith(HELD_TWICE) for wrong in history.wrongs())


def warned_of(event: Json) -> str:
    """The claim that the event says holds a device of another's, empty where it says something else."""
    return str(event["regarding"]["name"]) if event["reason"] == "DeviceDoubleAllocated" else ""


def give_again(api: RestClient, given: Json) -> None:
    """The same device for the claim of another pod, which comes with its node."""
    pod = a_pod("theirs", scheduler="theirs")
    pod["spec"]["nodeName"] = "node-0"
    theirs, claim = api.create(pod), api.create(a_claim("theirs"))
    user = {"resource": "pods", "name": "theirs", "uid": theirs["metadata"]["uid"]}
    api.replace_status({**claim, "status": {"allocation": given["status"]["allocation"], "reservedFor": [user]}})


def violations(program: Scheduler) -> int:
    """How often a device was found to be used twice."""
    name = 'dra_scheduler_invariant_violations_total{invariant="I1"} '
    lines = program.reported("/metrics").splitlines()
    return sum(int(float(line.removeprefix(name))) for line in lines if line.startswith(name))

"""Devices that have to be made ready before their pod is bound."""

from collections.abc import Callable

import pytest

from allocator.model import DeviceID
from scheduler.attempt.decision import Bound, Decision, Retry
from scheduler.attempt.steps.pod import CLOCK_SLACK
from tests.controlplane.faults import refuse
from tests.controlplane.rest import Json
from tests.integration.attempt.scene import DRIVER, NAMESPACE, NODE, POOL, Scene, gets, is_untouched

pytestmark = pytest.mark.needs("DRADeviceBindingConditions")

READY = ("example.com/attached",)
BROKEN = ("example.com/broken",)
DEVICE = DeviceID(DRIVER, POOL, "gpu-0")


def a_decision(scene: Scene) -> Decision:
    plan = gets(scene.a_claim(), "gpu-0", binding_conditions=READY, binding_failure_conditions=BROKEN)
    return scene.a_decision(scene.a_pod("claim"), plan)


def report(scene: Scene, condition: str) -> None:
    """What the device's driver writes into the claim."""
    claim = scene.claim()
    time = "2026-01-01T00:00:00Z"
    said = {
        "type": condition,
        "status": "True",
        "reason": "Told",
        "message": "by the driver",
        "lastTransitionTime": time,
    }
    device = {"driver": DRIVER, "pool": POOL, "device": "gpu-0", "conditions": [said]}
    scene.api.replace_status({**claim, "status": {**claim["status"], "devices": [device]}})


def after(scene: Scene, seconds: float, act: Callable[[], object]) -> None:
    """Let it happen once, when so much time has passed."""
    done: list[object] = []

    def look() -> None:
        if scene.time.passed_s >= seconds and not done:
            done.append(act())

    scene.time.on_sleep = look


def test_pod_is_bound_once_its_devices_are_ready(scene: Scene) -> None:
    after(scene, 20, lambda: report(scene, READY[0]))
    assert scene.bind(a_decision(scene)) == Bound(NODE)
    assert 20 <= scene.time.passed_s < 30
    assert scene.reported == [f"waiting for binding conditions of devices {DEVICE}", "PreBind done", "Bind done"]


@pytest.mark.needs("ClearingNominatedNodeNameAfterBinding")
def test_pod_that_waits_for_its_devices_says_where_it_is_about_to_go_and_is_bound_in_that_version(scene: Scene) -> None:
    nominated: list[str] = []

    def look() -> None:
        nominated.append(scene.pod()["status"]["nominatedNodeName"])
        report(scene, READY[0])

    after(scene, 20, look)
    assert scene.bind(a_decision(scene)) == Bound(NODE)
    assert nominated == [NODE]
    assert "nominatedNodeName" not in scene.pod()["status"]
    assert [path for method, path, _ in scene.calls() if "pods/" in path] == ["pods/pod/status", "pods/pod/binding"]


def test_attempt_that_comes_to_nothing_takes_its_nomination_back(scene: Scene) -> None:
    after(scene, 20, lambda: report(scene, BROKEN[0]))
    assert isinstance(scene.bind(a_decision(scene)), Retry)
    assert "nominatedNodeName" not in scene.pod()["status"]


def test_nomination_of_somebody_else_is_left_alone(scene: Scene) -> None:
    def nominate_elsewhere_and_report() -> None:
        pod = scene.pod()
        scene.api.replace_status({**pod, "status": {**pod["status"], "nominatedNodeName": "elsewhere"}})
        report(scene, BROKEN[0])

    after(scene, 20, nominate_elsewhere_and_report)
    assert isinstance(scene.bind(a_decision(scene)), Retry)
    assert scene.pod()["status"]["nominatedNodeName"] == "elsewhere"


def test_pod_that_cannot_be_nominated_is_bound_all_the_same(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.proxy.on("PATCH", r"/pods/pod/status$", refuse(500, "InternalError"), times=None)
    after(scene, 20, lambda: report(scene, READY[0]))
    assert scene.bind(a_decision(scene)) == Bound(NODE)
    (record,) = caplog.records
    assert "cannot write status.nominatedNodeName" in record.getMessage()


def test_failure_condition_gives_the_devices_back_and_names_them(scene: Scene) -> None:
    after(scene, 20, lambda: report(scene, BROKEN[0]))
    outcome = scene.bind(a_decision(scene))
    assert isinstance(outcome, Retry)
    assert outcome.failed == (DEVICE,)
    assert scene.reported[1:] == ["PreBind not done", "rolled back"]
    assert outcome.reason == (
        f"claim work/claim: device binding failed: device {DEVICE} has the condition {BROKEN[0]}: by the driver"
    )
    assert is_untouched(scene.claim())


def test_devices_that_do_not_become_ready_in_time_are_given_back(scene: Scene) -> None:
    outcome = scene.bind(a_decision(scene))
    assert isinstance(outcome, Retry)
    assert outcome.reason == f"claim work/claim: device binding timeout: not ready within 60 s: {DEVICE}"
    assert outcome.failed == (DEVICE,)
    assert scene.time.passed_s > 60 + CLOCK_SLACK.total_seconds()
    assert is_untouched(scene.claim())


def test_claim_that_its_controller_deallocates_meanwhile_ends_the_wait(scene: Scene) -> None:
    def delete_and_await() -> Json:
        scene.delete_pod()
        return scene.become("claim", lambda claim: "allocation" not in claim.get("status", {}))

    after(scene, 20, delete_and_await)
    outcome = scene.bind(a_decision(scene))
    assert outcome == Retry("claim work/claim was deallocated while the pod waited for its devices")
    assert is_untouched(scene.claim())


def test_node_that_goes_while_its_devices_are_made_ready_ends_the_wait(scene: Scene) -> None:
    after(scene, 20, lambda: setattr(scene.watched, "is_node_gone", True))
    assert scene.bind(a_decision(scene)) == Retry(f"node {NODE} is gone")
    assert scene.time.passed_s < 30
    assert is_untouched(scene.claim())


def test_nothing_is_read_while_the_devices_are_made_ready(scene: Scene) -> None:
    after(scene, 20, lambda: report(scene, READY[0]))
    assert scene.bind(a_decision(scene)) == Bound(NODE)
    reads = [one.path for one in scene.proxy.requests if one.method == "GET" and "watch" not in one.query]
    assert reads == [f"/api/v1/namespaces/{NAMESPACE}/pods/pod"]  # for what it says of its node

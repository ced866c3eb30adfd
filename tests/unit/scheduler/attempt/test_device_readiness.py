"""When the devices of an allocated claim are ready for its pod."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from allocator.api.versions import Json
from allocator.model import DeviceID
from scheduler.attempt.steps.pod import (
    CLOCK_SLACK,
    DevicesFailed,
    DevicesPending,
    DevicesReady,
    is_overdue,
    readiness_of,
)
from tests.unit.scheduler.attempt.raw_claims import a_raw_claim, an_allocation

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, SECOND = (DeviceID("gpu.example", "pool-0", name) for name in ("gpu-0", "gpu-1"))


def a_claim(*devices: str, statuses: Sequence[Json] = (), failure: Sequence[str] = ("broken",)) -> Json:
    conditions = {"bindingConditions": ["attached", "powered"], "bindingFailureConditions": list(failure)}
    return a_raw_claim(allocation=an_allocation(*devices, more=conditions), statuses=statuses)


def a_status(device: str, *true: str, false: Sequence[str] = (), message: str = "") -> Json:
    conditions = [{"type": name, "status": "True", "message": message} for name in true]
    conditions += [{"type": name, "status": "False"} for name in false]
    return {"driver": "gpu.example", "pool": "pool-0", "device": device, "conditions": conditions}


def state(claim: Json, after_s: float = 0.0) -> DevicesReady | DevicesPending | DevicesFailed:
    return readiness_of(claim, NOW + timedelta(seconds=after_s), 600.0)


def test_devices_without_conditions_are_ready() -> None:
    assert state(a_raw_claim(allocation=an_allocation("gpu-0"))) == DevicesReady()


def test_claim_without_an_allocation_has_no_device_to_wait_for() -> None:
    assert state(a_raw_claim()) == DevicesReady()


def test_device_that_nobody_has_reported_on_is_awaited() -> None:
    assert state(a_claim("gpu-0")) == DevicesPending((FIRST,))
    assert state(a_claim("gpu-0", statuses=[{**a_status("gpu-0"), "conditions": None}])) == DevicesPending((FIRST,))


def test_all_conditions_of_all_devices_have_to_be_true() -> None:
    ready, half = a_status("gpu-0", "attached", "powered"), a_status("gpu-1", "attached", false=["powered"])
    assert state(a_claim("gpu-0", "gpu-1", statuses=[ready, half])) == DevicesPending((SECOND,))
    whole = a_status("gpu-1", "attached", "powered")
    assert state(a_claim("gpu-0", "gpu-1", statuses=[ready, whole])) == DevicesReady()


def test_failure_condition_counts_even_where_all_others_are_true() -> None:
    status = a_status("gpu-0", "attached", "powered", "broken", message="no power")
    reason = f"device binding failed: device {FIRST} has the condition broken: no power"
    assert state(a_claim("gpu-0", statuses=[status])) == DevicesFailed((FIRST,), reason)


def test_status_of_another_share_does_not_count() -> None:
    status = {**a_status("gpu-0", "attached", "powered"), "shareID": "other"}
    assert state(a_claim("gpu-0", statuses=[status])) == DevicesPending((FIRST,))


@pytest.mark.parametrize(("after_s", "kind"), [(629.0, DevicesPending), (631.0, DevicesFailed)])
def test_timeout_counts_from_the_allocation_with_slack_for_other_clocks(after_s: float, kind: type) -> None:
    assert isinstance(state(a_claim("gpu-0"), after_s), kind)


def test_ready_devices_are_never_overdue() -> None:
    status = a_status("gpu-0", "attached", "powered")
    assert state(a_claim("gpu-0", statuses=[status]), 10_000.0) == DevicesReady()


def test_allocation_without_a_time_is_never_overdue() -> None:
    assert not is_overdue({}, NOW, 0.0)
    assert is_overdue({"allocationTimestamp": "2025-12-31T23:59:00Z"}, NOW, 29.0)
    assert not is_overdue({"allocationTimestamp": "2025-12-31T23:59:00Z"}, NOW, 60.0 - CLOCK_SLACK.total_seconds())

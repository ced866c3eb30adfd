"""The condition of a pod that got no node, as it is read and written."""

from datetime import UTC, datetime

import pytest

from scheduler.attempt.pod_calls import current_of, not_scheduled, status_with
from scheduler.core_v1.pod_status import Condition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = not_scheduled("Unschedulable", "no room", 3)


def test_condition_of_a_raw_pod_is_read_with_all_it_says() -> None:
    other = {"type": "Ready", "status": "True"}
    own = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    raw = {"status": {"conditions": [other, {**own, "observedGeneration": 3}]}}
    assert current_of(raw) == REFUSED
    assert current_of({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}) == Condition(
        "PodScheduled", "True"
    )
    assert current_of({"status": {"conditions": [other]}}) is None
    assert current_of({}) is None


@pytest.mark.parametrize(
    ("standing", "has_time"),
    [(None, True), (Condition("PodScheduled", "True"), True), (Condition("PodScheduled", "False", "other"), False)],
)
def test_time_of_the_transition_is_written_where_the_status_changes(
    standing: Condition | None, *, has_time: bool
) -> None:
    (written,) = status_with(REFUSED, standing, NOW)["conditions"]
    time = {"lastTransitionTime": "2026-01-01T00:00:00Z"} if has_time else {}
    fields = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    assert written == {**fields, "observedGeneration": 3, **time}

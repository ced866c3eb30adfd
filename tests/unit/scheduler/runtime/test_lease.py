"""What a lease's record means to one who wants to lead, case by case, in client-go's terms."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.runtime.configuration import JITTER
from scheduler.runtime.leader_election import Durations, Elector

DURATIONS = Durations(15, 10, 2)
WALL = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = "2026-01-01T00:00:00.000000Z"


def of_another(renewed: int = 0, **spec: object) -> Mapping[str, Any]:
    """A lease that another process holds."""
    reported = {
        "holderIdentity": "other",
        "leaseDurationSeconds": 15,
        "acquireTime": FIRST,
        "renewTime": f"2026-01-01T00:00:{renewed:02}.000000Z",
        "leaseTransitions": 3,
    }
    return {"metadata": {"name": "l", "resourceVersion": "7"}, "spec": {**reported, **spec}}


def elector(*seen: tuple[Mapping[str, Any] | None, float]) -> Elector:
    """One that has read these, each at that time."""
    found = Elector("me", DURATIONS)
    for lease, moment in seen:
        found.read(lease, moment)
    return found


def leader(began: float = 0.0) -> Elector:
    """One that has made the lease."""
    found = elector((None, began))
    found.wrote(stored(found, began), began, began)
    return found


def stored(found: Elector, now: float) -> Mapping[str, Any]:
    """What it wants to write, as the API server has it then."""
    wanted = found.lease_to_write(now, WALL)
    assert wanted is not None
    return {**wanted, "metadata": {"name": "l", "resourceVersion": "8"}}


def test_lease_that_is_not_there_is_made() -> None:
    wanted = elector((None, 0)).lease_to_write(0, WALL)
    assert wanted == {
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": FIRST,
            "renewTime": FIRST,
            "leaseTransitions": 0,
        }
    }


def test_held_lease_is_left_alone_until_it_was_not_seen_to_change_for_its_duration() -> None:
    found = elector((of_another(0), 100), (of_another(2), 102), (of_another(2), 104))
    assert found.lease_to_write(116.9, WALL) is None
    wanted = found.lease_to_write(117, WALL)
    assert wanted is not None
    assert wanted["metadata"] == {"name": "l", "resourceVersion": "7"}
    assert (wanted["spec"]["holderIdentity"], wanted["spec"]["leaseTransitions"]) == ("me", 4)


@pytest.mark.parametrize("years", [-1, 1])
def test_times_of_day_in_a_record_decide_nothing(years: int) -> None:
    reported = f"{2026 + years}-01-01T00:00:00.000000Z"
    found = elector((of_another(acquireTime=reported, renewTime=reported), 100))
    assert found.lease_to_write(114, WALL) is None
    assert found.lease_to_write(115, WALL) is not None


def test_duration_that_counts_is_that_of_the_record() -> None:
    found = elector((of_another(leaseDurationSeconds=60), 100))
    assert found.lease_to_write(159, WALL) is None
    assert found.lease_to_write(160, WALL) is not None


def test_lease_that_was_given_up_is_taken_at_once() -> None:
    wanted = elector(
        (of_another(), 100), (of_another(1, holderIdentity="", leaseDurationSeconds=1), 101)
    ).lease_to_write(101, WALL)
    assert wanted is not None
    assert wanted["spec"]["leaseTransitions"] == 4


def test_lease_that_was_deleted_under_its_holder_is_not_taken_before_that_has_to_stop() -> None:
    found = elector((of_another(), 100), (None, 101))
    assert found.lease_to_write(114, WALL) is None
    assert found.lease_to_write(115, WALL) is not None


def test_leader_may_write_until_the_deadline_counted_from_before_its_write() -> None:
    found = elector((None, 0))
    found.wrote(stored(found, 5), 5, 8)
    assert found.leads(8)
    assert found.leads(14.9)
    assert not found.leads(15)


def test_answer_that_comes_after_the_deadline_elects_nobody() -> None:
    found = elector((None, 0))
    lease = stored(found, 5)
    found.wrote(lease, 5, 16)
    assert not found.leads(16)
    assert found.lease_to_write(16, WALL) is not None


def test_renewal_keeps_since_when_it_leads_and_counts_no_transition() -> None:
    found = leader()
    renewed = found.lease_to_write(2, WALL + timedelta(seconds=2))
    assert renewed is not None
    assert renewed["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": FIRST,
        "renewTime": "2026-01-01T00:00:02.000000Z",
        "leaseTransitions": 0,
    }
    assert renewed["metadata"]["resourceVersion"] == "8"


@pytest.mark.parametrize("holder", ["other", ""])
def test_leader_that_reads_another_name_leads_no_more_and_never_again(holder: str) -> None:
    found = leader()
    found.read(of_another(holderIdentity=holder), 1)
    assert not found.leads(1)
    assert found.lease_to_write(1000, WALL) is None


def test_leader_that_was_late_never_leads_again() -> None:
    found = leader()
    lease = stored(found, 9)
    assert found.lease_to_write(10, WALL) is None
    found.wrote(lease, 9, 11)
    assert not found.leads(11)


def test_leader_whose_lease_was_deleted_makes_it_again() -> None:
    found = leader()
    found.read(None, 2)
    wanted = found.lease_to_write(2, WALL)
    assert found.leads(2)
    assert wanted is not None
    assert "metadata" not in wanted


def test_lease_is_read_again_after_a_failure_and_not_after_a_success() -> None:
    found = leader()
    assert not found.must_read
    found.unsure()
    assert found.must_read


def test_epoch_is_later_than_that_before_though_the_clock_is_behind() -> None:
    found = elector((of_another(acquireTime="2026-06-01T00:00:00.000000Z"), 0))
    before = found.epoch
    found.wrote(stored(found, 15), 15, 15)
    assert found.epoch == before + 1


def test_release_lets_go_of_what_is_ours_alone() -> None:
    found = leader()
    wanted = found.released(WALL)
    assert wanted is not None
    assert wanted["spec"]["holderIdentity"] == ""
    assert wanted["spec"]["leaseDurationSeconds"] == 1
    assert wanted["metadata"]["resourceVersion"] == "8"
    assert elector((of_another(), 0)).released(WALL) is None
    assert elector((None, 0)).released(WALL) is None


def test_pauses_are_of_the_retry_period_and_end_where_something_is_due() -> None:
    standby = elector((of_another(), 100))
    assert standby.pause_s(100, 0) == 2
    assert standby.pause_s(100, 1) == pytest.approx(2 * (1 + JITTER))
    assert standby.pause_s(114, 0) == 1
    assert standby.pause_s(120, 0) == 2
    assert leader().pause_s(0, 1) == 2
    assert leader().pause_s(9, 1) == 1


def test_lease_that_was_given_up_is_told_from_one_that_was_outlived() -> None:
    made, outlived = leader(), elector((of_another(), 0.0))
    assert not made.was_released
    stored(outlived, 15.0)
    assert not outlived.was_released
    taken = elector((of_another(holderIdentity=""), 0.0))
    lease = stored(taken, 0.0)
    assert taken.was_released
    # The answer to that write was lost, and it is read that it was stored.
    taken.unsure()
    taken.read(lease, 1.0)
    taken.wrote(stored(taken, 1.0), 1.0, 1.0)
    assert taken.was_released


def test_lease_that_another_had_in_between_was_not_given_up() -> None:
    late = elector((of_another(holderIdentity=""), 0.0))
    stored(late, 0.0)
    late.unsure()
    late.read(of_another(renewed=1), 1.0)
    stored(late, 16.0)
    assert not late.was_released

"""Whether the guard answers at all: not before it may, and by the clock not after its deadline."""

import asyncio
import json
from typing import Any

import pytest

from scheduler.guard.ledger import Ledger
from scheduler.guard.reviewer import DEPOSED, UNFILLED, GuardMetrics, GuardReading, Reviewer
from tests.builders import DRIVER, POOL, a_result
from tests.properties.state.claim_world import an_object
from tests.unit.scheduler.guard.test_ledger import a_cluster, with_devices
from tests.unit.scheduler.guard.test_review import a_body

DEADLINE = 10.0


async def answer_to(reviewer: Reviewer, body: bytes) -> bytes:
    """The answer, waited for if it has to be."""
    found = reviewer.answer(body)
    return found if isinstance(found, bytes) else await found


class Leader:
    """A guard that leads until its deadline, and a pool with the device `a`; the clock is the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cluster = a_cluster("a")
        self.ledger = Ledger(self.cluster)
        for name in ("one", "two"):
            self.show(name, version=7)
        metrics = GuardMetrics(lambda: GuardReading([], 0, {}))
        self.reviewer = Reviewer(
            self.ledger, metrics, is_leading=lambda: self.now < DEADLINE, monotonic=lambda: self.now, lasts_s=75.0
        )
        self.reviewer.waits_for = ""

    def answer(self, name: str, *, device: str = "a", **request: object) -> dict[str, Any]:
        """The response to an update that gives the device to the claim of that name."""
        body = a_body(self._claim(name, device), self._claim(name), **request)
        response: dict[str, Any] = json.loads(asyncio.run(answer_to(self.reviewer, body)))["response"]
        return response

    def show(self, name: str, *devices: str, version: int) -> None:
        """The watch shows the claim with these devices."""
        claim = with_devices(name, *map(a_result, devices))
        self.cluster.set_claim(an_object(claim), version)
        self.ledger.shown(claim.uid)

    @staticmethod
    def _claim(name: str, *devices: str) -> dict[str, Any]:
        results = [{"request": "r", "driver": DRIVER, "pool": POOL, "device": device} for device in devices]
        status = {"allocation": {"devices": {"results": results}}} if results else {}
        metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "status": status}


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_leader_allows_and_remembers(leader: Leader) -> None:
    assert leader.answer("one") == {"uid": "q", "allowed": True}
    assert leader.answer("two")["status"]["code"] == 409
    assert [one.until for one in leader.ledger.opened()] == [75.0]


def test_leader_whose_deadline_has_passed_allows_nothing(leader: Leader) -> None:
    """As after SIGSTOP: the questions that wait are read before anything has told it that it lost the lease."""
    leader.now = DEADLINE
    status = leader.answer("one")["status"]
    assert (status["code"], status["reason"], status["message"]) == (503, "ServiceUnavailable", DEPOSED)
    assert leader.ledger.open == 0


@pytest.mark.parametrize("reason", [UNFILLED, "this guard is being stopped"])
def test_nothing_is_allowed_while_something_stands_against_it(leader: Leader, reason: str) -> None:
    leader.reviewer.waits_for = reason
    assert leader.answer("one")["status"]["message"] == reason
    assert leader.ledger.open == 0


def test_who_loses_the_lease_while_a_device_is_waited_for_allows_nothing(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep(_: float) -> None:
        leader.now = DEADLINE

    monkeypatch.setattr("scheduler.guard.reviewer.asyncio.sleep", sleep)
    assert leader.answer("one", device="new")["status"]["message"] == DEPOSED


def test_device_that_the_writer_has_seen_given_back_before_the_watch_shows_it_is_waited_for(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep(_: float) -> None:
        leader.show("holder", version=6)
        leader.show("new", version=7)

    monkeypatch.setattr("scheduler.guard.reviewer.asyncio.sleep", sleep)
    leader.show("holder", "a", version=5)
    assert leader.answer("new")["allowed"]


def test_device_that_is_held_is_refused_once_the_watch_shows_what_the_writer_has_seen(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = []

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        leader.show("new", version=7)

    monkeypatch.setattr("scheduler.guard.reviewer.asyncio.sleep", sleep)
    leader.show("holder", "a", version=5)
    assert leader.answer("new")["status"]["message"].startswith(f"device {DRIVER}/{POOL}/a is held by ")
    assert len(sleeps) == 1


def test_dry_run_takes_nothing(leader: Leader) -> None:
    assert leader.answer("one", dryRun=True)["allowed"]
    assert leader.answer("two")["allowed"]

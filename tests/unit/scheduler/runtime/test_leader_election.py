"""The task around a lease: what it calls, what it waits for, and what it says when it has lost."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from allocator.api.versions import Json
from scheduler.attempt.binder import Time
from scheduler.client.connection import JSON
from scheduler.client.errors import ApiError, ApiStatus, CallFailed, Unanswered
from scheduler.runtime.configuration import LeaderElectionSection
from scheduler.runtime.leader_election import ELSEWHERE, LeaderElection, LeadershipLost, own_namespace

PATH = "/apis/coordination.k8s.io/v1/namespaces/here/leases/dra-scheduler"
LEASES = PATH.removesuffix("/dra-scheduler")
WALL = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Goes on when somebody sleeps, and at once, but not beyond `until`."""

    def __init__(self) -> None:
        self.now = self.until = 1000.0
        self.moved = asyncio.Event()
        self._stands = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while end > self.until:
            self._stands.set()
            self.moved.clear()
            await self.moved.wait()
        self.now = max(self.now, end)
        await asyncio.sleep(0)

    async def go_on(self, seconds: float) -> None:
        """Return when all that is due by then has happened."""
        self.until = self.now + seconds
        self.moved.set()
        self._stands.clear()
        await self._stands.wait()
        self.now = self.until

    def time(self) -> Time:
        return Time(lambda: self.now, lambda: WALL, self.sleep, lambda: 0.5)


class Server:
    """One lease; fails while it is told to. annotated: so often somebody else writes it right before we do."""

    def __init__(self) -> None:
        self.annotated = 0
        self.lease: Json | None = None
        self.calls: list[str] = []
        self.broken: CallFailed | None = None
        self._version = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
    ) -> Json:
        self.calls.append(f"{method} {path.removesuffix('/dra-scheduler')}")
        await asyncio.sleep(0)
        if self.broken:
            raise self.broken
        if method == "GET":
            if self.lease is None:
                raise ApiError(f"GET {path}", 404, ApiStatus("NotFound", ""))
            return self.lease
        assert isinstance(body, dict)
        if self.annotated and self.lease is not None:
            self.annotated -= 1
            self._version += 1
            self.lease = {**self.lease, "metadata": {**self.lease["metadata"], "resourceVersion": str(self._version)}}
        return self._store(method, path, body)

    def _store(self, method: str, path: str, body: Json) -> Json:
        known = self.lease and self.lease["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion") != known:
            raise ApiError(f"{method} {path}", 409, ApiStatus("Conflict", ""))
        self._version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        return self.lease


class Scene:
    """One process and the server that it asks."""

    def __init__(self) -> None:
        self.clock, self.server = Clock(), Server()
        settings = LeaderElectionSection.model_validate({"resourceNamespace": "here"})
        self.election = LeaderElection(self.server, settings, "me", self.clock.time())

    def hold(self, holder: str) -> None:
        """Somebody writes the lease."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": str(self.clock.now)}
        metadata = {"name": "dra-scheduler", "namespace": "here", "resourceVersion": f"of-{holder}"}
        self.server.lease = {"metadata": metadata, "spec": spec}

    async def ended(self, running: asyncio.Task[object]) -> None:
        """Wait until it ends by itself."""
        self.clock.until = self.clock.now + 100
        self.clock.moved.set()
        await running

    @property
    def spec(self) -> Mapping[str, Any]:
        assert self.server.lease is not None
        found: Mapping[str, Any] = self.server.lease["spec"]
        return found


def played(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 5))


async def led(scene: Scene) -> asyncio.Task[object]:
    """The process as it leads."""
    running = asyncio.create_task(scene.election.run())
    await scene.election.elected()
    return running


def test_process_leads_as_soon_as_nobody_else_does_and_renews_without_reading() -> None:
    async def play() -> None:
        scene = Scene()
        running = await led(scene)
        assert scene.election.is_leading()
        assert scene.spec["holderIdentity"] == "me"
        await scene.clock.go_on(100)
        assert scene.election.is_leading()
        folder = PATH.removesuffix("/dra-scheduler")
        assert scene.server.calls[:3] == [f"GET {folder}", f"POST {folder}", f"PUT {folder}"]
        assert set(scene.server.calls[2:]) == {f"PUT {folder}"}
        assert 45 < len(scene.server.calls) < 55
        running.cancel()

    played(play())


def test_process_waits_for_a_holder_that_renews_and_leads_once_that_does_not() -> None:
    async def play() -> None:
        scene = Scene()
        running = asyncio.create_task(scene.election.run())
        scene.hold("other")
        for _ in range(20):
            await scene.clock.go_on(5)
            scene.hold("other")
        assert not scene.election.is_leading()
        assert scene.election.standby() == "stands by: lease here/dra-scheduler is held by other"
        await scene.clock.go_on(14.9)
        assert not scene.election.is_leading()
        await scene.clock.go_on(3)
        assert scene.election.is_leading()
        assert scene.election.standby() == ""
        running.cancel()

    played(play())


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (Unanswered(f"PUT {PATH}", "cut", is_ambiguous=True), "within the renew deadline of 10 s (PUT /apis"),
        (ApiError(f"PUT {PATH}", 403, ApiStatus("Forbidden", "no")), "within the renew deadline of 10 s (PUT /apis"),
    ],
)
def test_leader_that_cannot_renew_ends_at_its_deadline_and_says_why(broken: CallFailed, why: str) -> None:
    async def play() -> None:
        scene = Scene()
        running = await led(scene)
        scene.server.broken = broken
        await scene.clock.go_on(9.9)
        assert scene.election.is_leading()
        with pytest.raises(LeadershipLost) as lost:
            await scene.ended(running)
        assert why in str(lost.value)
        assert str(lost.value).endswith("; this process writes nothing any more")
        assert not scene.election.is_leading()

    played(play())


def test_leader_renews_a_lease_that_somebody_else_annotates_again_and_again() -> None:
    async def play() -> None:
        scene = Scene()
        running = await led(scene)
        calls = len(scene.server.calls)
        for _ in range(20):
            scene.server.annotated = 2
            await scene.clock.go_on(2.0)
            assert scene.election.is_leading()
        assert scene.server.calls[calls:][:5] == [f"PUT {LEASES}", *[f"GET {LEASES}", f"PUT {LEASES}"] * 2]
        running.cancel()

    played(play())


def test_leader_that_is_stopped_may_not_write_when_it_goes_on() -> None:
    """Before anything of the program has noticed."""

    async def play() -> None:
        scene = Scene()
        running = await led(scene)
        scene.clock.now += 20
        assert not scene.election.is_leading()
        with pytest.raises(LeadershipLost):
            await scene.ended(running)

    played(play())


def test_leader_that_finds_another_name_ends_at_once() -> None:
    async def play() -> None:
        scene = Scene()
        running = await led(scene)
        scene.hold("other")
        with pytest.raises(
            LeadershipLost, match="lease here/dra-scheduler: lost to other; this process writes nothing"
        ):
            await scene.ended(running)
        assert scene.spec["holderIdentity"] == "other"

    played(play())


def test_lease_is_given_up_at_the_end_and_only_by_its_holder() -> None:
    async def play() -> None:
        scene = Scene()
        running = await led(scene)
        running.cancel()
        await scene.election.release()
        assert (scene.spec["holderIdentity"], scene.spec["leaseDurationSeconds"]) == ("", 1)
        assert not scene.election.is_leading()
        standby = Scene()
        standby.hold("other")
        await standby.election.release()
        assert standby.server.calls == []

    played(play())


@pytest.mark.parametrize(("stored", "left"), [("me", ""), ("other", "other")])
def test_lease_is_given_up_though_it_was_written_since_and_only_if_it_is_still_ours(
    stored: str, left: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The last renewal is cut off when the program ends, and may be stored all the same."""

    async def play() -> None:
        scene = Scene()
        running = await led(scene)
        running.cancel()
        scene.hold(stored)
        await scene.election.release()
        assert scene.spec["holderIdentity"] == left

    with caplog.at_level(logging.WARNING):
        played(play())
    assert caplog.text == ""


def test_lease_that_cannot_be_given_up_is_reported_and_ends_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        scene = Scene()
        running = await led(scene)
        running.cancel()
        scene.server.broken = Unanswered("PUT /", "cut", is_ambiguous=True)
        await scene.election.release()

    with caplog.at_level(logging.WARNING):
        played(play())
    assert "cannot release it" in caplog.text


def test_standby_that_cannot_ask_for_the_lease_is_not_ready_after_the_renew_deadline() -> None:
    async def play() -> None:
        scene = Scene()
        scene.server.broken = ApiError(f"GET {PATH}", 403, ApiStatus("Forbidden", "leases is forbidden"))
        scene.clock.now += 60  # the caches are filled first
        assert scene.election.unanswered() == ""
        running = asyncio.create_task(scene.election.run())
        await scene.clock.go_on(20)
        assert "leases is forbidden" in scene.election.unanswered()
        assert scene.election.stale() == ""
        running.cancel()

    played(play())


def test_leader_that_has_long_stopped_to_renew_is_stale() -> None:
    async def play() -> None:
        scene = Scene()
        running = await led(scene)
        running.cancel()
        scene.clock.now += 35
        assert scene.election.stale() == ""
        scene.clock.now += 1
        assert scene.election.stale() == "lease here/dra-scheduler was not renewed for 36 s"

    played(play())


def test_namespace_is_the_pods_own_where_there_is_one(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    assert own_namespace(file) == ELSEWHERE == "kube-system"
    file.write_text("there")
    assert own_namespace(file) == "there"

"""Attempts of the loop, against an API server in memory that keeps pods and claims, and fails where it is told to."""

import asyncio
import copy
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from scheduler.attempt.attempts import FASTER_S, Attempts
from scheduler.attempt.binder import Binder, Time, WatchedClaims, WatchedVolumes
from scheduler.attempt.claim_objects import ANNOTATION, Intent
from scheduler.attempt.decision import Listener
from scheduler.client.api_resources import claims
from scheduler.client.connection import Connection
from scheduler.client.errors import ApiError, ApiStatus
from scheduler.client.watcher import Reflector
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.decision.cluster import Cluster
from scheduler.kinds import claim_of
from scheduler.live.endings import LoopDependencies
from scheduler.live.loop import Loop
from scheduler.queue import Queue
from scheduler.reporting import Events, Refusals
from scheduler.runtime.metrics import Metrics
from scheduler.state.cluster_changes import Event
from scheduler.state.invariants import Violation
from tests.builders import DRIVER, a_class, a_node, a_pod, a_slice, amounts, everywhere, kubernetes

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
TURNS = 300
"""Of the event loop: more than a few attempts take."""

Json = dict[str, Any]


class Server:
    """Answers at once. failing: claims, by name, whose writes end in an error of the server. calls: writes by name."""

    def __init__(self, cluster: Cluster) -> None:
        self.failing: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.pods: dict[str, Json] = {}
        self.claims: dict[str, Json] = {}
        self._cluster = cluster
        self._version = 100

    def add(self, name: str) -> Pod:
        """A pod with a claim, both of that name, as the watches show them."""
        device = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
        spec = {"devices": {"requests": [{"name": "r", "exactly": device}]}}
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        self.claims[name] = {**head, "metadata": self._metadata(name), "spec": spec, "status": {}}
        self._show(name)
        self.pods[name] = {"metadata": self._metadata(name), "spec": {}, "status": {}}
        version = self.pods[name]["metadata"]["resourceVersion"]
        pod = replace(a_pod(name=name), claims=(PodClaim("x", name),), resource_version=version)
        self._cluster.set_pod(pod)
        return pod

    async def request(self, method: str, path: str, *, body: Any = None, **more: object) -> Json:
        await asyncio.sleep(0)
        within = path.partition("/namespaces/default/")[2]
        plural, name, subresource, *_ = [*within.split("/"), "", ""]
        objects = self.pods if plural == "pods" else self.claims
        if method == "GET":
            return copy.deepcopy(objects[name])
        self.calls[name] += 1
        if plural == "resourceclaims" and name in self.failing:
            raise ApiError(f"{method} {path}", 500, ApiStatus("InternalError", "failed calling webhook"))
        stored = objects[name]
        bound = stored["spec"].get("nodeName") if subresource == "binding" else ""
        if bound or body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise ApiError(f"{method} {path}", 409, ApiStatus("Conflict", "the object has been modified"))
        return copy.deepcopy(self._stored(plural, name, subresource, body))

    def _stored(self, plural: str, name: str, subresource: str, body: Json) -> Json:
        objects = self.pods if plural == "pods" else self.claims
        metadata = {**(objects[name] if subresource else body)["metadata"], "resourceVersion": self._next()}
        changed = {**objects[name], "metadata": metadata}
        if subresource == "binding":
            changed["spec"] = {"nodeName": body["target"]["name"]}
        elif subresource == "status":
            changed["status"] = body.get("status", {})
        objects[name] = copy.deepcopy(changed)
        if plural == "resourceclaims":
            self._show(name)
        return changed

    def given_by_another(self, name: str) -> None:
        """Another scheduler stores, for the claim, what first fit gives it; our watch does not show it yet."""
        node = {"key": "metadata.name", "operator": "In", "values": ["node-0"]}
        selector = {"nodeSelectorTerms": [{"matchFields": [node]}]}
        result = {"request": "r", "driver": DRIVER, "pool": "pool-0", "device": "nic-0"}
        stored = self.claims[name]
        stored["metadata"] = {**stored["metadata"], "resourceVersion": self._next()}
        stored["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}

    def marked_by(self, scheduler: str, name: str, *, is_shown: bool = True) -> None:
        """The claim has the intent of that scheduler. is_shown: the watch shows it."""
        intent = Intent(scheduler, 1, "9", "uid-of-its-pod", "node-0", 1)
        metadata = {**self.claims[name]["metadata"], "resourceVersion": self._next()}
        self.claims[name]["metadata"] = {**metadata, "annotations": {ANNOTATION: str(intent)}}
        if is_shown:
            self._show(name)

    def device_of(self, name: str) -> str:
        (result,) = self.claims[name]["status"]["allocation"]["devices"]["results"]
        return str(result["device"])

    def _metadata(self, name: str) -> Json:
        return {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": self._next()}

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def _show(self, name: str) -> None:
        self._cluster.set_claim(claim_of(copy.deepcopy(self.claims[name])), self._version)


class Shown(WatchedClaims):
    """The watch of the claims is never behind."""

    async def reached(self, *_: object) -> bool:
        return True


class AttemptsSilent(Listener):
    """Nobody hears how attempts go, as long as no two meet."""

    def violated(self, violation: Violation) -> None:
        pytest.fail(str(violation))


class AttemptsRoom:
    """Two nodes, devices that both reach, and a loop with two writers."""

    def __init__(self) -> None:
        self.cluster = cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        for name in ("node-0", "node-1"):
            cluster.set_node(a_node(name, allocatable=amounts(pods="110")))
        cluster.set_class(a_class())
        cluster.set_slice(a_slice(*(f"nic-{number}" for number in range(5)), reach=everywhere()))
        self.server = Server(cluster)
        self.now = 100.0
        self.queue = Queue(self.now, gate=cluster.gate, on_move=lambda *_: None)
        api = cast(Connection, self.server)
        time = Time(lambda: self.now, lambda: MOMENT, lambda _: asyncio.sleep(0), lambda: 0.5)
        observed = Shown(cast(Reflector[Any], None), cluster)
        binder = Binder(api, claims("v1"), observed, WatchedVolumes(cluster), time, "ours", 1, "4", AttemptsSilent())
        metrics = Metrics(lambda: pytest.fail("nobody reads them"))
        reported = Events(api, "ours", "ours", lambda: MOMENT), Refusals(api, lambda: MOMENT)
        self.attempts = Attempts(
            cluster, binder, self._given_back, concurrency=2, is_tried=self.queue.is_tried, waits_for_devices=True
        )
        parts = LoopDependencies(cluster, self.queue, binder, self.attempts, *reported, metrics)
        self.loop = Loop(parts, lambda: self.now, lambda: False)

    def _given_back(self, event: Event, _: str) -> None:
        self.queue.on_event(event, self.now)
        self.loop.wake()

    async def go_on(self) -> None:
        self.loop.wake()
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def node_of(self, name: str) -> str:
        return str(self.server.pods[name]["spec"].get("nodeName", ""))


@pytest.fixture
def room() -> AttemptsRoom:
    return AttemptsRoom()


def test_pods_whose_writes_fail_leave_the_writers_to_others(room: AttemptsRoom) -> None:
    """As many as there are writers; they are taken back for as long as that fails, and stay in flight meanwhile."""

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        room.server.failing = {"bad-0", "bad-1"}
        for name in ("bad-0", "bad-1", "good"):
            room.queue.add(room.server.add(name), room.now)
            await room.go_on()
        assert room.node_of("good")
        assert {one["queue"] for one in room.queue.dump()} == {"in flight"}
        await room.attempts.finish(0.0)
        running.cancel()

    asyncio.run(act())


def test_failures_far_beyond_a_thousand_in_a_row_end_nothing(room: AttemptsRoom) -> None:
    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        room.server.failing = {"bad"}
        room.queue.add(room.server.add("bad"), room.now)
        while room.server.calls["bad"] < 1_500:
            await room.go_on()
        room.server.failing = set()
        await room.go_on()
        room.now += 60.0
        await room.go_on()
        assert room.node_of("bad")
        running.cancel()

    asyncio.run(act())


@pytest.mark.parametrize(("aside_s", "device"), [(FASTER_S, "nic-1"), (0.0, "nic-0")])
def test_devices_of_a_lost_race_are_nobodys_for_a_while_and_nodes_are_looked_for_elsewhere(
    room: AttemptsRoom, monkeypatch: pytest.MonkeyPatch, aside_s: float, device: str
) -> None:
    """The watch shows later who has them; once that has had its time, they are there for others again."""
    monkeypatch.setattr("scheduler.attempt.attempts.FASTER_S", aside_s)

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        pod = room.server.add("lost")
        room.server.given_by_another("lost")
        room.queue.add(pod, room.now)
        await room.go_on()
        assert not room.node_of("lost")
        room.queue.add(room.server.add("next"), room.now)
        await room.go_on()
        assert room.server.device_of("next") == device
        assert room.node_of("next") == "node-1"
        running.cancel()

    asyncio.run(act())


def test_intent_of_whoever_may_write_the_claim_costs_others_neither_devices_nor_slots(
    room: AttemptsRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user of the namespace writes the annotation while the claim is being allocated: nobody has taken a device."""
    monkeypatch.setattr(room.attempts.slots, "lost", lambda: pytest.fail("it counts as a lost race"))

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        pod = room.server.add("lost")
        room.server.marked_by("forged", "lost", is_shown=False)
        room.queue.add(pod, room.now)
        await room.go_on()
        assert not room.node_of("lost")
        room.queue.add(room.server.add("next"), room.now)
        await room.go_on()
        assert room.server.device_of("next") == "nic-0"
        assert room.node_of("next") == "node-0"
        running.cancel()

    asyncio.run(act())


def test_event_of_a_bound_pod_that_is_older_than_its_binding_begins_no_attempt(room: AttemptsRoom) -> None:
    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        pod = room.server.add("pod")
        room.queue.add(pod, room.now)
        await room.go_on()
        node, calls = room.node_of("pod"), room.server.calls["pod"]
        assert node
        stale = replace(pod, resource_version="1000")
        room.cluster.set_pod(stale)
        room.queue.add(stale, room.now)
        await room.go_on()
        assert room.node_of("pod") == node
        assert room.server.calls["pod"] == calls
        assert room.server.claims["pod"]["status"]["reservedFor"]
        assert list(room.queue.dump()) == []
        running.cancel()

    asyncio.run(act())


def test_few_pods_are_decided_ahead_of_their_writes_so_that_a_late_one_of_high_priority_is_before_the_others(
    room: AttemptsRoom,
) -> None:
    """Both writers wait for an answer, and one of them gets it after a more important pod has come."""

    async def act() -> list[str]:
        running = asyncio.create_task(room.loop.run())
        answers = {name: asyncio.Event() for name in ("first", "second", "ahead", "third", "urgent")}
        order: list[str] = []
        answer = room.server.request

        async def hold(method: str, path: str, **more: Any) -> Json:
            name = next(one for one in answers if f"/{one}" in path)
            if name not in order:
                order.append(name)
            await answers[name].wait()
            return await answer(method, path, **more)

        room.server.request = hold  # type: ignore[method-assign]
        for name in ("first", "second", "ahead", "third"):
            room.queue.add(room.server.add(name), room.now)
        await room.go_on()
        room.queue.add(replace(room.server.add("urgent"), priority=1000), room.now)
        answers["first"].set()
        await room.go_on()
        for event in answers.values():
            event.set()
        await room.go_on()
        running.cancel()
        return order

    assert asyncio.run(act()) == ["first", "second", "ahead", "urgent", "third"]


@pytest.mark.parametrize(("scheduler", "others"), [("theirs", ("theirs",)), ("ours", ())])
def test_nodes_are_split_with_a_scheduler_that_took_the_same_devices_first(
    room: AttemptsRoom, scheduler: str, others: tuple[str, ...]
) -> None:
    """The watch shows its claim while our first write is sent; one of our own name cannot be told from ourselves."""

    async def act() -> None:
        running = asyncio.create_task(room.loop.run())
        answer = room.server.request

        async def meet(method: str, path: str, **more: Any) -> Json:
            room.server.request = answer  # type: ignore[method-assign]
            room.server.add("rival")
            room.server.given_by_another("rival")
            room.server.marked_by(scheduler, "rival")
            return await answer(method, path, **more)

        room.server.request = meet  # type: ignore[method-assign]
        room.queue.add(room.server.add("pod"), room.now)
        await room.go_on()
        assert tuple(room.cluster.order.others) == others
        assert room.server.device_of("rival") == "nic-0"
        assert room.server.device_of("pod") != "nic-0"
        running.cancel()

    asyncio.run(act())

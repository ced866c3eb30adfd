"""The wait for devices follows the watch of the claims: nothing is asked of the API server, however long it takes."""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from allocator.api.versions import Json
from allocator.model import Claim
from scheduler.attempt.attempt import Attempt, WrittenClaim, WrittenPod
from scheduler.attempt.binder import Binder, WatchedChanges, WatchedClaims
from scheduler.attempt.claim_objects import Intent, key_of
from scheduler.attempt.decision import AttemptEnded, AttemptOutcome, Decision, Pending, PodKey, Retry
from scheduler.attempt.slots import Slots
from scheduler.attempt.steps.pod import LOOK_S, AwaitConditions
from scheduler.client.watch_states import Applied, Deleted, Entry, Key, Undecoded
from scheduler.client.watcher import Store
from scheduler.decision.cluster import Cluster
from scheduler.kinds import WatchedClaim
from scheduler.state.cluster_changes import ClaimChanged, NodeChanged
from tests.builders import a_node, a_pod, kubernetes
from tests.unit.scheduler.attempt.raw_claims import a_raw_claim, an_allocation

NODE = "node-0"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONDITIONS = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
POD = a_pod(name="pod", uid="uid-pod")
DEVICE = "gpu.example/pool-0/gpu-0"
TURNS = 20
MODEL = Claim("work", "claim", "claim-uid")
"""The claim as decisions see it, of which nobody here reads more than its uid."""


def a_claim(version: int, *true: str, reserved_for: Sequence[str] = ("uid-pod",)) -> Json:
    """The claim with such conditions of its device. reserved_for: nobody if it is not allocated."""
    conditions = [{"type": name, "status": "True", "message": "said so"} for name in true]
    status = {"driver": "gpu.example", "pool": "pool-0", "device": "gpu-0", "conditions": conditions}
    allocation = an_allocation("gpu-0", more=CONDITIONS) if reserved_for else None
    return a_raw_claim(allocation=allocation, statuses=[status], reserved_for=reserved_for, version=version)


class ConditionScene:
    """A pod that waits for its device; who asks the API server fails. slept: set to let it look at the time again."""

    def __init__(self, *, waits: bool = True) -> None:
        self.cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        self.node = a_node(NODE)
        self.cluster.set_node(self.node)
        self.store: Store[Any] = Store()
        self.changes = WatchedChanges()
        self.messages: list[str] = []
        self.now = NOW
        self.slept = asyncio.Event()
        claim = a_claim(5)
        parts = {
            "api": None,
            "watched": WatchedClaims(cast(Any, SimpleNamespace(store=self.store)), self.cluster),
            "changes": self.changes,
            "listener": SimpleNamespace(pending=lambda _, message: self.messages.append(message)),
            "time": SimpleNamespace(sleep=self._sleep, now=lambda: self.now),
        }
        self.binder = cast(Binder, SimpleNamespace(**parts, binding_timeout_s=600.0))
        decision = Decision(PodKey.of(POD), NODE, (), 1, waits_for_devices=waits)
        intent = Intent("ours", 1, "1", "uid-pod", NODE, 1)
        slots = Slots(4, float)
        self.attempt = Attempt(decision, intent, slots.take("default"), WrittenPod("1", {}))
        self.attempt.claims = [WrittenClaim(key_of(claim), claim, None)]
        self.show(claim)

    async def _sleep(self, seconds: float) -> None:
        assert seconds == LOOK_S
        await self.slept.wait()
        self.slept.clear()

    def show(self, claim: Json) -> None:
        """The watch shows the claim."""
        key, version = key_of(claim), int(claim["metadata"]["resourceVersion"])
        found = WatchedClaim(MODEL, json.dumps(claim).encode())
        self.store.take(Applied(Entry(Key(key.namespace, key.name), key.uid, version, found)))
        self.changes.on_event(ClaimChanged(None, MODEL))

    def goes(self) -> None:
        """The watch shows that the claim is gone."""
        key = key_of(a_claim(5))
        self.store.take(Deleted(Key(key.namespace, key.name), key.uid, 9))
        self.changes.on_event(ClaimChanged(MODEL, None))

    def cannot_be_read(self) -> None:
        """The watch shows the claim in a form that nobody understands."""
        key = key_of(a_claim(5))
        self.store.take(Applied(Undecoded(Key(key.namespace, key.name), key.uid, 9, "what is that")))
        self.changes.on_event(ClaimChanged(None, MODEL))

    def node_goes(self) -> None:
        self.cluster.remove_node(NODE)
        self.changes.on_event(NodeChanged(self.node, None))


def outcome(scene: ConditionScene, *changes: Callable[[ConditionScene], object]) -> AttemptOutcome | None:
    """What the wait ends with; it has to go on until the last of the changes."""

    async def act() -> AttemptOutcome | None:
        waiting = asyncio.create_task(AwaitConditions(scene.binder, scene.attempt).do())
        for change in changes:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            assert not waiting.done()
            change(scene)
        try:
            return await asyncio.wait_for(waiting, 10)
        except AttemptEnded as ended:
            return ended.outcome

    return asyncio.run(act())


def test_wait_ends_when_the_watch_shows_that_the_device_is_ready() -> None:
    scene = ConditionScene()
    found = outcome(scene, lambda one: one.show(a_claim(6)), lambda one: one.show(a_claim(7, "attached")))
    assert found is None
    assert scene.messages == [f"waiting for binding conditions of devices {DEVICE}"]
    assert scene.attempt.claims[0].version == 7
    assert scene.changes._following == {}


def test_device_that_fails_ends_the_wait() -> None:
    found = outcome(ConditionScene(), lambda one: one.show(a_claim(6, "broken")))
    assert isinstance(found, Retry)
    assert f"device {DEVICE} has the condition broken: said so" in found.reason


def test_claim_that_is_deallocated_or_gone_ends_the_wait() -> None:
    reason = "was deallocated while the pod waited for its devices"
    for change in (lambda one: one.show(a_claim(6, reserved_for=())), ConditionScene.goes):
        found = outcome(ConditionScene(), change)
        assert isinstance(found, Retry)
        assert reason in found.reason


def test_node_that_goes_ends_the_wait() -> None:
    assert outcome(ConditionScene(), ConditionScene.node_goes) == Retry(f"node {NODE} is gone")


def test_what_is_older_or_cannot_be_read_changes_nothing() -> None:
    old = a_claim(4, reserved_for=())
    ready = a_claim(10, "attached")
    scene = ConditionScene()
    assert outcome(scene, lambda one: one.show(old), ConditionScene.cannot_be_read, lambda one: one.show(ready)) is None


def test_time_that_is_up_ends_the_wait_though_nothing_changes() -> None:
    claim = a_claim(6)
    claim["status"]["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:00Z"

    def pass_time(scene: ConditionScene) -> None:
        scene.now = NOW + timedelta(seconds=700)
        scene.slept.set()

    found = outcome(ConditionScene(), lambda one: one.show(claim), pass_time)
    assert isinstance(found, Retry)
    assert "device binding timeout" in found.reason


def test_decision_that_does_not_wait_ends_as_pending() -> None:
    scene = ConditionScene(waits=False)
    assert outcome(scene) == Pending(f"waiting for binding conditions of devices {DEVICE}")

"""Two processes that know nothing of each other but what their own watches tell: no device twice, no pod half bound."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from allocator.model import NodeSelector
from scheduler.attempt.binder import Binder, WatchedClaims
from scheduler.attempt.claim_objects import ClaimRef, allocation_of, consumers_of
from scheduler.attempt.decision import AttemptOutcome, Bound, ClaimPlan, Decision
from scheduler.attempt.run import bind_pod
from scheduler.client.api_resources import claims
from scheduler.client.connection import Connection, connect
from scheduler.client.watcher import Reflector, Watcher
from scheduler.kinds import WatchedClaim, claim_of
from scheduler.state.invariants import Rival
from tests.controlplane.rest import CLAIM, Json
from tests.integration.attempt.scene import Scene, a_rival, devices_of, gets, is_untouched, version_of

PODS = 12
DEVICES = 4


@dataclass
class OwnWatch(WatchedClaims):
    """A view of the claims by a watch of one's own."""

    reflector: Reflector[WatchedClaim]

    async def reached(self, resource_version: int, timeout_s: float) -> bool:
        return await self.reflector.store.reached(resource_version, timeout_s)

    def is_reached(self, node: str, selector: NodeSelector | None) -> bool:
        return True

    async def catch_up(self) -> None:
        await self.reflector.catch_up()

    def rivals(self, claim: ClaimRef) -> Sequence[Rival]:
        raw = {ClaimRef(one.claim.namespace, one.claim.name, one.claim.uid): one.raw for one in self._all()}
        mine = devices_of(dict(raw.pop(claim)))
        found = [(key, dict(other)) for key, other in raw.items()]
        return [a_rival(*key[:2], version_of(other)) for key, other in found if mine & devices_of(other)]

    def written(self, claim: ClaimRef, resource_version: int) -> None:
        """Nothing is reserved here."""

    def made(self, made_up: str, claim: ClaimRef) -> None:
        """Nothing is reserved here."""

    def has_node(self, node: str) -> bool:
        return True

    def objection(self, decision: Decision) -> str:
        return ""

    def _all(self) -> Sequence[WatchedClaim]:
        return list(self.reflector.store.values())


@asynccontextmanager
async def a_process(scene: Scene, connection: Connection, epoch: int) -> AsyncIterator[Binder]:
    watcher = Watcher(connection, claims("v1"), claim_of, random.Random(epoch).random)  # noqa: S311 - no secret
    reflector = Reflector(watcher, time.monotonic)
    watching = asyncio.create_task(reflector.run())
    await reflector.store.synced.wait()
    try:
        async with scene.binder(epoch) as binder:
            yield replace(binder, watched=OwnWatch(reflector))
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def test_no_device_is_had_by_two_bound_pods_when_two_processes_take_from_the_same(scene: Scene) -> None:
    names = [f"c{index}" for index in range(PODS)]
    plans = [gets(scene.a_claim(name), f"gpu-{index % DEVICES}") for index, name in enumerate(names)]
    pods = [scene.a_pod(name, name=name) for name in names]

    outcomes = asyncio.run(both(scene, [scene.a_decision(*one) for one in zip(pods, plans, strict=True)]))
    bound = [name for name, outcome in zip(names, outcomes, strict=True) if isinstance(outcome, Bound)]
    assert [name for name in names if scene.pod(name)["spec"].get("nodeName")] == bound
    taken = [device for name in bound for device in devices_of(scene.claim(name))]
    assert len(taken) == len(set(taken)) == len(bound)
    assert all(is_untouched(scene.claim(name)) for name in names if name not in bound)


async def both(scene: Scene, decisions: Sequence[Decision]) -> list[AttemptOutcome]:
    """The outcomes of the decisions, every other one carried out by the second process."""
    async with (
        connect(kubeconfig=scene.kubeconfig) as connection,
        a_process(scene, connection, 1) as first,
        a_process(scene, connection, 2) as second,
    ):
        by_turns = ((first, second)[index % 2] for index in range(len(decisions)))
        return await asyncio.gather(*(bind_pod(*one) for one in zip(by_turns, decisions, strict=True)))


def test_pod_that_two_processes_decide_alike_is_bound_once_with_its_claim(scene: Scene) -> None:
    names = [f"p{index}" for index in range(PODS)]
    claims_of = [scene.a_claim(name) for name in names]
    pods = [scene.a_pod(name, name=name) for name in names]
    decisions: list[Decision] = []
    for index, (pod, claim) in enumerate(zip(pods, claims_of, strict=True)):
        plan = gets(claim, f"gpu-{index}")
        decisions += [scene.a_decision(pod, plan), scene.a_decision(pod, plan)]
    asyncio.run(both(scene, decisions))
    assert any(scene.pod(name)["spec"].get("nodeName") for name in names)
    for name, pod in zip(names, pods, strict=True):
        is_bound = bool(scene.pod(name)["spec"].get("nodeName"))
        claim = scene.claim(name)
        assert is_untouched(claim) or is_bound
        assert not is_bound or is_had_by(claim, pod)


def is_had_by(claim: Json, pod: Json) -> bool:
    return allocation_of(claim) is not None and consumers_of(claim) == (pod["metadata"]["uid"],)


def test_claim_of_a_pod_that_two_processes_want_on_different_nodes_is_on_the_node_of_the_pod(scene: Scene) -> None:
    scene.a_pod("claim")
    allocated: list[ClaimPlan] = [gets(scene.a_claim(), "gpu-0")]
    pod = scene.pod()
    decisions = [scene.a_decision(pod, *allocated, node=f"node-{index}") for index in range(2)]
    outcomes = asyncio.run(both(scene, decisions))
    bound = [outcome for outcome in outcomes if isinstance(outcome, Bound)]
    assert len(bound) <= 1
    assert [scene.pod()["spec"].get("nodeName")] == [one.node for one in bound] or not bound
    assert is_had_by(scene.api.list(CLAIM)[0], pod) == bool(bound)

"""Several processes at the same pods, each with views that are behind: no bound pod is ever without its devices.

Nor is a device in the claims of two. Whatever the order of their calls, and whatever becomes of the answers: each
process decides on what its watches have shown it, those of pods and of claims behind by as much as is drawn; any of its
calls may be lost or late, and it may be stopped between any two.
"""

import asyncio
import copy
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import pytest

from allocator.model import Allocation, DeviceResult, NodeSelector, Requirement, Term
from scheduler.binding.bind_pod import bind_pod
from scheduler.binding.binder import Binder, Time
from scheduler.binding.claim_objects import ClaimKey, Json, allocation_of, key_of, results_of, version_of
from scheduler.binding.decision import Bound, BoundElsewhere, ClaimPlan, Decision, Gone, Outcome, PodKey
from scheduler.binding.post_filter import deallocate_one
from scheduler.client.errors import CallFailed
from scheduler.client.resources import claims
from tests.properties.binding.server import NAMESPACE, Server, Way, nodes_of

NODES = ("node-0", "node-1")
FABRIC = ("fabric-0", "fabric-1")
"""Devices that every node reaches; of the others each node has one."""

ATTEMPTS = 3
FAULTS = 4
SEEDS, ROUNDS = 10, 200
TURNS_MAX = 3000
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class History:
    """What the server has held after each delivery, for watches that are behind."""

    server: Server
    moments: list[dict[tuple[str, str], Json]] = field(default_factory=list)

    def note(self) -> None:
        self.moments.append(dict(self.server.objects))

    def seen(self, behind: int) -> dict[tuple[str, str], Json]:
        """All objects, as a watch shows them that is so many deliveries behind."""
        return copy.deepcopy(self.moments[max(len(self.moments) - 1 - behind, 0)])


@dataclass(frozen=True)
class Rival:
    namespace: str
    name: str
    resource_version: int


class Process:
    """One process of ours: it decides, and carries its decisions out. chance: decides what nothing else does.

    All begin in the same moment.
    """

    def __init__(self, history: History, number: int, chance: Random) -> None:
        self.history = history
        self.chance = chance
        self.now = 0.0
        self.numbers = iter(range(1, 1000))
        time = Time(lambda: self.now, lambda: MOMENT, self.sleep, lambda: 0.5)
        self.binder = Binder(history.server, claims("v1"), self, time, "ours", 1, str(number), self)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    # -- what it is told of the claims

    async def reached(self, resource_version: int, timeout_s: float) -> bool:
        return True

    async def catch_up(self) -> None:
        """It is never behind where it waits."""

    def rivals(self, claim: ClaimKey) -> Sequence[Rival]:
        stored = {key_of(one): one for one in self.history.server.all("resourceclaims")}
        mine = _devices(stored.pop(claim))
        return [Rival(*key[:2], int(version_of(one))) for key, one in stored.items() if mine & _devices(one)]

    def written(self, claim: ClaimKey, resource_version: int) -> None:
        """Nothing is reserved in memory."""

    def has_node(self, node: str) -> bool:
        return True

    def is_reached(self, node: str, selector: NodeSelector | None) -> bool:
        return selector is None or any(node in one.values for term in selector for one in term.fields)

    def objection(self, decision: Decision) -> str:
        return ""

    def pending(self, decision: Decision, message: str) -> None:
        """No device has to be made ready."""

    def passed(self, point: str, *, is_done: bool, duration_s: float) -> None:
        """Nobody counts."""

    def rolled_back(self, decision: Decision, outcome: Outcome) -> None:
        """Nobody counts."""

    # -- what it does

    async def schedule(self, pod: str) -> None:
        """Try the pod until it is bound, or a few times."""
        for _ in range(ATTEMPTS):
            pods = self.history.seen(self.chance.randint(0, 12))
            held = self.history.seen(self.chance.randint(0, 12))
            found = pods["pods", pod]
            if found["spec"].get("nodeName"):
                return
            entries = [entry["resourceClaimName"] for entry in found["spec"]["resourceClaims"]]
            outcome = await self.attempt(found, [held["resourceclaims", name] for name in entries], held)
            if isinstance(outcome, Bound | BoundElsewhere | Gone):
                return

    async def attempt(self, pod: Json, own: list[Json], held: dict[tuple[str, str], Json]) -> Outcome | None:
        nodes = [node for node in NODES if all(node in nodes_of(allocation_of(one) or {}, node) for one in own)]
        metadata = pod["metadata"]
        key = PodKey(NAMESPACE, metadata["name"], metadata["uid"], metadata["resourceVersion"])
        if not nodes:
            with suppress(CallFailed):
                await deallocate_one(self.binder, self.decision(key, "", [ClaimPlan(one) for one in own]))
            return None
        node = self.chance.choice(nodes)
        taken = {device for (of, _), one in held.items() if of == "resourceclaims" for device in _devices(one)}
        plans = []
        for one in own:
            if allocation_of(one):
                plans.append(ClaimPlan(one))
                continue
            free = [device for device in (*FABRIC, f"local-of-{node}") if device not in taken]
            if not free:
                return None
            device = self.chance.choice(free)
            taken.add(device)
            plans.append(ClaimPlan(one, _allocation(device, node)))
        return await bind_pod(self.binder, self.decision(key, node, plans))

    def decision(self, key: PodKey, node: str, plans: Sequence[ClaimPlan]) -> Decision:
        return Decision(key, node, tuple(plans), next(self.numbers))


def _allocation(device: str, node: str) -> Allocation:
    result = DeviceResult("r", "gpu.example", "pool", device)
    if device in FABRIC:
        return Allocation((result,))
    return Allocation((result,), node_selector=(Term(fields=(Requirement("metadata.name", "In", (node,)),)),))


def _devices(claim: Json) -> set[str]:
    return {result["device"] for result in results_of(allocation_of(claim) or {})}


def a_server(pods: Sequence[Sequence[str]]) -> Server:
    """pods: the claims of each, by name."""
    server = Server()
    for name in sorted({claim for own in pods for claim in own}):
        server.add("resourceclaims", {"metadata": {"name": name, "uid": f"{name}-uid"}, "spec": {}})
    for index, own in enumerate(pods):
        entries = [{"name": claim, "resourceClaimName": claim} for claim in own]
        metadata = {"name": f"pod-{index}", "uid": f"pod-{index}-uid"}
        server.add("pods", {"metadata": metadata, "spec": {"resourceClaims": entries}})
    return server


async def play(server: Server, processes: int, chance: Random) -> None:
    """Let all processes try all pods, each call as it is drawn, until nothing goes on any more."""
    history = History(server)
    history.note()
    names = [one["metadata"]["name"] for one in server.all("pods")]
    tasks = [
        asyncio.create_task(Process(history, number, chance).schedule(name), name=f"{number}/{name}")
        for number in range(1, processes + 1)
        for name in names
    ]
    try:
        await deliver_all(server, history, tasks, chance)
    finally:
        for _ in range(3):  # cancelled twice, an attempt stops at once
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()):
            raise error


async def deliver_all(server: Server, history: History, tasks: Sequence[asyncio.Task[None]], chance: Random) -> None:
    """Let all calls happen in the order that is drawn, and some of them go wrong, until nothing goes on any more."""
    faults = FAULTS
    for _ in range(TURNS_MAX):
        await run_on(server, tasks)
        if not server.waiting:
            break
        call = chance.choice(server.waiting)
        way = chance.choice(list(Way)) if faults and chance.randint(0, 1) else Way.ANSWERED
        faults -= way is not Way.ANSWERED
        server.deliver(call, way)
        if faults and chance.randint(0, 19) == 0:
            faults -= 1
            stopped = chance.choice(tasks)
            stopped.cancel()  # it takes back what it wrote, as at the end of a program
            server.log.append(f"{stopped.get_name()} is stopped")
        if server.late and chance.randint(0, 1):
            server.arrive(chance.choice(server.late))
        history.note()
    assert all(task.done() for task in tasks), "it goes on without end:\n" + "\n".join(server.log[-50:])
    for call in list(server.late):
        server.arrive(call)


async def run_on(server: Server, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Let everybody do what can be done before the next call happens."""
    for _ in range(1000):
        for _ in range(20):
            await asyncio.sleep(0)
        if server.waiting or all(task.done() for task in tasks):
            return


def some_pods(chance: Random) -> list[list[str]]:
    """One pod or two, with one claim or two each, which they may share."""
    return [chance.sample("abc", chance.randint(1, 2)) for _ in range(chance.randint(1, 2))]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_bound_pod_is_ever_without_its_devices(seed: int) -> None:
    for turn in range(ROUNDS):
        chance = Random(seed * ROUNDS + turn)  # noqa: S311 - no secret
        server = a_server(some_pods(chance))
        asyncio.run(play(server, chance.randint(2, 3), chance))
        assert server.wrongs == [], "\n".join(server.log)

"""Several processes at the same pods, each with views that are behind: no bound pod is ever without its devices.

Nor is a device in the claims of two. Some pods need a claim that is to be made for their extended resources. Whatever
the order of their calls, and whatever becomes of the answers: each process decides on what its watches have shown it,
those of pods and of claims behind by as much as is drawn; any of its calls may be lost or late, and it may be stopped
between any two.
"""

import asyncio
import copy
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from random import Random

import pytest

from allocator.api.versions import Json
from allocator.model import Allocation, Claim, DeviceResult, NodeSelector, Requirement, Term
from allocator.pod_resources import CountRequest, RequestMapping
from scheduler.attempt.attempt import new_attempt
from scheduler.attempt.binder import Binder, Time, WatchedClaims, WatchedVolumes
from scheduler.attempt.claim_objects import ClaimRef, allocation_of, is_made_for, key_of, results_of, version_of
from scheduler.attempt.claim_step import deallocate_one
from scheduler.attempt.decision import (
    AttemptOutcome,
    Bound,
    BoundElsewhere,
    ClaimPlan,
    Decision,
    ExtendedPlan,
    Gone,
    Listener,
    PodKey,
)
from scheduler.attempt.run import run, steps
from scheduler.attempt.slots import CallLimit
from scheduler.attempt.steps.claims import MakeClaim
from scheduler.client.api_resources import claims
from scheduler.client.errors import CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import EXTENDED_STATUS
from scheduler.state.cluster_changes import PodChanged
from scheduler.state.invariants import Rival
from scheduler.state.pod_resources import ExtendedClaim, claim_name
from tests import extent
from tests.builders import a_pod
from tests.properties.attempt.server import NAMESPACE, Server, Way, asks_for_more, claims_of, nodes_of

NODES = ("node-0", "node-1")
FABRIC = ("fabric-0", "fabric-1")
"""Devices that every node reaches; of the others each node has one."""

ATTEMPTS = 3
FAULTS = 4
SEEDS, ROUNDS = 10, 200
SEEDS_OF_A_DAY = 2
TURNS_MAX = 3000
MENDING = 4
"""Rounds in which one process alone has to bind what is left."""

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class History:
    """What the server has held after each delivery, for watches that are behind."""

    server: Server
    moments: list[dict[tuple[str, str], Json]] = field(default_factory=list)
    processes: list["Process"] = field(default_factory=list)

    def note(self) -> None:
        self.moments.append(dict(self.server.objects))
        for pod in self.server.all("pods"):
            for process in self.processes:
                process.binder.changes.on_event(PodChanged(None, shown(pod)))

    def seen(self, behind: int) -> dict[tuple[str, str], Json]:
        """All objects, as a watch shows them that is so many deliveries behind."""
        return copy.deepcopy(self.moment(behind))

    def moment(self, behind: int) -> dict[tuple[str, str], Json]:
        """The same, only to be read."""
        return self.moments[max(len(self.moments) - 1 - behind, 0)]


def shown(pod: Json) -> Pod:
    """The pod, as far as an attempt looks at what the watch shows."""
    metadata, node = pod["metadata"], pod["spec"].get("nodeName") or ""
    return a_pod(
        name=metadata["name"], uid=metadata["uid"], node_name=node, is_deleting="deletionTimestamp" in metadata
    )


class LatePods(WatchedVolumes):
    """The pods, as the watch of the process shows them."""

    def __init__(self, process: "Process") -> None:
        self._process = process

    def pod(self, pod: PodKey) -> Pod | None:
        history, chance = self._process.history, self._process.chance
        found = history.moment(chance.randint(0, self._process.behind)).get(("pods", pod.name))
        return shown(found) if found else None


class Process(WatchedClaims, Listener):
    """One process of ours: it decides, and carries its decisions out. chance: decides what nothing else does.

    All begin in the same moment. behind: by how many deliveries its watches are, at most.
    """

    def __init__(self, history: History, number: int, chance: Random, behind: int = 12) -> None:
        self.history = history
        self.chance = chance
        self.behind = behind
        self.now = 0.0
        self.numbers = iter(range(1, 1000))
        time = Time(lambda: self.now, lambda: MOMENT, self.sleep, lambda: 0.5)
        self.binder = Binder(
            history.server,
            claims("v1"),
            self,
            LatePods(self),
            time,
            "ours",
            1,
            str(number),
            self,
            repairs=CallLimit(1, 1),  # whoever holds the one place and needs another waits for ever
        )
        history.processes.append(self)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    # -- what it is told of the claims

    async def reached(self, resource_version: int, timeout_s: float) -> bool:
        return True

    async def catch_up(self) -> None:
        """It is never behind where it waits."""

    def rivals(self, claim: ClaimRef) -> Sequence[Rival]:
        stored = {key_of(one): one for one in self.history.server.all("resourceclaims")}
        mine = _devices(stored.pop(claim))
        return [Rival(*key, int(version_of(one))) for key, one in stored.items() if mine & _devices(one)]

    def written(self, claim: ClaimRef, resource_version: int) -> None:
        """Nothing is reserved in memory."""

    def made(self, made_up: str, claim: ClaimRef) -> None:
        """Nothing is reserved in memory."""

    def has_node(self, node: str) -> bool:
        return True

    def is_reached(self, node: str, selector: NodeSelector | None) -> bool:
        return selector is None or any(node in one.values for term in selector for one in term.fields)

    def objection(self, decision: Decision) -> str:
        return ""

    # -- what it does

    async def schedule(self, pod: str) -> None:
        """Try the pod until it is bound, or a few times."""
        for _ in range(ATTEMPTS):
            pods = self.history.seen(self.chance.randint(0, self.behind))
            held = self.history.seen(self.chance.randint(0, self.behind))
            found = pods["pods", pod]
            if found["spec"].get("nodeName"):
                return
            entries = [entry["resourceClaimName"] for entry in found["spec"]["resourceClaims"]]
            outcome = await self.attempt(found, [held["resourceclaims", name] for name in entries], held)
            if isinstance(outcome, Bound | BoundElsewhere | Gone):
                return

    async def attempt(self, pod: Json, own: list[Json], held: dict[tuple[str, str], Json]) -> AttemptOutcome | None:
        nodes = [node for node in NODES if all(node in nodes_of(allocation_of(one) or {}, node) for one in own)]
        metadata = pod["metadata"]
        key = PodKey(NAMESPACE, metadata["name"], metadata["uid"], metadata["resourceVersion"], "ours")
        left = [one for (of, _), one in held.items() if of == "resourceclaims" and is_made_for(one, metadata["uid"])]
        if left or not nodes:
            with suppress(CallFailed):
                await deallocate_one(self.binder, self.decision(key, "", [ClaimPlan(one) for one in left or own]))
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
        decision = self.decision(key, node, plans)
        if asks_for_more(pod):
            free = [device for device in (*FABRIC, f"local-of-{node}") if device not in taken]
            if not free:
                return None
            plan = ExtendedPlan(_extended_claim(key), _allocation(self.chance.choice(free), node))
            decision = replace(decision, extended=plan, pod_status={EXTENDED_STATUS: plan.claim.status})
        return await self.carry_out(decision)

    async def carry_out(self, decision: Decision) -> AttemptOutcome:
        attempt = new_attempt(self.binder, decision)
        planned = list(steps(self.binder, attempt))
        outcome = await run(self.binder, attempt, planned)
        # By somebody else, maybe: then all stays as it is, and where a webhook keeps it so.
        if not isinstance(outcome, Bound | BoundElsewhere) and not self.history.server.admit:
            # A claim that was never found may still be made later; whoever tries the pod next takes it away.
            unsettled = [step for step in planned if not (step.is_idle or isinstance(step, MakeClaim))]
            assert unsettled == [], outcome
        return outcome

    def decision(self, key: PodKey, node: str, plans: Sequence[ClaimPlan]) -> Decision:
        return Decision(key, node, tuple(plans), next(self.numbers))


def _allocation(device: str, node: str) -> Allocation:
    result = DeviceResult("r", "gpu.example", "pool", device)
    if device in FABRIC:
        return Allocation((result,))
    return Allocation((result,), node_selector=(Term(fields=(Requirement("metadata.name", "In", (node,)),)),))


def _extended_claim(pod: PodKey) -> ExtendedClaim:
    claim = Claim(NAMESPACE, claim_name(Pod(NAMESPACE, pod.name, pod.uid)), f"{pod.uid}-made-up")
    return ExtendedClaim(claim, (CountRequest("r", "gpu", 1),), (RequestMapping("c", "example.com/gpu", "r"),))


def _devices(claim: Json) -> set[str]:
    return {result["device"] for result in results_of(allocation_of(claim) or {})}


def a_server(pods: Sequence[Sequence[str]], *, are_extended: bool = False) -> Server:
    """pods: the claims of each, by name. are_extended: each asks for an extended resource as well."""
    server = Server()
    for name in sorted({claim for own in pods for claim in own}):
        server.add("resourceclaims", {"metadata": {"name": name, "uid": f"{name}-uid"}, "spec": {}})
    for index, own in enumerate(pods):
        entries = [{"name": claim, "resourceClaimName": claim} for claim in own]
        metadata = {"name": f"pod-{index}", "uid": f"pod-{index}-uid"}
        containers = [{"name": "c"}] if are_extended else []
        server.add("pods", {"metadata": metadata, "spec": {"resourceClaims": entries, "containers": containers}})
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


@pytest.mark.parametrize("seed", extent.part(range(SEEDS), SEEDS_OF_A_DAY))
def test_no_bound_pod_is_ever_without_its_devices(seed: int) -> None:
    for turn in range(ROUNDS):
        chance = Random(seed * ROUNDS + turn)  # noqa: S311 - no secret
        server = a_server(some_pods(chance))
        asyncio.run(play(server, chance.randint(2, 3), chance))
        assert server.wrongs == [], "\n".join(server.log)


async def mend(server: Server, chance: Random) -> None:
    """Let one process try all pods while nothing goes wrong any more."""
    history = History(server)
    history.note()
    process = Process(history, 0, chance, behind=0)
    for _ in range(MENDING):
        names = [one["metadata"]["name"] for one in server.all("pods")]
        tasks = [asyncio.create_task(process.schedule(name), name=f"0/{name}") for name in names]
        while not all(task.done() for task in tasks):
            await run_on(server, tasks)
            for call in list(server.waiting):
                server.deliver(call, Way.ANSWERED)
                history.note()
        for task in tasks:
            task.result()


def unfinished(server: Server) -> list[str]:
    """What is not as it should be once nothing goes wrong any more: pods without a node, and claims of no use."""
    pods = list(server.all("pods"))
    used = {name for pod in pods for name in claims_of(pod)}
    waiting = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
    return [*waiting, *(name for one in server.all("resourceclaims") if (name := one["metadata"]["name"]) not in used)]


@pytest.mark.parametrize("seed", extent.part(range(SEEDS), SEEDS_OF_A_DAY))
def test_no_bound_pod_is_ever_without_the_claim_that_was_made_for_it_and_no_other_stays(seed: int) -> None:
    """Whatever went wrong, one process that nothing hinders binds the pods that are left, each with one such claim."""
    for turn in range(ROUNDS):
        chance = Random(seed * ROUNDS + turn)  # noqa: S311 - no secret
        server = a_server([chance.sample("a", chance.randint(0, 1)) for _ in range(2)], are_extended=True)
        asyncio.run(play(server, chance.randint(2, 3), chance))
        assert server.wrongs == [], "\n".join(server.log)
        asyncio.run(mend(server, chance))
        assert server.wrongs == [], "\n".join(server.log)
        assert unfinished(server) == [], "\n".join(server.log)


def changed_back(chance: Random, stored: Json, changed: Json) -> Json:
    """What a mutating webhook makes of an object.

    It undoes a part of the write, gives a claim another device, or reserves it for a pod that is not there.
    """
    if chance.randint(0, 3):
        return changed
    before = stored.get("status") or {}
    metadata, status = dict(changed["metadata"]), dict(changed.get("status") or {})
    parts = [
        *((metadata, stored["metadata"], name) for name in ("annotations", "finalizers", "ownerReferences")),
        *((status, before, name) for name in ("allocation", "reservedFor", "conditions", EXTENDED_STATUS)),
    ]
    differing = [(fields, kept, name) for fields, kept, name in parts if fields.get(name) != kept.get(name)]
    fields, kept, name = chance.choice(differing or parts)
    if name == "allocation" and fields.get(name) and chance.randint(0, 1):
        (result,) = results_of(fields[name])
        fields[name] = {**fields[name], "devices": {"results": [{**result, "device": FABRIC[0]}]}}
    elif name == "reservedFor" and fields.get(name) and chance.randint(0, 1):
        were = kept.get(name) or ()
        fields[name] = [entry if entry in were else {**entry, "name": "another"} for entry in fields[name]]
    else:
        fields[name] = kept.get(name)
    return {
        **changed,
        "metadata": {field: value for field, value in metadata.items() if value},
        "status": {field: value for field, value in status.items() if value},
    }


@pytest.mark.parametrize("are_extended", [False, True])
def test_no_bound_pod_is_ever_without_its_devices_whatever_webhooks_make_of_the_writes(*, are_extended: bool) -> None:
    """Nor does anything go on without end, or goes wrong once they are gone."""
    for turn in range(ROUNDS // 4):
        chance = Random(turn)  # noqa: S311 - no secret
        server = a_server(some_pods(chance), are_extended=are_extended)
        server.admit = partial(changed_back, chance)
        asyncio.run(play(server, chance.randint(1, 2), chance))
        assert server.wrongs == [], "\n".join(server.log)
        server.admit = None
        asyncio.run(mend(server, chance))
        assert server.wrongs == [], "\n".join(server.log)

"""A gang is written as a whole: whatever becomes of its calls, all are bound, or none is and nothing is left of it."""

import asyncio
from random import Random

import pytest

from scheduler.attempt.attempt import Together, new_attempt, report_nothing
from scheduler.attempt.claim_objects import allocation_of, consumers_of, intent_of
from scheduler.attempt.decision import AttemptOutcome, ClaimPlan, Decision, PodKey
from scheduler.attempt.run import run, steps
from tests import extent
from tests.properties.attempt.server import NAMESPACE, Server, claims_of
from tests.properties.attempt.test_orders import (
    NODES,
    ROUNDS,
    SEEDS,
    SEEDS_OF_A_DAY,
    History,
    Process,
    _allocation,
    a_server,
    deliver_all,
)


class GangHistory(History):
    """Also what has to be so when the first pod is bound: all of the gang have their claims."""

    begun = False

    def note(self) -> None:
        super().note()
        pods = list(self.server.all("pods"))
        if self.begun or not any(pod["spec"].get("nodeName") for pod in pods):
            return
        self.begun = True
        for pod in pods:
            for name in claims_of(pod):
                if pod["metadata"]["uid"] not in consumers_of(self.server.objects["resourceclaims", name]):
                    self.server.wrongs.append(f"the first pod is bound while {pod['metadata']['name']} lacks {name}")


def a_gang(chance: Random) -> list[list[str]]:
    """Pods with claims of their own, and some that they share."""
    shared = [f"shared-{number}" for number in range(chance.randint(0, 2))]
    size = chance.randint(2, 4)
    return [
        [*(f"own-{number}" for _ in range(chance.randint(0, 1))), *(one for one in shared if chance.randint(0, 1))]
        for number in range(size)
    ]


def decisions_of(server: Server, process: Process, chance: Random) -> list[Decision]:
    """Each claim gets its devices from one of the pods that use it."""
    pods = list(server.all("pods"))
    giver = {
        name: chance.choice([pod["metadata"]["name"] for pod in pods if name in claims_of(pod)])
        for pod in pods
        for name in claims_of(pod)
    }
    decisions = []
    for pod in pods:
        metadata = pod["metadata"]
        key = PodKey(NAMESPACE, metadata["name"], metadata["uid"], metadata["resourceVersion"], "ours")
        plans = [
            ClaimPlan(
                server.objects["resourceclaims", name],
                _allocation(f"device-of-{name}", NODES[0]) if giver[name] == metadata["name"] else None,
            )
            for name in claims_of(pod)
        ]
        decisions.append(process.decision(key, NODES[0], plans))
    return decisions


async def play(server: Server, chance: Random) -> dict[str, AttemptOutcome | None]:
    """What became of each pod."""
    history = GangHistory(server)
    history.note()
    process = Process(history, 1, chance, behind=0)
    decisions = decisions_of(server, process, chance)
    together, outcomes = Together("gang", decisions), dict[str, AttemptOutcome | None]()

    async def bind(decision: Decision) -> None:
        outcome = None
        try:
            attempt = new_attempt(process.binder, decision, None, report_nothing, together)
            outcome = await run(process.binder, attempt, list(steps(process.binder, attempt)))
        finally:
            outcomes[decision.pod.name] = outcome
            together.ended(decision.pod.uid, outcome)

    tasks = [asyncio.create_task(bind(one), name=one.pod.name) for one in decisions]
    try:
        await deliver_all(server, history, tasks, chance)
    finally:
        for _ in range(3):  # cancelled twice, an attempt stops at once
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
    assert together.is_over
    return outcomes


def left(server: Server) -> list[str]:
    """Claims with devices, or with a mark of ours; a mark alone on a shared one is taken away by the sweep."""
    stored = {one["metadata"]["name"]: one for one in server.all("resourceclaims")}
    return [
        name
        for name, claim in stored.items()
        if allocation_of(claim) or (intent_of(claim) and not name.startswith("shared"))
    ]


@pytest.mark.parametrize("seed", extent.part(range(SEEDS), SEEDS_OF_A_DAY))
def test_all_of_a_gang_are_bound_or_nothing_is_left_of_it(seed: int) -> None:
    endings = set()
    for turn in range(ROUNDS):
        chance = Random(seed * ROUNDS + turn)  # noqa: S311 - no secret
        server = a_server(a_gang(chance))
        outcomes = asyncio.run(play(server, chance))
        log = "\n".join([*server.log, str(outcomes)])
        assert server.wrongs == [], log
        waiting = [pod for pod in server.all("pods") if not pod["spec"].get("nodeName")]
        stopped = {line.partition(" ")[0] for line in server.log if line.endswith("is stopped")}
        endings.add(len(waiting) / len(outcomes))
        if len(waiting) == len(outcomes):
            # One that is stopped while it takes things back leaves them to the next start.
            leaves = {name for pod in waiting if pod["metadata"]["name"] in stopped for name in claims_of(pod)}
            assert set(left(server)) <= leaves, log
        for pod in waiting if len(waiting) < len(outcomes) else ():
            # Stopped while the others were bound: it has what it needs, which the next start finds.
            assert pod["metadata"]["name"] in stopped, log
            for name in claims_of(pod):
                claim = server.objects["resourceclaims", name]
                assert pod["metadata"]["uid"] in consumers_of(claim), log
    assert {0.0, 1.0} <= endings

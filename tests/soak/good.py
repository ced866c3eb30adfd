"""The well-behaved: pods arrive at a steady rate, run a short while once bound, and go with their claims."""

import asyncio
import math
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from time import monotonic

import orjson

from tests.controlplane.rest import POD, Json
from tests.soak.client import MERGE, Call, Client
from tests.soak.furnish import ADMINS, GOOD, GPU, TEAMS, request
from tests.soak.objects import a_claim, a_pod, by_name, create, delete, from_template, path_of
from tests.soak.plan import Plan
from tests.soak.revisions import Revision

RUNS_S = (3.0, 10.0)
_ENDED_S = 1.0
_ENDED = orjson.dumps({"status": {"phase": "Succeeded"}})

KINDS = {"gpu": 30, "fabric": 15, "memory": 15, "quarter": 12, "half": 5, "gpu nic": 12, "admin": 3, "shared": 8}
"""What pods ask for, by templates of these names, and how often; `shared` is one claim of two pods."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What comes together: pods, and the claims that they name. ends: whether they end before they are deleted."""

    pods: tuple[Json, ...]
    claims: tuple[Json, ...]
    runs_s: float
    ends: bool


def arrivals(chance: Random) -> Iterator[Arrival]:
    """Without end; the same for one seed."""
    for number in count():
        (kind,) = chance.choices(list(KINDS), list(KINDS.values()))
        namespace = ADMINS if kind == "admin" else chance.choice(TEAMS)
        runs_s, ends = chance.uniform(*RUNS_S), chance.random() < 0.5
        if kind == "shared":
            claim = a_claim(namespace, f"shared-{number}", [request(GPU)])
            names = (f"good-{number}-a", f"good-{number}-b")
            pods = tuple(a_pod(namespace, name, [by_name(f"shared-{number}")]) for name in names)
            yield Arrival(pods, (claim,), runs_s, ends)
        else:
            entries = [from_template(one, one) for one in kind.split()]
            yield Arrival((a_pod(namespace, f"good-{number}", entries),), (), runs_s, ends)


class Good:
    """Lets them come and go. created, bound, held_back: so many pods; failed: what the API server did not take.

    late_s: of each pod and claim, from the API server's answer to its creation until the watch showed it. Where that is
    long, it is the API server that does not keep up.
    """

    def __init__(self, client: Client, plan: Plan) -> None:
        self.created = self.bound = self.held_back = 0
        self.failed: list[str] = []
        self.late_s: list[float] = []
        self._answered_s: dict[str, float] = {}
        self._client, self._plan = client, plan
        self._arrived: dict[str, Arrival] = {}
        self._left: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """How many are there without a node."""
        return self.created - self.bound

    async def come(self, until_s: float) -> None:
        """Let them arrive until that moment of the monotonic clock."""
        began, number = monotonic(), 0
        for arrival in arrivals(Random(f"good {self._plan.seed}")):  # noqa: S311 - no secret
            due = began + number / self._plan.good_rate
            if due > until_s:
                return
            await asyncio.sleep(due - monotonic())
            number += len(arrival.pods)
            if self.pending < self._plan.pending:
                self._start(self._arrive(arrival))
            else:
                self.held_back += len(arrival.pods)

    def see(self, revision: Revision) -> None:
        """Take a revision: a pod that is bound starts to run."""
        pod = revision.object
        if pod["metadata"]["namespace"] not in GOOD:
            return
        if answered_s := self._answered_s.pop(path_of(pod), None):
            self.late_s.append(max(0.0, revision.seen_s - answered_s))
        if pod["kind"] != POD.kind or not pod["spec"].get("nodeName"):
            return
        if arrival := self._arrived.pop(path_of(pod), None):
            self.bound += 1
            self._start(self._run(path_of(pod), arrival))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _arrive(self, arrival: Arrival) -> None:
        for claim in arrival.claims:
            self._left[path_of(claim)] = len(arrival.pods)
            await self._create(claim)
        for pod in arrival.pods:
            self._arrived[path_of(pod)] = arrival
            self.created += 1
            await self._create(pod)

    async def _run(self, path: str, arrival: Arrival) -> None:
        await asyncio.sleep(arrival.runs_s)
        if arrival.ends:
            await self._call(Call("PATCH", f"{path}/status", _ENDED, MERGE))
            await asyncio.sleep(_ENDED_S)
        await self._call(delete(path))
        for claim in map(path_of, arrival.claims):
            self._left[claim] -= 1
            if not self._left[claim]:
                del self._left[claim]
                await self._call(delete(claim))

    async def _create(self, obj: Json) -> None:
        """It may be seen before it is answered: then it was not late."""
        path = path_of(obj)
        self._answered_s[path] = math.inf
        await self._call(create(obj))
        if path in self._answered_s:
            self._answered_s[path] = monotonic()

    async def _call(self, call: Call) -> None:
        answer = await self._client.send(call)
        if not answer.is_yes:
            self.failed.append(f"{call.method} {call.path}: {answer.status} {answer.body[:200]!r}")

    async def stop(self) -> None:
        """Let nothing go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

"""The hostile tenant at work: acts at a steady rate, and no more of what they leave than it may keep."""

import asyncio
from collections import Counter, deque
from collections.abc import Collection
from random import Random
from time import monotonic

from tests.soak.acts import ACTS, Act, Tenant
from tests.soak.client import Client
from tests.soak.objects import PODS, delete
from tests.soak.plan import Plan


class Hostile:
    """acts, sent: so many there were, and so many objects in their calls. answers: how many calls ended how, by act."""

    def __init__(self, client: Client, plan: Plan, without: Collection[str] = ()) -> None:
        self.acts = self.sent = 0
        self.answers: Counter[tuple[str, int]] = Counter()
        self._client, self._plan = client, plan
        self._ways = {act: weight for act, weight in ACTS.items() if act.__name__ not in without}
        self._tenant = Tenant(Random(f"hostile {plan.seed}"))  # noqa: S311 - no secret
        self._there: deque[str] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def act(self, until_s: float) -> None:
        """Go on until that moment of the monotonic clock."""
        began = monotonic()
        while self._plan.hostile_rate and (due := began + self.sent / self._plan.hostile_rate) < until_s:
            await asyncio.sleep(due - monotonic())
            self._tenant.number = self.acts
            (draw,) = self._tenant.chance.choices(list(self._ways), list(self._ways.values()))
            act = draw(self._tenant)
            self._note(act)
            self.acts += 1
            self.sent += max(1, len(act.calls))
            self._start(draw.__name__, act)

    def _note(self, act: Act) -> None:
        """Remember what it leaves, and let the oldest go."""
        self._there.extend(act.made)
        for path in act.made:
            (self._tenant.pods if f"/{PODS}/" in path else self._tenant.claims).append(path)
        del self._tenant.pods[: -self._plan.alive], self._tenant.claims[: -self._plan.alive]
        while len(self._there) > self._plan.alive:
            self._start("clean up", Act([delete(self._there.popleft())]))

    def _start(self, name: str, act: Act) -> None:
        task = asyncio.create_task(self._carry_out(name, act))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, name: str, act: Act) -> None:
        for call in act.calls:
            answer = await self._client.send(call)
            self.answers[name, answer.status] += 1

    async def stop(self) -> None:
        """Let nothing go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

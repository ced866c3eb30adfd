"""Steps of an attempt that binds a pod with the others of its group, where they differ from those of a pod alone."""

from dataclasses import dataclass, field
from typing import ClassVar

from scheduler.attempt.attempt import Attempt
from scheduler.attempt.decision import Bound, Point, Step
from scheduler.attempt.steps.claims import Allocate, Reserve
from scheduler.attempt.steps.pod import Bind
from scheduler.attempt.together import Together

KEPT_S = 300.0
"""For so long a pod keeps its place that could not be bound when others of its group were."""


@dataclass(eq=False)
class AllocateShared(Allocate):
    """The allocation of a claim that others of the group reserve."""

    together: Together

    async def do(self) -> None:
        """Mark and allocate the claim, and tell the others. Raises AttemptEnded."""
        await super().do()
        assert self.written is not None, "it was written"
        self.together.is_stored(self.written.stored)

    async def undo(self, node: str) -> bool:
        """Take the claim back once the others have let it go."""
        await self.together.let_go(self.claim)
        return await super().undo(node)


@dataclass(eq=False)
class ReserveShared(Reserve):
    """The reservation of a claim that another attempt of the group allocates."""

    together: Together

    async def do(self) -> None:
        """Reserve the claim once it has devices. Raises AttemptEnded."""
        async with self.attempt.slot.lent():
            self.claim = await self.together.allocated(self.claim)
        await super().do()

    async def undo(self, node: str) -> bool:
        """Take back the reservation, for which the attempt waits that has allocated the claim."""
        try:
            return await super().undo(node)
        finally:
            self.together.lets_go(self.claim, self.attempt.decision.pod.uid)


@dataclass(eq=False)
class AwaitOthers(Step):
    """The wait for the other pods of the group to be as far. It holds no slot: theirs may be waiting for one."""

    point: ClassVar[Point] = "Bind"

    attempt: Attempt
    together: Together

    async def do(self) -> None:
        """Return once all have written. Raises AttemptEnded where one of them fails."""
        self.attempt.slot.give_back()
        await self.together.written(self.attempt.decision.pod.uid)


@dataclass(eq=False)
class BindTogether(Bind):
    """The binding of a pod while others of its group are bound: it keeps its place, and is tried for long."""

    until: float = field(default=0.0, init=False)

    async def do(self) -> Bound | None:
        """Bind the pod. Raises AttemptEnded where it cannot be bound, or not for minutes."""
        self.until = self.binder.time.monotonic() + KEPT_S
        return await super().do()

    @property
    def goes_on(self) -> bool:
        """Whether it is tried again, however often it has failed."""
        return self.binder.time.monotonic() < self.until

"""Looks for rivals: of several writers that allocate one device, at most the first may bind.

The API server never compares the devices of two claims. So each writer waits until its watch has passed its own write.
A watch shows changes in the order of their versions: the later writer always sees the earlier claim, and gives way; the
earlier writer waits for that.
"""

from dataclasses import dataclass
from typing import NoReturn

from scheduler.attempt.attempt import Attempt, WrittenClaim
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import allocation_of
from scheduler.attempt.decision import AttemptEnded, Retry
from scheduler.attempt.giving_way import given_up, lost_to
from scheduler.attempt.step import Step
from scheduler.client.errors import CallFailed
from scheduler.state.rivals import Rival

BARRIER_S = 5.0
"""For so long our watch may take to show our own writes; then the claims are listed instead."""

GIVE_WAY_S = 2.0
"""For so long the earlier writer waits for a later one to give way; then it gives way itself."""

POLL_S = 0.02
"""Between two looks for rivals meanwhile."""


@dataclass(eq=False)
class Verify(Step):
    """The look for rivals of all claims that the attempt has written to."""

    binder: Binder
    attempt: Attempt

    @property
    def awaited(self) -> str:
        """The pod's own claims, and those of others."""
        return "the API server to show its claims as they were written, and those of others"

    async def do(self) -> None:
        """Return once none of the claims has a rival. Raises AttemptEnded where the pod has to give way."""
        await self._see()
        time, claims = self.binder.time, self.attempt.claims
        give_up_at = time.monotonic() + GIVE_WAY_S
        while rivals := [(one, rival) for one in claims for rival in self.binder.watched.rivals(one.key)]:
            is_in_time = time.monotonic() < give_up_at
            for one, rival in rivals:
                if rival.resource_version < one.version or not is_in_time:
                    _give_way(self.binder, one, rival)
            await time.sleep(POLL_S)

    async def _see(self) -> None:
        """Wait until our view of the claims includes all that was written."""
        last = max((one.version for one in self.attempt.claims), default=0)
        if await self.binder.watched.reached(last, BARRIER_S):
            return
        try:
            await self.binder.watched.catch_up()
        except CallFailed as error:
            raise AttemptEnded(Retry(f"cannot read the other allocations: {error}")) from error


def _give_way(binder: Binder, claim: WrittenClaim, rival: Rival) -> NoReturn:
    # Whoever allocated it, the claim can serve nobody as it is.
    claim.allocation = allocation_of(claim.stored)
    is_first = rival.resource_version < claim.version
    raise AttemptEnded(lost_to(rival, claim.key) if is_first else given_up(rival, claim.key, binder))

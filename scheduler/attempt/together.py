"""Attempts that bind the pods of a group: none binds before all have written; all are undone if one fails before.

The attempts stay their own otherwise: each has its steps, its slot and its undoing. A claim that several of the pods
share is allocated by one of the attempts, for which the others wait before they reserve it; and in undoing it waits for
them, so that it finds the claim with no user and takes its devices back.
"""

import asyncio
from collections.abc import Callable, Sequence

from scheduler.attempt.claim_objects import RawClaim, allocation_of, key_of
from scheduler.attempt.decision import AttemptEnded, AttemptOutcome, Decision, Gone, Retry


class Together:
    """The attempts of one group. decisions: one for each pod that is to be bound at once, in their order.

    is_released: all have written and none has failed, so that each may bind.
    """

    def __init__(self, group: str, decisions: Sequence[Decision]) -> None:
        self.group = group
        self._names = {one.pod.uid: str(one.pod) for one in decisions}
        self.is_released = False
        self._missing = set(self._names)
        self._under_way = set(self._names)
        self._failure: Retry | None = None
        self._sharers: dict[str, set[str]] = {}
        self._stored: dict[str, RawClaim] = {}
        self._changed = asyncio.Event()
        for decision in decisions:
            for plan in decision.claims:
                if plan.allocation is None and allocation_of(plan.claim) is None:
                    self._sharers.setdefault(key_of(plan.claim).uid, set()).add(decision.pod.uid)

    @property
    def is_over(self) -> bool:
        """Whether all have ended."""
        return not self._under_way

    def is_shared(self, claim: RawClaim) -> bool:
        """Whether others reserve the claim that one of the attempts allocates."""
        return key_of(claim).uid in self._sharers

    def fail(self, uid: str, outcome: AttemptOutcome | None) -> None:
        """The pod will not be bound with the others, unless these may bind already."""
        if self.is_released or self._failure is not None:
            return
        reason = getattr(outcome, "reason", "") or "its attempt was given up"
        after_s = outcome.after_s if isinstance(outcome, Retry) else None
        is_lost = isinstance(outcome, Retry) and outcome.is_lost
        self._failure = Retry(f"pod {self._names[uid]} of group {self.group}: {reason}", after_s, is_lost=is_lost)
        self._change()

    def gone(self, uid: str) -> None:
        """The pod was deleted; of a pod that is none of these nothing follows."""
        if uid in self._names:
            self.fail(uid, Gone("it was deleted"))

    def ended(self, uid: str, outcome: AttemptOutcome | None) -> None:
        """The attempt for the pod has ended, and nothing of it is in flight. outcome: None where it was cancelled."""
        self.fail(uid, outcome)
        self._under_way.discard(uid)
        for users in self._sharers.values():
            users.discard(uid)
        self._change()

    async def decided(self) -> None:
        """Return once each may bind, or all have ended."""
        await self._until(lambda: self.is_released or self.is_over)

    async def written(self, uid: str) -> None:
        """The attempt for the pod has written all: return once the others have. Raises AttemptEnded if one fails."""
        self._missing.discard(uid)
        self.is_released |= not self._missing and self._failure is None
        self._change()
        await self._until(lambda: self.is_released or self._failure is not None)
        self._check()

    def is_stored(self, claim: RawClaim) -> None:
        """A shared claim has its devices. claim: as it is stored."""
        self._stored[key_of(claim).uid] = claim
        self._change()

    async def allocated(self, claim: RawClaim) -> RawClaim:
        """The shared claim, once it has its devices. Raises AttemptEnded if another attempt fails before."""
        uid = key_of(claim).uid
        await self._until(lambda: uid in self._stored or self._failure is not None)
        self._check()
        return self._stored[uid]

    def lets_go(self, claim: RawClaim, uid: str) -> None:
        """The attempt for the pod has taken back its reservation of the shared claim."""
        self._sharers[key_of(claim).uid].discard(uid)
        self._change()

    async def let_go(self, claim: RawClaim) -> None:
        """Return once no other attempt has reserved the shared claim, or each may keep it."""
        await self._until(lambda: self.is_released or not self._sharers[key_of(claim).uid])

    def _check(self) -> None:
        if self._failure is not None and not self.is_released:
            raise AttemptEnded(self._failure)

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()

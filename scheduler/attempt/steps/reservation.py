"""Reserves a claim that is allocated already, by another scheduler or an earlier attempt for the pod.

A claim that is already reserved for the pod is taken over: it gets the intent of this attempt.
Source: KEP-4381; kube-scheduler's DynamicResources plugin, PreBind.
"""

from dataclasses import dataclass

from allocator.api.allocation import RESERVED_FOR_MAX
from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import WrittenClaim
from scheduler.attempt.claim_objects import Claim, Json, allocation_of, consumers_of, key_of, version_of
from scheduler.attempt.claim_step import ClaimStep
from scheduler.attempt.claim_writes import Write, check_exists, intent_write, stored_by
from scheduler.attempt.decision import AttemptEnded, Retry, Unschedulable
from scheduler.plugins.dynamic_resources import CLAIMS


@dataclass(eq=False)
class Reserve(ClaimStep):
    """The reservation of an allocated claim. claim: raw, as the decision was made on it."""

    claim: Claim

    async def do(self) -> None:
        """Reserve the claim, or take it over. Raises AttemptEnded."""
        async with self.binder.claim_locks.of(key_of(self.claim)) as lock:
            claim = max(self.claim, lock.passed_on or self.claim, key=lambda one: int(version_of(one)))
            if self.attempt.decision.pod.uid not in consumers_of(claim):
                claim = lock.passed_on = await self._join(claim)
            if not any(one.key == key_of(claim) for one in self.attempt.claims):
                lock.passed_on = await self._take_over(claim)

    @property
    def key(self) -> str:
        """Namespace and name of the claim."""
        return str(key_of(self.claim))

    def stays(self, node: str) -> bool:
        """Always: the process that bound the pod relies on it."""
        return True

    async def _join(self, claim: Claim) -> Json:
        """The claim as stored with the pod's reservation; it is noted only where that is certain to be ours."""
        pod = self.attempt.decision.pod
        write = Write(
            claim_calls.put_consumers,
            lambda current: claim_objects.reserved(current, pod.name, pod.uid),
            lambda current: pod.uid in consumers_of(current),
            self._check_room,
            "the pod's reservation",
            is_anonymous=True,
        )
        self.written = WrittenClaim(key_of(claim), claim, None)
        return await stored_by(self.binder, self.attempt, self.written, claim, write)

    async def _take_over(self, claim: Claim) -> Json:
        # Differs from kube-scheduler, which writes nothing: the attempt that reserved the claim may not have ended, in
        # a process before this one or beside it. Once it finds our intent it can neither undo nor bind.
        self.written = WrittenClaim(key_of(claim), claim, self._allocation, is_taken_over=True)
        intent = intent_write(self.attempt, self._check_reserved)
        return await stored_by(self.binder, self.attempt, self.written, claim, intent)

    @property
    def _allocation(self) -> Json:
        found = allocation_of(self.claim)
        assert found is not None, f"claim {key_of(self.claim)} has no allocation and is given none"
        return found

    def _check_unchanged(self, current: Claim) -> None:
        check_exists(current)
        found = allocation_of(current)
        if found is None or not claim_objects.is_same_allocation(found, self._allocation):
            raise AttemptEnded(Retry(f"claim {key_of(current)} was deallocated"))

    def _check_reserved(self, current: Claim) -> None:
        self._check_unchanged(current)
        if self.attempt.decision.pod.uid not in consumers_of(current):
            raise AttemptEnded(Retry(f"claim {key_of(current)} was released by another attempt", is_lost=True))

    def _check_room(self, current: Claim) -> None:
        self._check_unchanged(current)
        if len(consumers_of(current)) >= RESERVED_FOR_MAX:
            reason = f"claim {key_of(current)} is reserved for {RESERVED_FOR_MAX} pods, the maximum"
            raise AttemptEnded(Unschedulable(reason, CLAIMS))

"""Allocates a claim: first finalizer and intent, then allocation and reservation in one write.

The intent protects a claim that is not allocated yet: even after a crash it shows whose work it is.
Source: KEP-4381; kube-scheduler's DynamicResources plugin, PreBind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from allocator.api import allocation_to_v1
from allocator.model import Allocation
from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import Attempt, WrittenClaim
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Claim, ClaimKey, Json, allocation_of, consumers_of, key_of
from scheduler.attempt.claim_step import ClaimStep
from scheduler.attempt.claim_writes import Write, check_not_allocated, intent_write, stored_by
from scheduler.attempt.decision import AttemptEnded, Retry
from scheduler.attempt.giving_way import lost_to
from scheduler.attempt.intent import Intent, intent_of
from scheduler.attempt.timestamps import in_seconds


@dataclass(eq=False)
class Allocate(ClaimStep):
    """The allocation of a claim that has none. claim: raw, as the decision was made on it."""

    claim: Claim
    allocation: Allocation

    async def do(self) -> None:
        """Mark and allocate the claim. Raises AttemptEnded."""
        wanted = with_time(self.binder, self.allocation)
        self.written = WrittenClaim(key_of(self.claim), self.claim, wanted, is_own=True)
        check_devices(self.binder, self.attempt, self.written.key)
        seen = intent_of(self.claim)
        intent = intent_write(self.attempt, lambda current: _check_unmarked(current, seen))
        marked = await stored_by(self.binder, self.attempt, self.written, self.claim, intent)
        await allocate(self.binder, self.attempt, self.written, marked, wanted)

    @property
    def key(self) -> str:
        """Namespace and name of the claim."""
        return str(key_of(self.claim))

    def stays(self, node: str) -> bool:
        """Whether the devices can be used on the node, where the pod has not only been waiting for them."""
        if self.attempt.decision.is_assigned:
            return False  # of no use before all claims are there
        return self.binder.watched.is_reached(node, self.allocation.node_selector)


async def allocate(binder: Binder, attempt: Attempt, written: WrittenClaim, marked: Claim, wanted: Json) -> None:
    """Allocate and reserve the claim, which has finalizer and intent. Raises AttemptEnded."""
    check_devices(binder, attempt, written.key)
    await stored_by(binder, attempt, written, marked, _allocation_write(attempt, wanted))
    binder.watched.written(written.key, written.version)


def check_devices(binder: Binder, attempt: Attempt, claim: ClaimKey | None = None) -> None:
    """Raises AttemptEnded where the devices cannot be given any more, or another claim than this one has got them."""
    if reason := binder.watched.objection(attempt.decision):
        raise AttemptEnded(Retry(reason))
    if claim is not None and (rivals := binder.watched.rivals(claim)):
        raise AttemptEnded(lost_to(rivals[0], claim))


def with_time(binder: Binder, allocation: Allocation) -> Json:
    """The allocation as it is written, from now on."""
    return allocation_to_v1(allocation) | {"allocationTimestamp": in_seconds(binder.time.now())}


def _allocation_write(attempt: Attempt, wanted: Mapping[str, Any]) -> Write:
    pod = attempt.decision.pod

    def is_stored(current: Claim) -> bool:
        found = allocation_of(current)
        return (
            found is not None
            and claim_objects.is_same_allocation(found, wanted)
            and pod.uid in consumers_of(current)
            and intent_of(current) == attempt.intent
        )

    def check(current: Claim) -> None:
        check_not_allocated(current)
        if not claim_objects.is_marked(current, attempt.intent):
            reason = f"claim {key_of(current)} lost its finalizer or intent before it was allocated"
            raise AttemptEnded(Retry(reason, is_lost=True))

    def edit(current: Claim) -> Json:
        return claim_objects.allocated(current, wanted, pod.name, pod.uid)

    return Write(claim_calls.put_status, edit, is_stored, check, "the allocation and reservation that were decided")


def _check_unmarked(claim: Claim, seen: Intent | None) -> None:
    """seen: as the decision was made on it. It may be a dead process's; a newer one is of somebody who is at work."""
    check_not_allocated(claim)
    if intent_of(claim) not in (None, seen):
        raise AttemptEnded(Retry(f"claim {key_of(claim)} is being allocated by another attempt", is_lost=True))

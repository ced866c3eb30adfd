"""Taking back what an attempt wrote, until nothing of it is left: a small state machine that reads before each step.

An allocation that only this pod has goes, and then finalizer and intent; of a shared one, only the pod's reservation.
A write of the attempt that was never answered may still land: every step moves the claim's version, and where there is
nothing to take back a fence does, so that it lands never. A claim that another attempt has taken over is left to it.
"""

from collections.abc import Sequence

from scheduler.binding import claim_calls, claim_objects
from scheduler.binding.attempt import Touched
from scheduler.binding.binder import Binder
from scheduler.binding.claim_objects import Claim, Json, allocation_of, consumers_of, version_of
from scheduler.binding.intent import Intent, intent_of
from scheduler.binding.settle import Send, settle


async def roll_back(binder: Binder, intent: Intent, touched: Sequence[Touched]) -> bool:
    """Take back what was written, the last first; returns when no write is under way any more.

    False where the server refused for good: that claim is left as it is, and the sweep's to mend.
    """
    # Differs from kube-scheduler, which takes back its reservation and leaves the allocation to whoever comes.
    are_settled = [await undo(binder, intent, one) for one in reversed(touched)]
    return all(are_settled)


async def undo(binder: Binder, intent: Intent, touched: Touched) -> bool:
    """Take back what was written to one claim."""
    return await settle(binder, touched.key, lambda claim: next_step(claim, intent, touched))


def next_step(claim: Claim, intent: Intent, touched: Touched) -> tuple[Send, Json] | None:
    """The one write that is next, None once nothing of the attempt is left."""
    if claim_objects.is_fenced(claim):
        return claim_calls.put, claim_objects.unfenced(claim)
    if is_of_another_attempt(claim, intent):
        return None
    allocation = allocation_of(claim)
    if allocation and touched.allocation and claim_objects.is_same_allocation(allocation, touched.allocation):
        return _step_of_allocated(claim, intent)
    if intent.podUID in consumers_of(claim):
        return claim_calls.put_consumers, claim_objects.released(claim, intent.podUID)
    return _step_of_marked(claim, intent, touched)


def _step_of_marked(claim: Claim, intent: Intent, touched: Touched) -> tuple[Send, Json] | None:
    if intent_of(claim) == intent:
        return claim_calls.put, claim_objects.unmarked(claim)
    if version_of(claim) == touched.sent:
        return claim_calls.put, claim_objects.fenced(claim, touched.sent)
    return None


def _step_of_allocated(claim: Claim, intent: Intent) -> tuple[Send, Json] | None:
    if not set(consumers_of(claim)) - {intent.podUID}:
        return claim_calls.put_status, claim_objects.deallocated(claim)
    # Others use it too; the intent stays, as it does on every allocation of ours.
    if intent.podUID in consumers_of(claim):
        return claim_calls.put_consumers, claim_objects.released(claim, intent.podUID)
    return None


def is_of_another_attempt(claim: Claim, intent: Intent) -> bool:
    """Whether another attempt for the same pod has taken the claim over."""
    found = intent_of(claim)
    return found is not None and found.podUID == intent.podUID and found != intent

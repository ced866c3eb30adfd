"""Deallocates a claim that its pod cannot use, so that the pod can be placed elsewhere.

Its node is gone or full, or its devices failed. Only a claim that is reserved for no other pod may be deallocated, and
only one at a time: the pod may fit after the first.
Source: kube-scheduler's DynamicResources plugin, PostFilter.
"""

from collections.abc import Collection

from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import Attempt, WrittenClaim, new_attempt
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import RawClaim, allocation_of, consumers_of, is_deleting, is_made_for, key_of
from scheduler.attempt.claim_step import MARK, undo_claim
from scheduler.attempt.decision import Decision
from scheduler.attempt.pod_fate import UndoStopped
from scheduler.attempt.slots import Slot
from scheduler.attempt.write_outcome import MUTATED, WriteOutcome, write_outcome
from scheduler.client.errors import CallFailed
from scheduler.state.claims import FINALIZER


def may_be_deallocated(claim: RawClaim, pod_uid: str, beside: Collection[str] = ()) -> bool:
    """Whether the claim is allocated, or was made for the pod by an earlier attempt, and is no other pod's.

    beside: uids of pods without a node that let go of it as well.
    """
    is_ours = allocation_of(claim) is not None or (is_made_for(claim, pod_uid) and not _is_going(claim))
    return is_ours and not set(consumers_of(claim)) - {pod_uid, *beside}


def _is_going(claim: RawClaim) -> bool:
    """True for a claim that is being deleted, and that others keep, if anybody does."""
    return is_deleting(claim) and FINALIZER not in (claim["metadata"].get("finalizers") or ())


async def deallocate_one(
    binder: Binder, decision: Decision, slot: Slot | None = None, beside: Collection[str] = ()
) -> RawClaim | None:
    """Deallocate the first claim of the decision that may be, and say which; None where there is none.

    beside: as of `may_be_deallocated`; a claim that is reserved for one of these only loses the pod.

    One that was made for the pod's extended resources is deleted: the next attempt makes its own.

    decision: the pod and the claims that it was refused for; its node does not matter. slot: of the writers, given back
    at the end or before. None as well where the pod is bound or gone by then. Raises CallFailed where the claim changed
    meanwhile, or the API server refuses or does not answer: there may be no event then that would bring the pod back,
    and it has to be tried again.
    """
    may = (plan.claim for plan in decision.claims if may_be_deallocated(plan.claim, decision.pod.uid, beside))
    claim = min(may, key=key_of, default=None)
    if claim is None:
        return None
    attempt = new_attempt(binder, decision, slot)
    try:
        return claim if await _deallocate(binder, attempt, claim) else None
    finally:
        attempt.slot.give_back()


async def _deallocate(binder: Binder, attempt: Attempt, claim: RawClaim) -> bool:
    # Our intent first: another attempt that is about to bind the pod with this claim finds it, and stops.
    try:
        with attempt.slot.not_for_long():
            stored = await claim_calls.put(binder, claim_objects.marked(claim, attempt.intent))
    except CallFailed as error:
        if write_outcome(error) is WriteOutcome.GONE:
            return True
        raise
    pod_uid = attempt.decision.pod.uid
    written = WrittenClaim(
        key_of(claim),
        stored,
        allocation_of(stored),
        is_taken_over=pod_uid in consumers_of(claim),
        is_made=is_made_for(claim, pod_uid),
    )
    written.note(stored)
    if not claim_objects.is_marked(stored, attempt.intent):
        raise CallFailed(f"claim {written.key}", f"stored without {MARK}: {MUTATED}", is_ambiguous=False)
    try:
        with attempt.slot.undoing():
            is_undone = await undo_claim(binder, attempt, written)
    except UndoStopped:
        return False
    if not is_undone:
        raise CallFailed(f"claim {key_of(claim)}", "the API server refuses to deallocate it", is_ambiguous=False)
    return True

"""Undoes what an attempt wrote to a claim: a small state machine that reads the claim before each edit.

An allocation that only this pod uses is removed, then finalizer and intent. Of a shared allocation, only the pod's
reservation is removed. A write of the attempt without an answer may still be stored. So each edit changes the claim's
version; if there is nothing to undo, a fence does. A claim that another attempt has taken over is not changed.
"""

from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import Attempt, WrittenClaim
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Claim, Json, allocation_of, consumers_of, version_of
from scheduler.attempt.decision import Gone
from scheduler.attempt.intent import Intent, intent_of, is_of_another_attempt
from scheduler.attempt.pod_fate import UndoStopped, fence
from scheduler.attempt.repeated_edits import Send, edit_until_done


async def undo_claim(binder: Binder, attempt: Attempt, written: WrittenClaim, *, is_fenced: bool = False) -> bool:
    """Take back what was written to the claim; returns when no write is in flight any more.

    False where the server refused for good: the claim is left as it is, and the sweep's to repair. is_fenced: no
    binding of the pod can be stored that relies on the claim. Raises UndoStopped.
    """

    # Differs from kube-scheduler, which takes back its reservation and leaves the allocation to whoever comes.
    def following(claim: Claim) -> tuple[Send, Json] | None:
        return next_edit(claim, attempt.intent, written)

    async def before(claim: Claim, send: Send) -> None:
        """No binding can land any more that was sent before; read, fence, write, in this order."""
        if is_fenced or not _may_be_relied_on(send, claim, written):
            return
        fate = await fence(binder, attempt)
        if fate is not None and not isinstance(fate, Gone):
            raise UndoStopped(fate)

    known = written.stored if written.written == version_of(written.stored) and not written.sent else None
    pod = attempt.intent.podUID
    return await edit_until_done(binder, written.key, following, known, before=before, for_pod=pod)


def _may_be_relied_on(send: Send, claim: Claim, written: WrittenClaim) -> bool:
    """Whether the write takes from the pod what another attempt for it may have found there.

    Whoever relies on a claim has written to it: nobody does while its version is that of our own last write, unless it
    was there before us.
    """
    is_taken_away = send not in {claim_calls.put, claim_calls.delete}
    return is_taken_away and (written.is_taken_over or bool(written.sent) or written.written != version_of(claim))


def next_edit(claim: Claim, intent: Intent, written: WrittenClaim) -> tuple[Send, Json] | None:
    """The one write that is next, None once nothing of the attempt is left."""
    if claim_objects.is_fenced(claim):
        return claim_calls.put, claim_objects.unfenced(claim)
    if is_of_another_attempt(claim, intent):
        return None
    allocation = allocation_of(claim)
    if allocation and written.allocation and claim_objects.is_same_allocation(allocation, written.allocation):
        return _step_of_allocated(claim, intent)
    if intent.podUID in consumers_of(claim) and not written.is_own:
        return claim_calls.put_consumers, claim_objects.released(claim, intent.podUID)
    return _step_of_marked(claim, intent, written) or _step_of_made(claim, written)


def _step_of_made(claim: Claim, written: WrittenClaim) -> tuple[Send, Json] | None:
    """A claim that the attempt has made goes; one that somebody else protects stays until they let it go."""
    if not written.is_made or allocation_of(claim) or claim_objects.is_deleting(claim):
        return None
    return claim_calls.delete, dict(claim)


def _step_of_marked(claim: Claim, intent: Intent, written: WrittenClaim) -> tuple[Send, Json] | None:
    # A webhook may have taken the intent alone; what only we have written since is ours.
    is_left = written.is_own and version_of(claim) == written.written and claim_objects.is_protected_in_vain(claim)
    if intent_of(claim) == intent or is_left:
        return claim_calls.put, claim_objects.unmarked(claim)
    if version_of(claim) == written.sent:
        return claim_calls.put, claim_objects.fenced(claim, written.sent)
    return None


def _step_of_allocated(claim: Claim, intent: Intent) -> tuple[Send, Json] | None:
    if not set(consumers_of(claim)) - {intent.podUID}:
        return claim_calls.put_status, claim_objects.deallocated(claim)
    # Others use it too; the intent stays, as it does on every allocation of ours.
    if intent.podUID in consumers_of(claim):
        return claim_calls.put_consumers, claim_objects.released(claim, intent.podUID)
    return None

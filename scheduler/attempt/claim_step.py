"""A step that writes to one claim, with the undo that all such steps share."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace

from allocator.api.versions import Json
from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import TRIES, Attempt, WrittenClaim, new_attempt, pause
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_calls import Send, edit_until_done
from scheduler.attempt.claim_objects import (
    ANNOTATION,
    Intent,
    RawClaim,
    allocation_of,
    consumers_of,
    intent_of,
    is_deleting,
    is_made_for,
    is_marked,
    is_of_another_attempt,
    key_of,
    version_of,
)
from scheduler.attempt.decision import AttemptEnded, Decision, Gone, Retry, Step
from scheduler.attempt.pod_fate import UndoStopped, fence
from scheduler.attempt.slots import Slot
from scheduler.attempt.write_outcome import MUTATED, WriteOutcome, outcome_of, write_outcome
from scheduler.client.errors import CallFailed
from scheduler.state.claims import FINALIZER

# Writes the claims of an attempt, each based on the version that was read, until it is known what is stored.
#
# After a conflict or a lost answer, the claim is read again. Either it contains what was written, or it has changed and
# the write can no longer be stored, or the same write is sent again.


MARK = f"its finalizer, or the annotation {ANNOTATION}"


@dataclass(frozen=True, slots=True)
class Write:
    """One write."""

    send: Callable[[Binder, RawClaim], Awaitable[Json]]
    edit: Callable[[RawClaim], Json]
    """Gives the object to send."""
    is_stored: Callable[[RawClaim], bool]
    """Whether a claim that was read holds it."""
    check: Callable[[RawClaim], None]
    """Raises AttemptEnded where a claim is no longer what the decision was made on."""
    what: str
    """What it writes, for messages."""
    is_anonymous: bool = False
    """What is stored does not show which attempt for the pod has written it."""


async def stored_by(binder: Binder, attempt: Attempt, written: WrittenClaim, claim: RawClaim, write: Write) -> Json:
    """The claim as stored by the write. Raises AttemptEnded."""
    current = claim
    for tries in range(1, TRIES + 1):
        write.check(current)
        attempt.note(written, version_of(current))
        try:
            stored = await write.send(binder, write.edit(current))
        except CallFailed as error:
            _note_failure(attempt, written, error, write)
            await pause(binder, attempt, error, f"claim {written.key}", tries)
            current = await _read(binder, written)
            if write.is_stored(current):
                return _found(attempt, written, current, write)
        else:
            written.note(stored)
            check_kept(written, write.what, is_kept=write.is_stored(stored))
            return stored
    raise AttemptEnded(Retry(f"claim {written.key} changed or did not respond {TRIES} times in a row"))


def intent_write(attempt: Attempt, check: Callable[[RawClaim], None]) -> Write:
    """The write of finalizer and intent."""
    return Write(
        claim_calls.put,
        lambda current: claim_objects.marked(current, attempt.intent),
        lambda current: claim_objects.is_marked(current, attempt.intent),
        check,
        MARK,
    )


async def renew(binder: Binder, attempt: Attempt) -> None:
    """Write the intent again on all claims, for a pod whose version has moved. Raises AttemptEnded.

    Whoever is about to take a claim from the pod has moved that version first: each of its writes to the claim comes
    before this one, which then finds what it did, or after it, and fails.
    """
    attempt.intent = intent = replace(attempt.intent, renewal=attempt.intent.renewal + 1)

    def is_ours(current: RawClaim) -> None:
        allocation, is_reserved = allocation_of(current), attempt.decision.pod.uid in consumers_of(current)
        if allocation is None or not is_reserved or is_of_another_attempt(current, intent):
            raise AttemptEnded(Retry(f"claim {key_of(current)} is no longer allocated for pod {attempt.decision.pod}"))

    def is_renewed(current: RawClaim) -> bool:
        stored = intent_of(current)
        return stored == intent and stored is not None and stored.renewal == intent.renewal

    for written in list(attempt.claims):
        write = Write(claim_calls.put, lambda current: claim_objects.marked(current, intent), is_renewed, is_ours, MARK)
        await stored_by(binder, attempt, written, await _read(binder, written), write)


def check_exists(claim: RawClaim) -> None:
    """Raises AttemptEnded where the claim is being deleted."""
    if claim_objects.is_deleting(claim):
        raise AttemptEnded(Retry(f"claim {key_of(claim)} is being deleted"))


def check_not_allocated(claim: RawClaim) -> None:
    """Raises AttemptEnded where the claim has devices, or is being deleted."""
    check_exists(claim)
    if allocation_of(claim) is not None:
        reason = f"claim {key_of(claim)} was allocated by another client"
        raise AttemptEnded(Retry(reason, is_lost=True, is_taken=True))


def check_kept(written: WrittenClaim, what: str, *, is_kept: bool) -> None:
    """Raises AttemptEnded where a mutating webhook has changed what was sent. what: that was, in words.

    Nobody has decided on what is stored then: its devices may be another claim's, or nobody would start its pod.
    """
    if is_kept:
        return
    if written.is_own:  # whoever chose its devices, the claim can serve nobody as it is
        written.allocation = allocation_of(written.stored)
    raise AttemptEnded(Retry(f"claim {written.key} was stored without {what}: {MUTATED}", is_denied=True))


def _note_failure(attempt: Attempt, written: WrittenClaim, error: CallFailed, write: Write) -> None:
    is_unknown = write_outcome(error) is WriteOutcome.UNKNOWN
    written.may_be_stored |= is_unknown
    # What is found may be another attempt's, and relied on.
    written.is_taken_over |= is_unknown and write.is_anonymous
    if not written.may_be_stored:
        attempt.forget(written)


def _found(attempt: Attempt, written: WrittenClaim, current: Json, write: Write) -> Json:
    """The claim, which holds what was to be written. Raises AttemptEnded where it is somebody else's for certain."""
    if write.is_anonymous:
        attempt.forget(written)
        if not written.may_be_stored:
            reason = f"claim {written.key} is being reserved for pod {attempt.decision.pod} by another attempt"
            raise AttemptEnded(Retry(reason, is_lost=True, is_taken=True))
        return current
    attempt.note(written, "")
    return written.note(current)


async def _read(binder: Binder, written: WrittenClaim) -> Json:
    try:
        current = await claim_calls.get(binder, written.key)
    except CallFailed as error:
        raise AttemptEnded(outcome_of(error, f"claim {written.key}")) from error
    if current is None:
        raise AttemptEnded(Retry(f"claim {written.key} no longer exists"))
    return current


# Undoes what an attempt wrote to a claim: a small state machine that reads the claim before each edit.
#
# An allocation that only this pod uses is removed, then finalizer and intent. Of a shared allocation, only the pod's
# reservation is removed. A write of the attempt without an answer may still be stored. So each edit changes the claim's
# version; if there is nothing to undo, a fence does. A claim that another attempt has taken over is not changed.


async def undo_claim(binder: Binder, attempt: Attempt, written: WrittenClaim, *, is_fenced: bool = False) -> bool:
    """Take back what was written to the claim; returns when no write is in flight any more.

    False where the server refused for good: the claim is left as it is, and the sweep's to repair. is_fenced: no
    binding of the pod can be stored that relies on the claim. Raises UndoStopped.
    """

    # Differs from kube-scheduler, which takes back its reservation and leaves the allocation to whoever comes.
    def following(claim: RawClaim) -> tuple[Send, Json] | None:
        return next_edit(claim, attempt.intent, written)

    async def before(claim: RawClaim, send: Send) -> None:
        """No binding can land any more that was sent before; read, fence, write, in this order."""
        if is_fenced or not _may_be_relied_on(send, claim, written):
            return
        fate = await fence(binder, attempt)
        if fate is not None and not isinstance(fate, Gone):
            raise UndoStopped(fate)

    as_read = written.stored if written.written == version_of(written.stored) and not written.sent else None
    pod = attempt.intent.podUID
    return await edit_until_done(binder, written.key, following, as_read, before=before, for_pod=pod)


def _may_be_relied_on(send: Send, claim: RawClaim, written: WrittenClaim) -> bool:
    """Whether the write takes from the pod what another attempt for it may have found there.

    Whoever relies on a claim has written to it: nobody does while its version is that of our own last write, unless it
    was there before us.
    """
    is_taken_away = send not in {claim_calls.put, claim_calls.delete}
    return is_taken_away and (written.is_taken_over or bool(written.sent) or written.written != version_of(claim))


def next_edit(claim: RawClaim, intent: Intent, written: WrittenClaim) -> tuple[Send, Json] | None:
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


def _step_of_made(claim: RawClaim, written: WrittenClaim) -> tuple[Send, Json] | None:
    """A claim that the attempt has made goes; one that somebody else protects stays until they let it go."""
    if not written.is_made or allocation_of(claim) or claim_objects.is_deleting(claim):
        return None
    return claim_calls.delete, dict(claim)


def _step_of_marked(claim: RawClaim, intent: Intent, written: WrittenClaim) -> tuple[Send, Json] | None:
    # A webhook may have taken the intent alone; what only we have written since is ours.
    is_left = written.is_own and version_of(claim) == written.written and claim_objects.is_protected_in_vain(claim)
    if intent_of(claim) == intent or is_left:
        return claim_calls.put, claim_objects.unmarked(claim)
    if version_of(claim) == written.sent:
        return claim_calls.put, claim_objects.fenced(claim, written.sent)
    return None


def _step_of_allocated(claim: RawClaim, intent: Intent) -> tuple[Send, Json] | None:
    if not set(consumers_of(claim)) - {intent.podUID}:
        return claim_calls.put_status, claim_objects.deallocated(claim)
    # Others use it too; the intent stays, as it does on every allocation of ours.
    if intent.podUID in consumers_of(claim):
        return claim_calls.put_consumers, claim_objects.released(claim, intent.podUID)
    return None


@dataclass(eq=False)
class ClaimStep(Step):
    """A step that writes to one claim. written: what may be stored of it, None before the first write."""

    binder: Binder
    attempt: Attempt
    written: WrittenClaim | None = field(default=None, init=False)

    @abstractmethod
    def stays(self, node: str) -> bool:
        """Whether the pod, which another process has bound to the node, needs what this step has written."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Namespace and name of the claim."""

    @property
    def subject(self) -> str:
        """The claim."""
        return f"claim {self.key}"

    @property
    def to_undo(self) -> WrittenClaim | None:
        """What this attempt has to undo."""
        return next((one for one in self.attempt.claims if one is self.written), None)

    @property
    def is_idle(self) -> bool:
        """Whether every write to the claim was answered."""
        return not (self.to_undo and self.to_undo.sent)

    @property
    def may_be_relied_on(self) -> bool:
        """Whether the claim may be reserved for the pod."""
        claim = self.to_undo
        return claim is not None and (not claim.is_own or is_marked(claim.stored, self.attempt.intent))

    async def undo(self, node: str) -> bool:
        """Take the claim back, unless the pod needs it on the node."""
        written = self.to_undo
        if written is None or (node and self.stays(node)):
            return False
        if await undo_claim(self.binder, self.attempt, written, is_fenced=bool(node)):
            self.attempt.forget(written)
        return True


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

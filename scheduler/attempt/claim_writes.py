"""Writes the claims of an attempt, each based on the version that was read, until it is known what is stored.

After a conflict or a lost answer, the claim is read again. Either it contains what was written, or it has changed and
the write can no longer be stored, or the same write is sent again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import Attempt, WrittenClaim
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Claim, Json, allocation_of, consumers_of, key_of, version_of
from scheduler.attempt.decision import AttemptEnded, Retry
from scheduler.attempt.intent import ANNOTATION, intent_of, is_of_another_attempt
from scheduler.attempt.tries import TRIES, pause
from scheduler.attempt.write_outcome import MUTATED, WriteOutcome, outcome_of, write_outcome
from scheduler.client.errors import CallFailed

MARK = f"its finalizer, or the annotation {ANNOTATION}"


@dataclass(frozen=True, slots=True)
class Write:
    """One write. edit: gives the object to send. what: it writes, for messages.

    is_stored: whether a claim that was read holds it. check: raises AttemptEnded where a claim is no longer what the
    decision was made on. is_anonymous: what is stored does not show which attempt for the pod has written it.
    """

    send: Callable[[Binder, Claim], Awaitable[Json]]
    edit: Callable[[Claim], Json]
    is_stored: Callable[[Claim], bool]
    check: Callable[[Claim], None]
    what: str
    is_anonymous: bool = False


async def stored_by(binder: Binder, attempt: Attempt, written: WrittenClaim, claim: Claim, write: Write) -> Json:
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


def intent_write(attempt: Attempt, check: Callable[[Claim], None]) -> Write:
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

    def is_ours(current: Claim) -> None:
        found, is_reserved = allocation_of(current), attempt.decision.pod.uid in consumers_of(current)
        if found is None or not is_reserved or is_of_another_attempt(current, intent):
            raise AttemptEnded(Retry(f"claim {key_of(current)} is no longer allocated for pod {attempt.decision.pod}"))

    def is_renewed(current: Claim) -> bool:
        found = intent_of(current)
        return found == intent and found is not None and found.renewal == intent.renewal

    for written in list(attempt.claims):
        write = Write(claim_calls.put, lambda current: claim_objects.marked(current, intent), is_renewed, is_ours, MARK)
        await stored_by(binder, attempt, written, await _read(binder, written), write)


def check_exists(claim: Claim) -> None:
    """Raises AttemptEnded where the claim is being deleted."""
    if claim_objects.is_deleting(claim):
        raise AttemptEnded(Retry(f"claim {key_of(claim)} is being deleted"))


def check_not_allocated(claim: Claim) -> None:
    """Raises AttemptEnded where the claim has devices, or is being deleted."""
    check_exists(claim)
    if allocation_of(claim) is not None:
        raise AttemptEnded(Retry(f"claim {key_of(claim)} was allocated by another client", is_lost=True))


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
            raise AttemptEnded(Retry(reason, is_lost=True))
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

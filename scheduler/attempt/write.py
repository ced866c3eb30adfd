"""The writes that make claims a pod's own: first finalizer and intent, then allocation and reservation in one.

A claim that is allocated already is only reserved; one that is reserved already is marked as taken over by this
attempt. Each write names the version it builds on. A conflict, or an answer that never came, is settled by reading the
claim again: it holds what was written, or it has moved on and the write can never land, or the same is sent again.
Source: KEP-4381; kube-scheduler's DynamicResources plugin, PreBind.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from allocator.api import allocation_to_v1
from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.model import Allocation
from scheduler.attempt import claim_calls, claim_objects
from scheduler.attempt.attempt import Attempt, Touched
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Claim, Json, allocation_of, consumers_of, key_of, version_of
from scheduler.attempt.decision import AttemptEnded, ClaimPlan, ExtendedPlan, Refused, Retry
from scheduler.attempt.extended_claim import make
from scheduler.attempt.intent import Intent, intent_of, is_of_another_attempt
from scheduler.attempt.timestamps import in_seconds
from scheduler.attempt.tries import TRIES, pause
from scheduler.attempt.write_outcome import Verdict, outcome_of, verdict
from scheduler.client.errors import CallFailed
from scheduler.plugins.dynamic_resources import CLAIMS


@dataclass(frozen=True, slots=True)
class _Write:
    """One write. edit: gives the object to send.

    is_stored: whether a claim that was read holds it. still_holds: raises AttemptEnded where a claim is no longer what
    the decision was made on. is_anonymous: what is stored does not tell which attempt for the pod has written it.
    """

    send: Callable[[Binder, Claim], Awaitable[Json]]
    edit: Callable[[Claim], Json]
    is_stored: Callable[[Claim], bool]
    still_holds: Callable[[Claim], None]
    is_anonymous: bool = False


async def write_claims(binder: Binder, attempt: Attempt) -> None:
    """Make all claims of the decision the pod's, in the order of their names. Raises AttemptEnded."""
    # One order for all writers: two pods that share claims never hold one each and wait for the other's.
    for plan in sorted(attempt.decision.claims, key=lambda plan: key_of(plan.claim)):
        if plan.allocation is None:
            await _reserve(binder, attempt, plan.claim)
        else:
            await _allocate(binder, attempt, plan, plan.allocation)
    if attempt.decision.extended is not None:
        await _make(binder, attempt, attempt.decision.extended)


async def _allocate(binder: Binder, attempt: Attempt, plan: ClaimPlan, allocation: Allocation) -> None:
    touched = _touched(plan.claim, _with_time(binder, allocation))
    touched.is_own = True
    _holds(binder, attempt)
    seen = intent_of(plan.claim)
    marking = _marking(attempt, lambda current: _is_unmarked(current, seen))
    marked = await _written(binder, attempt, touched, plan.claim, marking)
    await _give(binder, attempt, touched, marked)


async def _make(binder: Binder, attempt: Attempt, plan: ExtendedPlan) -> None:
    _holds(binder, attempt)
    touched = await make(binder, attempt, plan)
    touched.allocation = _with_time(binder, plan.allocation)
    await _give(binder, attempt, touched, touched.stored)


async def _give(binder: Binder, attempt: Attempt, touched: Touched, marked: Claim) -> None:
    """Allocate the claim, which has finalizer and intent."""
    _holds(binder, attempt)
    assert touched.allocation is not None
    await _written(binder, attempt, touched, marked, _allocating(attempt, touched.allocation))
    binder.observed.written(touched.key, touched.version)


def _holds(binder: Binder, attempt: Attempt) -> None:
    """Raises AttemptEnded where the devices cannot be given any more."""
    if reason := binder.observed.objection(attempt.decision):
        raise AttemptEnded(Retry(reason))


def _with_time(binder: Binder, allocation: Allocation) -> Json:
    return allocation_to_v1(allocation) | {"allocationTimestamp": in_seconds(binder.time.now())}


async def _reserve(binder: Binder, attempt: Attempt, observed: Claim) -> None:
    """Reserve an allocated claim, which may be the pod's own by an earlier attempt."""
    allocation = allocation_of(observed)
    assert allocation is not None, f"claim {key_of(observed)} has no allocation and is given none"

    def is_unchanged(current: Claim) -> None:
        _is_there(current)
        found = allocation_of(current)
        if found is None or not claim_objects.is_same_allocation(found, allocation):
            raise AttemptEnded(Retry(f"claim {key_of(current)} was deallocated"))

    async with binder.turns.of(key_of(observed)) as turn:
        claim = max(observed, turn.left or observed, key=lambda one: int(version_of(one)))
        if attempt.decision.pod.uid not in consumers_of(claim):
            claim = turn.left = await _join(binder, attempt, claim, is_unchanged)
        if not any(one.key == key_of(claim) for one in attempt.touched):
            turn.left = await _take_over(binder, attempt, claim, allocation, is_unchanged)


async def _join(binder: Binder, attempt: Attempt, claim: Claim, is_unchanged: Callable[[Claim], None]) -> Json:
    """The claim as stored with the pod's reservation; it is touched only where that is certain to be this attempt's."""
    pod = attempt.decision.pod
    write = _Write(
        claim_calls.put_consumers,
        lambda current: claim_objects.reserved(current, pod.name, pod.uid),
        lambda current: pod.uid in consumers_of(current),
        lambda current: _has_room(current, is_unchanged),
        is_anonymous=True,
    )
    return await _written(binder, attempt, _touched(claim, None), claim, write)


async def _take_over(
    binder: Binder, attempt: Attempt, claim: Claim, allocation: Json, is_unchanged: Callable[[Claim], None]
) -> Json:
    # Differs from kube-scheduler, which writes nothing: the attempt that reserved the claim may not have ended, in a
    # process before this one or beside it. Once it finds our intent it can neither undo nor bind.
    touched = _touched(claim, allocation)
    touched.is_taken_over = True

    def is_reserved(current: Claim) -> None:
        is_unchanged(current)
        if attempt.decision.pod.uid not in consumers_of(current):
            raise AttemptEnded(Retry(f"claim {key_of(current)} was released by another attempt", is_lost=True))

    return await _written(binder, attempt, touched, claim, _marking(attempt, is_reserved))


async def renew(binder: Binder, attempt: Attempt) -> None:
    """Write the intent anew on all claims, for a pod whose version has moved. Raises AttemptEnded.

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

    for touched in list(attempt.touched):
        write = _Write(claim_calls.put, lambda current: claim_objects.marked(current, intent), is_renewed, is_ours)
        await _written(binder, attempt, touched, await _read(binder, touched), write)


def _touched(claim: Claim, allocation: Json | None) -> Touched:
    return Touched(key_of(claim), claim, allocation)


def _marking(attempt: Attempt, still_holds: Callable[[Claim], None]) -> _Write:
    return _Write(
        claim_calls.put,
        lambda current: claim_objects.marked(current, attempt.intent),
        lambda current: claim_objects.is_marked(current, attempt.intent),
        still_holds,
    )


def _allocating(attempt: Attempt, wanted: Mapping[str, Any]) -> _Write:
    pod = attempt.decision.pod

    def is_stored(current: Claim) -> bool:
        found = allocation_of(current)
        return (
            found is not None
            and claim_objects.is_same_allocation(found, wanted)
            and pod.uid in consumers_of(current)
            and intent_of(current) == attempt.intent
        )

    def still_holds(current: Claim) -> None:
        _is_not_allocated(current)
        if not claim_objects.is_marked(current, attempt.intent):
            reason = f"claim {key_of(current)} lost its finalizer or intent before it was allocated"
            raise AttemptEnded(Retry(reason, is_lost=True))

    def edit(current: Claim) -> Json:
        return claim_objects.allocated(current, wanted, pod.name, pod.uid)

    return _Write(claim_calls.put_status, edit, is_stored, still_holds)


async def _written(binder: Binder, attempt: Attempt, touched: Touched, claim: Claim, write: _Write) -> Json:
    """The claim as stored by the write. Raises AttemptEnded."""
    current = claim
    for tries in range(1, TRIES + 1):
        write.still_holds(current)
        attempt.touch(touched, version_of(current))
        try:
            stored = await write.send(binder, write.edit(current))
        except CallFailed as error:
            _note_failure(attempt, touched, error, write)
            await pause(binder, attempt, error, f"claim {touched.key}", tries)
            current = await _read(binder, touched)
            if write.is_stored(current):
                return _found(attempt, touched, current, write)
        else:
            return touched.note(stored)
    raise AttemptEnded(Retry(f"claim {touched.key} was changed by others or did not answer {TRIES} times in a row"))


def _note_failure(attempt: Attempt, touched: Touched, error: CallFailed, write: _Write) -> None:
    is_unknown = verdict(error) is Verdict.UNKNOWN
    touched.may_be_stored |= is_unknown
    touched.is_taken_over |= is_unknown and write.is_anonymous  # what is found may be another attempt's, and relied on
    if not touched.may_be_stored:
        attempt.forget(touched)


def _found(attempt: Attempt, touched: Touched, current: Json, write: _Write) -> Json:
    """The claim, which holds what was to be written. Raises AttemptEnded where it is somebody else's for certain."""
    if write.is_anonymous:
        attempt.forget(touched)
        if not touched.may_be_stored:
            reason = f"claim {touched.key} is being reserved for pod {attempt.decision.pod} by another attempt"
            raise AttemptEnded(Retry(reason, is_lost=True))
        return current
    attempt.touch(touched, "")
    return touched.note(current)


async def _read(binder: Binder, touched: Touched) -> Json:
    try:
        current = await claim_calls.get(binder, touched.key)
    except CallFailed as error:
        raise AttemptEnded(outcome_of(error, f"claim {touched.key}")) from error
    if current is None:
        raise AttemptEnded(Retry(f"claim {touched.key} no longer exists"))
    return current


def _is_there(claim: Claim) -> None:
    if claim_objects.is_deleting(claim):
        raise AttemptEnded(Retry(f"claim {key_of(claim)} is being deleted"))


def _is_not_allocated(claim: Claim) -> None:
    _is_there(claim)
    if allocation_of(claim) is not None:
        raise AttemptEnded(Retry(f"claim {key_of(claim)} was allocated by somebody else", is_lost=True))


def _is_unmarked(claim: Claim, seen: Intent | None) -> None:
    """seen: as the decision was made on it. It may be a dead process's; a newer one is of somebody who is at work."""
    _is_not_allocated(claim)
    if intent_of(claim) not in (None, seen):
        raise AttemptEnded(Retry(f"claim {key_of(claim)} is being allocated by another attempt", is_lost=True))


def _has_room(claim: Claim, is_unchanged: Callable[[Claim], None]) -> None:
    is_unchanged(claim)
    if len(consumers_of(claim)) >= RESERVED_FOR_MAX:
        raise AttemptEnded(
            Refused(f"claim {key_of(claim)} is reserved for {RESERVED_FOR_MAX} pods, the most there can be", CLAIMS)
        )

"""The whole way of one decision: write its claims, verify, wait for binding conditions, bind; or take all of it back.

Runs beside the next decisions. However it ends, by an outcome, an error or a cancellation, it returns only when no
write of its own is under way: the caller may then forget the reservation that it made in memory.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scheduler.attempt.attempt import Attempt, begun
from scheduler.attempt.bind import Fate, Unknown, bind, fence, look
from scheduler.attempt.binder import Binder, Point
from scheduler.attempt.claim_objects import is_marked
from scheduler.attempt.conditions import await_conditions
from scheduler.attempt.decision import AttemptEnded, Bound, BoundElsewhere, Decision, Outcome, Pending, Stopped
from scheduler.attempt.extended_claim import look_for
from scheduler.attempt.nomination import withdraw
from scheduler.attempt.rollback import Kept, roll_back, to_undo
from scheduler.attempt.slots import Slot
from scheduler.attempt.verify import verify
from scheduler.attempt.write import write_claims

Tell = Callable[[Outcome], None]


def _nobody(_: Outcome) -> None:
    """Nobody is told."""


async def bind_pod(binder: Binder, decision: Decision, slot: Slot | None = None, tell: Tell = _nobody) -> Outcome:
    """What became of the decision. slot: of the writers; it is given back at the end or before.

    tell: is told what becomes of the pod where it is not bound, before what was written is taken back: that may take
    long. Cancelled, it takes back what it wrote and ends as cancelled, unless the pod turns out to be bound; cancelled
    once more, it stops at once, and the recovery of the next start does the rest. Cost: two writes for each claim, and
    one.
    """
    attempt = begun(binder, decision, slot)
    try:
        return await _carry_out(binder, attempt)
    except AttemptEnded as ended:
        return await _withdraw(binder, attempt, ended.outcome, tell)
    except asyncio.CancelledError:
        fate = await _withdraw(binder, attempt, Stopped(), _nobody)
        if isinstance(fate, Bound | BoundElsewhere):
            return fate
        raise
    except BaseException:
        await _withdraw(binder, attempt, Stopped(), _nobody)
        raise
    finally:
        attempt.slot.give_back()


async def _carry_out(binder: Binder, attempt: Attempt) -> Bound | Pending:
    with _timed(binder, "PreBind"):
        await write_claims(binder, attempt)
        await verify(binder, attempt.touched)
        if pending := await await_conditions(binder, attempt):
            return pending
    if attempt.decision.is_assigned:
        return Bound(attempt.decision.node)
    with _timed(binder, "Bind"):
        bound = await bind(binder, attempt)
    attempt.slot.succeeded()
    return bound


async def _withdraw(binder: Binder, attempt: Attempt, outcome: Outcome, tell: Tell) -> Outcome:
    """Take back what the attempt wrote, and say what became of the pod: outcome, or what it is found to be by then.

    Where the pod is bound after all, or nobody can tell, all stays; of one that somebody else has bound, what it may
    rely on.
    """
    with attempt.slot.undoing():
        fate = await _fate(binder, attempt)
        if isinstance(fate, Bound | Unknown):
            return _told(fate, tell)
        outcome = _told(fate if isinstance(fate, BoundElsewhere) else outcome, tell)
        await look_for(binder, attempt)
        try:
            await _take_back(binder, attempt, outcome)
        except Kept as kept:
            return kept.fate
        await withdraw(binder, attempt)
        return outcome


async def _take_back(binder: Binder, attempt: Attempt, outcome: Outcome) -> None:
    node = outcome.node if isinstance(outcome, BoundElsewhere) else ""
    if attempt.decision.is_assigned:
        node = attempt.decision.node
    if touched := to_undo(binder, attempt, node):
        await roll_back(binder, attempt, touched, is_fenced=bool(node))
        binder.listener.rolled_back(attempt.decision, outcome)


def _told(outcome: Outcome, tell: Tell) -> Outcome:
    if not isinstance(outcome, Bound):
        tell(outcome)
    return outcome


async def _fate(binder: Binder, attempt: Attempt) -> Fate | None:
    """What became of the pod meanwhile; None while it has no node, or it does not matter."""
    if attempt.binding:
        return await fence(binder, attempt, attempt.binding)
    if attempt.decision.is_assigned or not _may_be_reserved(attempt):
        return None
    found = await look(binder, attempt)
    return found if isinstance(found, Fate) else None


def _may_be_reserved(attempt: Attempt) -> bool:
    """Whether a claim may be reserved for the pod, as far as it is up to this attempt."""
    is_known = any(not one.is_own or is_marked(one.stored, attempt.intent) for one in attempt.touched)
    return is_known or attempt.is_making


@contextmanager
def _timed(binder: Binder, point: Point) -> Iterator[None]:
    began_s, is_done = binder.time.monotonic(), False
    try:
        yield
        is_done = True
    finally:
        binder.listener.passed(point, is_done=is_done, duration_s=binder.time.monotonic() - began_s)

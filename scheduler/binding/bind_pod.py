"""The whole way of one decision: write its claims, verify, wait for binding conditions, bind; or take all of it back.

Runs beside the next decisions. However it ends, by an outcome, an error or a cancellation, it returns only when no
write of its own is under way: the caller may then forget the reservation that it made in memory.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.binding.attempt import Attempt, begun
from scheduler.binding.bind import bind, fence, is_fence_needed
from scheduler.binding.binder import Binder, Point
from scheduler.binding.conditions import await_conditions
from scheduler.binding.decision import AttemptEnded, Bound, Decision, Fatal, Outcome, Pending
from scheduler.binding.nomination import withdraw
from scheduler.binding.rollback import roll_back
from scheduler.binding.verify import verify
from scheduler.binding.write import write_claims


async def bind_pod(binder: Binder, decision: Decision) -> Outcome:
    """What became of the decision.

    Cancelled, it takes back what it wrote and ends as cancelled, unless the pod turns out to be bound; cancelled once
    more, it stops at once, and the recovery of the next start does the rest. Cost: two writes for each claim, and one.
    """
    attempt = begun(binder, decision)
    try:
        return await _carry_out(binder, attempt)
    except AttemptEnded as ended:
        return await _withdraw(binder, attempt, ended.outcome) or ended.outcome
    except asyncio.CancelledError:
        fate = await _withdraw(binder, attempt, None)
        if isinstance(fate, Bound):
            return fate
        raise
    except BaseException:
        await _withdraw(binder, attempt, None)
        raise


async def _carry_out(binder: Binder, attempt: Attempt) -> Bound | Pending:
    with _timed(binder, "PreBind"):
        await write_claims(binder, attempt)
        await verify(binder, attempt.touched)
        if pending := await await_conditions(binder, attempt):
            return pending
    if attempt.decision.is_assigned:
        return Bound(attempt.decision.node)
    with _timed(binder, "Bind"):
        return await bind(binder, attempt)


async def _withdraw(binder: Binder, attempt: Attempt, outcome: Outcome | None) -> Bound | Fatal | None:
    """Take back what the attempt wrote; where the pod is bound after all, or nobody can tell (Fatal), all stays."""
    if is_fence_needed(attempt):
        fate = await fence(binder, attempt)
        if isinstance(fate, Bound | Fatal):
            return fate
    if attempt.touched:
        await roll_back(binder, attempt.intent, attempt.touched)
        binder.listener.rolled_back(attempt.decision, outcome)
    await withdraw(binder, attempt)
    return None


@contextmanager
def _timed(binder: Binder, point: Point) -> Iterator[None]:
    began_s, is_done = binder.time.monotonic(), False
    try:
        yield
        is_done = True
    finally:
        binder.listener.passed(point, is_done=is_done, duration_s=binder.time.monotonic() - began_s)

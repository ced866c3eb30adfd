"""An attempt, step by step: each writes, is asked about without an answer, and taken back when a later one fails."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby

from scheduler.attempt.attempt import Attempt, Report, Together, new_attempt, report_nothing
from scheduler.attempt.binder import UNDO, Binder
from scheduler.attempt.claim_objects import allocation_of, key_of
from scheduler.attempt.decision import (
    AttemptEnded,
    AttemptOutcome,
    Bound,
    BoundElsewhere,
    ClaimPlan,
    Decision,
    Pending,
    Step,
    Stopped,
)
from scheduler.attempt.pod_fate import Fate, UndoStopped, Unknown, fence, look, reporting
from scheduler.attempt.slots import Slot
from scheduler.attempt.steps.claims import Allocate, AllocateShared, MakeClaim, Reserve, ReserveShared, Verify
from scheduler.attempt.steps.pod import (
    AwaitConditions,
    AwaitOthers,
    Bind,
    BindTogether,
    Nominate,
    Waits,
    WriteDeviceStatus,
)
from scheduler.attempt.steps.volumes import AwaitVolumes, BindVolume, SelectNode

# Runs an attempt: does its steps in order, and undoes them in reverse order if it fails or is cancelled.
#
# Before anything is undone, the attempt finds out what became of the pod. If it is bound after all, or that is unknown,
# everything stays; if somebody else has bound it, what it needs on its node stays. An attempt returns only when none of
# its writes is in flight: the caller may then release the reservation in memory.


async def run(binder: Binder, attempt: Attempt, steps: Sequence[Step]) -> AttemptOutcome:
    """The outcome of the steps; all that ends without one ends the attempt as bound.

    Cancelled, the attempt undoes its steps and ends as cancelled, unless the pod turns out to be bound; cancelled once
    more, or while others of its group are bound, it stops at once, and the recovery of the next start does the rest.
    """
    begun: list[Step] = []  # not the attempt's: steps know their attempt, and a cycle would wait for the collector
    try:
        with attempt.slot.not_for_long():
            return await _do(binder, attempt, steps, begun)
    except AttemptEnded as ended:
        return await _take_back(binder, attempt, begun, ended.outcome)
    except asyncio.CancelledError:
        attempt.report = report_nothing
        if attempt.together is not None and attempt.together.is_released:
            raise  # others of the group are bound by now: the next start finds what the pod has, and goes on with that
        outcome = await _take_back(binder, attempt, begun, Stopped())
        if isinstance(outcome, Bound | BoundElsewhere):
            return outcome
        raise
    except BaseException:
        attempt.report = report_nothing
        await _take_back(binder, attempt, begun, Stopped())
        raise
    finally:
        attempt.slot.give_back()
        binder.progress.end(attempt.decision.pod.uid)


def _note(binder: Binder, attempt: Attempt, step: str, subject: str) -> None:
    pod = attempt.decision.pod
    binder.progress.at(pod.uid, str(pod), attempt.decision.node, step, subject)


async def _do(binder: Binder, attempt: Attempt, steps: Sequence[Step], begun: list[Step]) -> Bound | Pending:
    """begun: gets the steps in their order, each before it does anything."""
    for point, group in groupby(steps, key=lambda step: step.point):
        began_s, is_done = binder.time.monotonic(), True
        try:
            for step in group:
                begun.append(step)
                _note(binder, attempt, type(step).__name__, step.subject)
                if (ended := await _done(binder, attempt, step)) is not None:
                    return ended
        except BaseException:
            is_done = False
            raise
        finally:
            took_s = binder.time.monotonic() - began_s
            binder.listener.passed(attempt.decision, point, is_done=is_done, duration_s=took_s)
    return Bound(attempt.decision.node)


async def _done(binder: Binder, attempt: Attempt, step: Step) -> Bound | Pending | None:
    # Of a pod that has its node, or is kube-scheduler's, somebody else says how it is.
    if not step.awaited or attempt.decision.is_assigned or not attempt.decision.waits_for_devices:
        return await step.do()
    async with reporting(binder, attempt, step.awaited):
        return await step.do()


async def _take_back(
    binder: Binder, attempt: Attempt, begun: Sequence[Step], outcome: AttemptOutcome
) -> AttemptOutcome:
    """What became of the pod: outcome, or what it is found to be by now."""
    attempt.ended = outcome
    if attempt.together is not None:
        attempt.together.fail(attempt.decision.pod.uid, outcome)  # others may wait for what it does not do any more
    _note(binder, attempt, UNDO, getattr(outcome, "reason", ""))
    with attempt.slot.undoing():
        fate = await _fate(binder, attempt, begun)
        if isinstance(fate, Bound):
            return fate
        outcome = fate if isinstance(fate, BoundElsewhere | Unknown) else outcome
        attempt.report(outcome)
        if isinstance(fate, Unknown):
            return fate
        try:
            await _undo(binder, attempt, begun, outcome)
        except UndoStopped as kept:
            return kept.fate
        return outcome


async def _undo(binder: Binder, attempt: Attempt, begun: Sequence[Step], outcome: AttemptOutcome) -> None:
    node = outcome.node if isinstance(outcome, BoundElsewhere) else ""
    if attempt.decision.is_assigned:
        node = attempt.decision.node
    if any([await step.undo(node) for step in reversed(begun)]):
        binder.listener.rolled_back(attempt.decision, outcome)


async def _fate(binder: Binder, attempt: Attempt, begun: Sequence[Step]) -> Fate | None:
    """What became of the pod meanwhile; None while it has no node, or it does not matter."""
    if attempt.pod.sent:
        return await fence(binder, attempt, attempt.pod.sent)
    if attempt.decision.is_assigned or not any(step.may_be_relied_on for step in begun):
        return None
    seen = await look(binder, attempt)
    return seen if isinstance(seen, Fate) else None


# Binds a pod: the steps of its attempt, in order.


async def bind_pod(
    binder: Binder,
    decision: Decision,
    slot: Slot | None = None,
    report: Report = report_nothing,
    together: Together | None = None,
) -> AttemptOutcome:
    """What became of the decision; see `run`. slot: of the writers; it is given back at the end or before.

    report, together: as of `Attempt`.

    Cost: two writes for each claim, one for each volume that is not bound yet, and one.
    """
    attempt = new_attempt(binder, decision, slot, report, together)
    return await run(binder, attempt, list(steps(binder, attempt)))


def steps(binder: Binder, attempt: Attempt) -> Iterator[Step]:
    """The steps, in their order."""
    decision = attempt.decision
    # One order for all writers: two pods that share claims never hold one each and wait for the other's.
    for plan in sorted(decision.claims, key=lambda plan: key_of(plan.claim)):
        yield _of_claim(binder, attempt, plan)
    if decision.extended is not None:
        yield MakeClaim(binder, attempt, decision.extended)
    yield Verify(binder, attempt)
    if decision.is_assigned:
        yield AwaitConditions(binder, attempt)
        return
    yield Nominate(binder, attempt)
    # Only once the devices are ours: what is asked of volumes stays, and keeps the pod on this node.
    yield from (BindVolume(binder, attempt, match) for match in decision.volumes.matches)
    yield from (SelectNode(binder, attempt, claim) for claim in decision.volumes.provisioned)
    devices = AwaitConditions(binder, attempt)
    yield Waits([devices, AwaitVolumes(binder, attempt)]) if decision.volumes else devices
    yield WriteDeviceStatus(binder, attempt)
    if attempt.together is None:
        yield Bind(binder, attempt)
        return
    yield AwaitOthers(attempt, attempt.together)
    yield BindTogether(binder, attempt)


def _of_claim(binder: Binder, attempt: Attempt, plan: ClaimPlan) -> Step:
    """The step that allocates the claim, or reserves what has devices, or gets them for another pod of the group."""
    claim, allocation, together = plan.claim, plan.allocation, attempt.together
    if allocation is None and together is not None and allocation_of(claim) is None:
        return ReserveShared(binder, attempt, claim, together)
    if allocation is None:
        return Reserve(binder, attempt, claim)
    if together is not None and together.is_shared(claim):
        return AllocateShared(binder, attempt, claim, allocation, together)
    return Allocate(binder, attempt, claim, allocation)

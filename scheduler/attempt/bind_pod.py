"""Binds a pod: the steps of its attempt, in order."""

from collections.abc import Iterator

from scheduler.attempt.attempt import Attempt, Report, new_attempt, report_nothing
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import key_of
from scheduler.attempt.decision import AttemptOutcome, Decision
from scheduler.attempt.run import run
from scheduler.attempt.slots import Slot
from scheduler.attempt.step import Step
from scheduler.attempt.steps.binding import Bind
from scheduler.attempt.steps.binding_conditions import AwaitConditions
from scheduler.attempt.steps.bound_volumes import AwaitVolumes
from scheduler.attempt.steps.claim_allocation import Allocate
from scheduler.attempt.steps.device_fields import WriteDeviceStatus
from scheduler.attempt.steps.extended_claim import MakeClaim
from scheduler.attempt.steps.nomination import Nominate
from scheduler.attempt.steps.reservation import Reserve
from scheduler.attempt.steps.verification import Verify
from scheduler.attempt.steps.volume_binding import BindVolume
from scheduler.attempt.steps.volume_provisioning import SelectNode
from scheduler.attempt.steps.waits import Waits


async def bind_pod(
    binder: Binder, decision: Decision, slot: Slot | None = None, report: Report = report_nothing
) -> AttemptOutcome:
    """What became of the decision; see `run`. slot: of the writers; it is given back at the end or before.

    report: as of `Attempt`.

    Cost: two writes for each claim, one for each volume that is not bound yet, and one.
    """
    attempt = new_attempt(binder, decision, slot, report)
    return await run(binder, attempt, list(steps(binder, attempt)))


def steps(binder: Binder, attempt: Attempt) -> Iterator[Step]:
    """The steps, in their order."""
    decision = attempt.decision
    # One order for all writers: two pods that share claims never hold one each and wait for the other's.
    for plan in sorted(decision.claims, key=lambda plan: key_of(plan.claim)):
        if plan.allocation is None:
            yield Reserve(binder, attempt, plan.claim)
        else:
            yield Allocate(binder, attempt, plan.claim, plan.allocation)
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
    yield Bind(binder, attempt)

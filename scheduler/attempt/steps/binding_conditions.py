"""Waits until the devices of all claims are ready for the node, as drivers report in `status.devices`.

The wait fails when the node is gone, when a device fails, or at the binding timeout. A caller that learns earlier that
the pod is no longer wanted cancels the attempt. A decision that does not wait for devices ends as Pending.
Source: KEP-5007; feature gate DRADeviceBindingConditions.
"""

from dataclasses import dataclass

from allocator.model import DeviceID
from scheduler.attempt import claim_calls
from scheduler.attempt.attempt import Attempt, WrittenClaim
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import allocation_of, consumers_of
from scheduler.attempt.decision import AttemptEnded, Fatal, Pending, Retry
from scheduler.attempt.device_readiness import DevicesFailed, DevicesPending, state_of
from scheduler.attempt.intent import is_of_another_attempt
from scheduler.attempt.step import Step
from scheduler.attempt.write_outcome import outcome_of
from scheduler.client.errors import CallFailed

POLL_LEAST_S = 0.25
POLL_MOST_S = 5.0
"""Between two looks at the claims: the first pause, which doubles, and the longest."""


@dataclass(eq=False)
class AwaitConditions(Step):
    """The wait for the devices of the attempt's claims."""

    binder: Binder
    attempt: Attempt

    async def do(self) -> Pending | None:
        """Return once all devices are ready. Raises AttemptEnded where they will not be."""
        waiting = unready(self.binder, self.attempt)
        if waiting:
            message = f"waiting for binding conditions of devices {', '.join(map(str, waiting))}"
            self.binder.listener.pending(self.attempt.decision, message)
            if not self.attempt.decision.waits_for_devices:
                return Pending(message)
            self.attempt.slot.give_back()  # it may take minutes, in which others may write
        poll_s = POLL_LEAST_S
        while waiting:
            await self.binder.time.sleep(poll_s)
            poll_s = min(2 * poll_s, POLL_MOST_S)
            for written in self.attempt.claims:
                await self._refresh(written)
            waiting = unready(self.binder, self.attempt)
        return None

    async def _refresh(self, written: WrittenClaim) -> None:
        """Read the claim again; while the server does not answer, what was read before has to do."""
        attempt = self.attempt
        try:
            current = await claim_calls.get(self.binder, written.key)
        except CallFailed as error:
            ended = outcome_of(error, f"claim {written.key}")
            if isinstance(ended, Fatal):
                raise AttemptEnded(ended) from error
            return
        if current is None or allocation_of(current) is None or attempt.intent.podUID not in consumers_of(current):
            raise AttemptEnded(Retry(f"claim {written.key} was deallocated while the pod waited for its devices"))
        if is_of_another_attempt(current, attempt.intent):
            raise AttemptEnded(Retry(f"claim {written.key} was taken over by another attempt", is_lost=True))
        written.stored = current


def unready(binder: Binder, attempt: Attempt) -> list[DeviceID]:
    """The devices that are not ready. Raises AttemptEnded where they will not be."""
    # Differs from kube-scheduler, which waits on, and binds the pod to a node that has gone meanwhile.
    if attempt.claims and not binder.watched.has_node(attempt.decision.node):
        raise AttemptEnded(Retry(f"node {attempt.decision.node} is gone"))
    found: list[DeviceID] = []
    for written in attempt.claims:
        state = state_of(written.stored, binder.time.now(), binder.binding_timeout_s)
        if isinstance(state, DevicesFailed):
            # Whoever allocated it, it can serve nobody as it is.
            written.allocation = allocation_of(written.stored)
            raise AttemptEnded(Retry(f"claim {written.key}: {state.reason}", failed=state.devices))
        if isinstance(state, DevicesPending):
            found += state.devices
    return found

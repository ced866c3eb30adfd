"""Waits until the devices of all claims are ready for the node, as drivers report in `status.devices`.

It follows the watch of the claims. The wait fails when the node is gone, when a device fails, or at the binding
timeout. A caller that learns earlier that the pod is no longer wanted cancels the attempt. A decision that does not
wait for devices ends as Pending.
Source: KEP-5007; feature gate DRADeviceBindingConditions.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from allocator.model import DeviceID
from scheduler.attempt.attempt import Attempt, WrittenClaim
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import allocation_of, consumers_of
from scheduler.attempt.decision import AttemptEnded, Pending, Retry
from scheduler.attempt.device_readiness import DevicesFailed, DevicesPending, state_of
from scheduler.attempt.intent import is_of_another_attempt
from scheduler.attempt.step import Step
from scheduler.attempt.watched_changes import Subject, node_subject, resource_claim_subject

LOOK_S = 5.0
"""How often it is looked whether the time is up, while nothing changes."""


@dataclass(eq=False)
class AwaitConditions(Step):
    """The wait for the devices of the attempt's claims."""

    binder: Binder
    attempt: Attempt

    async def do(self) -> Pending | None:
        """Return once all devices are ready. Raises AttemptEnded where they will not be."""
        waiting = unready(self.binder, self.attempt)
        if waiting:
            message = f"waiting for {awaited_devices(waiting)}"
            self.binder.listener.pending(self.attempt.decision, message)
            if not self.attempt.decision.waits_for_devices:
                return Pending(message)
            self.attempt.slot.give_back()  # it may take minutes, in which others may write
        while waiting:
            with self.binder.changes.following(self._subjects()) as changed:
                for written in self.attempt.claims:
                    self._refresh(written)
                waiting = unready(self.binder, self.attempt)
                if waiting:
                    await self._until(changed)
        return None

    def _subjects(self) -> Iterator[Subject]:
        yield node_subject(self.attempt.decision.node)
        yield from (resource_claim_subject(written.key.uid) for written in self.attempt.claims)

    async def _until(self, changed: asyncio.Event) -> None:
        """Return once something has changed, or after a while."""
        loop = asyncio.get_running_loop()
        either = [loop.create_task(changed.wait()), asyncio.ensure_future(self.binder.time.sleep(LOOK_S))]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in either:
                one.cancel()

    def _refresh(self, written: WrittenClaim) -> None:
        """Look at the claim as the watch shows it. Raises AttemptEnded where it is not the pod's any more."""
        attempt = self.attempt
        current = self.binder.watched.claim(written.stored)
        if current is None or allocation_of(current) is None or attempt.intent.podUID not in consumers_of(current):
            raise AttemptEnded(Retry(f"claim {written.key} was deallocated while the pod waited for its devices"))
        if is_of_another_attempt(current, attempt.intent):
            raise AttemptEnded(Retry(f"claim {written.key} was taken over by another attempt", is_lost=True))
        written.stored = dict(current)


def awaited_devices(devices: Iterable[DeviceID]) -> str:
    """What a pod waits for while these are not ready."""
    return f"binding conditions of devices {', '.join(map(str, devices))}"


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

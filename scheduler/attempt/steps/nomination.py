"""Writes status.nominatedNodeName of the pod while it waits for its devices or volumes, and what it waits for.

The wait may take minutes, in which autoscalers and other schedulers should keep the node free. The API server clears
the field when the pod is bound, from Kubernetes 1.35 on; before, bound pods keep it, as those of kube-scheduler do.
An attempt that fails clears it itself. Nothing depends on it: an error is logged, and the attempt continues.
Source: KEP-5278.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Json
from scheduler.attempt.pending_condition import Pod, waiting, write_status
from scheduler.attempt.step import Step
from scheduler.attempt.steps.binding_conditions import awaited_devices, unready
from scheduler.attempt.steps.bound_volumes import awaited_volumes
from scheduler.client.errors import CallFailed

FIELD = "nominatedNodeName"

_LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class Nominate(Step):
    """The node in the pod's status, where devices have to be made ready or volumes to be bound.

    is_written: the pod may say it.
    """

    binder: Binder
    attempt: Attempt
    is_written: bool = field(default=False, init=False)

    async def do(self) -> None:
        """Let the pod say where it is about to go. Raises AttemptEnded where the devices will not be ready."""
        # Differs from kube-scheduler, which does so for every pod with claims: most are bound before anybody could
        # read it.
        decision = self.attempt.decision
        if not decision.waits_for_devices:
            return
        devices = unready(self.binder, self.attempt)
        awaited = [awaited_devices(devices)] if devices else []
        awaited += [awaited_volumes(decision.volumes)] if decision.volumes else []
        if awaited:
            self.is_written = True
            message = f"waiting for {' and '.join(awaited)}"
            node = self.attempt.intent.node
            await self._write(node, lambda pod: {FIELD: node, **waiting(self.binder, pod, message)})

    async def undo(self, node: str) -> bool:
        """Clear the nomination, unless another writer has changed it."""
        own = self.attempt.intent.node
        if self.is_written:
            await self._write("no node", lambda pod: {FIELD: None} if pod["status"].get(FIELD) == own else None)
        return False

    async def _write(self, node: str, status_of: Callable[[Pod], Json | None]) -> None:
        try:
            await write_status(self.binder, self.attempt, status_of)
        except CallFailed as error:
            pod = self.attempt.decision.pod
            _LOG.warning("pod %s: cannot write status.nominatedNodeName %s: %s", pod, node, error)

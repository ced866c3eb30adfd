"""Writes status.nominatedNodeName of the pod while it waits for its devices or volumes.

The wait may take minutes, in which autoscalers and other schedulers should keep the node free. The API server clears
the field when the pod is bound, from Kubernetes 1.35 on; before, bound pods keep it, as those of kube-scheduler do.
An attempt that fails clears it itself. Nothing depends on it: an error is logged, and the attempt continues.
Source: KEP-5278.
"""

import logging
from dataclasses import dataclass, field

from scheduler.attempt import pod_calls
from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder
from scheduler.attempt.step import Step
from scheduler.attempt.steps.binding_conditions import unready
from scheduler.attempt.write_outcome import WriteOutcome, write_outcome
from scheduler.client.errors import CallFailed

TRIES = 2
"""How often the pod is read and written, where it changes in between."""

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
        if decision.waits_for_devices and (decision.volumes or unready(self.binder, self.attempt)):
            self.is_written = True
            await _write(self.binder, self.attempt, "", self.attempt.intent.node)

    async def undo(self, node: str) -> bool:
        """Clear the nomination, unless another writer has changed it."""
        if self.is_written:
            await _write(self.binder, self.attempt, self.attempt.intent.node, None)
        return False


async def _write(binder: Binder, attempt: Attempt, standing: str, node: str | None) -> None:
    """standing: what has to stand there, "" for anything."""
    pod = attempt.decision.pod
    try:
        for _ in range(TRIES):
            found = await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)
            if found is None or found["spec"].get("nodeName"):
                return
            if standing and found["status"].get(FIELD) != standing:
                return
            try:
                stored = await pod_calls.patch_status(binder.api, found, {FIELD: node})
            except CallFailed as error:
                if write_outcome(error) is not WriteOutcome.CONFLICT:
                    raise
            else:
                # Where the version had moved before, the binding has to find that out.
                if found["metadata"]["resourceVersion"] == attempt.pod.version:
                    attempt.pod.version = stored["metadata"]["resourceVersion"]
                return
    except CallFailed as error:
        _LOG.warning("pod %s: cannot write status.nominatedNodeName %s: %s", pod, node or "no node", error)

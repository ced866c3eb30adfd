"""Writes the device fields of the pod's status, right before the pod is bound.

Source: kube-scheduler's DynamicResources plugin, PreBind.
"""

from dataclasses import dataclass

from scheduler.attempt.decision import Bound
from scheduler.attempt.pod_step import PodStep, write_status


@dataclass(eq=False)
class WriteDeviceStatus(PodStep):
    """The status of the pod, where it has to say anything of devices."""

    async def do(self) -> Bound | None:
        """Write it; Bound where the pod is bound by then. Raises AttemptEnded."""
        return await super().do() if self.attempt.pod.status else None

    async def send(self) -> None:
        """Write it once. Raises CallFailed."""
        await write_status(self.binder, self.attempt)

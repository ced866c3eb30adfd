"""Waits for several things at the same time; the first failure ends all waits.

Source: kube-scheduler runs the PreBind of VolumeBinding and DynamicResources beside each other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.attempt.decision import Pending
from scheduler.attempt.step import Step


@dataclass(eq=False)
class Waits(Step):
    """Steps that wait and write nothing."""

    steps: Sequence[Step]

    async def do(self) -> Pending | None:
        """Return once all have what they wait for. Raises AttemptEnded."""
        try:
            async with asyncio.TaskGroup() as group:
                waiting = [group.create_task(step.do()) for step in self.steps]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return next((ended for one in waiting if isinstance(ended := one.result(), Pending)), None)

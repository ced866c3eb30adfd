"""Tells a pod what its attempt waits for, if that takes long: an answer of the API server behind a slow webhook.

The attempt itself writes the condition, since it binds the pod in the version that it knows: a condition that somebody
else writes moves that version, and the attempt would have to verify all of its claims again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from scheduler.attempt import pod_calls, pod_condition
from scheduler.attempt.attempt import Attempt
from scheduler.attempt.binder import Binder
from scheduler.attempt.claim_objects import Json
from scheduler.attempt.write_outcome import WriteOutcome, write_outcome
from scheduler.client.errors import CallFailed

REPORT_S = 5.0
"""A pod whose attempt waits for one thing for so long says so."""

END_S = 2.0
"""For so long the attempt waits for that to be written, before it goes on."""

TRIES = 2
"""How often the pod is read and written, where it changes in between."""

Pod = Mapping[str, Any]  # Any: as it came

_LOG = logging.getLogger(__name__)


async def write_status(binder: Binder, attempt: Attempt, status_of: Callable[[Pod], Json | None]) -> None:
    """Patch the status of the pod while it has no node. Nothing depends on it. Raises CallFailed.

    status_of: the fields for a pod that was read, None where nothing is to be written.
    """
    pod = attempt.decision.pod
    for _ in range(TRIES):
        found = await pod_calls.get(binder.api, pod.namespace, pod.name, pod.uid)
        if found is None or found["spec"].get("nodeName") or not (status := status_of(found)):
            return
        try:
            stored = await pod_calls.patch_status(binder.api, found, status)
        except CallFailed as error:
            if write_outcome(error) is not WriteOutcome.CONFLICT:
                raise
        else:
            # Where the version had moved before, the binding has to find that out.
            if found["metadata"]["resourceVersion"] == attempt.pod.version:
                attempt.pod.version = stored["metadata"]["resourceVersion"]
            return


def waiting(binder: Binder, pod: Pod, message: str) -> Json:
    """The condition of a pod that waits for this."""
    condition = pod_condition.not_scheduled("BindingPending", message, pod["metadata"].get("generation") or 0)
    return pod_condition.status_with(condition, pod_condition.current_of(pod), binder.time.now())


@asynccontextmanager
async def reporting(binder: Binder, attempt: Attempt, awaited: str) -> AsyncIterator[None]:
    """While the context is open, the attempt waits for this; if that takes long, the pod says so."""
    tasks: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    timer = loop.call_later(REPORT_S, lambda: tasks.append(loop.create_task(_report(binder, attempt, awaited))))
    try:
        yield
        timer.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_S)
    finally:
        timer.cancel()
        for task in tasks:
            task.cancel()


async def _report(binder: Binder, attempt: Attempt, awaited: str) -> None:
    message = f"waiting for {awaited}"
    _LOG.info("pod %s: %s", attempt.decision.pod, message, extra={"node": attempt.decision.node})
    try:
        await write_status(binder, attempt, lambda pod: waiting(binder, pod, message))
    except CallFailed as error:
        _LOG.warning("pod %s: cannot write that it is waiting: %s", attempt.decision.pod, error)

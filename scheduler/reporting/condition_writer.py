"""Writes the condition PodScheduled of rejected pods, in parallel with decisions.

Several pods are written at the same time, each by one writer. Of several rejections of a pod only the latest is
written, and only if it changes the condition. Each write names the version of the pod that was read: a pod that has
been bound since then is not changed.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from scheduler.attempt import pod_calls, pod_condition
from scheduler.attempt.call_limit import CallLimit
from scheduler.attempt.claim_objects import Json
from scheduler.attempt.denials import Denials
from scheduler.attempt.pod_condition import Reason
from scheduler.attempt.write_outcome import DENIED, WriteOutcome, write_outcome
from scheduler.client.api import Api
from scheduler.client.errors import ApiError, CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import Condition

TRIES = 3
"""How often a condition is written to a pod that changes meanwhile."""

WRITERS = 16
"""Concurrent writes."""

WRITERS_OF_NAMESPACE = 4
"""The same, in one namespace: where writes take long, other namespaces are not delayed."""

_LOG = logging.getLogger(__name__)


class Refusals:
    """Conditions that are still to be written, one for each pod; `run` writes them. now: with its time zone."""

    def __init__(self, api: Api, now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now
        self._waiting: dict[str, tuple[Pod, Condition]] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._being_written: set[str] = set()
        self._limit = CallLimit(WRITERS, WRITERS_OF_NAMESPACE)
        self._trouble = ""
        self._denials = Denials()

    def refuse(self, pod: Pod, reason: Reason, message: str) -> None:
        """Write the condition, unless the pod has it. pod: as last watched."""
        condition = pod_condition.not_scheduled(reason, message, pod.generation)
        if pod_condition.current(pod.conditions) == condition:
            self._waiting.pop(pod.uid, None)
            return
        if pod.uid not in self._waiting:
            self._queue.put_nowait(pod.uid)
        self._waiting[pod.uid] = (pod, condition)

    def forget(self, pod_uid: str) -> None:
        """The pod is being bound, or has gone."""
        self._waiting.pop(pod_uid, None)

    @property
    def waiting(self) -> int:
        """How many conditions are still to be written."""
        return len(self._waiting)

    async def run(self) -> None:
        """Write conditions until cancelled; in each namespace the one that waits longest first."""
        async with asyncio.TaskGroup() as writers:
            while True:
                writers.create_task(self._write_when_allowed(await self._queue.get()))

    async def drain(self) -> None:
        """Return once all conditions are written or given up; `run` has to be running."""
        await self._queue.join()

    async def _write_when_allowed(self, uid: str) -> None:
        try:
            if uid in self._waiting:
                async with self._limit.of(self._waiting[uid][0].namespace):
                    await self._write_newest(uid)
        finally:
            self._queue.task_done()

    async def _write_newest(self, uid: str) -> None:
        """Write the newest condition of the pod, and again where a newer one has come meanwhile."""
        if uid in self._being_written:
            return  # by a writer that looks again once it is done
        self._being_written.add(uid)
        try:
            while found := self._waiting.pop(uid, None):
                await self._try(*found)
        finally:
            self._being_written.discard(uid)

    async def _try(self, pod: Pod, condition: Condition) -> None:
        try:
            await self._write(pod, condition)
        except CallFailed as error:
            if write_outcome(error) in DENIED:
                message = f"pod {pod}: cannot write its condition: {error}"
                self._denials.denied(pod.namespace, message, self._now().timestamp())
                return
            trouble = f"{error.status} {error.reason}" if isinstance(error, ApiError) else type(error).__name__
            # Of a server that takes none of ten thousand, the log says so once.
            level = logging.DEBUG if trouble == self._trouble else logging.WARNING
            _LOG.log(level, "pod %s: cannot write its condition: %s", pod, error)
            self._trouble = trouble
        else:
            self._trouble = ""

    async def _write(self, pod: Pod, condition: Condition) -> None:
        standing = pod_condition.current(pod.conditions)
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        known: Json | None = {"metadata": {**metadata, "resourceVersion": pod.resource_version}}
        for _ in range(TRIES):
            if known is None or standing == condition:
                return
            try:
                status = pod_condition.status_with(condition, standing, self._now())
                await pod_calls.patch_status(self._api, known, status)
            except CallFailed as error:
                meaning = write_outcome(error)
                if meaning is WriteOutcome.GONE:
                    return
                if meaning is not WriteOutcome.CONFLICT:
                    raise
            else:
                return
            found = await pod_calls.get(self._api, pod.namespace, pod.name, pod.uid)
            known = found if found and not found["spec"].get("nodeName") else None
            standing = pod_condition.current_of(found) if found else None

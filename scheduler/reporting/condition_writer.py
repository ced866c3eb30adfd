"""Writes the condition PodScheduled of rejected pods, in parallel with decisions.

Several pods are written at the same time, each by one writer. Of several rejections of a pod only the latest is
written, and only if it changes the condition. Each write names the version of the pod that was read: a pod that has
been bound since then is not changed.

On a busy cluster, numbers and names in a message change with every allocation. A rejection for other reasons is written
at once; one that differs in its details alone is put off, and so is what one pod has too much of. `release` writes that
a little at a time.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
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
from scheduler.reporting.token_bucket import TokenBucket

TRIES = 3
"""How often a condition is written to a pod that changes meanwhile."""

WRITERS = 16
"""Concurrent writes."""

WRITERS_OF_NAMESPACE = 4
"""The same, in one namespace: where writes take long, other namespaces are not delayed."""

REASONS_AT_ONCE = 5
REASONS_EVERY_S = 60.0
"""Rejections of one pod for other reasons than before that are written at once, and how long until one more is."""

DETAILS_EVERY_S = 60.0
"""A pod is told other details of the same reasons after so long, at the earliest."""

RELEASE_EVERY_S = 1.0
"""How often one pod of all is told other details: as often as kube-scheduler writes on a busy cluster."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Reported:
    """What a pod was told last, or is about to be told. gist: of that message, None if it could not be written.

    at: when, in seconds. version: of the pod as stored with it, 0 if it was not; None while it waits or is written.
    """

    condition: Condition
    gist: str | None = None
    at: float = 0.0
    version: int | None = 0
    budget: TokenBucket = field(default_factory=lambda: TokenBucket(REASONS_AT_ONCE, REASONS_EVERY_S))

    def standing(self, pod: Pod) -> Condition | None:
        """The pod's condition; what it was told, if the pod was watched before that."""
        if self.version is None or int(pod.resource_version or 0) < self.version:
            return self.condition
        return pod_condition.current(pod.conditions)


@dataclass(frozen=True, slots=True)
class _Rejection:
    """What a pod is to be told. pod: as last watched. gist: as of `Refusals.refuse`."""

    pod: Pod
    condition: Condition
    gist: str


class Refusals:
    """Conditions that are still to be written, one for each pod; `run` writes them. now: with its time zone.

    _other_reasons, _other_details: what is put off, by the uid of its pod.
    """

    def __init__(self, api: Api, now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now
        self._reported: dict[str, _Reported] = {}
        self._waiting: dict[str, _Rejection] = {}
        self._other_reasons: dict[str, _Rejection] = {}
        self._other_details: dict[str, _Rejection] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._being_written: set[str] = set()
        self._limit = CallLimit(WRITERS, WRITERS_OF_NAMESPACE)
        self._trouble = ""
        self._denials = Denials()

    def refuse(self, pod: Pod, reason: Reason, message: str, gist: str = "") -> None:
        """Write the condition, unless the pod has it; later if it says the same but for its details.

        pod: as last watched. gist: what the message says without numbers and names that change all the time; "" if it
        has none of these.
        """
        condition = pod_condition.not_scheduled(reason, message, pod.generation)
        rejection = _Rejection(pod, condition, f"{reason} {gist or message}")
        reported = self._reported.setdefault(pod.uid, _Reported(condition))
        is_waiting = pod.uid in self._waiting
        standing = pod_condition.current(pod.conditions) if is_waiting else reported.standing(pod)
        if standing == condition:
            self.withdraw(pod.uid)
            reported.gist = rejection.gist
        elif is_waiting:
            self._write_soon(rejection)
        elif reported.gist == rejection.gist and not (standing and standing.reason == "BindingPending"):
            self._other_reasons.pop(pod.uid, None)
            self._other_details[pod.uid] = rejection  # which keeps its place
        elif reported.budget.take(self._seconds()):
            self._write_soon(rejection)
        else:
            self._other_details.pop(pod.uid, None)
            self._other_reasons[pod.uid] = rejection

    def release(self) -> None:
        """Write what was put off: all other reasons whose pods may be told again, and other details of one pod."""
        now = self._seconds()
        for uid in [uid for uid in self._other_reasons if self._reported[uid].budget.take(now)]:
            self._write_soon(self._other_reasons[uid])
        due = (uid for uid in self._other_details if not 0 <= now - self._reported[uid].at < DETAILS_EVERY_S)
        if uid := next(due, ""):
            self._write_soon(self._other_details[uid])

    def withdraw(self, pod_uid: str) -> None:
        """There is nothing to tell the pod for now: it is about to be bound, say."""
        if self._waiting.pop(pod_uid, None):
            self._reported[pod_uid].gist, self._reported[pod_uid].version = None, 0
        self._other_reasons.pop(pod_uid, None)
        self._other_details.pop(pod_uid, None)

    def forget(self, pod_uid: str) -> None:
        """The pod has a node, or has gone."""
        self.withdraw(pod_uid)
        self._reported.pop(pod_uid, None)

    @property
    def waiting(self) -> int:
        """How many conditions are still to be written."""
        return len(self._waiting)

    async def run(self) -> None:
        """Write conditions until cancelled; in each namespace the one that waits longest first."""
        async with asyncio.TaskGroup() as writers:
            writers.create_task(self._release_all_the_time())
            while True:
                writers.create_task(self._write_when_allowed(await self._queue.get()))

    async def drain(self) -> None:
        """Return once all conditions are written or given up that are not put off; `run` has to be running."""
        await self._queue.join()

    async def _release_all_the_time(self) -> None:
        while True:
            await asyncio.sleep(RELEASE_EVERY_S)
            self.release()

    def _write_soon(self, rejection: _Rejection) -> None:
        """rejection: of a pod that is known in `_reported`."""
        uid = rejection.pod.uid
        if uid not in self._waiting:
            self._queue.put_nowait(uid)
        self.withdraw(uid)
        self._waiting[uid] = rejection
        reported = self._reported[uid]
        reported.condition, reported.gist = rejection.condition, rejection.gist
        reported.at, reported.version = self._seconds(), None

    def _seconds(self) -> float:
        return self._now().timestamp()

    async def _write_when_allowed(self, uid: str) -> None:
        try:
            if uid in self._waiting:
                async with self._limit.of(self._waiting[uid].pod.namespace):
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
                await self._try(found)
        finally:
            self._being_written.discard(uid)

    async def _try(self, rejection: _Rejection) -> None:
        pod, version = rejection.pod, 0
        try:
            version = await self._write(pod, rejection.condition)
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
        finally:
            self._note(rejection, version)

    def _note(self, rejection: _Rejection, version: int) -> None:
        """What became of a write, unless the pod is to be told something else by now, or has gone."""
        reported = self._reported.get(rejection.pod.uid)
        if reported and reported.condition is rejection.condition:
            reported.gist, reported.version = rejection.gist if version else None, version

    async def _write(self, pod: Pod, condition: Condition) -> int:
        """The version of the pod that has the condition, 0 if it does not have it. Raises CallFailed."""
        standing = pod_condition.current(pod.conditions)
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        known: Json | None = {"metadata": {**metadata, "resourceVersion": pod.resource_version}}
        for _ in range(TRIES):
            if known is None:
                return 0
            if standing == condition:
                return _version_of(known)
            try:
                status = pod_condition.status_with(condition, standing, self._now())
                return _version_of(await pod_calls.patch_status(self._api, known, status))
            except CallFailed as error:
                meaning = write_outcome(error)
                if meaning is WriteOutcome.GONE:
                    return 0
                if meaning is not WriteOutcome.CONFLICT:
                    raise
            found = await pod_calls.get(self._api, pod.namespace, pod.name, pod.uid)
            known = found if found and not found["spec"].get("nodeName") else None
            standing = pod_condition.current_of(found) if found else None
        return 0


def _version_of(pod: Json) -> int:
    return int(pod["metadata"]["resourceVersion"] or 0)

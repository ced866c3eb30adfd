"""What is told of a pod: conditions and events, within a budget."""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Literal, NamedTuple

from allocator.api.versions import Json
from scheduler.attempt import pod_calls
from scheduler.attempt.claim_objects import ClaimRef
from scheduler.attempt.decision import PodKey
from scheduler.attempt.pod_calls import Reason
from scheduler.attempt.slots import CallLimit
from scheduler.attempt.write_outcome import DENIED, Denials, WriteOutcome, write_outcome
from scheduler.client.api_resources import EVENTS, Resource
from scheduler.client.connection import JSON, MERGE, Api
from scheduler.client.errors import CallFailed
from scheduler.client.watch_states import Key as ObjectKey
from scheduler.core_v1.object_fields import in_microseconds
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import Condition
from scheduler.rates import TokenBucket
from scheduler.terminal_text import printable

# Writes the condition PodScheduled of rejected pods, in parallel with decisions.
#
# Several pods are written at the same time, each by one writer. Of several rejections of a pod only the latest is
# written, and only if it changes the condition. Each write names the version of the pod that was read: a pod that has
# been bound since then is not changed.
#
# On a busy cluster, numbers and names in a message change with every allocation. A rejection for other reasons is
# written at once; one that differs in its details alone is put off, and so is what one pod has too much of. `release`
# writes that a little at a time.


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
    """What a pod was told last, or is about to be told."""

    condition: Condition
    gist: str | None = None
    """What the message says but for details; None if it could not be written."""
    at: float = 0.0
    """When it was told, in seconds."""
    version: int | None = 0
    """The version of the pod as stored with it, 0 if it was not; None while it waits or is written."""
    budget: TokenBucket = field(default_factory=lambda: TokenBucket(REASONS_AT_ONCE, REASONS_EVERY_S))

    def standing(self, pod: Pod) -> Condition | None:
        """The pod's condition; what it was told, if the pod was watched before that."""
        if self.version is None or int(pod.resource_version or 0) < self.version:
            return self.condition
        return pod_calls.current(pod.conditions)


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
        condition = pod_calls.not_scheduled(reason, message, pod.generation)
        rejection = _Rejection(pod, condition, f"{reason} {gist or message}")
        reported = self._reported.setdefault(pod.uid, _Reported(condition))
        is_waiting = pod.uid in self._waiting
        standing = pod_calls.current(pod.conditions) if is_waiting else reported.standing(pod)
        if standing == condition:
            self.withdraw(pod.uid)
            reported.gist = rejection.gist
        elif is_waiting:
            self._write_soon(rejection)
        elif reported.gist == rejection.gist and standing == reported.condition:  # not what an attempt said since
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
            while newest := self._waiting.pop(uid, None):
                await self._try(newest)
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
            # Of a server that takes none of ten thousand, the log says so once.
            level = logging.DEBUG if error.gist == self._trouble else logging.WARNING
            _LOG.log(level, "pod %s: cannot write its condition: %s", pod, error)
            self._trouble = error.gist
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
        standing = pod_calls.current(pod.conditions)
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        stored: Json | None = {"metadata": {**metadata, "resourceVersion": pod.resource_version}}
        for _ in range(TRIES):
            if stored is None:
                return 0
            if standing == condition:
                return _version_of(stored)
            try:
                status = pod_calls.status_with(condition, standing, self._now())
                return _version_of(await pod_calls.patch_status(self._api, stored, status))
            except CallFailed as error:
                meaning = write_outcome(error)
                if meaning is WriteOutcome.GONE:
                    return 0
                if meaning is not WriteOutcome.CONFLICT:
                    raise
            read = await pod_calls.get(self._api, pod.namespace, pod.name, pod.uid)
            stored = read if read and not read["spec"].get("nodeName") else None
            standing = pod_calls.current_of(read) if read else None
        return 0


def _version_of(pod: Json) -> int:
    return int(pod["metadata"]["resourceVersion"] or 0)


# Writes events in parallel with decisions: about pods that were bound or not, and about claims with the same devices.
#
# The queue is bounded: further events are dropped and counted. An event that repeats within five minutes is counted in
# the series of the first one, also if its note differs in details that change all the time. So is an event that says
# something new about its object, while the object or all objects together have too many of these. Source: k8s.io/api
# events/v1 Event and its limits; client-go's recorder, whose series do not look at the note at all.


NOTE_MAX_BYTES = 1024
"""What the API server takes."""

QUEUE_MAX = 10_000
"""Writes that may wait; those beyond are dropped, but for the first ones of each namespace."""

QUEUED_OF_NAMESPACE = 100
"""Writes of a namespace that may wait though others fill the queue; of all such together, as many again as it holds."""

KNOWN_MAX = 1 << 16
"""Events that a repetition can be counted in; of more, the least recently repeated ones are forgotten.

More than the pods that are refused again and again: with fewer, each time would be a new event. 1 KiB each.
"""

CHANGES_AT_ONCE = 10
CHANGES_EVERY_S = 300.0
"""Events that say something new about an object of which one is known, and how long until one more is written."""

CHANGES_OF_ALL_AT_ONCE = 500
CHANGES_OF_ALL_EVERY_S = 0.2
"""The same, of all objects together."""

SERIES_S = 300.0
"""How often the count of a series is written, at most."""

FINISHED_S = 360.0
"""A series that was not said again for so long has ended, as in client-go's recorder: the next time begins another."""

INSTANCE_MAX = 128
"""Characters of an event's reportingInstance."""


OF_THE_CLUSTER = "default"
"""The namespace of events about objects that have none."""

NAME_OF_OBJECT_MAX = 210
"""Characters of the object's name that the event's own name begins with: with what follows it stays below 253."""


class Regarding(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Said(NamedTuple):
    """What an event is about, and by which controller; of equal ones, one is counted at a time."""

    controller: str
    regarding: Regarding
    type: Literal["Normal", "Warning"]
    reason: str
    action: str


@dataclass(slots=True)
class _EventSeries:
    """An event that is written or about to be, in which its repetitions are counted."""

    gist: str | None
    """What the event says but for details; None if it could not be written."""
    path: str
    reported_at: datetime
    """When `count` was last written."""
    said_at: datetime
    """When it was said last."""
    changes: TokenBucket
    """Limits events that may take its place."""
    count: int = 1
    """How often it was said."""


class Events:
    """Events that are waiting to be written; `run` writes them.

    A pod's own scheduler name reports its events, as in kube-scheduler. controller: reports all others. host: where
    this process runs.
    dropped, failed: how many were not written because the queue was full, or the API server refused them.
    """

    def __init__(self, api: Api, controller: str, host: str, now: Callable[[], datetime]) -> None:
        self.dropped = 0
        self.failed = 0
        self._api = api
        self._controller = controller
        self._host = host
        self._now = now
        self._numbers = count(1)
        self._queue: asyncio.Queue[_EventCall] = asyncio.Queue()
        self._waiting = 0
        self._waiting_in: Counter[str] = Counter()
        self._limit = CallLimit(WRITERS, WRITERS_OF_NAMESPACE)
        self._known: OrderedDict[Said, _EventSeries] = OrderedDict()
        self._changes = TokenBucket(CHANGES_OF_ALL_AT_ONCE, CHANGES_OF_ALL_EVERY_S)

    def scheduled(self, pod: PodKey, node: str) -> None:
        """The pod was bound, of which nothing is kept: it happens once."""
        said = Said(*_by_its_scheduler(pod), "Normal", "Scheduled", "Binding")
        self._say_first(said, f"Successfully assigned {pod} to {node}", self._now())

    def failed_scheduling(self, pod: PodKey, message: str, gist: str = "") -> None:
        """The pod was refused, or an error ended its attempt. gist: of the message, "" if it has no details."""
        self._say(Said(*_by_its_scheduler(pod), "Warning", "FailedScheduling", "Scheduling"), message, gist)

    def binding_conditions_pending(self, pod: PodKey, message: str) -> None:
        """The pod waits for its devices to be made ready."""
        self._say(Said(*_by_its_scheduler(pod), "Normal", "BindingConditionsPending", "Scheduling"), message)

    def preempted(
        self, victim: PodKey, preemptor: PodKey, node: str, group: str = "", *, is_deleted: bool = True
    ) -> None:
        """The victim is deleted, or not bound, and the other pod, or its group (by uid), can have its place."""
        by, regarding = preemptor.scheduler_name, _by_its_scheduler(victim)[1]
        who = f"podgroup {group}" if group else f"pod {preemptor.uid}"
        message = f"Preempted by {who} on node {node}{'' if is_deleted else ', before it was bound'}"
        self._say_first(Said(by, regarding, "Normal", "Preempted", "Preempting"), message, self._now())

    def preemption_backed_off(self, pod: PodKey, message: str) -> None:
        """Preemptions for the pod have won no place for it."""
        self._say(Said(*_by_its_scheduler(pod), "Warning", "PreemptionBackedOff", "Preempting"), message)

    def preemption_late(self, pod: PodKey, message: str) -> None:
        """What the pod has won is not free yet."""
        self._say(Said(*_by_its_scheduler(pod), "Warning", "PreemptionPending", "Preempting"), message)

    def pod_group_waiting(self, pod: PodKey, about: Regarding | None, message: str) -> None:
        """A group waits for members, of which the pod is one that is there. about: its PodGroup, None where none is."""
        controller, regarding = _by_its_scheduler(pod)
        for subject in filter(None, (regarding, about)):
            self._say(Said(controller, subject, "Warning", "PodGroupWaiting", "Scheduling"), message)

    def device_double_allocated(self, claims: Resource, claim: ClaimRef, message: str) -> None:
        """The claim holds what it cannot hold together with others. claims: the resource in the served version."""
        regarding = Regarding(claims.api_version, "ResourceClaim", *claim)
        self._say(Said(self._controller, regarding, "Warning", "DeviceDoubleAllocated", "Checking"), message)

    def unreadable(self, resource: Resource, key: ObjectKey, uid: str, message: str) -> None:
        """An object of the resource is left out. Of one without a name or uid nothing can be said here."""
        if key.name and uid:
            regarding = Regarding(resource.api_version, resource.kind, key.namespace, key.name, uid)
            self._say(Said(self._controller, regarding, "Warning", "Unreadable", "Reading"), message)

    def _say(self, said: Said, message: str, gist: str = "") -> None:
        now, note = self._now(), note_of(message)
        gist = gist or note
        self._finish(now)
        series = self._known.get(said)
        if series and (series.gist == gist or not self._may_change(series, now)):
            self._count(said, series, now)
        elif path := self._say_first(said, note, now):
            changes = series.changes if series else TokenBucket(CHANGES_AT_ONCE, CHANGES_EVERY_S)
            self._keep(said, _EventSeries(gist, path, now, now, changes))

    def _may_change(self, series: _EventSeries, now: datetime) -> bool:
        """Whether something new may be said of the object, which then counts."""
        seconds = now.timestamp()
        return series.changes.take(seconds) and self._changes.take(seconds)

    def _count(self, said: Said, series: _EventSeries, now: datetime) -> None:
        self._known.move_to_end(said)
        series.said_at = now
        series.count += 1
        if (now - series.reported_at).total_seconds() >= SERIES_S:
            series.reported_at = now
            again = {"series": {"count": series.count, "lastObservedTime": in_microseconds(now)}}
            self._put(
                _EventCall(said.regarding.namespace, "PATCH", series.path, again, MERGE, lambda: self._forget(said))
            )

    async def run(self) -> None:
        """Write events, several at a time, until cancelled."""
        async with asyncio.TaskGroup() as writers:
            while True:
                writers.create_task(self._write(await self._queue.get()))

    async def drain(self) -> None:
        """Return once all events are written or dropped; `run` has to be running."""
        await self._queue.join()

    def _say_first(self, said: Said, note: str, now: datetime) -> str:
        """The path of the event that will be written; empty where it was dropped."""
        about, number = said.regarding, f"{int(now.timestamp() * 1e6):x}{next(self._numbers):x}"
        name = f"{about.name[:NAME_OF_OBJECT_MAX].rstrip('-.')}.{about.uid[:8]}{number}"
        identity = {"namespace": about.namespace, "name": about.name, "uid": about.uid}
        namespace = about.namespace or OF_THE_CLUSTER
        event = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": name},
            "eventTime": in_microseconds(now),
            "regarding": {"apiVersion": about.api_version, "kind": about.kind, **identity},
            "type": said.type,
            "reason": said.reason,
            "action": said.action,
            "note": note,
            "reportingController": said.controller,
            "reportingInstance": f"{said.controller}-{self._host}"[:INSTANCE_MAX],
        }
        path = EVENTS.path(namespace)
        is_put = self._put(_EventCall(about.namespace, "POST", path, event, JSON, lambda: self._forget(said)))
        return EVENTS.path(namespace, name) if is_put else ""

    def _keep(self, said: Said, series: _EventSeries) -> None:
        self._known[said] = series
        self._known.move_to_end(said)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def _finish(self, now: datetime) -> None:
        """Forget the series that have ended; they stand in the order in which they were said last.

        Those that were said later than now have ended as well: the clock was set back, and would not come to them soon.
        """
        while self._known and not 0 <= (now - next(iter(self._known.values())).said_at).total_seconds() < FINISHED_S:
            self._known.popitem(last=False)

    def _put(self, call: "_EventCall") -> bool:
        of_namespace = self._waiting_in[call.namespace]
        if self._waiting >= QUEUE_MAX and (of_namespace >= QUEUED_OF_NAMESPACE or self._waiting >= 2 * QUEUE_MAX):
            self.dropped += 1
            return False
        self._waiting += 1
        self._waiting_in[call.namespace] = of_namespace + 1
        self._queue.put_nowait(call)
        return True

    def _forget(self, said: Said) -> None:
        """An event that could not be written begins a new series when it repeats, as if it said something new."""
        if series := self._known.get(said):
            series.gist = None

    async def _write(self, call: "_EventCall") -> None:
        try:
            async with self._limit.of(call.namespace):
                await self._api.request(call.method, call.path, body=call.body, content_type=call.content_type)
        except CallFailed as error:
            # Never sent again: an event is worth less than what it would delay.
            self.failed += 1
            call.failed()
            _LOG.debug("event: %s", error)
        finally:
            self._waiting -= 1
            self._waiting_in[call.namespace] -= 1
            if not self._waiting_in[call.namespace]:
                del self._waiting_in[call.namespace]
            self._queue.task_done()


class _EventCall(NamedTuple):
    namespace: str
    method: str
    path: str
    body: Json
    content_type: str
    failed: Callable[[], None]


def _by_its_scheduler(pod: PodKey) -> tuple[str, Regarding]:
    return pod.scheduler_name, Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)


def note_of(message: str) -> str:
    """The message as it steers no terminal, cut where it is longer than the API server takes (bytes of UTF-8)."""
    note = printable(message)
    encoded = note.encode()
    if len(encoded) <= NOTE_MAX_BYTES:
        return note
    ellipsis = "..."
    return encoded[: NOTE_MAX_BYTES - len(ellipsis)].decode(errors="ignore") + ellipsis

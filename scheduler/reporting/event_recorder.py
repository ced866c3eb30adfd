"""Writes events in parallel with decisions: about pods that were bound or not, and about claims with the same devices.

The queue is bounded: further events are dropped and counted. An event that repeats within five minutes is counted in
the series of the first one, also if its note differs in details that change all the time. So is an event that says
something new about its object, while the object or all objects together have too many of these.
Source: k8s.io/api events/v1 Event and its limits; client-go's recorder, whose series do not look at the note at all.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Literal, NamedTuple

from scheduler.attempt.call_limit import CallLimit
from scheduler.attempt.claim_objects import ClaimKey, Json
from scheduler.attempt.decision import PodKey
from scheduler.attempt.timestamps import in_microseconds
from scheduler.cache.watch_events import Key as ObjectKey
from scheduler.client.api import Api
from scheduler.client.api_resources import EVENTS, Resource
from scheduler.client.connection import JSON, MERGE
from scheduler.client.errors import CallFailed
from scheduler.reporting.token_bucket import TokenBucket

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

WRITERS = 16
"""Writes at the same time."""

WRITERS_OF_NAMESPACE = 4
"""The same, in one namespace: where writing takes long, nobody else waits for it."""

OF_THE_CLUSTER = "default"
"""The namespace of events about objects that have none."""

NAME_OF_OBJECT_MAX = 210
"""Characters of the object's name that the event's own name begins with: with what follows it stays below 253."""

_LOG = logging.getLogger(__name__)


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
    """An event that is written or about to be, in which its repetitions are counted.

    gist: what it says but for details, None if it could not be written. changes: events that may take its place.
    count: how often it was said; reported_at: when that was last written. said_at: when it was said last.
    """

    gist: str | None
    path: str
    reported_at: datetime
    said_at: datetime
    changes: TokenBucket
    count: int = 1


def _age_s(series: _EventSeries, now: datetime) -> float:
    """For how long it was not said again."""
    return (now - series.said_at).total_seconds()


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

    def device_double_allocated(self, claims: Resource, claim: ClaimKey, message: str) -> None:
        """The claim holds what it cannot hold together with others. claims: the resource in the served version."""
        regarding = Regarding(claims.api_version, "ResourceClaim", *claim)
        self._say(Said(self._controller, regarding, "Warning", "DeviceDoubleAllocated", "Checking"), message)

    def unreadable(self, resource: Resource, key: ObjectKey, uid: str, message: str) -> None:
        """An object of the resource is left out. Of one without a name or uid nothing can be said here."""
        if key.name and uid:
            regarding = Regarding(resource.api_version, resource.kind, key.namespace, key.name, uid)
            self._say(Said(self._controller, regarding, "Warning", "Unreadable", "Reading"), message)

    def _say(self, said: Said, message: str, gist: str = "") -> None:
        now, note = self._now(), shortened(message)
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
        return f"{path}/{name}" if is_put else ""

    def _keep(self, said: Said, series: _EventSeries) -> None:
        self._known[said] = series
        self._known.move_to_end(said)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def _finish(self, now: datetime) -> None:
        """Forget the series that have ended; they stand in the order in which they were said last.

        Those that were said later than now have ended as well: the clock was set back, and would not come to them soon.
        """
        while self._known and not 0 <= _age_s(next(iter(self._known.values())), now) < FINISHED_S:
            self._known.popitem(last=False)

    def _put(self, call: "_EventCall") -> bool:
        own = self._waiting_in[call.namespace]
        if self._waiting >= QUEUE_MAX and (own >= QUEUED_OF_NAMESPACE or self._waiting >= 2 * QUEUE_MAX):
            self.dropped += 1
            return False
        self._waiting += 1
        self._waiting_in[call.namespace] = own + 1
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


def shortened(note: str) -> str:
    """The note, cut with an ellipsis where it is longer than the API server takes (bytes of UTF-8)."""
    encoded = note.encode()
    if len(encoded) <= NOTE_MAX_BYTES:
        return note
    ellipsis = "..."
    return encoded[: NOTE_MAX_BYTES - len(ellipsis)].decode(errors="ignore") + ellipsis

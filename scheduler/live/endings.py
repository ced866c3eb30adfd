"""What becomes of a pod or group once it is decided: in the queue, and in what it and its operators are told.

The type of a PodGroup's condition is that of the version that is served. A group that says the same but for numbers and
names is told again after a minute at the earliest; and one that was scheduled stays so.
Source: k8s.io/api scheduling, PodGroupStatus; kube-scheduler's schedule_one_podgroup.go.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from allocator.words import counted, listed_up_to
from scheduler.attempt import pod_calls
from scheduler.attempt.attempts import INTERNAL, Attempts
from scheduler.attempt.binder import Binder
from scheduler.attempt.decision import AttemptOutcome, Bound, BoundElsewhere, Fatal, Gone, PodKey, Retry, Unschedulable
from scheduler.attempt.pod_fate import REPORT_S
from scheduler.client.api_resources import Resource
from scheduler.client.connection import STRATEGIC_MERGE, Api
from scheduler.client.errors import ApiError, ApiErrorKind, CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import COMPOSITE_SCHEDULED, SCHEDULED, AnyPodGroup, CompositePodGroup, PodGroup
from scheduler.core_v1.pod_status import Condition
from scheduler.decision.cluster import Cluster
from scheduler.live.preemptions import GroupToWin, NothingToWin, PlaceToWin, Preemptions
from scheduler.output.time_line import DecisionLog
from scheduler.plugins.plugin import Refusal
from scheduler.pod_groups.groups import Groups
from scheduler.queue import Queue, QueuedPod
from scheduler.rates import backoff_s
from scheduler.reporting import Events, Refusals, Regarding
from scheduler.runtime.metrics import AttemptResult, Metrics
from scheduler.state.pods import pod_requests
from scheduler.terminal_text import printable

DETAILS_EVERY_S = 60.0
"""A group is told other details of the same reasons after so long, at the earliest."""

TRIES = 5
AGAIN_S, MOST_S = 1.0, 10.0
"""How often a condition is sent, and how long after a failure; doubled with each."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _WrittenCondition:
    condition: Condition
    gist: str
    at: float


class GroupConditions:
    """What PodGroups were told. resource: in the version that is served; None where none is. start: runs a write.

    composites: the same of CompositePodGroups.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource | None,
        now: Callable[[], datetime],
        start: Callable[[Coroutine[Any, Any, None]], object],
        composites: Resource | None = None,
    ) -> None:
        self._api = api
        self._resources = {PodGroup: resource, CompositePodGroup: composites}
        self._now = now
        self._start = start
        self._written: dict[str, _WrittenCondition] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def scheduled(self, group: AnyPodGroup | None) -> None:
        """So many of its pods are bound as it needs."""
        self._write_later(group, "True", "Scheduled", "")

    def not_scheduled(self, group: AnyPodGroup | None, reason: str, message: str, gist: str = "") -> None:
        """Too few of its pods can be bound. gist: of the message, "" if it has no details that change all the time."""
        self._write_later(group, "False", reason, message, gist)

    def regarding(self, group: AnyPodGroup | None) -> Regarding | None:
        """The group as an event names it."""
        resource = self._resources[type(group)] if group else None
        if group is None or resource is None:
            return None
        return Regarding(resource.api_version, resource.kind, group.namespace, group.name, group.uid)

    def forget(self, group: AnyPodGroup) -> None:
        """The group is gone."""
        self._written.pop(group.uid, None)
        self._locks.pop(group.uid, None)

    def _write_later(self, group: AnyPodGroup | None, status: str, reason: str, message: str, gist: str = "") -> None:
        resource = self._resources[type(group)] if group else None
        if group is None or resource is None:
            return
        is_composite = isinstance(group, CompositePodGroup)
        type_ = COMPOSITE_SCHEDULED if is_composite else SCHEDULED[resource.version != "v1alpha2"]
        condition, gist = Condition(type_, status, reason, printable(message)), f"{reason} {gist or message}"
        last, at = self._written.get(group.uid), self._now().timestamp()
        is_known = last is not None and (
            last.condition == condition or (last.gist == gist and 0 <= at - last.at < DETAILS_EVERY_S)
        )
        if not is_known:
            self._written[group.uid] = _WrittenCondition(condition, gist, at)
            standing = last.condition if last else None
            self._start(self._write(resource, group, condition, standing))

    async def _write(
        self, resource: Resource, group: AnyPodGroup, condition: Condition, standing: Condition | None
    ) -> None:
        lock = self._locks.setdefault(group.uid, asyncio.Lock())
        body = {
            "metadata": {"uid": group.uid},
            "status": pod_calls.status_with(condition, standing, self._now()),
        }
        path = resource.path(group.namespace, group.name, "status")
        async with lock:  # one after the other: the last one stays
            for tries in range(1, TRIES + 1):
                try:
                    await self._api.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE)
                except CallFailed as error:
                    if isinstance(error, ApiError) and error.kind is ApiErrorKind.MISSING:
                        return
                    _LOG.warning("group %s: cannot write its condition: %s", group, error)
                    await asyncio.sleep(backoff_s(tries, AGAIN_S, MOST_S))
                else:
                    return
        self._written.pop(group.uid, None)


MOST_NAMED = 10
"""Pods, claims and budgets that a condition names; others are counted."""

LOST_S = 1.0
"""How soon a pod is retried after it was lost to another process."""

QUIET_ATTEMPTS = 3
"""How many attempts a pod may lose to another scheduler before that is reported."""


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """The groups of pods, and what their objects are told."""

    groups: Groups
    conditions: GroupConditions

    def gate(self, pod: Pod) -> str:
        """As of the groups; a pod whose group cannot be worked out waits, and costs no other pod its attempt."""
        try:
            return self.groups.gate(pod)
        except Exception:  # noqa: BLE001 - whatever it is
            _LOG.exception("cannot say what the pod waits for", extra={"pod": str(pod)})
            return INTERNAL


@dataclass(frozen=True, slots=True)
class LoopDependencies:
    """What a loop works with."""

    cluster: Cluster
    queue: Queue
    binder: Binder
    attempts: Attempts
    events: Events
    refusals: Refusals
    metrics: Metrics
    preemptions: Preemptions | None = None
    decisions: DecisionLog = field(default_factory=DecisionLog)
    known: KnownGroups | None = None


class Endings:
    """The ends of attempts, each told once. clock: as of the queue. is_dry: nothing is written."""

    def __init__(
        self, dependencies: LoopDependencies, preemptions: Preemptions, clock: Callable[[], float], *, is_dry: bool
    ) -> None:
        self._queue = dependencies.queue
        self._attempts = dependencies.attempts
        self._events = dependencies.events
        self._refusals = dependencies.refusals
        self._metrics = dependencies.metrics
        self._decisions = dependencies.decisions
        self.preemptions = preemptions
        self._clock = clock
        self._is_dry = is_dry

    def report(self, entry: QueuedPod, outcome: AttemptOutcome) -> None:
        """Report why the pod is not bound."""
        match outcome:
            case Unschedulable(reason):
                self.report_reason(entry.pod, "Unschedulable", reason)
            case Retry(reason, is_lost=is_lost):
                # A condition would move the pod's version while the faster one is about to bind it.
                if not is_lost or entry.attempts > QUIET_ATTEMPTS:
                    self.report_reason(entry.pod, "SchedulerError", reason)
            case Fatal(reason):
                self.report_reason(entry.pod, "SchedulerError", reason)

    def end(self, entry: QueuedPod, outcome: AttemptOutcome, started: float) -> None:
        """Finish or requeue the pod; its condition and event are written already."""
        pod = PodKey.of(entry.pod)
        if isinstance(outcome, Bound | BoundElsewhere | Gone):
            self.preemptions.placed(pod.uid)
        else:
            self.preemptions.unplaced(entry.pod)
            self.preemptions.cancelled(pod.uid)
        match outcome:
            case Bound(node):
                self._queue.done(pod.uid)
                self._events.scheduled(pod, node)
                for preemptor in self.preemptions.preemptors_of(pod.uid):  # it was to be cancelled, and was faster
                    self._queue.wake(preemptor.uid, self._clock(), "VictimBound")
                self.count_scheduled(entry, started)
                _LOG.debug("bound", extra={"pod": str(pod), "node": node})
            case Unschedulable(reason, by):
                self.refused(entry, Refusal(frozenset({by}), pod_requests(entry.pod), message=reason), started)
            case Retry(reason, after_s=None, is_lost=True):
                self.failed(entry, reason, started, LOST_S)
            case Retry(reason, after_s=after_s):
                self.failed(entry, reason, started, after_s)
            case Gone(reason) | BoundElsewhere(reason=reason):
                _LOG.info("nothing left to schedule", extra={"pod": str(pod), "reason": reason})
                self._queue.remove(pod.uid)
            case Fatal(reason):
                self.failed(entry, reason, started)

    def count_scheduled(self, entry: QueuedPod, started: float) -> None:
        """The pod is bound, or would be."""
        now = self._clock()
        self._metrics.attempted(entry.pod.scheduler_name, AttemptResult.SCHEDULED, now - started)
        self._metrics.scheduled(entry.attempts, now - (entry.first or started))

    def refuse(self, entry: QueuedPod, refusal: Refusal, started: float) -> None:
        """No node passes: the pod is told, and waits for an event that helps."""
        self.report_reason(entry.pod, "Unschedulable", refusal.message, refusal.gist)
        self.refused(entry, refusal, started)

    def refused(self, entry: QueuedPod, refusal: Refusal, started: float) -> None:
        """The same of a pod that was told already."""
        now = self._clock()
        self._attempts.refused(entry.pod.uid)
        self._queue.refused(entry.pod.uid, refusal, now)
        self._metrics.attempted(entry.pod.scheduler_name, AttemptResult.UNSCHEDULABLE, now - started)

    def hold(self, entry: QueuedPod, problem: str, started: float, until: float | None = None) -> None:
        """Delay a pod, since more writes in its namespace would fail, or have to wait, as well.

        It keeps its own error if it has one. until: when it is tried again, None for its backoff.
        """
        self._queue.held(entry.pod.uid, started, until, why=problem)
        standing = pod_calls.current(entry.pod.conditions)
        has_waited = until is None or started - (entry.first or started) >= REPORT_S
        if has_waited and (standing is None or standing.reason != "SchedulerError"):
            self.report_reason(entry.pod, "SchedulerError", problem)

    def hold_back(self, entry: QueuedPod, problem: str, started: float, until: float) -> None:
        """Delay a pod, since others go first; a pod that was not tried yet is told so if it takes long."""
        self._queue.held(entry.pod.uid, started, until, why=problem)
        standing = pod_calls.current(entry.pod.conditions)
        was_tried = standing is not None and standing.reason != "SchedulingGated"
        if not was_tried and until - (entry.first or started) >= REPORT_S:
            self.report_reason(entry.pod, "SchedulerError", problem)

    def fail(self, entry: QueuedPod, reason: str, started: float) -> None:
        """An error: the pod is told, and tried again after its backoff."""
        self.report_reason(entry.pod, "SchedulerError", reason)
        self.failed(entry, reason, started)

    def failed(self, entry: QueuedPod, reason: str, started: float, after_s: float | None = None) -> None:
        """The same of a pod that was told already. after_s: as of `Queue.failed`."""
        now = self._clock()
        self._queue.failed(entry.pod.uid, now, after_s, why=reason)
        self._metrics.attempted(entry.pod.scheduler_name, AttemptResult.ERROR, now - started)

    def report_reason(self, pod: Pod, reason: pod_calls.Reason, message: str, gist: str = "") -> None:
        """gist: of the message, "" if it has no details that change all the time."""
        self._decisions.answered(time.time(), str(pod), reason, message)
        if self._is_dry:
            _LOG.info("not placed", extra={"pod": str(pod), "reason": reason, "message_of_pod": message})
            return
        if self._queue.get(pod.uid) is None:
            return  # it has gone, or is bound: there is nobody to tell
        self._events.failed_scheduling(PodKey.of(pod), message, gist)
        if not pod.node_name:  # of one that has a node its kubelet says that it is scheduled
            self._refusals.refuse(pod, reason, message, gist)


def summary(won: PlaceToWin, namespace: str = "") -> str:
    """Who goes, what comes free and which budgets are violated. namespace: whose names alone are told, if not all."""
    pods, budgets = won.preemption.candidate.pods if won.preemption.candidate else [], won.preemption.violated
    clauses = [f"evicts {_named([(one.namespace, one.name) for one in pods], namespace)}" if pods else "waits"]
    if won.claims:
        clauses.append(f"frees {_named([(one.namespace, one.name) for one in won.claims], namespace, 'claim')}")
    if budgets:
        clauses.append(f"violates {_named([(one.namespace, one.name) for one in budgets], namespace, 'budget')}")
    return "; ".join(clauses)


def _named(objects: Sequence[tuple[str, str]], namespace: str, kind: str = "") -> str:
    """kind: before the names; of pods none is said."""
    seen = ["/".join(one) for one in objects if namespace in ("", one[0])]
    others = len(objects) - len(seen)
    most = MOST_NAMED if namespace else len(seen)
    if kind and not seen:
        return f"{counted(others, kind)} of other namespaces"
    texts = [f"{kind}s {listed_up_to(seen, most)}" if kind else listed_up_to(seen, most)] if seen else []
    return " and ".join([*texts, f"{others} of other namespaces"] if others else texts)


def with_text(refusal: Refusal, won: PlaceToWin | GroupToWin | NothingToWin) -> Refusal:
    """The refusal that also says what preemption comes to."""
    text = won.text if isinstance(won, NothingToWin) else won.preemption.text
    if isinstance(won, PlaceToWin):
        text = f"{text or f'preemption on node {won.record.node}'}: {summary(won, won.record.pod.namespace)}"
    return with_problem(refusal, text) if text else refusal


def with_problem(refusal: Refusal, text: str) -> Refusal:
    """The refusal that also says this, which changes more often than the rest."""
    message = refusal.message if refusal.message.endswith(".") else f"{refusal.message}."
    return replace(refusal, message=f"{message} {text}", gist=refusal.gist or refusal.message)

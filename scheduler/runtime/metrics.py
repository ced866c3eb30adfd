"""Prometheus metrics: kube-scheduler's names where it has one, `dra_scheduler_` before our own.

Counters and histograms are updated by calls, each a few additions, since labels are resolved once. Gauges of the
current state (queues, caches, watches) are computed when the metrics are read.
Source: pkg/scheduler/metrics of Kubernetes 1.36 for names, labels and buckets.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from allocator.limit_use import LimitStatus
from allocator.limits import ONE_DEVICE
from scheduler import VERSION
from scheduler.attempt.decision import AttemptOutcome
from scheduler.repair import Leftover
from scheduler.state.invariants import Invariant

_LOG = logging.getLogger(__name__)

_MANY_ATTEMPTS = 16

Key = TypeVar("Key")
Kind = TypeVar("Kind")

# When each counter began: a third more lines, which nobody reads.
disable_created_metrics()  # type: ignore[no-untyped-call] # prometheus_client has no types for it


class AttemptResult(StrEnum):
    """How an attempt to schedule a pod ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


class GroupAttemptResult(StrEnum):
    """How an attempt to place a group of pods ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    SEARCH_ENDED = "search_ended"
    ERROR = "error"


class Point(StrEnum):
    """The parts of an attempt that are timed, by kube-scheduler's extension points."""

    POST_FILTER = "PostFilter"
    PRE_BIND = "PreBind"
    BIND = "Bind"


class PointStatus(StrEnum):
    """How a phase of an attempt ended, in kube-scheduler's words."""

    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Watch:
    """A watched resource."""

    resource: str
    objects: int
    restarts: int
    """How many lists followed the first."""
    refused: int
    """Objects that could not be read and are skipped."""
    failures: int
    """Changes that could not be applied."""
    silence_s: float
    """How long ago the API server last sent anything."""
    is_alive: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """The values at the moment."""

    queues: Mapping[str, int]
    """Pods by queue (active, backoff, unschedulable, gated)."""
    unschedulable: Mapping[tuple[str, str], int]
    """Pods by their profile and the plugin that refused them."""
    cache: Mapping[str, int]
    """Objects by type (nodes, pods, assumed_pods)."""
    watches: Sequence[Watch]
    bindings: int
    """Pods being bound or waiting to be bound."""
    prescheduled: int
    """Pods that came with a node and without devices, which nobody allocates."""
    events_dropped: int
    """Events that were not written since the start because the queue was full."""
    events_failed: int
    """Events that were not written since the start because the API server refused them."""
    leading: Mapping[str, bool]
    """Whether this process leads, by the name of the lease; empty where it needs none."""
    steps: Mapping[str, int]
    """Attempts under way, by the step that they are at."""
    limits: Sequence[LimitStatus] = ()
    """Limits per tenant."""


class _Children(dict[Key, Kind]):
    """The children of one metric by the values of their labels, made when they are first needed."""

    def __init__(self, make: Callable[[Key], Kind]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Key) -> Kind:
        child = self[key] = self._make(key)
        return child


class CommonMetrics:
    """The metrics of every program that works on a cluster.

    A profile is the `spec.schedulerName` of the pod that was worked on.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        Info("dra_scheduler_build", "The program's version.", registry=self._registry).info({"version": VERSION})
        self._points_s = self._points()
        self._violations = self._own(
            "invariant_violations",
            "Violated invariants.",
            "invariant",
        )
        self._rollbacks = self._own("rollbacks", "Attempts whose writes were undone, by reason.", "reason")
        self._failures = self._own(
            "failed_parts", "Internal errors after which a part of the program restarted.", "part"
        )
        self._swept = self._own(
            "swept",
            "Leftover allocations and intents that were removed.",
            "leftover",
        )
        self._begin_at_zero()

    def started(self, component: str) -> None:
        """A component of the program begins to work."""
        self._failures[component]

    def failed(self, component: str) -> None:
        """A component of the program has failed unexpectedly, and restarts."""
        self._failures[component].inc()

    def passed(self, profile: str, point: Point, status: PointStatus, duration_s: float) -> None:
        """A phase of an attempt ended."""
        self._points_s[profile, point, status].observe(duration_s)

    def violated(self, invariant: Invariant) -> None:
        """An invariant was found broken."""
        self._violations[invariant].inc()

    def rolled_back(self, reason: str) -> None:
        """An attempt was taken back. reason: of few different ones, no names of objects."""
        self._rollbacks[reason].inc()

    def swept(self, leftover: str, number: int) -> None:
        """So many left-overs of a kind were removed."""
        self._swept[leftover].inc(number)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All metrics in a format that the reader accepts, and its content type. accept: the header of that name."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _expose(self, now: Callable[[], Iterable[Metric]]) -> None:
        """Whenever metrics are read, show these as well. now: returns their current values."""
        self.started("metrics")
        self._registry.register(_Now(now, self.failed))

    def _begin_at_zero(self) -> None:
        """An increase is seen only of what is there before."""
        for invariant in get_args(Invariant):
            self._violations[invariant]
        for outcome in get_args(AttemptOutcome):
            self._rollbacks[rollback_reason(outcome)]
        for leftover in get_args(Leftover):
            self._swept[leftover]

    def _points(self) -> _Children[tuple[str, Point, PointStatus], Histogram]:
        labels = ["extension_point", "status", "profile"]
        name = "framework_extension_point_duration_seconds"
        metric = self._durations(name, "Duration of the parts of attempts.", labels, _doubling(0.0001, 12))
        return _Children(lambda key: metric.labels(key[1].value, key[2].value, key[0]))

    def _durations(self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
        return Histogram(f"scheduler_{name}", text, labels, buckets=buckets, registry=self._registry)

    def _own(self, name: str, text: str, label: str) -> _Children[str, Counter]:
        metric = Counter(f"dra_scheduler_{name}", text, [label], registry=self._registry)
        return _Children(metric.labels)


class Metrics(CommonMetrics):
    """All metrics of one scheduler."""

    def __init__(self, read: Callable[[], Reading]) -> None:
        super().__init__()
        self._expose(lambda: _of_reading(read()))
        self._attempts = self._results()
        self._attempts_s = self._result_durations()
        self._of_pod, self._sli_s = self._per_pod()
        text = "Duration of decisions: filters, devices, scores."
        self._algorithm_s = self._durations("scheduling_algorithm_duration_seconds", text, [], _DECISION_S)
        text = "Pods added to a queue, by queue and event."
        incoming = Counter(
            "scheduler_queue_incoming_pods",
            text,
            ["queue", "event"],
            registry=self._registry,
        )
        self._incoming = _Children[tuple[str, str], Counter](lambda key: incoming.labels(*key))
        self._preemptions, self._victims, self._backed_off = self._of_preemptions()
        self._group_attempts = self._own("pod_group_attempts", "Attempts to place groups of pods, by result.", "result")
        for result in GroupAttemptResult:
            self._group_attempts[result.value]

    def group_attempted(self, result: GroupAttemptResult) -> None:
        """An attempt to place a group ended."""
        self._group_attempts[result.value].inc()

    def preempting(self) -> None:
        """Victims are looked for."""
        self._preemptions.inc()

    def preempted(self, victims: int) -> None:
        """So many pods go for one."""
        self._victims.observe(victims)

    def preemption_failed(self) -> None:
        """A preemption has won no place for its pod."""
        self._backed_off.inc()

    def attempted(self, profile: str, result: AttemptResult, duration_s: float) -> None:
        """An attempt ended, with its writes where it came to any."""
        self._attempts[profile, result].inc()
        self._attempts_s[profile, result].observe(duration_s)

    def scheduled(self, attempts: int, since_first_s: float) -> None:
        """A pod is bound. since_first_s: since it could be tried first."""
        self._of_pod.observe(attempts)
        self._sli_s[min(attempts, _MANY_ATTEMPTS)].observe(since_first_s)

    def decided(self, duration_s: float) -> None:
        """A decision was made, whichever."""
        self._algorithm_s.observe(duration_s)

    def queued(self, queue: str, event: str) -> None:
        """A pod came into a queue."""
        self._incoming[queue, event].inc()

    def _of_preemptions(self) -> tuple[Counter, Histogram, Counter]:
        registry, text = self._registry, "Preemption attempts."
        attempts = Counter("scheduler_preemption_attempts", text, registry=registry)
        text = "Victims of a preemption."
        victims = Histogram("scheduler_preemption_victims", text, buckets=_doubling(1, 7), registry=registry)
        text = "Preemptions that won no place for their pod, after which it waits."
        return attempts, victims, Counter("dra_scheduler_preemptions_backed_off", text, registry=registry)

    def _results(self) -> _Children[tuple[str, AttemptResult], Counter]:
        labels = ["result", "profile"]
        metric = Counter(
            "scheduler_schedule_attempts",
            "Attempts, by result.",
            labels,
            registry=self._registry,
        )
        return _Children(lambda key: metric.labels(key[1].value, key[0]))

    def _result_durations(self) -> _Children[tuple[str, AttemptResult], Histogram]:
        text, labels = (
            "Duration of attempts: decision and binding.",
            ["result", "profile"],
        )
        metric = self._durations("scheduling_attempt_duration_seconds", text, labels, _doubling(0.001, 15))
        return _Children(lambda key: metric.labels(key[1].value, key[0]))

    def _per_pod(self) -> tuple[Histogram, _Children[int, Histogram]]:
        text = "Attempts per bound pod."
        number = Histogram(
            "scheduler_pod_scheduling_attempts",
            text,
            buckets=_doubling(1, 5),
            registry=self._registry,
        )
        text = "Time from the first possible attempt to the binding, by number of attempts."
        sli_s = self._durations(
            "pod_scheduling_sli_duration_seconds",
            text,
            ["attempts"],
            _doubling(0.01, 20),
        )
        return number, _Children(lambda attempts: sli_s.labels(f"{attempts}{'+' * (attempts == _MANY_ATTEMPTS)}"))


def rollback_reason(outcome: type[AttemptOutcome]) -> str:
    """The label of attempts that were undone with this outcome."""
    return outcome.__name__.lower()


def _doubling(first: float, number: int) -> Sequence[float]:
    """So many bounds, each twice the one before."""
    return [first * 2**power for power in range(number)]


def _in_quarters(bounds: Sequence[float]) -> Sequence[float]:
    """These bounds, and three more up to twice each: what is read from them is at most a quarter too much."""
    return [bound * step for bound in bounds for step in (1.0, 1.25, 1.5, 1.75)]


_DECISION_S = (*_in_quarters(_doubling(0.0000625, 9)), *_doubling(0.032, 10))
"""Differs from kube-scheduler: its bounds are among these, and below 32 ms, where decisions are, they are finer."""


class _Now(Collector):
    """Collected when metrics are read. A failure is logged, and affects these metrics alone."""

    def __init__(self, now: Callable[[], Iterable[Metric]], failed: Callable[[str], None]) -> None:
        self._now = now
        self._failed = failed

    def collect(self) -> Iterable[Metric]:
        """The metrics, as they are now."""
        try:
            return list(self._now())
        except Exception:  # noqa: BLE001 - whatever it is, the other metrics can be exposed
            _LOG.exception("cannot collect the current metrics")
            self._failed("metrics")
            return []


def _of_reading(reading: Reading) -> Iterator[Metric]:
    yield _gauge(
        "scheduler_pending_pods",
        "Pending pods, by queue.",
        "queue",
        reading.queues,
    )
    text = "Unschedulable pods, by plugin; a pod counts once for each plugin that refused it."
    unschedulable = GaugeMetricFamily("scheduler_unschedulable_pods", text, labels=("plugin", "profile"))
    for (profile, plugin), number in reading.unschedulable.items():
        unschedulable.add_metric([plugin, profile], number)
    yield unschedulable
    yield _gauge("scheduler_cache_size", "Cached objects, by type.", "type", reading.cache)
    if reading.leading:
        yield leading(reading.leading)
    yield from of_watches(reading.watches)
    yield from of_limits(reading.limits)
    yield from _single(reading)


def leading(is_leading: Mapping[str, bool]) -> Metric:
    """Whether this process leads, by the name of the lease."""
    text = "1 if this process leads, 0 if it stands by, by lease."
    return _gauge("leader_election_master_status", text, "name", is_leading)


def at_steps(attempts: Mapping[str, int]) -> Metric:
    """How many attempts are at each step."""
    text = "Attempts under way, by the step that they are at."
    return _gauge("dra_scheduler_attempts_at_step", text, "step", attempts)


def of_watches(watches: Sequence[Watch]) -> Iterator[Metric]:
    """The metrics of the watches, by resource."""

    def by_resource(value: Callable[[Watch], float]) -> Mapping[str, float]:
        return {watch.resource: value(watch) for watch in watches}

    label, prefix = "resource", "dra_scheduler_watch"
    yield _gauge(f"{prefix}_objects", "Cached objects.", label, by_resource(lambda w: w.objects))
    yield _gauge(
        f"{prefix}_refused_objects",
        "Objects that cannot be read.",
        label,
        by_resource(lambda w: w.refused),
    )
    text = "Time since the last message from the API server: the age of the cache."
    yield _gauge(f"{prefix}_silence_seconds", text, label, by_resource(lambda w: w.silence_s))
    yield _gauge(
        f"{prefix}_alive",
        "1 while the watch works.",
        label,
        by_resource(lambda w: float(w.is_alive)),
    )
    restarts = CounterMetricFamily(f"{prefix}_restarts", "Repeated lists.", labels=[label])
    for watch in watches:
        restarts.add_metric([watch.resource], watch.restarts)
    yield restarts
    text = "Changes that could not be processed because of an internal error; see the log."
    failures = CounterMetricFamily(f"{prefix}_failed_changes", text, labels=[label])
    for watch in watches:
        failures.add_metric([watch.resource], watch.failures)
    yield failures


def of_limits(limits: Sequence[LimitStatus]) -> Iterator[Metric]:
    """How much of each limit is in use, and the most: of devices, or in the unit of the capacity or counter."""
    labels = ["limit", "namespace"]
    text = "What counts for a limit per tenant; namespace is empty where several have it together."
    used = GaugeMetricFamily("dra_scheduler_limit_used", text, labels=labels)
    most = GaugeMetricFamily("dra_scheduler_limit_most", "The most that a limit per tenant allows.", labels=labels)
    for status in limits:
        names = [status.limit.name, status.namespace]
        used.add_metric(names, status.used / ONE_DEVICE)
        most.add_metric(names, status.most / ONE_DEVICE)
    yield used
    yield most


def _single(reading: Reading) -> Iterator[Metric]:
    prefix = "dra_scheduler"
    yield GaugeMetricFamily(
        f"{prefix}_bindings_in_flight",
        "Pods being bound or waiting to be bound.",
        value=reading.bindings,
    )
    yield at_steps(reading.steps)
    text = "Pods created with a node and without devices."
    yield GaugeMetricFamily(f"{prefix}_prescheduled_pods", text, value=reading.prescheduled)
    text = "Events dropped because too many were waiting."
    yield CounterMetricFamily(f"{prefix}_events_dropped", text, value=reading.events_dropped)
    text = "Events that the API server rejected."
    yield CounterMetricFamily(f"{prefix}_events_failed", text, value=reading.events_failed)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family

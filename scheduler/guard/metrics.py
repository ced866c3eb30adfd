"""The metrics of the guard: its answers, and the metrics that every program has."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from allocator.limits.count import LimitStatus
from scheduler.guard.ledger import CAUSES
from scheduler.runtime.listening import Refusal
from scheduler.runtime.metrics import CommonMetrics, Watch, leading, of_limits, of_watches

ALLOWED, NOTHING_ADDED, NOT_LEADING, UNREADABLE = "allowed", "nothing added", "not leading", "unreadable"
ANSWERS = (ALLOWED, NOTHING_ADDED, NOT_LEADING, UNREADABLE, *CAUSES)
"""What becomes of a question: it is allowed, or refused for one of the causes."""

_BUCKETS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


@dataclass(frozen=True, slots=True)
class GuardReading:
    """The values at the moment. open: updates that were allowed, and may or may not be stored.

    leading: whether this process does, by the name of the lease.
    """

    watches: Sequence[Watch]
    open: int
    leading: Mapping[str, bool]
    limits: Sequence[LimitStatus] = ()


class GuardMetrics(CommonMetrics):
    """All metrics of a guard."""

    def __init__(self, read: Callable[[], GuardReading]) -> None:
        super().__init__()
        self._expose(lambda: _of_reading(read()))
        text = "Answers to the API server: allowed, nothing added, or the reason of a refusal."
        answers = Counter("dra_guard_answers", text, ["answer"], registry=self._registry)
        # Of each one, before it is given: an increase is seen only of what is there before.
        self._answers = {answer: answers.labels(answer) for answer in ANSWERS}
        text = "HTTP calls, by status."
        self._calls = Counter("dra_guard_calls", text, ["code"], registry=self._registry)
        text = "Duration of calls."
        self._calls_s = Histogram("dra_guard_call_duration_seconds", text, buckets=_BUCKETS_S, registry=self._registry)
        text = "Connections closed because a limit was reached, by limit."
        self._refused = Counter("dra_guard_refused_connections", text, ["limit"], registry=self._registry)
        for limit in get_args(Refusal):
            self._refused.labels(limit)

    def answered(self, answer: str) -> None:
        """A question was answered. answer: one of `ANSWERS`."""
        self._answers[answer].inc()

    def called(self, _verb: str, status: int, duration_s: float) -> None:
        """A call was answered."""
        self._calls.labels(str(status)).inc()
        self._calls_s.observe(duration_s)

    def refused(self, what: Refusal) -> None:
        """A connection was closed because a limit was reached."""
        self._refused.labels(what).inc()


def _of_reading(reading: GuardReading) -> Iterator[Metric]:
    yield from of_watches(reading.watches)
    yield leading(reading.leading)
    yield from of_limits(reading.limits)
    text = "Allowed updates that may still be stored."
    yield GaugeMetricFamily("dra_guard_open_updates", text, value=reading.open)

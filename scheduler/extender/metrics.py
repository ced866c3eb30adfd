"""The metrics of the extender: its calls, and the metrics that every program has."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from allocator.limits.count import LimitStatus
from scheduler.runtime.listening import Refusal
from scheduler.runtime.metrics import CommonMetrics, Watch, at_steps, of_limits, of_watches

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


@dataclass(frozen=True, slots=True)
class ExtenderReading:
    """The values at the moment."""

    watches: Sequence[Watch]
    """Each watch."""
    binding: int
    """Calls of bind under way."""
    refused: int
    """Pods that no node passed for."""
    steps: Mapping[str, int]
    """Attempts under way, by the step that they are at."""
    limits: Sequence[LimitStatus] = ()
    """How much of each limit per tenant is in use."""


class ExtenderMetrics(CommonMetrics):
    """All metrics of an extender."""

    def __init__(self, read: Callable[[], ExtenderReading]) -> None:
        super().__init__()
        self._expose(lambda: _of_reading(read()))
        text, labels = "Answered calls, by verb and status.", ["verb", "code"]
        self._calls = Counter("dra_extender_calls", text, labels, registry=self._registry)
        duration, text = "dra_extender_call_duration_seconds", "Duration of calls, by verb."
        self._calls_s = Histogram(duration, text, ["verb"], buckets=_BUCKETS_S, registry=self._registry)
        text = "Connections closed because a limit was reached, by limit."
        self._refused = Counter("dra_extender_refused_connections", text, ["limit"], registry=self._registry)
        for limit in get_args(Refusal):
            self._refused.labels(limit)  # an increase is seen only of what is there before
        self._woken = Counter("dra_extender_pokes", "How often pending pods were woken.", registry=self._registry)

    def called(self, verb: str, status: int, duration_s: float) -> None:
        """A call was answered."""
        self._calls.labels(verb, str(status)).inc()
        self._calls_s.labels(verb).observe(duration_s)

    def refused(self, what: Refusal) -> None:
        """A connection was closed because a limit was reached."""
        self._refused.labels(what).inc()

    def woke(self) -> None:
        """Waiting pods were woken."""
        self._woken.inc()


def _of_reading(reading: ExtenderReading) -> Iterator[Metric]:
    yield from of_watches(reading.watches)
    yield from of_limits(reading.limits)
    yield GaugeMetricFamily("dra_extender_bindings_in_flight", "Calls of bind in progress.", value=reading.binding)
    yield at_steps(reading.steps)
    text = "Pods for which no node passed at the last call."
    yield GaugeMetricFamily("dra_extender_refused_pods", text, value=reading.refused)

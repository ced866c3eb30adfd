"""Reports attempts, removed leftovers, internal errors and violated invariants in logs and metrics."""

import logging

from scheduler.attempt.decision import AttemptOutcome, Decision
from scheduler.attempt.listener import Listener
from scheduler.attempt.step import Point
from scheduler.cache.watch_events import Undecoded
from scheduler.client.api_resources import Resource
from scheduler.repair.sweep import Leftover
from scheduler.runtime import metrics
from scheduler.runtime.metrics import CommonMetrics
from scheduler.state.invariants import Violation

_LOG = logging.getLogger(__name__)


class Reporter(Listener):
    """What programs for a cluster report."""

    def __init__(self, metrics: CommonMetrics) -> None:
        self._metrics = metrics

    def pending(self, decision: Decision, message: str) -> None:
        """The pod waits for its devices to be made ready."""
        _LOG.info(message, extra={"pod": str(decision.pod), "node": decision.node})

    def passed(self, decision: Decision, point: Point, *, is_done: bool, duration_s: float) -> None:
        """A phase of the attempt ended."""
        status = metrics.PointStatus.SUCCESS if is_done else metrics.PointStatus.ERROR
        self._metrics.passed(decision.pod.scheduler_name, metrics.Point(point), status, duration_s)

    def rolled_back(self, decision: Decision, outcome: AttemptOutcome) -> None:
        """What the attempt wrote was taken back."""
        kind = metrics.rollback_reason(type(outcome))
        reason = getattr(outcome, "reason", kind)
        _LOG.info("rolled back", extra={"pod": str(decision.pod), "node": decision.node, "reason": reason})
        self._metrics.rolled_back(kind)

    def swept(self, leftover: Leftover, number: int) -> None:
        """So many claims had such a left-over, which was removed."""
        self._metrics.swept(leftover, number)

    def undecoded(self, resource: Resource, found: Undecoded) -> None:
        """An object cannot be decoded, for another reason than before; the reflector has logged it."""

    def started(self, component: str) -> None:
        """A component of the program begins to work."""
        self._metrics.started(component)

    def failed(self, component: str) -> None:
        """A component of the program has failed unexpectedly; the failure is logged, and it restarts."""
        self._metrics.failed(component)

    def violated(self, violation: Violation) -> None:
        """An invariant is violated, as it was shortly before; reported once for as long as it lasts."""
        self._metrics.violated(violation.invariant)
        _LOG.error("%s: %s", violation.subject, violation.message, extra={"invariant": violation.invariant})

"""The listener of attempts, for events, logs and metrics."""

from scheduler.attempt.decision import AttemptOutcome, Decision
from scheduler.attempt.step import Point
from scheduler.state.invariants import Violation


class Listener:
    """Hears nothing; programs override what they report."""

    def pending(self, decision: Decision, message: str) -> None:
        """The pod waits for its devices to be made ready; called once."""

    def passed(self, decision: Decision, point: Point, *, is_done: bool, duration_s: float) -> None:
        """A part of the attempt ended; is_done: as it should."""

    def rolled_back(self, decision: Decision, outcome: AttemptOutcome) -> None:
        """What the attempt wrote was taken back."""

    def violated(self, violation: Violation) -> None:
        """What must never be is so."""

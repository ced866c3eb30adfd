"""The contract of a step of an attempt.

An attempt (`scheduler.attempt.run`) does its steps until one ends it. If it fails or is cancelled, it undoes the steps
that were begun, in reverse order. A step that was begun may have done anything from nothing to everything: a write
whose answer is lost may be stored, now or later.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from scheduler.attempt.decision import AttemptOutcome, Bound, Decision, Pending
from scheduler.state.invariants import Violation

Point = Literal["PreBind", "Bind"]
"""The parts of an attempt, by kube-scheduler's extension points."""


class Step(ABC):
    """One step of one attempt. point: the part of the attempt that its time is counted for."""

    point: ClassVar[Point] = "PreBind"

    @abstractmethod
    async def do(self) -> Bound | Pending | None:
        """Write, or wait. None: the next step follows; an outcome ends the attempt, and everything done stays.

        Raises AttemptEnded where the attempt has failed.
        """

    @property
    def subject(self) -> str:
        """The object that it writes, such as `claim ns/a`; "" if it writes none, or the pod."""
        return ""

    @property
    def awaited(self) -> str:
        """What the pod is told if the step takes long; "" if the step says that itself, or never waits."""
        return f"the API server's answer to a write of {self.subject}" if self.subject else ""

    @property
    def is_idle(self) -> bool:
        """Whether the outcome of each write is known: none can be stored later than now."""
        return True

    @property
    def may_be_relied_on(self) -> bool:
        """Whether another attempt for the pod may bind it with what this step has written.

        Before such a step is undone, the attempt reads the pod.
        """
        return False

    async def undo(self, node: str) -> bool:
        """Take back what was written; afterwards nothing of it is in flight. True where something may have been stored.

        node: where the pod is bound, "" while it is not; what it needs there stays. Raises UndoStopped where the pod
        turns out to be bound, or that is unknown.
        """
        return False


# The listener of attempts, for events, logs and metrics.


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

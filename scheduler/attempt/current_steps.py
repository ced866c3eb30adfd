"""What each attempt of this process is at, and since when: so that one that takes long explains itself.

An attempt waits for its slot, does its steps, or takes back what it wrote. While the API server does not answer, it
goes on asking what became of its pod.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

LATE_S = 10.0
"""An attempt that is at one step for so long is logged, once for each step."""

SLOT = "Slot"
DEALLOCATE = "Deallocate"
EVICT = "Evict"
UNDO = "Undo"
"""Steps that are not in `scheduler.attempt.steps`: for its slot, with a claim that is of no use, with the pods that go
for it, and back again."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class CurrentStep:
    """Where the attempt for a pod is."""

    pod: str
    node: str
    """Empty where there is none."""
    step: str
    subject: str
    """What the step is about, such as `claim ns/a`."""
    since: float
    """When the step began, by the clock."""
    trouble: str = ""
    """The last call of the step that failed."""
    is_logged: bool = False
    """It was logged that the step takes long."""

    def text(self, now: float) -> str:
        """For a person who asks why the pod is not bound."""
        about = f" ({self.subject})" if self.subject else ""
        where = f" on node {self.node}" if self.node else ""
        trouble = f"; the last failure: {self.trouble}" if self.trouble else ""
        return f"its attempt{where} has been at step {self.step}{about} for {now - self.since:.1f} s{trouble}"


class CurrentSteps:
    """All attempts under way, by the uids of their pods. clock: seconds that only go forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._current: dict[str, CurrentStep] = {}

    def at(self, uid: str, pod: str, node: str, step: str, subject: str = "") -> None:
        """The attempt for the pod begins with the step."""
        self._current[uid] = CurrentStep(pod, node, step, subject, self._clock())

    def failed(self, uid: str, error: Exception) -> None:
        """A call of the step failed, and is tried again."""
        if current := self._current.get(uid):
            current.trouble = str(error)

    def trouble(self, uid: str) -> str:
        """The last call that failed at the current step of the pod's attempt; empty if none did."""
        current = self._current.get(uid)
        return current.trouble if current else ""

    def step(self, uid: str) -> str:
        """The step that the attempt for the pod is at; empty if there is none."""
        current = self._current.get(uid)
        return current.step if current else ""

    def end(self, uid: str) -> None:
        """The attempt for the pod has ended."""
        self._current.pop(uid, None)

    def by_step(self) -> Counter[str]:
        """How many attempts are at each step."""
        return Counter(one.step for one in self._current.values())

    def of(self, uid: str) -> str:
        """What the attempt for the pod is at, in words; empty if there is none."""
        current = self._current.get(uid)
        return current.text(self._clock()) if current else ""

    def log_late(self) -> None:
        """Log the attempts that take long at a step, each once."""
        now = self._clock()
        for current in self._late(now):
            current.is_logged = True
            # Devices and volumes may take minutes; calls that fail should not.
            level = logging.WARNING if current.trouble else logging.INFO
            _LOG.log(level, current.text(now), extra={"pod": current.pod, "node": current.node, "step": current.step})

    def _late(self, now: float) -> Iterator[CurrentStep]:
        return (one for one in self._current.values() if not one.is_logged and now - one.since >= LATE_S)

"""What attempts use: the API server, watched claims and volumes, time, this process' identity, and what each is at.

Time, sleep and random numbers are functions, so that tests need no clock. An attempt waits for its slot, does its
steps, or takes back what it wrote; while the API server does not answer, it goes on asking what became of its pod. What
each is at is noted since when, so that one that takes long explains itself.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from scheduler.attempt.claim_objects import ClaimRef, RawClaim
from scheduler.attempt.decision import Listener
from scheduler.attempt.slots import CallLimit, KeyLocks
from scheduler.attempt.watched_objects import WatchedChanges, WatchedClaims, WatchedVolumes
from scheduler.client.api_resources import Resource
from scheduler.client.connection import Api
from scheduler.rates import backoff_s

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


BINDING_TIMEOUT_S = 600.0
"""How long a device may take to become ready for its pod, or a volume to be bound, as kube-scheduler has it."""

REPAIRS_MAX = 32
"""Calls at the same time that take writes back."""

REPAIRS_OF_NAMESPACE_MAX = 8
"""The same, for the objects of one namespace."""


@dataclass(frozen=True, slots=True)
class Time:
    """monotonic: seconds of a clock that only goes forward. now: with its time zone. random: in [0, 1)."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]


@dataclass(slots=True)
class Binder:
    """All that an attempt needs besides its decision."""

    api: Api
    claims: Resource
    """The resource of the claims in the served version."""
    watched: WatchedClaims
    volumes: WatchedVolumes
    time: Time
    scheduler: str
    epoch: int
    """Larger than the epoch of every process before; set again when this one is elected."""
    process: str
    """A name that no other process has, of whatever epoch: two may begin in the same moment, and count their attempts
    alike.
    """
    listener: Listener
    binding_timeout_s: float = BINDING_TIMEOUT_S
    """How long devices may take to become ready, and volumes to be bound."""
    claim_locks: KeyLocks[ClaimRef, RawClaim] = field(default_factory=KeyLocks)
    """Held by attempts of this process at the claims that they reserve; each passes on what it has stored."""
    changes: WatchedChanges = field(default_factory=WatchedChanges)
    """By these, attempts wait for what the watches show."""
    repairs: CallLimit = field(default_factory=lambda: CallLimit(REPAIRS_MAX, REPAIRS_OF_NAMESPACE_MAX))
    """Limits the calls that take writes back, so that a namespace where they fail delays no other."""
    progress: CurrentSteps = field(init=False)
    """What the attempts are at."""

    def __post_init__(self) -> None:
        self.progress = CurrentSteps(self.time.monotonic)


def pause_s(failures: int, time: Time, first_s: float = 0.05, most_s: float = 5.0) -> float:
    """How long to wait after so many failed tries: doubling, with half of it left to chance."""
    return backoff_s(failures, first_s, most_s) * (0.5 + time.random() / 2)

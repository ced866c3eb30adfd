"""What attempts use: the API server, the watched claims and volumes, time, and the identity of this process.

Time, sleep and random numbers are functions, so that tests need no clock.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from scheduler.attempt.claim_objects import ClaimRef, RawClaim
from scheduler.attempt.current_steps import CurrentSteps
from scheduler.attempt.slots import CallLimit, KeyLocks
from scheduler.attempt.step import Listener
from scheduler.attempt.watched_objects import WatchedChanges, WatchedClaims, WatchedVolumes
from scheduler.client.api_resources import Resource
from scheduler.client.connection import Api
from scheduler.rates import backoff_s

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

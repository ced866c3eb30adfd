"""What binding works with: the API server, our own view of the claims, time, and who we are.

`Api` is what a connection offers, `Observed` what the cache and the index of the cluster know together. Time, waiting
and chance are functions, so that a test needs neither a clock nor patience.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from allocator.model import NodeSelector
from scheduler.attempt.call_limit import CallLimit
from scheduler.attempt.claim_objects import Claim, ClaimKey, Json
from scheduler.attempt.decision import Decision, Outcome
from scheduler.attempt.step import Point
from scheduler.attempt.waits import Turns
from scheduler.backoff import backoff_s
from scheduler.client.connection import JSON, WRITE_TIMEOUT_S
from scheduler.client.resources import Resource

BINDING_TIMEOUT_S = 600.0
"""How long a device may take to become ready for its pod, as kube-scheduler has it."""

REPAIRS_MAX = 32
"""Calls at the same time that take writes back."""

REPAIRS_OF_NAMESPACE_MAX = 8
"""The same, for the objects of one namespace."""


class Api(Protocol):
    """One call of the API server; see `scheduler.client.connection.Connection.request`."""

    async def request(  # noqa: PLR0913 - the parts of a call
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float = WRITE_TIMEOUT_S,
    ) -> Json:
        """The answer's object. Raises CallFailed."""
        ...


class Rival(Protocol):
    """A claim that has devices, or parts of them, which another claim cannot have as well."""

    @property
    def namespace(self) -> str:
        """Of the claim."""
        ...

    @property
    def name(self) -> str:
        """Of the claim."""
        ...

    @property
    def resource_version(self) -> int:
        """As last observed."""
        ...


class Observed(Protocol):
    """Our own view of the claims, as the watch brings it."""

    async def reached(self, resource_version: int, timeout_s: float) -> bool:
        """True once the watch of the claims has passed that version, False when time is up."""
        ...

    async def catch_up(self) -> None:
        """List the claims anew at a quorum and take in what is newer. Raises CallFailed."""
        ...

    def rivals(self, claim: ClaimKey) -> Sequence[Rival]:
        """The other claims that cannot hold what they hold together with this one."""
        ...

    def written(self, claim: ClaimKey, resource_version: int) -> None:
        """Our reservation of the claim's devices is stored since that version."""
        ...

    def made(self, made_up: str, claim: ClaimKey) -> None:
        """The claim with the made-up uid is there; what was taken for it is this one's."""
        ...

    def has_node(self, node: str) -> bool:
        """Whether the node is there."""
        ...

    def is_reached(self, node: str, selector: NodeSelector | None) -> bool:
        """Whether devices allocated for these nodes (None: all) can be used on the node; True where that is unknown."""
        ...

    def objection(self, decision: Decision) -> str:
        """Why the decision no longer holds, such as a device that is no longer published; "" while it does."""
        ...


class Listener(Protocol):
    """Who is told how attempts go, for events and metrics; never waited for."""

    def pending(self, decision: Decision, message: str) -> None:
        """The pod waits for its devices to be made ready; told once."""
        ...

    def passed(self, point: Point, *, is_done: bool, duration_s: float) -> None:
        """A part of an attempt ended; is_done: as it should."""
        ...

    def rolled_back(self, decision: Decision, outcome: Outcome) -> None:
        """What the attempt wrote was taken back."""
        ...


@dataclass(frozen=True, slots=True)
class Time:
    """monotonic: seconds of a clock that only goes forward. now: with its time zone. random: in [0, 1)."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]


@dataclass(slots=True)
class Binder:
    """All that an attempt needs besides its decision. claims: the resource in the served version.

    epoch: larger than that of every process before; set anew when this one is elected to write. process: a name that no
    other process has, of whatever epoch; two may begin in the same moment, and count their attempts alike.
    binding_timeout_s: how long devices may take to become ready.
    turns: of the attempts of this process, at the claims that they reserve; each leaves what it has stored. repairs:
    limits the calls that take writes back, so that a namespace where they fail delays no other.
    """

    api: Api
    claims: Resource
    observed: Observed
    time: Time
    scheduler: str
    epoch: int
    process: str
    listener: Listener
    binding_timeout_s: float = BINDING_TIMEOUT_S
    turns: Turns[ClaimKey, Claim] = field(default_factory=Turns)
    repairs: CallLimit = field(default_factory=lambda: CallLimit(REPAIRS_MAX, REPAIRS_OF_NAMESPACE_MAX))


def pause_s(failures: int, time: Time, first_s: float = 0.05, most_s: float = 5.0) -> float:
    """How long to wait after so many failed tries: doubling, with half of it left to chance."""
    return backoff_s(failures, first_s, most_s) * (0.5 + time.random() / 2)

"""The result of a decision about a pod, how long one may take, and what share of the time a namespace has.

`scheduler.live.loop` asks for both times.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf

from allocator.bits import Mask
from allocator.model import Allocation, Claim
from allocator.outcome import AllocationError, Outcome
from cel import Cancelled
from scheduler.core_v1.pod_status import TakenByClaim
from scheduler.plugins.plugin import Refusal, Rejected
from scheduler.state.pod_resources import ExtendedClaim
from scheduler.state.volumes import NO_PLAN, VolumePlan


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod goes to the node."""

    node: str
    claims: tuple[Claim, ...]
    """The pod's own claims."""
    allocations: tuple[Allocation, ...]
    """The allocations of the claims that had none, in their order; the last one is for `extended`."""
    extended: ExtendedClaim | None = None
    """The claim to be made for the extended resources of the pod."""
    by_claims: tuple[TakenByClaim, ...] = ()
    """What the devices take of the node."""
    volumes: VolumePlan = NO_PLAN
    """What is to be written for the pod to have its volumes there."""

    @property
    def given(self) -> tuple[Claim, ...]:
        """The claims that had no devices, with what they get."""
        own = [claim for claim in self.claims if claim.allocation is None]
        return with_allocations([*own, self.extended.claim] if self.extended else own, self.allocations)


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """The pod fits nowhere."""

    refusal: Refusal
    stuck: tuple[Claim, ...] = ()
    """Allocated claims of the pod without which it would fit on a node."""
    everywhere: str = ""
    """The reason that refuses every node at once, whatever is free; else empty."""
    lacking: Sequence[tuple[Outcome, Mask]] = ()
    """What nodes say that lack devices; nodes that say the same are together."""
    filtered: Sequence[Rejected] = ()
    """What filters say of the nodes that they refuse."""
    resolvable: Mask = 0
    """The nodes that the end of other pods could open, devices aside: kube-scheduler's code Unschedulable."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt cannot be decided: kube-scheduler's status Error. by_policy: the fault is that of a user's policy."""

    reason: str
    by_policy: bool = False


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The attempt has taken its time. What was worked out by then is kept: the next one goes on from there."""

    reason: str


ScheduleResult = Placed | NotPlaced | Failed | OutOfTime


def with_allocations(claims: Iterable[Claim], allocations: Iterable[Allocation]) -> tuple[Claim, ...]:
    """The claims with what each of them gets."""
    return tuple(replace(claim, allocation=one) for claim, one in zip(claims, allocations, strict=True))


# The time limit of one decision: its cost depends on what users write, and no pod may block all others.
#
# A decision that takes longer fails, and its pod is retried after its backoff. Intermediate results are kept, so that
# the next attempt continues from there. The rest of the program gets its turn in between. Source: kube-scheduler's
# DynamicResources plugin, filterTimeout.


MOST_S = 3.0
"""Many times what the first decision of its kind takes on thousands of nodes, and less than an answer of the API server
is waited for: calls under way are heard in time."""


class TooLong(AllocationError):
    """The decision has taken all its time."""


def timed_out(most_s: float) -> str:
    """What pods say whose decision takes too long."""
    return f"timed out: the decision takes more than {most_s:g} s"


class DecisionTimeLimit:
    """The time that a decision has. clock: seconds that only go forward; None where decisions may take all time.

    processor: seconds of the processor's time, of which a decision has no more either.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        most_s: float = MOST_S,
        processor: Callable[[], float] | None = None,
    ) -> None:
        self.most_s = most_s
        self._kept_waiting_s = 0.0
        self._clock = clock or (lambda: 0.0)
        self._processor = processor or (lambda: 0.0)
        self._ends = inf, inf

    def give(self, most_s: float, kept_waiting_s: float = 0.0) -> None:
        """Decisions from now on have so long; by the clock, longer where the processor kept them waiting."""
        self.most_s, self._kept_waiting_s = most_s, kept_waiting_s

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Limits the time that the context is open; within another, what is left of that too. Raises TooLong."""
        outer = self._ends
        by_clock = self._clock() + self.most_s + self._kept_waiting_s
        self._ends = min(outer[0], by_clock), min(outer[1], self._processor() + self.most_s)
        try:
            yield
        except Cancelled as error:
            raise TooLong(timed_out(self.most_s)) from error
        finally:
            self._ends = outer

    def is_over(self) -> bool:
        """Whether it is time to give up; never outside of `limited`."""
        by_clock, by_processor = self._ends
        return self._clock() >= by_clock or self._processor() >= by_processor


# Decision time by namespace: a namespace with expensive decisions waits while others have pending pods.
#
# The cost of a decision depends on what users write. If others need it, one namespace gets a twentieth of the decision
# time. A namespace with cheap decisions never waits. What counts is the processor's time: that a busy machine keeps the
# process waiting is no namespace's doing.


FREE_S = 0.05
"""A decision that takes no longer costs its namespace nothing."""

BURST_S = 0.15
"""So much more a namespace may take at once before it waits: its decision may fill caches that all need."""

FACTOR = 20.0
"""For so many times the rest of the decision's time the others go first."""

GROUPS_MOST_S = 5.0
"""So far ahead a namespace counts for what its groups took: who had none to compete with is not made to pay for it."""

REST_FACTOR = 1.0
"""After a decision about a group the program answers for so many times as long to those who are at work beside it."""

MOST_NAMESPACES = 1024
"""Namespaces after which those are forgotten that wait no more."""


class NamespaceShare:
    """Until when each namespace lets others go first, by a clock that only goes forward."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._yields_until: dict[str, float] = {}
        self.rests_until = 0.0
        """When the next namespace that yields may have its turn."""
        self._tried: dict[str, float] = {}
        """The two namespaces of which a pod was tried last, and when: of any namespace one of them is another."""

    def tried(self, namespace: str, now: float) -> None:
        """A decision for a pod of the namespace begins."""
        self._tried.pop(namespace, None)
        self._tried[namespace] = now
        if len(self._tried) > 2:
            del self._tried[next(iter(self._tried))]

    def others_tried_at(self, namespace: str) -> float:
        """When a decision for a pod of another namespace began last."""
        return max((at for other, at in self._tried.items() if other != namespace), default=-inf)

    def spent(self, namespace: str, duration_s: float, now: float) -> None:
        """A decision for a pod of the namespace has ended, and taken so much of the processor's time."""
        if duration_s <= FREE_S:
            return
        unused = now - FACTOR * BURST_S
        self._until[namespace] = max(self.waits_until(namespace), unused) + FACTOR * (duration_s - FREE_S)
        if len(self._until) > MOST_NAMESPACES:
            self._until = {name: until for name, until in self._until.items() if until > unused}

    def spent_on_group(self, namespace: str, duration_s: float, now: float) -> None:
        """As `spent`, for a group. Its turns have no free part: cheap groups hold others back too, if they are many."""
        self.spent(namespace, duration_s, now)
        until = max(self.yields_until(namespace), now) + FACTOR * duration_s
        self._yields_until[namespace] = min(until, now + GROUPS_MOST_S)
        if len(self._yields_until) > MOST_NAMESPACES:
            self._yields_until = {name: until for name, until in self._yields_until.items() if until > now}

    def rest(self, duration_s: float, now: float) -> None:
        """A decision about a group has ended, and others are at work whom it kept waiting for so long."""
        self.rests_until = now + REST_FACTOR * duration_s

    def yields_until(self, namespace: str) -> float:
        """Until when pods of the namespace have their turn only if no other pod is to be tried. They lose no time."""
        return self._yields_until.get(namespace, 0.0)

    def waits_until(self, namespace: str) -> float:
        """When the namespace need not wait any more; 0 where it never had to."""
        return self._until.get(namespace, 0.0)

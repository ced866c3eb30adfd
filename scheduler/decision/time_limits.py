"""How long a decision may take, and what share of the time a namespace has: the doors that decide ask for both."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import TypeVar

from allocator.outcome import AllocationError
from cel import Cancelled

# The time limit of one decision: its cost depends on what users write, and no pod may block all others.
#
# A decision that takes longer fails, and its pod is retried after its backoff. Intermediate results are kept, so that
# the next attempt continues from there. The rest of the program gets its turn in between. Source: kube-scheduler's
# DynamicResources plugin, filterTimeout.


MOST_S = 3.0
"""Many times what the first decision of its kind takes on thousands of nodes, and less than an answer of the API server
is waited for: calls under way are heard in time."""

FIRST_SLICE_S = 0.1
LEAST_SLICE_S = 0.25
MOST_SLICE_S = 1.0
"""So long a decision about a pod takes at once; others have their turn before it continues."""


REST = 0.1
"""So many times what a long turn took passes before the next one.

A probe takes several iterations of the event loop, and would have one for each turn.
"""


SCORES_S = 0.4
"""So long a policy may look at whole nodes, each time: what pods of all namespaces ask for sizes its work."""

SCORES_BURST_S = 0.6
"""So much it may take at once before it rests: at the start, and when the workload has changed, all nodes are new."""

Result = TypeVar("Result")

_CANCELLED = "cancelled: the decision takes too long"


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
        self._scores_again = -inf
        self.scored_s = 0.0
        """What policies that look at whole nodes have taken of the processor's time for long work: no namespace's."""
        self._owed = 0.0, 0.0
        """What it takes to undo what decisions have changed for themselves; it is a part of their time."""

    def give(self, most_s: float, kept_waiting_s: float = 0.0) -> None:
        """Decisions from now on have so long; by the clock, longer where the processor kept them waiting."""
        self.most_s, self._kept_waiting_s = most_s, kept_waiting_s

    @contextmanager
    def limited(self, slice_s: float = inf) -> Iterator[None]:
        """Limits the time that the context is open; within another, what is left of that too. Raises TooLong.

        slice_s: what it has at most, where that is less.
        """
        outer, most_s = self._ends, max(min(self.most_s, slice_s), 0.0)
        by_clock = self._clock() + most_s + self._kept_waiting_s
        self._ends = min(outer[0], by_clock), min(outer[1], self._processor() + most_s)
        try:
            yield
        except Cancelled as error:
            raise TooLong(timed_out(most_s)) from error
        finally:
            self._ends = outer

    def scored(self, work: Callable[[], Result], otherwise: Result) -> Result:
        """What a policy says that looks at whole nodes; `otherwise` where that takes long, or while it rests.

        For long work it has a share of the time as a namespace has, and rests when that is used up; who asks is charged
        for the rest. Raises Cancelled where no time is left at all.
        """
        if self.scores_rest_s > 0:
            return otherwise
        began = self._processor()
        try:
            with self.limited(SCORES_S):
                return work()
        except TooLong:
            self.look()
            return otherwise
        finally:
            used_s = self._processor() - began
            if used_s > SCORES_FREE_S:
                self.scored_s += used_s
                unused = self._clock() - FACTOR * SCORES_BURST_S
                self._scores_again = max(self._scores_again, unused) + FACTOR * used_s

    @property
    def scores_rest_s(self) -> float:
        """How long policies that look at whole nodes have no say, since they have taken long; 0 or less: they have."""
        return self._scores_again - self._clock()

    @property
    def scores_trouble(self) -> str:
        """For operators: that pods are placed without these policies just now; empty where they have a say."""
        rest_s = self.scores_rest_s
        if rest_s <= 0:
            return ""
        return f"policies that look at whole nodes take long, and have no say for {rest_s:.0f} s more"

    def is_over(self) -> bool:
        """Whether it is time to give up; never outside of `limited`."""
        return self._is_after(self._clock(), self._processor())

    def _is_after(self, clock: float, processor: float) -> bool:
        by_clock, by_processor = self._ends
        return clock + self._owed[0] >= by_clock or processor + self._owed[1] >= by_processor

    def look(self) -> None:
        """For loops over what users may have many of. Raises Cancelled when it is time to give up."""
        if self.is_over():
            raise Cancelled(_CANCELLED)

    @contextmanager
    def to_undo(self) -> Iterator[Callable[[], None]]:
        """As `look`, for work that is undone at the end of the context: it takes as long again at most, without a look.

        So what it has taken until the last look counts twice.
        """
        outer, began_clock, began_processor = self._owed, self._clock(), self._processor()

        def look() -> None:
            clock, processor = self._clock(), self._processor()
            self._owed = outer[0] + clock - began_clock, outer[1] + processor - began_processor
            if self._is_after(clock, processor):
                raise Cancelled(_CANCELLED)

        try:
            yield look
        finally:
            self._owed = outer

    def until(self, share: float) -> Callable[[], bool]:
        """Whether that share of the time that is left now is over."""
        now = self._clock(), self._processor()
        by_clock, by_processor = (at + share * (end - at) for at, end in zip(now, self._ends, strict=True))
        return lambda: self._clock() >= by_clock or self._processor() >= by_processor


# Decision time by namespace: a namespace with expensive decisions waits while others have pending pods.
#
# The cost of a decision depends on what users write. If others need it, one namespace gets a twentieth of the decision
# time. A namespace with cheap decisions never waits. What counts is the processor's time: that a busy machine keeps the
# process waiting is no namespace's doing.
#
# Somebody may have hundreds of namespaces, each with one expensive pod. So expensive ones also wait together for those
# that are known for cheap decisions, and all of them get a fifth of the time. Not before one is known: the first
# decisions of a process fill caches. A namespace of which nothing is known may well be cheap: its first turn is short,
# and waits after the first turns of other new ones alone.


FREE_S = 0.05
"""A decision that takes no longer costs its namespace nothing."""

SCORES_FREE_S = FREE_S / 2
"""So long a policy may look at whole nodes at the expense of who asks, which each decision does twice."""

BURST_S = 0.15
"""So much more a namespace may take at once before it waits: its decision may fill caches that all need."""

FACTOR = 20.0
"""For so many times the rest of the decision's time the others go first."""

RECENT_S = 2.0
"""Who had a pod decided so short a time ago needs the time still: the next may come during the next long decision."""

TOGETHER = 4.0
TOGETHER_MOST_S = 5.0
"""For so many times an expensive decision all namespaces with such decisions wait, and so long at most; new ones wait
for as many times such a first turn."""

MOST_DEBT_S = FACTOR * MOST_S
"""The longest that a namespace waits: it was others, perhaps, that made its decisions long, and they are gone."""

MOST_NAMESPACES = 1024
"""Namespaces after which those are forgotten that wait no more, and as many whose last decision was cheap."""

MOST_PRIORITIES = 64
"""Priorities after which those are forgotten of which no pod was tried for the longest time."""


OTHERS_FIRST = "decisions in the pod's namespace take long: pods of other namespaces go first"
"""Why a pod waits whose namespace has used its share."""

CHEAP_FIRST = "some decisions take long: pods of namespaces that are known for quick ones go first"
"""Why a pod waits whose namespace has used no more than its share, and is not known for a cheap decision."""


class NamespaceShare:
    """Until when each namespace lets others go first, by a clock that only goes forward."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._cheap: dict[str, None] = {}
        """Those with a pod that was placed by a cheap decision, and no long one since; the last one at the end."""
        self._cheap_at = self._expensive_until = self._new_until = -inf
        self._tried: dict[int, dict[str, float]] = {}
        """Of each priority the two namespaces of which a pod was tried last, and when: one of them is another."""

    def tried(self, namespace: str, priority: int, now: float) -> None:
        """A decision for a pod of the namespace begins."""
        tried = self._tried.pop(priority, {})
        self._tried[priority] = tried
        tried.pop(namespace, None)
        tried[namespace] = now
        if len(tried) > 2:
            del tried[next(iter(tried))]
        if len(self._tried) > MOST_PRIORITIES:
            del self._tried[next(iter(self._tried))]

    def others_tried_at(self, namespace: str, least_priority: float = -inf) -> float:
        """When a decision for a pod of another namespace, with such a priority, began last."""
        tried = (two for priority, two in self._tried.items() if priority >= least_priority)
        return max((at for two in tried for other, at in two.items() if other != namespace), default=-inf)

    def spent(self, namespace: str, duration_s: float, now: float, *, is_placed: bool = False) -> None:
        """A decision for a pod of the namespace has ended, and taken so much of the processor's time.

        is_placed: whether it has found a node; who is refused at once is not known for cheap decisions.
        """
        if duration_s > FREE_S + BURST_S:
            self._cheap.pop(namespace, None)
        if duration_s <= FREE_S:
            if is_placed:
                self._note_cheap(namespace, now)
            return
        if self._cheap:
            self._expensive_until = now + min(TOGETHER * duration_s, TOGETHER_MOST_S)
            if self._is_new(namespace):
                self._new_until = self._expensive_until
        unused = now - FACTOR * BURST_S
        until = max(self.waits_until(namespace), unused) + FACTOR * (duration_s - FREE_S)
        self._until[namespace] = min(until, now + MOST_DEBT_S)
        if len(self._until) > MOST_NAMESPACES:
            self._until = {name: until for name, until in self._until.items() if until > unused}

    def _note_cheap(self, namespace: str, now: float) -> None:
        self._cheap.pop(namespace, None)
        self._cheap[namespace], self._cheap_at = None, now
        if len(self._cheap) > MOST_NAMESPACES:
            del self._cheap[next(iter(self._cheap))]

    def waits_until(self, namespace: str) -> float:
        """When the namespace need not wait any more; 0 where it never had to."""
        return self._until.get(namespace, 0.0)

    def is_cheap(self, namespace: str) -> bool:
        """Whether a pod of the namespace was placed by a cheap decision, and none took long since."""
        return namespace in self._cheap

    def has_recent_cheap(self, now: float) -> bool:
        """Whether a cheap decision was made just now."""
        return self._cheap_at + RECENT_S > now

    def waits_for_cheap_until(self, namespace: str) -> float:
        """When the namespace need not wait any more for those that are cheap; 0 where it is one of them."""
        if self.is_cheap(namespace):
            return 0.0
        return self._new_until if self._is_new(namespace) else self._expensive_until

    def slice_s(self, namespace: str, spent_s: float) -> float:
        """How long the next turn of a decision is that has taken so long: as long as all before, so that it ends."""
        if not spent_s and self._is_new(namespace):
            return FIRST_SLICE_S
        return min(max(spent_s, LEAST_SLICE_S), MOST_SLICE_S)

    def _is_new(self, namespace: str) -> bool:
        return namespace not in self._cheap and namespace not in self._until

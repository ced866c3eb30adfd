"""The time limit of one decision: its cost depends on what users write, and no pod may block all others.

A decision that takes longer fails, and its pod is retried after its backoff. Intermediate results are kept, so that the
next attempt continues from there. The rest of the program gets its turn in between.
Source: kube-scheduler's DynamicResources plugin, filterTimeout.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from allocator.outcome import AllocationError
from cel import Cancelled

MOST_S = 3.0
"""Many times what the first decision of its kind takes on thousands of nodes, and less than an answer of the API server
is waited for: calls under way are heard in time."""


class TooLong(AllocationError):
    """The decision has taken all its time."""


def timed_out(most_s: float) -> str:
    """What pods say whose decision takes too long."""
    return f"timed out: the decision takes more than {most_s:g} s"


class DecisionTimeLimit:
    """The time that a decision has. clock: seconds that only go forward; None where decisions may take all time."""

    def __init__(self, clock: Callable[[], float] | None = None, most_s: float = MOST_S) -> None:
        self.most_s = most_s
        self._clock = clock or (lambda: 0.0)
        self._ends_at = inf

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Limits the time that the context is open. Raises TooLong."""
        self._ends_at = self._clock() + self.most_s
        try:
            yield
        except Cancelled as error:
            raise TooLong(timed_out(self.most_s)) from error
        finally:
            self._ends_at = inf

    def is_over(self) -> bool:
        """Whether it is time to give up; never outside of `limited`."""
        return self._clock() >= self._ends_at

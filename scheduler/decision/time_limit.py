"""How long one decision may take: its cost is up to what users write, and nobody's pod may stop all others.

A decision that takes longer ends as failed, and its pod comes again after its backoff. What was worked out by then is
kept, so that the next attempt goes on from there. Everything else of the program has its turn in between.
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


class DecisionTimeLimit:
    """The time that a decision has. clock: seconds that only go forward; None where decisions may take all time."""

    def __init__(self, clock: Callable[[], float] | None = None, most_s: float = MOST_S) -> None:
        self.most_s = most_s
        self._clock = clock or (lambda: 0.0)
        self._ends_at = inf

    @contextmanager
    def limited(self) -> Iterator[None]:
        """What is done while the context is open may take so long and no longer. Raises TooLong."""
        self._ends_at = self._clock() + self.most_s
        try:
            yield
        except Cancelled as error:
            raise TooLong(f"timed out: what the pod asks for takes more than {self.most_s:g} s to decide") from error
        finally:
            self._ends_at = inf

    def is_over(self) -> bool:
        """Whether it is time to give up; never outside of `limited`."""
        return self._clock() >= self._ends_at

"""How often: growing delays between tries, and a budget of calls."""

from dataclasses import dataclass, field

# How long to wait after failures in a row: one rule for pods, writes and watches.


_DOUBLINGS_MAX = 60
"""Beyond any longest wait, and no number that overflows."""


def backoff_s(failures: int, first_s: float, most_s: float) -> float:
    """first_s after the first failure, doubled with each further one, most_s at the most; 0 before any."""
    return min(first_s * 2.0 ** min(failures - 1, _DOUBLINGS_MAX), most_s) if failures > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PodBackoff:
    """How long pods wait, in seconds, with kube-scheduler's defaults.

    initial_s: after the first failed try; it doubles with each in a row, up to most_s. most_unschedulable_s: after so
    long a refused pod is tried again though nothing has happened that could help it.
    """

    initial_s: float = 1.0
    most_s: float = 10.0
    most_unschedulable_s: float = 300.0

    def after(self, tries: int) -> float:
        """How long to wait after so many failed tries in a row."""
        return backoff_s(tries, self.initial_s, self.most_s)


USUAL_BACKOFF = PodBackoff()


# How often something may happen: so many times at once, and once more after each pause.
#
# Reports that change with every retry are bounded by this, per object and as a whole, as client-go bounds its events;
# and so are questions to the API server that strangers cause. Source: the token bucket of k8s.io/client-
# go/util/flowcontrol and of its tools/record EventCorrelator.


@dataclass(slots=True)
class TokenBucket:
    """A token bucket, full at first. most: at once. every_s: how long until once more. `now` is in seconds.

    Only the moment is kept at which it will be full again: there are as many of these as pending pods.
    """

    most: int
    every_s: float
    _full_at: float = field(default=0.0, init=False)

    def is_empty(self, now: float) -> bool:
        """Whether it may not happen now."""
        return self._until_full_s(now) > (self.most - 1) * self.every_s

    def take(self, now: float) -> bool:
        """Whether it may happen now; if so, that counts."""
        if self.is_empty(now):
            return False
        self._full_at = now + self._until_full_s(now) + self.every_s
        return True

    def _until_full_s(self, now: float) -> float:
        left_s = self._full_at - now
        # Beyond that the clock was set back: nothing would happen until it is there again.
        return left_s if 0.0 < left_s <= self.most * self.every_s else 0.0

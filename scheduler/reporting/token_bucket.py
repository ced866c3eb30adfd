"""How often something may be written: so many at once, and one more after each pause.

Reports that change with every retry are bounded by this, per object and as a whole, as client-go bounds its events.
Source: the token bucket of k8s.io/client-go/util/flowcontrol and of its tools/record EventCorrelator.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class TokenBucket:
    """A token bucket, full at first. most: at once. every_s: how long until one more may follow.

    Only the moment is kept at which it will be full again: there are as many of these as pending pods.
    """

    most: int
    every_s: float
    _full_at: float = field(default=0.0, init=False)

    def take(self, now: float) -> bool:
        """Whether one more may be written, which then counts. now: in seconds."""
        left_s = self._full_at - now
        if not 0.0 < left_s <= self.most * self.every_s:
            left_s = 0.0  # it is full; or the clock was set back, and nothing would be written until it is there again
        if left_s > (self.most - 1) * self.every_s:
            return False
        self._full_at = now + left_s + self.every_s
        return True

"""Decision time by namespace: a namespace with expensive decisions waits while others have pending pods.

The cost of a decision depends on what users write. If others need it, one namespace gets a twentieth of the decision
time. A namespace with cheap decisions never waits. What counts is the processor's time: that a busy machine keeps the
process waiting is no namespace's doing.
"""

FREE_S = 0.05
"""A decision that takes no longer costs its namespace nothing."""

BURST_S = 0.15
"""So much more a namespace may take at once before it waits: its decision may fill caches that all need."""

FACTOR = 20.0
"""For so many times the rest of the decision's time the others go first."""

MOST_NAMESPACES = 1024
"""Namespaces after which those are forgotten that wait no more."""


class DecisionTime:
    """Until when each namespace lets others go first, by a clock that only goes forward."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def spent(self, namespace: str, duration_s: float, now: float) -> None:
        """A decision for a pod of the namespace has ended, and taken so much of the processor's time."""
        if duration_s <= FREE_S:
            return
        unused = now - FACTOR * BURST_S
        self._until[namespace] = max(self.waits_until(namespace), unused) + FACTOR * (duration_s - FREE_S)
        if len(self._until) > MOST_NAMESPACES:
            self._until = {name: until for name, until in self._until.items() if until > unused}

    def waits_until(self, namespace: str) -> float:
        """When the namespace need not wait any more; 0 where it never had to."""
        return self._until.get(namespace, 0.0)

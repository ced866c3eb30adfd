"""How long to wait before calling the API server again: not at all at first, then longer with every failure.

A watch that breaks after it delivered something is reopened at once. Random delays keep clients from returning
together.
Source: the figures of client-go's reflector: 0.8 s doubling to 30 s, each lengthened by up to its own length.
"""

from dataclasses import dataclass

from scheduler.backoff import backoff_s
from scheduler.client.errors import ApiError, CallFailed


@dataclass(frozen=True, slots=True)
class WatchBackoff:
    """The wait after a failure. All in seconds; jitter: the share of a wait that chance may add."""

    first_s: float = 0.8
    longest_s: float = 30.0
    jitter: float = 1.0

    def delay_s(self, failures: int, error: CallFailed | None, chance: float) -> float:
        """The wait after this many failures in a row. chance: 0 to 1.

        error: of the last one, None if a watch just ended; a server that says when to come again is not asked before.
        """
        asked = error.retry_after_s if isinstance(error, ApiError) else None
        if failures <= 1:
            return asked or 0.0
        wait = backoff_s(failures - 1, self.first_s, self.longest_s)
        return max(wait * (1 + self.jitter * chance), asked or 0.0)

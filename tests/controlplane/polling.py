"""Waiting for what has to come, without a guess at how fast a machine is: a busy one takes many times as long.

What is there costs no wait at all; only what never comes takes the whole timeout.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_S = 120.0
"""For one thing, on the slowest machine that is worth a thought."""


class PollTimeoutError(Exception):
    """What a test waited for did not come."""


def poll_until(holds: Callable[[T], bool], ask: Callable[[], T], what: str) -> T:
    """The first answer that holds. what: is asked, for the PollTimeoutError that names the last answer."""
    deadline = time.monotonic() + TIMEOUT_S
    while not holds(answer := ask()):
        if time.monotonic() > deadline:
            raise PollTimeoutError(f"{what}: not within {TIMEOUT_S:.0f} s; the last answer was {answer}")
    return answer

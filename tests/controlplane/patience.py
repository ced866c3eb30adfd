"""Waiting for what has to come, without a guess at how fast a machine is: one that is busy takes many times as long.

What is there costs no wait at all; only what never comes takes the whole patience.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 120.0
"""For one thing, on the slowest machine that is worth a thought."""


class NeverHeld(Exception):
    """What a test waited for did not come."""


def ask_until(holds: Callable[[T], bool], ask: Callable[[], T], what: str) -> T:
    """The first answer that holds. what: is asked, for the NeverHeld that tells of the last answer."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(answer := ask()):
        if time.monotonic() > deadline:
            raise NeverHeld(f"{what}: not within {PATIENCE_S:.0f} s; the last answer was {answer}")
    return answer

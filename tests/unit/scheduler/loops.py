"""The event loops that everything has to work with, and what one of them has left open at its end."""

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine

import pytest

from scheduler.runtime.running import new_event_loop

Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])


def left_open(loop: Loop, work: Coroutine[object, object, None]) -> list[str]:
    """What is not closed when the work is done and the loop has ended."""
    gc.collect()  # what others have left is theirs
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(work)
        gc.collect()
    return [text for one in reported if (text := str(one.message)).startswith("unclosed")]

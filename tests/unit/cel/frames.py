"""Calls where Python lets few more of them nest."""

import sys
from collections.abc import Callable
from itertools import count
from typing import TypeVar

Result = TypeVar("Result")

FEWEST = 60
"""Frames with which an ordinary program still gets on."""


def with_frames_left(frames: int, call: Callable[[], Result]) -> Result:
    """What the call gives where about so many frames are left."""
    return _below(sys.getrecursionlimit() - _depth() - frames, call)


def _below(levels: int, call: Callable[[], Result]) -> Result:
    return call() if levels <= 0 else _below(levels - 1, call)


def _depth() -> int:
    for depth in count():
        try:
            sys._getframe(depth)
        except ValueError:
            return depth
    raise AssertionError

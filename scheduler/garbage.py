"""Tunes the garbage collector, which need not visit long-lived objects.

This program produces almost no garbage in cycles. By default, searching for it takes a seventh of all time, and a
quarter of the time of a command that reads files.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_COLLECTED_AFTER = (5_000, 20, 50)
"""The collector's thresholds."""


def filling() -> None:
    """From now on much is made that stays: until `keep`, or until the program ends."""
    gc.disable()


@contextmanager
def staying() -> Iterator[None]:
    """Most of what is made meanwhile stays; what was garbage before does not."""
    gc.collect()
    filling()
    try:
        yield
    finally:
        keep()


@contextmanager
def making_none() -> Iterator[None]:
    """What is made meanwhile is no garbage in cycles, so that nothing is visited to search for it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep() -> None:
    """What is there now stays, as good as all of it: the collector need not walk through it again and again."""
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    gc.enable()

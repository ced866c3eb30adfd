"""Pools of processes that end with the one that started them, however that ends."""

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process

SPAWN = get_context("spawn")
"""How their processes are started."""


@contextmanager
def worker_pool(number: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many processes. At the end all are ended, whatever they do."""
    pool = ProcessPoolExecutor(number, mp_context=SPAWN, initializer=end_with_parent)
    try:
        yield pool
    finally:
        end_pools([pool])


def end_pools(pools: Iterable[ProcessPoolExecutor]) -> None:
    """End all processes that this one has started: nobody waits for what those of the pools do."""
    for pool in pools:
        pool.shutdown(wait=False, cancel_futures=True)
    for child in active_children():
        child.terminate()


def end_with_parent() -> None:
    """In a process of a pool: Ctrl-C goes to all of a terminal, of which the first ends the others, also by dying."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

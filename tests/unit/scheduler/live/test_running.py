"""A program has as many connections as its configuration asks for."""

import asyncio
import ctypes
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler.client.discovery import NotServed
from scheduler.live import running
from scheduler.live.configuration import Configuration, load

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("concurrency", [1, 64, 1000])
def test_each_pod_that_is_bound_has_a_connection_and_what_goes_on_beside_it_too(
    concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    @asynccontextmanager
    async def connect(**options: object) -> AsyncIterator[None]:
        asked.append(options["calls"])
        yield

    async def discover(_: object) -> None:
        raise NotServed

    async def connected() -> None:
        async with running.connected(load(Configuration, None, {"bindingConcurrency": concurrency})):
            pass

    monkeypatch.setattr(running, "connect", connect)
    monkeypatch.setattr(running, "discover", discover)
    with pytest.raises(NotServed):
        asyncio.run(connected())
    assert asked == [concurrency + running.BESIDE_BINDINGS]


_LARGE_AFTER_HUGE = """
import ctypes
from scheduler.live.running import LARGE_BLOCK, _give_back_large_blocks
_give_back_large_blocks()
libc = ctypes.CDLL(None)
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]
libc.mallinfo2.restype = Info
del (huge := [bytes(30_000_000)])[:]
before = libc.mallinfo2().hblks
large = bytes(64 * LARGE_BLOCK)
assert libc.mallinfo2().hblks == before + 1
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc 2.33 or later")
def test_memory_of_large_blocks_goes_back_to_the_system_also_after_a_huge_one() -> None:
    subprocess.run([sys.executable, "-c", _LARGE_AFTER_HUGE], check=True, cwd=ROOT)

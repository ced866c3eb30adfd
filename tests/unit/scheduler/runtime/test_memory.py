"""Memory that nobody uses goes back to the system; each case in a process of its own."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc 2.33 or later"
)

_BEGINNING = """
import ctypes
from pathlib import Path
from scheduler.runtime.running import LARGE_BLOCK, give_back_large_blocks, trim
libc = ctypes.CDLL(None)
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]
libc.mallinfo2.restype = Info
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])
"""

_LARGE_AFTER_HUGE = """
give_back_large_blocks()
del (huge := [bytes(30_000_000)])[:]
before = libc.mallinfo2().hblks
large = bytes(4 * LARGE_BLOCK)
assert libc.mallinfo2().hblks == before + 1
"""

_READ_INTO = """
give_back_large_blocks()
block = bytes(LARGE_BLOCK // 2)
before = libc.mallinfo2().arena
del block
assert libc.mallinfo2().arena == before
"""

_BETWEEN = """
imported = resident()
blocks = [b"x" * 50_000 for _ in range(2_000)]
all_pages = resident() - imported
del blocks[::2]
kept = resident() - imported
trim()
left = resident() - imported
assert kept > all_pages * 0.9, (all_pages, kept)
assert left < all_pages * 0.7, (all_pages, left)
"""


def run(case: str) -> None:
    subprocess.run([sys.executable, "-c", _BEGINNING + case], check=True, cwd=ROOT)


@pytest.mark.parametrize("case", [_LARGE_AFTER_HUGE, _BETWEEN], ids=["large after huge", "between what is in use"])
def test_memory_goes_back_to_the_system(case: str) -> None:
    run(case)


def test_memory_that_tls_is_read_into_stays() -> None:
    run(_READ_INTO)

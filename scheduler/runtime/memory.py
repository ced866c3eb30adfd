"""Returns unused memory to the system, as far as the C library keeps it.

Only glibc does so; elsewhere this does nothing. Source: mallopt(3), malloc_trim(3).
"""

import ctypes

LARGE_BLOCK = 1 << 19
"""Bytes of memory from which on a block is one of its own, and goes back to the system with what was in it.

More than the 256 KiB that the event loop reads TLS into: mapping memory for each read costs as much as the read.
"""

KEPT = 1 << 22
"""Bytes at the end of the heap that stay until memory is trimmed.

By default 128 KiB do: what TLS is read into would be given back to the system and taken again with each read.
"""

TRIMMED_EVERY_S = 60.0
"""How often smaller blocks go back, of which whole pages are free. It takes some milliseconds."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""glibc's numbers of these parameters."""


def give_back_large_blocks() -> None:
    """Keep the C library from raising the limit itself: one list of objects, or one huge object, would do for good."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(_M_TRIM_THRESHOLD, KEPT)


def trim() -> None:
    """Give back the pages that are free now, wherever they are: between blocks in use, the C library keeps them."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)

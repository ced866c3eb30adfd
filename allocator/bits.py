"""Sets of small numbers as integers: of devices by their position on a node, of nodes by their number.

An operation on two sets takes as long as the larger one is wide, whatever is in them.
"""

from collections.abc import Iterable, Iterator
from typing import Final

Mask = int
"""Bit i stands for device i of a NodeView, or for node number i."""


_CHUNK: Final = 256
"""Bits that are looked at together: each step costs as much as what is left of the mask is long."""


def bits(mask: Mask) -> Iterator[int]:
    """The positions of the set bits, ascending. Cost: O(bits set) for devices; O(size of the mask) for each chunk."""
    start = 0
    while mask >> _CHUNK:
        skipped = (mask & -mask).bit_length() - 1
        start += skipped
        mask >>= skipped
        chunk = mask & ((1 << _CHUNK) - 1)
        while chunk:
            low = chunk & -chunk
            yield start + low.bit_length() - 1
            chunk ^= low
        start += _CHUNK
        mask >>= _CHUNK
    while mask:
        low = mask & -mask
        yield start + low.bit_length() - 1
        mask ^= low


def union(masks: Iterable[Mask]) -> Mask:
    """What is in one of the sets."""
    found = 0
    for mask in masks:
        found = found | mask if found else mask  # of a single one no copy is made
    return found


def without(mask: Mask, others: Mask) -> Mask:
    """What is in the first set and not in the other; a complement takes several times as long."""
    return mask ^ (mask & others)

"""Sets of nodes in the two forms that decisions use: an int whose bit i is node number i, and a numpy array.

Ints are combined and cached (the allocator uses them); arrays are for arithmetic.
"""

from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from allocator.bits import Mask, union

Flags = NDArray[np.bool_]
"""One for each node number: whether it is in the set."""

Numbers = NDArray[np.int64]
"""One number for each node number, or one for each node of some order."""


Floats = NDArray[np.float64]
"""The same, not whole."""

Rows = TypeVar("Rows", int, Numbers)
"""One node, or many: the same arithmetic, which for one takes a tenth of the time without arrays."""


def at(column: Numbers, rows: Rows) -> Rows:
    """The numbers of these rows."""
    return column.item(rows) if isinstance(rows, int) else column[rows]


def smaller(numbers: Rows, others: Rows) -> Rows:
    """The smaller one of each two."""
    return min(numbers, others) if isinstance(numbers, int) else np.minimum(numbers, others)


def at_least(least: int, numbers: Rows) -> Rows:
    """The numbers, of which none is less."""
    return max(numbers, least) if isinstance(numbers, int) else np.maximum(numbers, least)


def mask_of(flags: Flags) -> Mask:
    """The set as an int. Cost: O(nodes / 8), some microseconds for 5,000."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


_FEW_NUMBERS = 32
"""So many are put together one by one as fast as by an array of flags."""


def mask_of_numbers(numbers: Numbers, size: int) -> Mask:
    """The set of these numbers, all less than `size`. Cost: O(size / 64) for each of a few, O(size) for more."""
    if len(numbers) <= _FEW_NUMBERS:
        return union([1 << number for number in numbers.tolist()])
    flags = np.zeros(size, np.bool_)
    flags[numbers] = True
    return mask_of(flags)


def flags_of(mask: Mask, size: int) -> Flags:
    """The set as an array of `size` flags, which has to be more than the highest number in the mask."""
    raw = np.frombuffer(mask.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(raw, count=size, bitorder="little").view(np.bool_)


_WORD = 64

_FEW = 8
"""Where only each eighth word of a set has a node, the others are passed over."""

_FEW_NODES = 8
"""So many nodes are found one by one faster than by a look at all words."""


@lru_cache(maxsize=8)  # decisions that follow each other choose among the same nodes, mostly
def numbers_of(mask: Mask) -> Numbers:
    """The node numbers in the set, ascending; for reading. Cost: O(nodes / 64) for a few of them."""
    numbers = numbers_once(mask)
    numbers.flags.writeable = False
    return numbers


def numbers_once(mask: Mask) -> Numbers:
    """The same, not remembered: for a set that nobody asks for again."""
    few: list[int] = []
    rest = mask
    while rest and len(few) < _FEW_NODES:
        few.append(rest.bit_length() - 1)  # the highest one: to find the lowest takes several times as long
        rest ^= 1 << few[-1]
    if not rest:
        return np.array(few[::-1], np.int64)
    size = -(-mask.bit_length() // _WORD) * _WORD
    words = np.frombuffer(mask.to_bytes(size // 8, "little"), np.uint64)
    filled = words.nonzero()[0]
    if len(filled) * _FEW > len(words):
        return flags_of(mask, size).nonzero()[0].astype(np.int64, copy=False)
    places = np.unpackbits(words[filled].view(np.uint8), bitorder="little").nonzero()[0]
    return filled[places // _WORD] * _WORD + places % _WORD

"""What can be fuzzed: how input is drawn, and what has to hold of it."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple


class FuzzTarget(NamedTuple):
    """draw: an input from a seed. is_taken: whether the program took it, or else refused it in order.

    It raises what must not be. longest_s: what one input may take.
    """

    draw: Callable[[Random], str]
    is_taken: Callable[[str], bool]
    longest_s: int

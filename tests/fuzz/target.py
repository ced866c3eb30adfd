"""What can be fuzzed: how input is drawn, and what has to hold of it."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple


class FuzzTarget(NamedTuple):
    """draw: an input from a seed. is_taken: whether the program took it, or refused it in order; raises what it must not.

    longest_s: what one input may take.
    """

    draw: Callable[[Random], str]
    is_taken: Callable[[str, Random], bool]
    longest_s: int

"""Random values from a seed: the same on every machine and with every version of Python.

Of Python's generator only `random()` promises that, so nothing else of it is used, and no logarithm, whose last bit
depends on the machine's library.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")


class Draw:
    """One stream of draws. Streams of other names are independent of it: more pods do not change the fleet."""

    def __init__(self, seed: int, stream: str) -> None:
        self._next = Random(f"{seed}/{stream}").random  # noqa: S311 - no secret is drawn

    def exponential(self) -> float:
        """A number of exponential distribution with the mean 1.

        Source: J. von Neumann, "Various techniques used in connection with random digits" (1951): additions and
        comparisons alone.
        """
        whole = 0
        while True:
            first = last = self._next()
            falls = 0
            while (following := self._next()) < last:
                last = following
                falls += 1
            if falls % 2 == 0:
                return whole + first
            whole += 1

    def below(self, number: int) -> int:
        """A whole number from 0 to number - 1."""
        return int(self._next() * number)


class Mix(Generic[T]):
    """Things to draw from by weight. weights: whole numbers, at least one above 0."""

    def __init__(self, weights: Mapping[T, int]) -> None:
        self.weights = weights
        self._things: Sequence[T] = tuple(weights)
        self._sums = tuple(accumulate(weights.values()))
        self.total = self._sums[-1]

    def draw(self, draw: Draw) -> T:
        """One of them."""
        return self._things[bisect_right(self._sums, draw.below(self.total))]

"""The scores of nodes by number, of which the highest is known at any time.

A decision takes the nodes with the highest score, and most of the time a few nodes have changed since the last one. So
while a node is left that has the highest score, nothing is looked for; else only in the blocks that have changed.
"""

from math import inf

import numpy as np

from allocator.search.rules import Mask
from scheduler.state.masks import Floats, Numbers, mask_of_numbers, without

UNKNOWN = -inf
"""The score of a node that has none."""

BLOCK = 256
"""Nodes whose highest score is kept. With 100,000 nodes there are about as many blocks as nodes in one."""


class ScoreTable:
    """The scores. known: the nodes that have one, which whoever sets them adds, as it does so for many at once."""

    def __init__(self, size: int) -> None:
        self.known: Mask = 0
        self._best, self._of_best = UNKNOWN, 0  # the highest score and its nodes; none where it has to be looked for
        self._blocks = np.empty((0, BLOCK))
        self.grow(size)

    @property
    def size(self) -> int:
        """More than the highest number of a node; at least as much as it was given."""
        return self._blocks.size

    @property
    def scores(self) -> Floats:
        """By number, for reading."""
        return self._blocks.reshape(-1)

    def grow(self, size: int) -> None:
        """There are more nodes. Cost: O(nodes)."""
        blocks = -(-size // BLOCK)
        self._blocks = np.pad(self._blocks, ((0, blocks - len(self._blocks)), (0, 0)), constant_values=UNKNOWN)
        self._highest = np.full(blocks, UNKNOWN)
        self._is_stale = np.ones(blocks, np.bool_)

    def set(self, number: int, score: float) -> None:
        """The node, which had none, has this score."""
        block, place = divmod(number, BLOCK)
        self._blocks[block, place] = score
        self._is_stale[block] = True
        if self._of_best and score >= self._best:
            self._of_best = (self._of_best if score == self._best else 0) | 1 << number
            self._best = score

    def forget(self, numbers: Numbers) -> None:
        """These nodes have no score any more."""
        self.scores[numbers] = UNKNOWN
        self._is_stale[numbers // BLOCK] = True
        gone = mask_of_numbers(numbers, self.size)
        self.known = without(self.known, gone)
        self._of_best = without(self._of_best, gone)

    def highest(self) -> tuple[float, Mask]:
        """The highest of all scores, and the nodes that have it; some node has to have one.

        Cost: where none is left of those, O(blocks), and O(nodes) of the blocks that have changed or have the score.
        """
        if not self._of_best:
            stale = self._is_stale.nonzero()[0]
            self._highest[stale] = self._blocks[stale].max(axis=1)
            self._is_stale[stale] = False
            self._best = self._highest.max().item()
            blocks = (self._highest == self._best).nonzero()[0]
            block, place = (self._blocks[blocks] == self._best).nonzero()
            self._of_best = mask_of_numbers(blocks[block] * BLOCK + place, self.size)
        return self._best, self._of_best

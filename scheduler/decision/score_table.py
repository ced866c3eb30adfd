"""The scores of nodes by number, of which the highest is known at any time.

A decision takes the nodes with the highest score, and most of the time a few nodes have changed since the last one. So
the nodes of the highest scores are kept; only when none of them is left, others are looked for, in the blocks that have
changed.
"""

from math import inf

import numpy as np

from allocator.search.rules import Mask
from scheduler.state.masks import Floats, Numbers, mask_of_numbers, without

UNKNOWN = -inf
"""The score of a node that has none."""

BLOCK = 256
"""Nodes whose highest score is kept. With 100,000 nodes there are about as many blocks as nodes in one."""

MOST_SCORES = 8
"""Scores whose nodes are kept. A node that is being filled is the best one; once it is full, many equal ones follow."""


class ScoreTable:
    """The scores. known: the nodes that have one, which whoever sets them adds, as it does so for many at once."""

    def __init__(self, size: int) -> None:
        self.known: Mask = 0
        self._top: dict[float, Mask] = {}  # all nodes with scores of at least `_least`; none where they are looked for
        self._least = UNKNOWN
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
        if self._top and score >= self._least:
            self._top[score] = self._top.get(score, 0) | 1 << number
            if len(self._top) > MOST_SCORES:
                del self._top[min(self._top)]
                self._least = min(self._top)

    def forget(self, numbers: Numbers) -> None:
        """These nodes have no score any more."""
        self.scores[numbers] = UNKNOWN
        self._is_stale[numbers // BLOCK] = True
        gone = mask_of_numbers(numbers, self.size)
        self.known = without(self.known, gone)
        left = ((score, without(nodes, gone)) for score, nodes in self._top.items())
        self._top = {score: nodes for score, nodes in left if nodes}

    def highest(self) -> tuple[float, Mask]:
        """The highest of all scores, and the nodes that have it; some node has to have one.

        Cost: where none is left of those, O(blocks), and O(nodes) of the blocks that have changed or have the score.
        """
        if not self._top:
            stale = self._is_stale.nonzero()[0]
            self._highest[stale] = self._blocks[stale].max(axis=1)
            self._is_stale[stale] = False
            self._least = self._highest.max().item()
            blocks = (self._highest == self._least).nonzero()[0]
            block, place = (self._blocks[blocks] == self._least).nonzero()
            self._top[self._least] = mask_of_numbers(blocks[block] * BLOCK + place, self.size)
        best = max(self._top)
        return best, self._top[best]

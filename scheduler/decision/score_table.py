"""The scores of nodes by number, of which the highest is known at any time.

A decision takes the nodes with the highest score, and most of the time a few nodes have changed since the last one. So
the nodes of the highest scores are kept, and looked for among all only when none of them is left.
"""

from math import inf

import numpy as np

from allocator.search.rules import Mask
from scheduler.state.masks import Floats, Numbers, mask_of, mask_of_numbers, without

UNKNOWN = -inf
"""The score of a node that has none."""

MOST_SCORES = 8
"""Scores whose nodes are kept. A node that is being filled is the best one; once it is full, many equal ones follow."""


class ScoreTable:
    """The scores by number. known: the nodes that have one, which whoever sets them adds, since it does so at once.

    size: more than the highest number of a node.
    """

    def __init__(self, size: int) -> None:
        self.known: Mask = 0
        self.scores: Floats = np.full(size, UNKNOWN)
        self._top: dict[float, Mask] = {}  # all nodes with scores of at least `_least`; none where they are looked for
        self._least = UNKNOWN

    @property
    def size(self) -> int:
        """More than the highest number of a node."""
        return len(self.scores)

    def grow(self, size: int) -> None:
        """There are more nodes. Cost: O(nodes)."""
        self.scores = np.pad(self.scores, (0, size - self.size), constant_values=UNKNOWN)

    def set(self, number: int, score: float) -> None:
        """The node, which had none, has this score."""
        self.scores[number] = score
        if self._top and score >= self._least:
            self._top[score] = self._top.get(score, 0) | 1 << number
            if len(self._top) > MOST_SCORES:
                del self._top[min(self._top)]
                self._least = min(self._top)

    def forget(self, numbers: Numbers) -> None:
        """These nodes have no score any more."""
        self.scores[numbers] = UNKNOWN
        gone = mask_of_numbers(numbers, self.size)
        self.known = without(self.known, gone)
        left = ((score, without(nodes, gone)) for score, nodes in self._top.items())
        self._top = {score: nodes for score, nodes in left if nodes}

    def highest(self) -> tuple[float, Mask]:
        """The highest of all scores, and the nodes that have it. Cost: O(nodes) where none of the kept ones is left."""
        if not self._top:
            self._least = self.scores.max().item()
            self._top[self._least] = mask_of(self.scores == self._least)
        best = max(self._top)
        return best, self._top[best]

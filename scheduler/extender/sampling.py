"""How many nodes pass filter: enough for a good choice, as kube-scheduler alone samples a large cluster.

kube-scheduler with an extender has to filter every node, because the extender might accept any. But it scores only
nodes that pass here, and its scores are most of what a decision about thousands of nodes takes.
Source: kube-scheduler's numFeasibleNodesToFind.
"""

from collections.abc import Iterable
from itertools import count, islice

import numpy as np

from allocator.search.rules import Mask
from scheduler.state.masks import mask_of, numbers_of

FEWEST = 100
"""So many nodes pass at least, if they can."""

_HIGHEST_PERCENT, _LOWEST_PERCENT, _NODES_A_PERCENT = 50, 5, 125


def nodes_to_find(nodes: int, percent: int) -> int:
    """How many of so many nodes are enough. percent: of them; 0 for kube-scheduler's own, which falls with the size."""
    share = percent or max(_HIGHEST_PERCENT - nodes // _NODES_A_PERCENT, _LOWEST_PERCENT)
    return nodes if nodes < FEWEST else max(nodes * share // 100, FEWEST)


class Sampling:
    """Which of the nodes that can take a pod pass. percent: as above; 100 for all of them.

    only_best: none passes but those that the policy finds best. Equal nodes take turns, so that all of the cluster is
    used.
    """

    def __init__(self, percent: int = 100, *, only_best: bool = False) -> None:
        self._percent = percent
        self._only_best = only_best
        self._calls = count()

    def is_enough(self, able: Mask, asked: int) -> bool:
        """Whether so few nodes are able that all of them pass. asked: how many nodes the question is about."""
        return able.bit_count() <= (1 if self._only_best else nodes_to_find(asked, self._percent))

    def passing(self, best_first: Iterable[Mask], asked: int) -> Mask:
        """As many of the nodes as are enough. best_first: nodes that are equal to the policy, the best ones first."""
        left, call, passed = nodes_to_find(asked, self._percent), next(self._calls), 0
        for nodes in islice(best_first, 1 if self._only_best else None):
            number = nodes.bit_count()
            passed |= nodes if number <= left else _rotated(nodes, left, call)
            left -= min(number, left)
        return passed


def _rotated(nodes: Mask, number: int, call: int) -> Mask:
    """So many of the nodes. call: its number; each call goes on where the one before it ended."""
    if not number:
        return 0
    numbers = numbers_of(nodes)
    flags = np.zeros(int(numbers[-1]) + 1, np.bool_)
    flags[numbers[(call * number + np.arange(number)) % len(numbers)]] = True
    return mask_of(flags)

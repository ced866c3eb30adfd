"""The best nodes by a policy that looks at whole nodes.

The policy's scores are kept for pods with equal requests, and computed again if the node's free resources change.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from allocator.bits import Mask, without
from allocator.fleet.alike import fingerprint_of
from allocator.model import Claim
from allocator.policies.power import WithPower
from allocator.policies.whole_nodes import FreeResources, FromUnits, NodePolicy, PodNeeds
from cel.cache import LruCache
from scheduler.node_policies.free_resources import FreeByNode
from scheduler.state.masks import Floats, Numbers, mask_of, mask_of_numbers, numbers_of, numbers_once
from scheduler.state.pods import CPU, MEMORY, PodRequests

# The scores of nodes by number, of which the highest is known at any time.
#
# A decision takes the nodes with the highest score, and most of the time a few nodes have changed since the last one.
# So the nodes of the highest scores are kept, and looked for among all only when none of them is left.


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


MOST_SHAPES = 256
"""Pods that ask for different things whose scores are kept; beyond, the least recently used are forgotten."""

MOST_RESOURCES = 1 << 14
"""Free resources whose scores are remembered for each of them; beyond, all are computed again. Most nodes are alike."""


@dataclass(slots=True, eq=False)
class _KeptScores:
    """Scores of nodes. at: as of which change of free resources.

    by_resources: the scores by all that decides, whichever node it is.
    """

    table: ScoreTable
    at: int
    by_resources: dict[Hashable, float] = field(default_factory=dict)


class NodeScores:
    """The scores of a policy on the nodes of a cluster: a `NodeScorer` that looks at each of them by itself."""

    def __init__(self, policy: NodePolicy, free: FreeByNode) -> None:
        self.policy = policy
        self._free = free
        free.with_holds |= policy.reads_holds
        free.with_power |= policy.reads_power
        self._kept: LruCache[Hashable, _KeptScores] = LruCache(MOST_SHAPES, MOST_SHAPES)

    def best(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[float, Mask]:
        """The best score of these nodes, and those that have it. See `NodeScorer.best`."""
        kept = self._scored(name, requests, claims, nodes)
        best, of_best = kept.table.highest()
        if best_nodes := of_best & nodes:
            return best, best_nodes
        numbers = numbers_of(nodes)  # the best score is that of nodes beside these
        scores = kept.table.scores[numbers]
        best = scores.max().item()
        return best, mask_of_numbers(numbers[scores == best], kept.table.size)

    def all(
        self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask
    ) -> Iterator[tuple[float, Mask]]:
        """The scores of these nodes, and the nodes of each; see `NodeScorer.all`.

        Cost: O(nodes) array operations, and a score for each node whose free resources have changed.
        """
        kept, numbers = self._scored(name, requests, claims, nodes), numbers_of(nodes)
        scores = kept.table.scores[numbers]
        for score in np.unique(scores).tolist():
            yield score, mask_of_numbers(numbers[scores == score], kept.table.size)

    def _scored(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> _KeptScores:
        """The scores of these nodes, and of others whose free resources have not changed."""
        self._free.catch_up()
        kept = self._kept_of(requests, claims)
        kinds = self._free.kinds(claims)
        of_kind: dict[Hashable, PodNeeds] = {}
        for number in numbers_once(without(nodes, kept.table.known)).tolist():
            kind, free = kinds.of(number), self._free[number]
            key = kind, _decides(free, with_name=self.policy.reads_names)
            score = kept.by_resources.get(key)
            if score is None:
                needs = of_kind.get(kind)
                self._free.look()
                if needs is None:
                    needs = of_kind[kind] = self._needs(number, name, requests, claims)
                score = kept.by_resources[key] = self.policy.score_node(needs, free)
            kept.table.set(number, score)
        kept.table.known |= nodes
        return kept

    def of(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> Floats:
        """The score of each of these nodes, in the order of their numbers."""
        return self._scored(name, requests, claims, nodes).table.scores[numbers_of(nodes)]

    def on(self, number: int, name: str, requests: PodRequests, claims: Sequence[Claim]) -> FromUnits:
        """The policy for the attempt on that node, see `NodeScorer.on`."""
        self._free.catch_up()
        picks = self.policy.picks(self._needs(number, name, requests, claims), self._free[number])
        return FromUnits(self.policy.name, picks)

    def _needs(self, number: int, name: str, requests: PodRequests, claims: Sequence[Claim]) -> PodNeeds:
        amounts = requests.amounts
        asked = self._free.requests(number, claims)
        return PodNeeds(name, amounts.get(CPU, 0), amounts.get(MEMORY, 0), asked)

    def _kept_of(self, requests: PodRequests, claims: Sequence[Claim]) -> _KeptScores:
        """The scores of nodes whose free resources have not changed."""
        size, changes = self._free.size, self._free.changes
        if not self.policy.remembers:
            return _KeptScores(ScoreTable(size), changes.now)
        key = (requests.amounts.get(CPU, 0), requests.amounts.get(MEMORY, 0), fingerprint_of(claims))
        kept = self._kept.get(key, 1, lambda: _KeptScores(ScoreTable(size), changes.now))
        if size > kept.table.size:
            kept.table.grow(size)
        if kept.at != changes.now:
            changed = changes.numbers_since(kept.at)
            kept.table.forget(np.arange(size) if changed is None else np.array(changed, np.int64))
            kept.at = changes.now
        if len(kept.by_resources) > MOST_RESOURCES:
            kept.by_resources.clear()
        return kept


class WeightedScores:
    """The scores of several policies on the nodes of a cluster, by weight: a `NodeScorer`.

    Those of each are brought to 0 to 100 between the least and the greatest of the nodes that are compared, in whole
    numbers, and to 100 where all are equal.
    """

    def __init__(self, policy: WithPower, free: FreeByNode) -> None:
        self._scored_by = [(weight, NodeScores(part, free)) for weight, part in policy.weighted]

    def best(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[float, Mask]:
        """See `NodeScorer.best`. Cost: O(nodes)."""
        scores, numbers = self._of(name, requests, claims, nodes), numbers_of(nodes)
        best = scores.max().item()
        return best, mask_of_numbers(numbers[scores == best], numbers[-1].item() + 1)

    def all(
        self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask
    ) -> Iterator[tuple[float, Mask]]:
        """See `NodeScorer.all`. Cost: O(nodes)."""
        scores, numbers = self._of(name, requests, claims, nodes), numbers_of(nodes)
        for score in np.unique(scores).tolist():
            yield score, mask_of_numbers(numbers[scores == score], numbers[-1].item() + 1)

    def on(self, number: int, name: str, requests: PodRequests, claims: Sequence[Claim]) -> FromUnits:
        """See `NodeScorer.on`."""
        _, first = self._scored_by[0]
        return first.on(number, name, requests, claims)

    def _of(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> Floats:
        total = np.zeros(nodes.bit_count())
        for weight, part in self._scored_by:
            total += weight * _normalized(part.of(name, requests, claims, nodes))
        return total


def _normalized(scores: Floats) -> Floats:
    low, high = scores.min(), scores.max()
    if low == high:
        return np.full(len(scores), 100.0)
    normalized: Floats = np.floor(100 * (scores - low) / (high - low))
    return normalized


def _decides(free: FreeResources, *, with_name: bool) -> Hashable:
    """All that a score may depend on; equal for most nodes of a fleet."""
    return free.cpu, free.memory, free.units, free.holds, free.shapes, free.power, with_name and free.name

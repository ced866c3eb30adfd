"""The best nodes by a policy that looks at whole nodes.

The policy's scores are kept for pods with equal requests, and computed again if the node's free resources change.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from allocator.fleet.questions import fingerprint_of
from allocator.model import Claim
from allocator.policies.whole_nodes import FromUnits, NodePolicy, PodNeeds
from allocator.search.rules import Mask
from cel.lru import LruCache
from scheduler.decision.rooms import Rooms
from scheduler.state.masks import Floats, Numbers, mask_of, numbers_of
from scheduler.state.pod_requests import CPU, MEMORY, PodRequests

MOST_SHAPES = 256
"""Pods that ask for different things whose scores are kept; beyond, the least recently used are forgotten."""


@dataclass(slots=True, eq=False)
class _Scores:
    """The scores of nodes, by number; not a number where it is not known. at: as of which `Rooms.now`."""

    scores: Floats
    at: int


class NodeScores:
    """The scores of a policy on the rooms of a cluster."""

    def __init__(self, policy: NodePolicy, rooms: Rooms) -> None:
        self.policy = policy
        self._rooms = rooms
        self._kept: LruCache[Hashable, _Scores] = LruCache(MOST_SHAPES, MOST_SHAPES)

    def best(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[float, Mask]:
        """The best score of these nodes, and those that have it. As for `all`; at least one node."""
        numbers, scores = self._scored(name, requests, claims, nodes)
        best = scores.max()
        return float(best), self._mask(numbers[scores == best])

    def all(
        self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask
    ) -> Iterator[tuple[float, Mask]]:
        """The scores of these nodes, which all have room for the pod, and the nodes of each.

        name: of the pod. claims: its claims without devices. Raises AllocationError.
        Cost: O(nodes) array operations, and a score for each node whose room has changed.
        """
        numbers, scores = self._scored(name, requests, claims, nodes)
        for score in np.unique(scores).tolist():
            yield score, self._mask(numbers[scores == score])

    def _scored(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[Numbers, Floats]:
        self._rooms.catch_up()
        known, numbers = self._known(requests, claims), numbers_of(nodes)
        of_kind: dict[Hashable, PodNeeds] = {}
        for number in numbers[np.isnan(known[numbers])].tolist():
            kind = self._rooms.kind(number)
            needs = of_kind.get(kind)
            if needs is None:
                needs = of_kind[kind] = self._needs(number, name, requests, claims)
            known[number] = self.policy.score_node(needs, self._rooms[number])
        return numbers, known[numbers]

    def _mask(self, numbers: Numbers) -> Mask:
        flags = np.zeros(len(self._rooms.changed_at), np.bool_)
        flags[numbers] = True
        return mask_of(flags)

    def on(self, number: int, name: str, requests: PodRequests, claims: Sequence[Claim]) -> FromUnits:
        """The policy for the attempt on that node, which has room for the pod. Raises AllocationError."""
        self._rooms.catch_up()
        picks = self.policy.picks(self._needs(number, name, requests, claims), self._rooms[number])
        return FromUnits(self.policy.name, picks)

    def _needs(self, number: int, name: str, requests: PodRequests, claims: Sequence[Claim]) -> PodNeeds:
        amounts = requests.amounts
        asked = self._rooms.requests(number, claims)
        return PodNeeds(name, amounts.get(CPU, 0), amounts.get(MEMORY, 0), asked)

    def _known(self, requests: PodRequests, claims: Sequence[Claim]) -> Floats:
        """The scores of nodes whose room has not changed; not a number for all others."""
        size = len(self._rooms.changed_at)
        if not self.policy.remembers:
            return np.full(size, np.nan)
        key = (requests.amounts.get(CPU, 0), requests.amounts.get(MEMORY, 0), fingerprint_of(claims))
        kept = self._kept.get(key, 1, lambda: _Scores(np.full(size, np.nan), 0))
        if size > len(kept.scores):
            kept.scores = np.pad(kept.scores, (0, size - len(kept.scores)), constant_values=np.nan)
        kept.scores[self._rooms.changed_at > kept.at] = np.nan
        kept.at = self._rooms.now
        return kept.scores

"""Policies that look at whole nodes. `NodeScorer` is all that a decision knows of them.

The policy says what it compares nodes by (`allocator.policies.contract.Scoring`), and gets the scorer for that. So the
decision names no policy, and a new way to compare nodes is a new line in `_SCORERS`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from allocator.bits import Mask
from allocator.model import Claim
from allocator.policies.contract import Policy, PolicyOfNode, Scoring, scoring_of
from scheduler.node_policies.fill_scores import FillScores
from scheduler.node_policies.free_resources import FreeByNode
from scheduler.node_policies.scores import NodeScores, WeightedScores
from scheduler.state.pods import PodRequests


class NodeScorer(Protocol):
    """Scores nodes for pods, more is better. name: of the pod. claims: its claims without devices.

    Each call works with what is free now, and raises AllocationError.
    """

    def best(self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask) -> tuple[float, Mask]:
        """The best score of these nodes, at least one, which all have room for the pod, and those that have it."""

    def all(
        self, name: str, requests: PodRequests, claims: Sequence[Claim], nodes: Mask
    ) -> Iterator[tuple[float, Mask]]:
        """The scores of these nodes, which all have room for the pod, and the nodes of each."""

    def on(self, number: int, name: str, requests: PodRequests, claims: Sequence[Claim]) -> PolicyOfNode:
        """The policy for the attempt on that node, which has room for the pod."""


def scorer_of(policy: Policy, free: FreeByNode) -> NodeScorer | None:
    """The scorer that the policy asks for; None where the scores of picks are all that it compares nodes by."""
    make = _SCORERS.get(scoring_of(policy))
    return make(policy, free) if make is not None else None


# Any: of what class a policy is follows from its `Scoring`, as the contract says.
_SCORERS: Mapping[Scoring, Callable[[Any, FreeByNode], NodeScorer]] = {
    Scoring.BY_NODE: NodeScores,
    Scoring.BY_WEIGHT: WeightedScores,
    Scoring.BY_FLEET: FillScores,
}

"""What single nodes give by policies of their own, remembered for nodes that are alike.

A policy that looks at whole nodes chooses one of them before any device; which devices come first depends on that node.
"""

from collections.abc import Hashable, Sequence
from typing import Final

from allocator.cluster.snapshot import Snapshot
from allocator.fleet.answer_cache import chosen_of
from allocator.fleet.decider import Decider
from allocator.fleet.fleet_nodes import FleetNode
from allocator.memo import TypedMemo
from allocator.model import Claim
from allocator.outcome import Allocated
from allocator.policies.contract import PolicyOfNode
from allocator.search.rules import Choice
from cel.lru import LruCache

MOST_CHOICES: Final = 1 << 14
"""Choices that are remembered; some 10 MiB."""


class KnownChoices:
    """The devices that were chosen, by their positions on the node."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._kept: LruCache[Hashable, tuple[Choice, ...]] = LruCache(MOST_CHOICES, MOST_CHOICES)

    def of(  # noqa: PLR0913 - a decision, and what is known of it
        self,
        snapshot: Snapshot,
        node: FleetNode,
        alike: Hashable,
        claims: Sequence[Claim],
        policy: PolicyOfNode,
        *,
        known: TypedMemo | None,
    ) -> tuple[Choice, ...]:
        """What the policy chooses for the claims on the node, which has the devices.

        alike: equal for nodes between which the claims do not distinguish. known: as in `Decider.decide`. Cost: an
        allocation, unless one of those was asked before.
        """
        return self._kept.get((alike, policy.key), 1, lambda: self._choose(snapshot, node, claims, policy, known))

    def _choose(
        self,
        snapshot: Snapshot,
        node: FleetNode,
        claims: Sequence[Claim],
        policy: PolicyOfNode,
        known: TypedMemo | None,
    ) -> tuple[Choice, ...]:
        outcome = self._decider.decide(snapshot, node.node, claims, policy=policy, known=known)
        assert isinstance(outcome, Allocated), f"node {node.node.name} was able: {outcome}"
        return chosen_of(outcome, node)

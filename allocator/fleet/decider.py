"""The allocator as a fleet calls it: one node after the other, always on the same terms."""

from collections.abc import Callable, Sequence

from allocator.allocate import allocate, allocations_like
from allocator.cluster.snapshot import Snapshot
from allocator.model import Allocation, Claim, Node
from allocator.outcome import Outcome
from allocator.policies.contract import Policy
from allocator.search.rules import Choice


class Decider:
    """Calls `allocate`. asked: how often."""

    def __init__(
        self, policy: Policy, budget_steps: int, share_id: Callable[[str], str], is_cancelled: Callable[[], bool]
    ) -> None:
        self.asked = 0
        self.policy = policy
        self.budget_steps = budget_steps
        self.share_id = share_id
        self.is_cancelled = is_cancelled

    def decide(self, snapshot: Snapshot, node: Node, claims: Sequence[Claim], policy: Policy | None = None) -> Outcome:
        """The outcome for the claims on the node. Raises AllocationError, Cancelled. Cost: an allocation.

        policy: in place of its own.
        """
        self.asked += 1
        return allocate(
            snapshot,
            node,
            claims,
            budget_steps=self.budget_steps,
            share_id=self.share_id,
            is_cancelled=self.is_cancelled,
            policy=policy or self.policy,
        )

    def decide_like(
        self, snapshot: Snapshot, node: Node, claims: Sequence[Claim], chosen: Sequence[Choice]
    ) -> tuple[Allocation, ...]:
        """What the claims get on a node that is like one where these devices were chosen."""
        return allocations_like(snapshot, node, claims, chosen, self.share_id)

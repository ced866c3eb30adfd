"""The allocator as a fleet calls it: one node after the other, always on the same terms."""

from collections.abc import Callable, Sequence

from allocator.allocate import allocations_like, outcome_of
from allocator.cluster.snapshot import Snapshot
from allocator.memo import TypedMemo
from allocator.model import Allocation, Claim, Node
from allocator.outcome import Outcome
from allocator.policies.contract import Policy
from allocator.search.rules import Choice


class Decider:
    """Calls `outcome_of`. asked: how often."""

    def __init__(
        self, policy: Policy, budget_steps: int, share_id: Callable[[str], str], is_cancelled: Callable[[], bool]
    ) -> None:
        self.asked = 0
        self.policy = policy
        self.budget_steps = budget_steps
        self.share_id = share_id
        self.is_cancelled = is_cancelled

    def decide(
        self,
        snapshot: Snapshot,
        node: Node,
        claims: Sequence[Claim],
        *,
        policy: Policy | None = None,
        known: TypedMemo | None = None,
    ) -> Outcome:
        """The outcome for the claims on the node, without names of devices and holders. Cost: an allocation.

        policy: in place of its own. known: as for `outcome_of`. Raises AllocationError, Cancelled.
        """
        self.asked += 1
        return outcome_of(
            snapshot,
            node,
            claims,
            budget_steps=self.budget_steps,
            share_id=self.share_id,
            is_cancelled=self.is_cancelled,
            policy=policy or self.policy,
            known=known,
        )

    def decide_like(
        self, snapshot: Snapshot, node: Node, claims: Sequence[Claim], chosen: Sequence[Choice], known: TypedMemo | None
    ) -> tuple[Allocation, ...]:
        """What the claims get on a node that is like one where these devices were chosen. known: as in `decide`."""
        return allocations_like(snapshot, node, claims, chosen, share_id=self.share_id, known=known)

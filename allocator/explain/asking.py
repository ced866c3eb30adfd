"""The allocator, called again and again for one node with one thing changed: every remedy was tried.

All calls share one budget of steps; it is spent only for an explanation.
"""

from collections.abc import Mapping, Sequence

from allocator.allocate import allocate
from allocator.cluster.snapshot import Snapshot
from allocator.model import Claim, Node, PoolID
from allocator.outcome import Allocated, AllocationError, Exhausted, Outcome
from allocator.search.budget import Budget

ASK_STEPS = 20_000
"""Picks that one question may try."""

ALL_STEPS = 100_000
"""Picks of all questions about a node together: a few seconds at the most."""

_LEAST_STEPS = 100
"""What a question costs of the budget even where nothing is picked."""


class Asking:
    """Questions about a node.

    held: the allocated claims by `namespace/name`, which could be released. gaps: questions that got no answer.
    """

    def __init__(
        self, snapshot: Snapshot, node: Node | None, held: Mapping[str, Claim], *, all_steps: int = ALL_STEPS
    ) -> None:
        self.snapshot = snapshot
        self.node = node
        self.gaps = 0
        self._left = all_steps
        self._budget = Budget(all_steps)
        # What is in use elsewhere does not matter to the node.
        pools = {pool.id for pool in snapshot.view(node).pools}
        self.held = {name: claim for name, claim in held.items() if _occupies(claim, pools)}

    def may_ask(self) -> bool:
        """Whether any budget is left for a question; one that cannot be asked is a gap."""
        self.gaps += self._left <= 0
        return self._left > 0

    def charge(self, steps: int) -> None:
        """Count what is worked out beside questions."""
        self._left -= steps

    def ask(self, claims: Sequence[Claim], without: frozenset[str] = frozenset()) -> Outcome | AllocationError:
        """The outcome for these claims, with the named claims released; `Exhausted` also where no budget is left."""
        if not self.may_ask():
            return Exhausted(0, self.snapshot.features)
        snapshot = self.snapshot
        if without:
            snapshot = snapshot.with_usage_of(claim for name, claim in self.held.items() if name not in without)
        try:
            steps = min(ASK_STEPS, self._left)
            answer = allocate(snapshot, self.node, claims, budget_steps=steps, budget=self._budget)
        except AllocationError as error:
            self._left -= _LEAST_STEPS
            return error
        self._left -= max(answer.steps, _LEAST_STEPS)
        self.gaps += isinstance(answer, Exhausted)
        return answer

    def fits(self, claims: Sequence[Claim], without: frozenset[str] = frozenset()) -> bool:
        """True if the claims are known to get their devices."""
        return isinstance(self.ask(claims, without), Allocated)


def _occupies(claim: Claim, pools: set[PoolID]) -> bool:
    results = claim.allocation.results if claim.allocation else ()
    return any(PoolID(result.driver, result.pool) in pools for result in results if not result.admin_access)

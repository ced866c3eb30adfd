"""The allocator, called again and again for one node with one thing changed: every remedy was tried.

All calls share one budget of steps; it is spent only for an explanation.
"""

from collections.abc import Mapping, Sequence

from allocator.allocate import allocate
from allocator.cluster.snapshot import Snapshot
from allocator.model import Claim, Node, PoolID
from allocator.outcome import Allocated, AllocationError, Budget, Exhausted, Outcome

ASK_STEPS = 20_000
"""Picks that one question may try."""

ALL_STEPS = 100_000
"""Picks of all questions about a node together: about a second."""

_QUESTIONS = 5
"""Of the budget, one question may take this part: a hard one leaves something to the others."""

_LEAST_STEPS = 100
"""What a question costs of the budget even where nothing is picked."""


class Asking:
    """Questions about a node.

    held: the allocated claims by `namespace/name`, which could be released. gaps: questions that got no answer.
    spent: steps of all of them, and of what is worked out beside them.
    """

    def __init__(
        self, snapshot: Snapshot, node: Node | None, held: Mapping[str, Claim], *, all_steps: int = ALL_STEPS
    ) -> None:
        self.snapshot = snapshot
        self.node = node
        self.gaps = 0
        self.spent = 0
        self._all_steps = all_steps
        self._budget = Budget(all_steps)
        # What is in use elsewhere does not matter to the node.
        pools = {pool.id for pool in snapshot.view(node).pools}
        self.held = {name: claim for name, claim in held.items() if _occupies(claim, pools)}

    @property
    def left(self) -> int:
        """Steps that one more question may take; none if the budget is spent."""
        left = self._all_steps - self.spent
        return max(0, min(left, ASK_STEPS, max(_LEAST_STEPS, self._all_steps // _QUESTIONS)))

    def may_ask(self) -> bool:
        """Whether any budget is left for a question; one that cannot be asked is a gap."""
        self.gaps += not self.left
        return self.left > 0

    def charge(self, steps: int) -> None:
        """Count what is worked out beside questions."""
        self.spent += steps

    def charge_work(self, work: int) -> None:
        """The same, in the units of a `Budget`. Raises OutOfSteps."""
        before = self._budget.steps
        try:
            self._budget.charge(work)
        finally:
            self.spent += self._budget.steps - before

    def ask(self, claims: Sequence[Claim], without: frozenset[str] = frozenset()) -> Outcome | AllocationError:
        """The outcome for these claims, with the named claims released; `Exhausted` also where no budget is left."""
        if not self.may_ask():
            return Exhausted(0, self.snapshot.features)
        snapshot = self.snapshot
        if without:
            kept = (claim for name, claim in self.held.items() if name not in without)
            snapshot = snapshot.with_usage_of(kept, [self.held[name] for name in without if name in self.held])
        try:
            answer = allocate(snapshot, self.node, claims, budget_steps=self.left, budget=self._budget)
        except AllocationError as error:
            self.spent += _LEAST_STEPS
            return error
        self.spent += max(answer.steps, _LEAST_STEPS)
        self.gaps += isinstance(answer, Exhausted)
        return answer

    def fits(self, claims: Sequence[Claim], without: frozenset[str] = frozenset()) -> bool:
        """True if the claims are known to get their devices."""
        return isinstance(self.ask(claims, without), Allocated)


def _occupies(claim: Claim, pools: set[PoolID]) -> bool:
    results = claim.allocation.results if claim.allocation else ()
    return any(PoolID(result.driver, result.pool) in pools for result in results if not result.admin_access)

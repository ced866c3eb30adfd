"""Why claims get their devices on one node, or why not, as data.

The outcome, what the node has to offer, and for refused claims their conflict and what would help. `sentences` and
`text` word it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from allocator.allocate import BUDGET_STEPS, allocate
from allocator.cluster.snapshot import Snapshot
from allocator.explain.conflict import Conflict, conflict_of
from allocator.explain.offer import ALL_STEPS, Asking, Offer, offer_of
from allocator.explain.remedies import Remedy, remedies_of, selectors_mended
from allocator.explain.selector_operands import GuiltyOperands
from allocator.model import Claim, Node, Request
from allocator.outcome import Allocated, AllocationError, Exhausted, Outcome, Refused
from allocator.policies.contract import FIRST_FIT, Policy

_OF_USUAL_STEPS: Final = 5
"""After an attempt that spent the whole budget, a fifth of the usual steps is still spent on what would help."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An alternative preferred over the selected one, and the answer for the claims with it alone."""

    claim: str
    request: str
    answer: Outcome | AllocationError


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """What becomes of claims on one node."""

    claims: tuple[str, ...]
    """Their names, in the order of the allocations."""
    answer: Outcome | AllocationError
    offer: Offer
    """Empty if the attempt ends before there is any."""
    passed_over: tuple[PassedOver, ...] = ()
    """Of claims that get their devices."""
    conflict: Conflict | None = None
    """Of those that are refused."""
    remedies: tuple[Remedy, ...] = ()
    """Of those that are not known to get them, and of an attempt that ends, where a selector is to blame."""
    is_whole: bool = True
    """Everything that was tried got an answer within the budget."""
    steps: int = 0
    """Of the attempt, and of all that was tried."""


def explain_on(  # noqa: PLR0913 - the last three have defaults
    snapshot: Snapshot,
    node: Node | None,
    claims: Sequence[Claim],
    held: Mapping[str, Claim],
    *,
    budget_steps: int = BUDGET_STEPS,
    all_steps: int = ALL_STEPS,
    policy: Policy = FIRST_FIT,
) -> NodeExplanation:
    """Explain what becomes of the claims, which have no devices yet, on the node.

    held: the allocated claims of the snapshot by `namespace/name`. budget_steps: of the attempt, and of everything that
    is tried to explain it, which takes all_steps at most; if the attempt takes nearly all, a fifth of these on top.
    policy: decides what is taken, not what can be had.
    Cost: as many steps, and O(requests and constraints times devices) for what there is.
    """
    names = tuple(str(claim) for claim in claims)
    try:
        answer = allocate(snapshot, node, claims, budget_steps=budget_steps, policy=policy)
    except AllocationError as error:
        asking = Asking(snapshot, node, held, all_steps=all_steps)
        offer = _offer_if_any(asking, claims)
        mended = tuple(selectors_mended(asking, claims))
        return NodeExplanation(names, error, offer, remedies=mended, steps=asking.spent)
    left = max(budget_steps - answer.steps, all_steps // _OF_USUAL_STEPS)
    asking = Asking(snapshot, node, held, all_steps=min(all_steps, left))
    # Where the budget is spent before the search, nothing is known of what there is.
    offer = offer_of(asking, claims) if not isinstance(answer, Exhausted) else _offer_if_any(asking, claims)
    if isinstance(answer, Allocated):
        explanation = NodeExplanation(names, answer, offer, passed_over=tuple(_passed_over(asking, claims, answer)))
    else:
        conflict = conflict_of(asking, claims) if isinstance(answer, Refused) else None
        explanation = NodeExplanation(
            names, answer, offer, conflict=conflict, remedies=tuple(remedies_of(asking, claims))
        )
    return replace(explanation, is_whole=not asking.gaps, steps=answer.steps + asking.spent)


def _offer_if_any(asking: Asking, claims: Sequence[Claim]) -> Offer:
    try:
        return offer_of(asking, claims)
    except AllocationError:
        return Offer()


def _passed_over(asking: Asking, claims: Sequence[Claim], answer: Allocated) -> Iterator[PassedOver]:
    guilty = GuiltyOperands(asking.snapshot)
    for claim, allocation in zip(claims, answer.allocations, strict=True):
        taken = {result.request for result in allocation.results}
        for request in claim.requests:
            names = [alternative.name for alternative in request.alternatives]
            place = next((place for place, name in enumerate(names) if name in taken), 0)
            for alternative in request.alternatives[:place]:
                only = replace(request, alternatives=(alternative,))
                asked = _with_request(claims, claim, only)
                reason = asking.ask(asked)
                if not isinstance(reason, AllocationError):
                    reason = guilty.named(asking.node, asked, reason)
                yield PassedOver(str(claim), alternative.name, reason)


def _with_request(claims: Sequence[Claim], claim: Claim, request: Request) -> list[Claim]:
    requests = tuple(request if other.name == request.name else other for other in claim.requests)
    return [replace(claim, requests=requests) if other is claim else other for other in claims]

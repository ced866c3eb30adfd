"""Policies: which of the valid answers is the best one. They order, they never change what is valid.

A policy orders the devices for each slot of the search, which takes the first answer in that order, and scores the
answer, so that nodes can be compared. Any class with these two methods and two fields is a policy;
`allocator.policies` has those that are built in. Every policy places what first-fit places.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from typing import Final, Protocol

from allocator.bits import Mask
from allocator.cluster.pools import NodeView
from allocator.features.contract import NodeAttempt
from allocator.memo import Topic
from allocator.outcome import InvalidClaim
from allocator.search.backtracking import (
    USUAL_ORDER_EFFORT,
    Answer,
    BudgetSpent,
    NotFound,
    Order,
    OrderEffort,
    Search,
    Terms,
)
from allocator.search.rules import Candidates, DeviceSlot, Pick

Requests = Sequence[Sequence[Candidates]]
"""The requests of all claims of an attempt in order, each with its alternatives in order of preference."""

Score = tuple[float, ...]
"""How good an answer is; scores compare number by number, and more is better."""

_INDESCRIBABLE: Final[Topic[Mask]] = Topic("indescribable devices")


@dataclass(frozen=True, slots=True)
class PricedOrder:
    """An order that says how much work it is; one that says nothing has `USUAL_ORDER_EFFORT`."""

    order: Order
    effort: OrderEffort

    def __call__(self, slot: DeviceSlot, domain: Mask, picks: Sequence[Pick]) -> Iterable[int]:
        """The devices of the domain in order."""
        return self.order(slot, domain, picks)


class Policy(Protocol):
    """Orders devices and nodes."""

    @property
    def name(self) -> str:
        """As `--policy` takes it."""

    @property
    def reads(self) -> Sequence[str]:
        """The attributes that it looks at, by qualified name.

        Of a device it may look at nothing else that differs from node to node, such as its name: nodes that agree in
        all the rest are asked once.
        """

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order | None:
        """In which order to try the devices of this attempt; None leaves them as they are.

        To put a slot's devices in order is counted as work (`PricedOrder`): an attempt has a budget.
        """

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """How good the picks are, in as many numbers on every node; of equal nodes the first one is taken.

        Nothing at all leaves the nodes as they are.
        """


class PolicyOfNode(Policy, Protocol):
    """A policy of one attempt: it says which devices of its node come first."""

    @property
    def key(self) -> Hashable:
        """Equal for policies that order alike, on nodes that are alike."""


class Scoring(Enum):
    """What a policy compares nodes by."""

    BY_PICKS = "picks"
    """Its `score` of what is picked on each of them, as by every policy that says nothing else."""

    BY_NODE = "node"
    """What is free of each of them: a `NodePolicy`."""

    BY_WEIGHT = "weight"
    """The scores of several that look at each of them by itself, by weight."""

    BY_FLEET = "fleet"
    """What is free of all of them together: fill-value."""


def scoring_of(policy: Policy) -> Scoring:
    """What the policy compares nodes by: what it has as `scoring`, if it has that."""
    scoring: Scoring = getattr(policy, "scoring", Scoring.BY_PICKS)
    return scoring


class FirstFit:
    """kube-scheduler's own answer: devices and nodes as they come."""

    name = "first-fit"
    reads = ()

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order | None:
        """As they are."""
        return None

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """All answers are as good."""
        return ()


FIRST_FIT: Final = FirstFit()


def search_by(
    policy: Policy, attempt: NodeAttempt, requests: Requests, terms: Terms
) -> Answer | NotFound | BudgetSpent:
    """The first answer in the policy's order, with the picks of each request as the view has them.

    Devices that would end the attempt are left out at first: an error that only the policy's order comes by must not
    cost a pod its devices. Where nothing is found without them, what first-fit says counts; so it does where the order
    of picks decides whether they are valid. Raises what first-fit raises.
    """
    order = None if terms.is_exhaustive else policy.order(attempt, requests)
    if order is None:
        return Search(requests, terms).run()
    harmless = [[_without(c, c.poison | _indescribable(attempt.view)) for c in own] for own in requests]
    effort = order.effort if isinstance(order, PricedOrder) else USUAL_ORDER_EFFORT
    preferring = Search(harmless, replace(terms, order=order, order_effort=effort))
    try:
        answer = preferring.run()
    except InvalidClaim:
        return _first_fit(requests, terms, preferring.steps)
    if isinstance(answer, Answer):
        return Answer(_as_viewed(answer.picks), answer.steps)
    if _masks(harmless) != _masks(requests):
        return _first_fit(requests, terms, answer.steps)
    return answer


def score_of(policy: Policy, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
    """The policy's score, behind what the user prefers: of two nodes, earlier alternatives go before any policy."""
    score = policy.score(attempt, requests, picks)
    return (_earliness(requests, picks), *score) if score else ()


def _first_fit(requests: Requests, terms: Terms, spent: int) -> Answer | NotFound | BudgetSpent:
    if spent >= terms.budget_steps:
        return BudgetSpent(spent)
    answer = Search(requests, replace(terms, budget_steps=terms.budget_steps - spent)).run()
    return replace(answer, steps=answer.steps + spent)


def _without(candidates: Candidates, devices: Mask) -> Candidates:
    if not candidates.mask & devices:
        return candidates
    return replace(candidates, mask=candidates.mask & ~devices, poison=candidates.poison & ~devices)


def _indescribable(view: NodeView) -> Mask:
    """The devices that no result can name the nodes of, since they have several node selector terms."""
    return view.memo.remember(_INDESCRIBABLE, lambda: _indescribable_of(view))


def _indescribable_of(view: NodeView) -> Mask:
    mask = 0
    for segment in view.segments:
        for position, device in enumerate(segment.slice.devices, segment.offset):
            reach = device.reach if segment.slice.reach.per_device else segment.slice.reach
            mask |= (len(reach.node_selector or ()) > 1) << position
    return mask


def _masks(requests: Requests) -> Sequence[Mask]:
    return [candidates.mask for alternatives in requests for candidates in alternatives]


def _as_viewed(picks: Sequence[Pick]) -> tuple[Pick, ...]:
    """The picks of each request in the order of the view, in which results are written."""
    by_request = groupby(picks, key=lambda pick: id(pick.candidates))
    return tuple(pick for _, own in by_request for pick in sorted(own, key=lambda pick: pick.device))


def _earliness(requests: Requests, picks: Sequence[Pick]) -> int:
    """How far up their lists the chosen alternatives stand: 0 where all are first ones, less otherwise."""
    chosen = {(pick.candidates.claim, pick.candidates.alternative.name) for pick in picks}
    return -sum(
        next((place for place, c in enumerate(own) if (c.claim, c.alternative.name) in chosen), 0) for own in requests
    )

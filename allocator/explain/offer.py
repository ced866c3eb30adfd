"""What a node has to offer to claims, request by request and constraint by constraint; and asking it again.

The offer is the whole of what a refusal takes its first cause from, before any pick: the funnel of every alternative,
the devices of every value of a constraint's attribute, and the pools that cannot be used. Nothing is searched.
`Asking` calls the allocator for one node with one thing changed, so that every remedy was tried. All calls share one
budget of steps; it is spent only for an explanation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

from allocator.allocate import BUDGET_STEPS, allocate, refusals_named, refusals_of
from allocator.bits import Mask, bits
from allocator.candidates import Problem, problem_of
from allocator.cluster.snapshot import Snapshot
from allocator.constraints import AttributeRule
from allocator.explain.selector_operands import OperandAnswers, SelectorOperand, refusals_by_operands
from allocator.features.contract import NodeAttempt, attempt_of
from allocator.features.list_type_attributes import Token
from allocator.memo import Topic
from allocator.model import Claim, Constraint, DeviceID, Node, PoolID
from allocator.outcome import Allocated, AllocationError, Budget, DeviceRefusal, Exhausted, Outcome
from allocator.search.rules import Candidates

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


MATCHING = ("in use", "capacity", "taint")
"""Kinds of stages whose devices are what a request means, though it cannot have them now."""


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many of a node's devices each check leaves to one alternative of a request."""

    claim: str
    request: str
    mode: str
    """`ExactCount` or `All`."""
    wanted: int
    """Devices that it needs; under `All` those that it means."""
    total: int
    """Devices of the node."""
    refusals: tuple[DeviceRefusal, ...]
    """In the order of the checks."""
    left: tuple[DeviceID, ...]
    """What remains."""
    unjudged: tuple[DeviceID, ...]
    """Those of `left` on which a selector fails."""
    operands: Mapping[str, tuple[SelectorOperand, ...]] = field(default_factory=dict, compare=False)
    """By the reason of a selector's refusals, the operands of its `&&`, if it is one, over the devices that come to it.
    """

    @property
    def matching(self) -> int:
        """Devices that the request means, whether or not it can have them now."""
        return len(self.left) + sum(r.number for r in self.refusals if r.category in MATCHING)


@dataclass(frozen=True, slots=True)
class ValueCount:
    """The devices with one value of an attribute. free: that a request could have; matching: that one means."""

    value: str
    free: int
    matching: int


@dataclass(frozen=True, slots=True)
class ConstraintOffer:
    """What a constraint finds among the candidates of the requests that it covers."""

    claim: str
    position: int
    """Of the constraint in its claim."""
    field: str
    """`matchAttribute` or `distinctAttribute`."""
    attribute: str
    requests: tuple[str, ...]
    wanted: int
    """Devices needed together."""
    best: int
    """At most so many satisfy it."""
    values: tuple[ValueCount, ...]
    """Those with the most free devices first; a device with a list of values counts for each of them."""
    without: int
    """Free devices that lack the attribute."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node has for claims. unusable: pools with what keeps their devices from being allocated."""

    funnels: tuple[Funnel, ...] = ()
    constraints: tuple[ConstraintOffer, ...] = ()
    unusable: tuple[tuple[PoolID, str], ...] = ()


def prepared(snapshot: Snapshot, node: Node | None, claims: Sequence[Claim]) -> tuple[NodeAttempt, Problem]:
    """The attempt on the node and what it searches. Raises AllocationError, as `allocate` does before its search.

    It has the budget of an attempt, and raises OutOfSteps beyond.
    """
    budget = Budget(BUDGET_STEPS)
    bindings = snapshot.bindings(claims)
    # No share is made, so none needs an id.
    attempt = attempt_of(snapshot, snapshot.view(node), str, budget=budget, bindings=bindings)
    return attempt, problem_of(snapshot, attempt, claims)


def offer_of(asking: Asking, claims: Sequence[Claim]) -> Offer:
    """What the node that is asked about offers to the claims, which have no devices yet.

    Raises AllocationError for what ends the attempt before any pick. Cost: O(requests and constraints times devices);
    evaluations of the operands of selectors are charged, and left out once the budget is spent.
    """
    attempt, problem = prepared(asking.snapshot, asking.node, claims)
    answers = OperandAnswers(attempt.features.environment, asking.charge_work)
    every = [one for alternatives in problem.requests for one in alternatives]
    funnels = tuple(_funnel(asking, answers, attempt, claims, one) for one in every)
    constraints = tuple(_constraint_offer(constraint, rule) for constraint, rule in problem.constraints)
    unusable = [(pool.id, _problem(pool.missing, pool.contradiction)) for pool in attempt.view.pools]
    return Offer(funnels, constraints, tuple((pool_id, what) for pool_id, what in unusable if what))


def _problem(missing: str, contradiction: str) -> str:
    if contradiction:
        return f"is invalid: {contradiction}"
    return f"is being updated: {missing}" if missing else ""


def _funnel(
    asking: Asking, answers: OperandAnswers, attempt: NodeAttempt, claims: Sequence[Claim], candidates: Candidates
) -> Funnel:
    alternative, devices = candidates.alternative, attempt.view.devices
    refused = refusals_of(attempt, alternative, candidates.stages)
    named, operands = refusals_by_operands(asking.snapshot, attempt.view, alternative, refused, answers)
    return Funnel(
        str(claims[candidates.claim]),
        alternative.name,
        alternative.mode,
        candidates.need,
        len(devices),
        refusals_named(named, devices, attempt.usage),
        _ids(attempt, candidates.mask),
        _ids(attempt, candidates.poison),
        operands,
    )


_IDS: Final[Topic[tuple[DeviceID, ...]]] = Topic("ids of devices")


def _ids(attempt: NodeAttempt, devices: Mask) -> tuple[DeviceID, ...]:
    """The same object for requests that mean the same devices."""
    view = attempt.view
    return attempt.memo.remember((_IDS, devices), lambda: tuple(view.devices[device].id for device in bits(devices)))


def _constraint_offer(constraint: Constraint, rule: AttributeRule) -> ConstraintOffer:
    best, wanted = rule.best()
    field = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
    names = tuple(candidates.alternative.name for candidates in rule.covered)
    counts = sorted(_counts(rule), key=lambda count: (-count.free, -count.matching, count.value))
    free = _union(candidates.mask for candidates in rule.covered)
    present = _union(rule.columns.of(candidates).present & candidates.mask for candidates in rule.covered)
    without = (free & ~present).bit_count()
    return ConstraintOffer(
        rule.claim, rule.position, field, rule.attribute, names, wanted, best, tuple(counts), without
    )


def _counts(rule: AttributeRule) -> Iterator[ValueCount]:
    devices: dict[Token, tuple[Mask, Mask]] = {}
    for candidates in rule.covered:
        meant = candidates.mask | _union(stage.refused for stage in candidates.stages if stage.category in MATCHING)
        for token, group in rule.columns.of(candidates).groups.items():
            free, matching = devices.get(token, (0, 0))
            devices[token] = (free | group & candidates.mask, matching | group & meant)
    for token, (free, matching) in devices.items():
        if matching:
            yield ValueCount(_value_text(token), free.bit_count(), matching.bit_count())


def _union(masks: Iterable[Mask]) -> Mask:
    return reduce(or_, masks, 0)


def _value_text(token: Token) -> str:
    type_, value = token
    if type_ == "list":
        return "a list (equal to nothing while DRAListTypeAttributes is off)"
    return str(value).lower() if type_ == "bool" else str(value)

"""The decision for one node: all claims of a pod, or none of them.

A pure function of a snapshot, a node and claims; the caller writes the answer.
Source: KEP-4381.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from allocator.bits import bits
from allocator.cluster.snapshot import Snapshot
from allocator.cluster.usage import Usage
from allocator.explain.cause import cause_of, named
from allocator.features.contract import NodeAttempt, attempt_of
from allocator.features.tenant_limits import exceeded
from allocator.limits.limit import Bindings
from allocator.memo import TypedMemo
from allocator.model import Allocation, Claim, Device, Node, PoolID
from allocator.outcome import (
    Allocated,
    AllocationError,
    BrokenPool,
    Cause,
    Exhausted,
    InvalidClaim,
    InvalidPoolSeen,
    LimitReached,
    NotTogether,
    Outcome,
    Refused,
)
from allocator.policies.contract import FIRST_FIT, Policy, score_of, search_by
from allocator.requests.candidates import MAX_RESULTS, Problem, devices_looked_at, failure, problem_of
from allocator.results import allocation_of
from allocator.search.backtracking import Answer, BudgetSpent, Poisoned, Search, Terms
from allocator.search.budget import Budget, OutOfSteps
from allocator.search.rules import Candidates, Choice, Pick
from cel import Cancelled

BUDGET_STEPS: Final = 500_000
"""Steps that one attempt may take by default: about five seconds, for any request.

A step is a device tried, or as much other work (`backtracking.WORK_OF_A_STEP`).
"""

_NAMESPACE: Final = uuid.UUID("c5a1f3a4-7c1c-5f0e-8f3e-0f5b8a9d2e61")


def share_id_of(seed: str) -> str:
    """The id of a share: a UUID made from claim, request and device, which no two shares have in common."""
    return str(uuid.uuid5(_NAMESPACE, seed))


def allocate(  # noqa: PLR0913 - the last four have defaults, and are the caller's world
    snapshot: Snapshot,
    node: Node | None,
    claims: Sequence[Claim],
    *,
    budget_steps: int = BUDGET_STEPS,
    share_id: Callable[[str], str] = share_id_of,
    is_cancelled: Callable[[], bool] = lambda: False,
    policy: Policy = FIRST_FIT,
    budget: Budget | None = None,
) -> Outcome:
    """Choose devices of the node for the claims, which have none yet: the first choice in canonical order.

    The answer is the smallest under (claim, request, alternative, positions of devices), as kube-scheduler's is.
    share_id: makes the id of a new share from a text that names it. is_cancelled: called before every step, and before
    an expression is evaluated on a device. policy: another order of the devices, and a score. budget: of what comes
    before the search, where several attempts share one.
    Raises AllocationError for what ends the attempt on every node, Cancelled. No argument is changed.
    Cost: O(devices of the node) if no pick has to be taken back; at most a few hundred steps more than budget_steps.
    """
    outcome = outcome_of(
        snapshot,
        node,
        claims,
        budget_steps=budget_steps,
        share_id=share_id,
        is_cancelled=is_cancelled,
        policy=policy,
        budget=budget,
    )
    return with_names(outcome, snapshot.view(node).devices, snapshot.usage) if isinstance(outcome, Refused) else outcome


def outcome_of(  # noqa: PLR0913 - as `allocate`
    snapshot: Snapshot,
    node: Node | None,
    claims: Sequence[Claim],
    *,
    budget_steps: int,
    share_id: Callable[[str], str],
    is_cancelled: Callable[[], bool],
    policy: Policy,
    known: TypedMemo | None = None,
    budget: Budget | None = None,
    bindings: Bindings | None = None,
) -> Outcome:
    """As `allocate`, but a refusal has the positions of devices in place of names.

    known: what was worked out of these claims on nodes between which they do not distinguish. bindings: the limits that
    they could exceed, where these are known.
    """
    budget = Budget(budget_steps) if budget is None else budget
    bindings = snapshot.bindings(claims) if bindings is None else bindings
    before = budget.steps
    try:
        attempt = attempt_of(snapshot, snapshot.view(node), share_id, is_cancelled, known, budget, bindings)
    except OutOfSteps:
        return Exhausted(budget.steps - before, snapshot.features)
    try:
        problem = problem_of(snapshot, attempt, claims)
    except OutOfSteps:
        return Exhausted(budget.steps - before, snapshot.features)
    except BrokenPool as broken:
        if snapshot.features.release.broken_pools_end:
            raise
        return Refused(_beside_invalid(broken.cause, attempt), budget.steps - before, snapshot.features)
    spent = budget.steps - before
    terms = Terms(budget_steps - spent, MAX_RESULTS, problem.is_exhaustive, problem.may_end, is_cancelled)
    try:
        outcome = _answer(snapshot, attempt, claims, problem, terms, policy=policy)
    finally:
        problem.let_go()
    return replace(outcome, steps=outcome.steps + spent) if spent else outcome


def _answer(  # noqa: PLR0913 - an attempt, and on which terms
    snapshot: Snapshot,
    attempt: NodeAttempt,
    claims: Sequence[Claim],
    problem: Problem,
    terms: Terms,
    *,
    policy: Policy,
) -> Outcome:
    if not problem.may_end and problem.short() is not None:
        if terms.is_cancelled():
            raise Cancelled("cancelled before the search")
        return Refused(_cause(problem, attempt, claims), 0, snapshot.features)
    try:
        answer = search_by(policy, attempt, problem.requests, terms)
    except Poisoned as met:
        claim = claims[met.candidates.claim]
        raise InvalidClaim(failure(snapshot, attempt, claim, met.candidates.alternative, met.device)) from None
    match answer:
        case Answer():
            allocations = _allocations(snapshot, attempt, claims, answer.picks)
            score = score_of(policy, attempt, problem.requests, answer.picks)
            return Allocated(allocations, answer.steps, snapshot.features, score)
        case BudgetSpent():
            return Exhausted(answer.steps, snapshot.features)
        case _ if attempt.limited:
            left = replace(terms, budget_steps=terms.budget_steps - answer.steps)
            cause, steps = _cause_without_limits(snapshot, attempt, claims, left)
            return Refused(cause, answer.steps + steps, snapshot.features)
        case _:
            return Refused(_cause(problem, attempt, claims), answer.steps, snapshot.features)


def _cause_without_limits(
    snapshot: Snapshot, attempt: NodeAttempt, claims: Sequence[Claim], terms: Terms
) -> tuple[Cause | InvalidPoolSeen, int]:
    """Why nothing was found, and the steps to find out: a limit, if there is an answer without any. Cost: a search."""
    names = tuple(map(str, claims))
    unlimited = replace(attempt, limited=())
    try:
        problem = problem_of(snapshot, unlimited, claims)
    except OutOfSteps:
        return _beside_invalid(NotTogether(names), attempt), 0
    search = Search(problem.requests, terms)
    try:
        answer = search.run()
        if isinstance(answer, Answer):
            number, limit, asked = exceeded(attempt, answer.picks)
            return _beside_invalid(LimitReached(names, number, asked, limit), attempt), search.steps
        if isinstance(answer, BudgetSpent):
            return _beside_invalid(NotTogether(names), attempt), search.steps
        return _cause(problem, unlimited, claims), search.steps
    except (Poisoned, AllocationError):  # the search with limits has not come to that device
        return _beside_invalid(NotTogether(names), attempt), search.steps
    finally:
        problem.let_go()


def with_names(outcome: Refused, devices: Sequence[Device], usage: Usage) -> Refused:
    """The refusal with the names of devices, and of the claims that hold them. devices: of the view."""
    cause = outcome.cause
    if not isinstance(cause, InvalidPoolSeen):
        return Refused(named(cause, devices, usage), outcome.steps, outcome.features)
    inner = named(cause.cause, devices, usage) if cause.cause else None
    return Refused(InvalidPoolSeen(cause.pools, inner), outcome.steps, outcome.features)


def allocations_like(  # noqa: PLR0913 - the last two have defaults
    snapshot: Snapshot,
    node: Node,
    claims: Sequence[Claim],
    chosen: Sequence[Choice],
    *,
    share_id: Callable[[str], str] = share_id_of,
    known: TypedMemo | None = None,
) -> tuple[Allocation, ...]:
    """What the claims get on a node that is like another one, where the search chose these devices.

    known: as for `outcome_of`. Cost: O(devices chosen).
    """
    attempt = attempt_of(snapshot, snapshot.view(node), share_id, known=known)
    return _allocations(snapshot, attempt, claims, [_pick(claims, one) for one in chosen])


def _pick(claims: Sequence[Claim], chosen: Choice) -> Pick:
    alternatives = (one for request in claims[chosen.claim].requests for one in request.alternatives)
    alternative = next(one for one in alternatives if one.name == chosen.request)
    return Pick(Candidates(chosen.claim, alternative, 1 << chosen.device, 0, 1, None, (), ()), chosen.device)


def pools_looked_at(
    snapshot: Snapshot,
    node: Node,
    claims: Sequence[Claim],
    is_cancelled: Callable[[], bool] = lambda: False,
    budget_steps: int = BUDGET_STEPS,
) -> frozenset[PoolID] | None:
    """The pools with a device that the claims could have on the node if nothing were in use; None if that fails.

    It fails, too, if it takes more steps than the budget has. The use of other pools makes no difference: devices share
    counters and groups within their pool only.
    """
    try:
        view, budget = snapshot.view(node), Budget(budget_steps)
        attempt = attempt_of(snapshot, view, share_id_of, is_cancelled, budget=budget)
        looked_at = devices_looked_at(snapshot, attempt, claims)
    except AllocationError:
        return None
    devices = (attempt.view.devices[position] for position in bits(looked_at))
    return frozenset([PoolID(device.driver, device.pool) for device in devices])


def _allocations(
    snapshot: Snapshot, attempt: NodeAttempt, claims: Sequence[Claim], picks: Sequence[Pick]
) -> tuple[Allocation, ...]:
    by_claim: list[list[Pick]] = [[] for _ in claims]
    for pick in picks:
        by_claim[pick.candidates.claim].append(pick)
    return tuple(
        [allocation_of(claim, own, attempt, snapshot.classes) for claim, own in zip(claims, by_claim, strict=True)]
    )


def _cause(problem: Problem, attempt: NodeAttempt, claims: Sequence[Claim]) -> Cause | InvalidPoolSeen:
    return _beside_invalid(cause_of(problem, attempt, claims), attempt)


def _beside_invalid(cause: Cause, attempt: NodeAttempt) -> Cause | InvalidPoolSeen:
    invalid = tuple((pool.id, pool.contradiction) for pool in attempt.view.pools if pool.contradiction)
    return InvalidPoolSeen(invalid, cause) if invalid else cause

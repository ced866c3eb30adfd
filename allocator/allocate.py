"""The decision for one node: all claims of a pod, or none of them, with the picks as `status.allocation`.

A pure function of a snapshot, a node and claims; the caller writes the answer. The order of every list of a result is
part of the contract: drivers read configurations in it. If nothing is found, the answer names the cause.
Source: KEP-4381; resource.k8s.io/v1 AllocationResult; KEP-4816 (names of subrequests).
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, combinations, islice
from operator import or_
from typing import Final

from allocator.bits import Mask, bits
from allocator.candidates import MAX_RESULTS, Problem, devices_looked_at, failure, problem_of
from allocator.cluster.node_affinity import NAME_FIELD
from allocator.cluster.pools import NodeView
from allocator.cluster.snapshot import Snapshot
from allocator.cluster.usage import Usage
from allocator.features import concerned
from allocator.features.consumable_capacity import short_of
from allocator.features.contract import NodeAttempt, attempt_of
from allocator.features.tenant_limits import exceeded
from allocator.gates import Release
from allocator.limits import Bindings
from allocator.memo import Topic, TypedMemo
from allocator.model import (
    Allocation,
    Alternative,
    Claim,
    Device,
    DeviceClass,
    DeviceID,
    DeviceResult,
    Node,
    NodeSelector,
    PoolID,
    Reach,
    Requirement,
    ResultConfig,
    Term,
)
from allocator.outcome import (
    AllBlocked,
    Allocated,
    AllocationError,
    BrokenPool,
    Budget,
    Cause,
    ConstraintUnmet,
    DeviceRefusal,
    Exhausted,
    InvalidClaim,
    InvalidPool,
    InvalidPoolSeen,
    LimitReached,
    NotEnough,
    NotTogether,
    Outcome,
    OutOfSteps,
    Refused,
)
from allocator.policies.contract import FIRST_FIT, Policy, score_of, search_by
from allocator.search.backtracking import Answer, BudgetSpent, Poisoned, Search, Terms
from allocator.search.rules import Candidates, Choice, Pick, Stage

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
        attempt.look_at_time()
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


# What is found: the picks of a claim as its `status.allocation`.

_ONLY: Final[Topic[NodeSelector]] = Topic("selector of the node")


def allocation_of(
    claim: Claim, picks: Sequence[Pick], attempt: NodeAttempt, classes: Mapping[str, DeviceClass]
) -> Allocation:
    """The allocation for the picks of a claim, in their order.

    Raises InvalidPool if a device can only be described by several node selector terms.
    """
    config: tuple[ResultConfig, ...] = ()
    if claim.config or any(classes[a.class_name].config for request in claim.requests for a in request.alternatives):
        config = tuple(_config(claim, _chosen(claim, picks), classes, attempt.features.release))
    return Allocation(
        tuple([_result(claim, pick, attempt) for pick in picks]), config, _node_selector(picks, attempt.view)
    )


def _chosen(claim: Claim, picks: Sequence[Pick]) -> dict[str, str]:
    """Request name to the name of its chosen alternative (`request` or `request/subrequest`), in request order."""
    picked = {pick.candidates.alternative.name for pick in picks}
    return {
        request.name: next(a.name for a in request.alternatives if a.name in picked or _needs_none(a))
        for request in claim.requests
    }


def _needs_none(alternative: Alternative) -> bool:
    """True for a count below one, which only unchecked claims have."""
    return alternative.mode == "ExactCount" and alternative.count < 1


def _result(claim: Claim, pick: Pick, attempt: NodeAttempt) -> DeviceResult:
    device = attempt.view.devices[pick.device]
    alternative = pick.candidates.alternative
    result = DeviceResult(
        alternative.name, device.driver, device.pool, device.name, tolerations=alternative.tolerations
    )
    for feature in concerned(attempt.view, "finish"):
        result = feature.finish(attempt, claim, pick, result)
    return result


def _config(
    claim: Claim, chosen: Mapping[str, str], classes: Mapping[str, DeviceClass], release: Release
) -> Iterator[ResultConfig]:
    for config in (*_class_config(claim, chosen, classes), *_claim_config(claim, chosen, release)):
        covers_all = all(_names(config.requests, request, name) for request, name in chosen.items())
        if release.clears_covering_config and covers_all:
            yield ResultConfig(config.source, (), config.opaque)
        else:
            yield config


def _class_config(
    claim: Claim, chosen: Mapping[str, str], classes: Mapping[str, DeviceClass]
) -> Iterator[ResultConfig]:
    """Each class once, where it is first used, with the names of all requests that use it."""
    users: dict[str, list[str]] = {}
    for request in claim.requests:
        name = chosen[request.name]
        alternative = next(a for a in request.alternatives if a.name == name)
        users.setdefault(alternative.class_name, []).append(name)
    for class_name, names in users.items():
        for config in classes[class_name].config:
            yield ResultConfig("FromClass", tuple(names), config.opaque)


def _claim_config(claim: Claim, chosen: Mapping[str, str], release: Release) -> Iterator[ResultConfig]:
    for config in claim.config:
        hits = sum(_names(config.requests, request, name) for request, name in chosen.items())
        times = 1 if not config.requests else hits if release.repeats_claim_config else min(hits, 1)
        for _ in range(times):
            yield ResultConfig("FromClaim", config.requests, config.opaque)


def _names(requests: Sequence[str], request: str, chosen: str) -> bool:
    """True if the list names the request, or the alternative of it that was chosen."""
    return request in requests or chosen in requests


def _node_selector(picks: Iterable[Pick], view: NodeView) -> NodeSelector | None:
    expressions: dict[tuple[str, str, frozenset[str]], Requirement] = {}
    fields: dict[tuple[str, str, frozenset[str]], Requirement] = {}
    for pick in picks:
        device = view.devices[pick.device]
        slice_ = view.segment(pick.device).slice
        reach = device.reach if slice_.reach.per_device else slice_.reach
        if reach.node_name or device.binds_to_node:
            return _only(view)
        for term in _single_term(reach, slice_.name):
            _add(expressions, term.expressions)
            _add(fields, term.fields)
    if not expressions and not fields:
        return None
    return (Term(tuple(expressions.values()), tuple(fields.values())),)


def _only(view: NodeView) -> NodeSelector:
    """The selector of the view's node alone."""
    name = view.node.name if view.node else ""
    return view.memo.remember(_ONLY, lambda: (Term(fields=(Requirement(NAME_FIELD, "In", (name,)),)),))


def _single_term(reach: Reach, slice_name: str) -> NodeSelector:
    terms = reach.node_selector or ()
    if len(terms) > 1:
        raise InvalidPool(f"slice {slice_name}: a node selector of {len(terms)} terms is not supported, one is")
    return terms


def _add(known: dict[tuple[str, str, frozenset[str]], Requirement], requirements: Iterable[Requirement]) -> None:
    for requirement in requirements:
        known.setdefault((requirement.key, requirement.operator, frozenset(requirement.values)), requirement)


# Why nothing was found: the first of the causes that explains it, with its numbers.
#
# The funnel is free, since static rules are masks already. A constraint is named where even the best
# value of its attribute gives too few devices. What is left is a conflict between requests.

MOST_COMPARED: Final = 256
"""Different requests of which each two are compared, to name those that compete."""


def cause_of(problem: Problem, attempt: NodeAttempt, claims: Sequence[Claim]) -> Cause:
    """The cause of a refusal, with the positions of devices in place of names. Cost: O(requests times devices)."""
    short = problem.short()
    if short is not None:
        return _shortage(short, attempt, claims)
    for constraint, rule in problem.constraints:
        best, wanted = rule.best()
        if best < wanted:
            names = tuple(alternatives[0].alternative.name for alternatives in rule.affected)
            field = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
            return ConstraintUnmet(rule.claim, f"{field} {rule.attribute}", names, wanted, best)
    return _not_together(problem, attempt, tuple(str(claim) for claim in claims))


def _not_together(problem: Problem, attempt: NodeAttempt, claims: tuple[str, ...]) -> NotTogether:
    """Two of the requests, or else all that compete, that want more devices than there are for them."""
    whole = [
        wanted for wanted in map(_Wanted.of, problem.requests) if wanted and not wanted.devices & attempt.view.shareable
    ]
    for wanted in chain(map(_Wanted.together, combinations(_different(whole), 2)), _competing(whole)):
        if wanted.number > (left := wanted.devices.bit_count()):
            return NotTogether(
                tuple(claims[number] for number in sorted(wanted.claims)), wanted.requests, wanted.number, left
            )
    return NotTogether(claims)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """So many devices that requests want, and those that may be theirs, which no other request can share.

    claims: the numbers of those that the requests are of.
    """

    claims: frozenset[int]
    requests: tuple[str, ...]
    number: int
    devices: Mask

    @staticmethod
    def of(alternatives: Sequence[Candidates]) -> "_Wanted | None":
        """What one request wants, at least; None for one that takes no devices from others."""
        if any(one.alternative.admin_access for one in alternatives):
            return None
        devices = reduce(or_, (one.mask for one in alternatives), 0)
        first = alternatives[0]
        least = min(one.need for one in alternatives)
        return _Wanted(frozenset({first.claim}), (first.alternative.name,), least, devices)

    @staticmethod
    def together(every: Iterable["_Wanted"]) -> "_Wanted":
        """What all of them want."""
        claims, names, numbers, devices = zip(
            *[(one.claims, one.requests, one.number, one.devices) for one in every], strict=True
        )
        return _Wanted(
            frozenset().union(*claims), tuple(chain.from_iterable(names)), sum(numbers), reduce(or_, devices)
        )


def _different(whole: Sequence[_Wanted]) -> Sequence[_Wanted]:
    """The first two of those that want as many of the same devices: of several, no later one is in the first pair."""
    times: Counter[tuple[int, Mask]] = Counter()
    first_two: list[_Wanted] = []
    for wanted in whole:
        times[wanted.number, wanted.devices] += 1
        if times[wanted.number, wanted.devices] <= 2:
            first_two.append(wanted)
    return first_two[:MOST_COMPARED]


def _competing(whole: Sequence[_Wanted]) -> Iterator[_Wanted]:
    """For each the requests that could have one of its devices."""
    for devices in islice(dict.fromkeys(one.devices for one in whole), MOST_COMPARED):
        yield _Wanted.together(one for one in whole if one.devices & devices)


def with_requests_named(outcome: Outcome, claim: str, names: Mapping[str, str]) -> Outcome:
    """The outcome with other names for the requests of the claim, for people who have not written them."""
    if not isinstance(outcome, Refused) or not names:
        return outcome
    if isinstance(outcome.cause, InvalidPoolSeen):
        inner = outcome.cause.cause
        return replace(outcome, cause=replace(outcome.cause, cause=inner and _with_names(inner, claim, names)))
    return replace(outcome, cause=_with_names(outcome.cause, claim, names))


def _with_names(cause: Cause, claim: str, names: Mapping[str, str]) -> Cause:
    if isinstance(cause, NotTogether):
        own = names if claim in cause.claims else {}
        return replace(cause, requests=tuple(own.get(request, request) for request in cause.requests))
    if isinstance(cause, LimitReached) or cause.claim != claim:
        return cause
    if isinstance(cause, ConstraintUnmet):
        return replace(cause, requests=tuple(names.get(request, request) for request in cause.requests))
    return replace(cause, request=names.get(cause.request, cause.request))


def _shortage(candidates: Candidates, attempt: NodeAttempt, claims: Sequence[Claim]) -> Cause:
    claim, alternative = str(claims[candidates.claim]), candidates.alternative
    if candidates.forced is not None:
        stages = [stage for stage in candidates.stages if stage.is_of_all]
        return AllBlocked(claim, alternative.name, len(candidates.forced), refusals_of(attempt, alternative, stages))
    refusals = refusals_of(attempt, alternative, candidates.stages)
    left = candidates.mask.bit_count()
    return NotEnough(claim, alternative.name, candidates.need, len(attempt.view.devices), refusals, left)


def refusals_of(attempt: NodeAttempt, alternative: Alternative, stages: Sequence[Stage]) -> tuple[DeviceRefusal, ...]:
    """The stages that refused devices, with the positions of these."""
    return tuple([_refusal(attempt, alternative, stage) for stage in stages if stage.refused])


def _refusal(attempt: NodeAttempt, alternative: Alternative, stage: Stage) -> DeviceRefusal:
    short = short_of(attempt, alternative, stage.refused) if stage.category == "capacity" else ()
    return DeviceRefusal(stage.reason, stage.refused.bit_count(), (), stage.category, (), short, stage.refused)


def named(cause: Cause, devices: Sequence[Device], usage: Usage) -> Cause:
    """The cause with the names of devices, and of the claims that hold them. devices: of the view."""
    match cause:
        case NotEnough(claim, request, wanted, total, refusals, left):
            return NotEnough(claim, request, wanted, total, refusals_named(refusals, devices, usage), left)
        case AllBlocked(claim, request, total, refusals):
            return AllBlocked(claim, request, total, refusals_named(refusals, devices, usage))
        case _:
            return cause


def refusals_named(
    refusals: Iterable[DeviceRefusal], devices: Sequence[Device], usage: Usage
) -> tuple[DeviceRefusal, ...]:
    """The stages with the names of devices, and of the claims that hold them. devices: of the view."""
    return tuple([_named(refusal, devices, usage) for refusal in refusals])


def _named(refusal: DeviceRefusal, devices: Sequence[Device], usage: Usage) -> DeviceRefusal:
    ids = tuple([devices[position].id for position in bits(refusal.positions)])
    is_held = refusal.category in ("in use", "capacity")
    return replace(refusal, devices=ids, holders=_holders_of(ids, usage) if is_held else ())


def _holders_of(devices: Sequence[DeviceID], usage: Usage) -> tuple[tuple[str, int], ...]:
    """The claims that have the devices or shares of them, with how many, the largest holder first."""
    holders = Counter(holder for device in devices for holder in usage.users(device))
    return tuple(sorted(holders.items(), key=lambda item: (-item[1], item[0])))

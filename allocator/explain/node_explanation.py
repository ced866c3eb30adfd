"""Why claims get their devices on one node, or why not, as data.

The outcome, what the node has to offer, and for refused claims their conflict and what would help; `text` words it.

The conflict is requests and constraints that cannot be satisfied together, none of them spare. They are left out one
after the other for as long as the rest is refused; what is left is the conflict. Constraints go first, since a conflict
without them says more, and requests from the last to the first, since people read from the first.

What would help is one change at a time, and each was tried, so each is true: a lower count, a corrected selector, a
selector or constraint dropped, claims released, taints tolerated. If one claim, taint or selector is not enough, a set
is searched of which none can be left out; it need not be the smallest. A corrected selector has one word that no device
knows replaced by one like it that devices have: the domain or name of an attribute or capacity, or a value.
Source: the deletion method for minimal unsatisfiable subsets.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import Final, TypeVar

from allocator.allocate import BUDGET_STEPS, allocate
from allocator.candidates import MAX_RESULTS, Problem
from allocator.cluster.snapshot import Snapshot
from allocator.explain.offer import ALL_STEPS, Asking, Offer, offer_of, prepared
from allocator.explain.selector_operands import GuiltyOperands
from allocator.features.consumable_capacity import Capacity
from allocator.features.device_compatibility_groups import CompatibleGroups
from allocator.features.device_taints import BLOCKING, tolerates
from allocator.features.partitionable_devices import CounterRule
from allocator.features.tenant_limits import LimitRule
from allocator.model import Alternative, Claim, Device, Node, Request, Toleration
from allocator.outcome import Allocated, AllocationError, Exhausted, InvalidClaim, Outcome, Refused
from allocator.policies.contract import FIRST_FIT, Policy
from allocator.search.backtracking import Answer, Poisoned, Search, Terms
from allocator.search.rules import Candidates, Rule


@dataclass(frozen=True, slots=True)
class ConflictingRequest:
    """A request of a claim."""

    claim: str
    request: str


@dataclass(frozen=True, slots=True)
class ConflictingConstraint:
    """The constraint at a position of a claim. field: `matchAttribute` or `distinctAttribute`."""

    claim: str
    position: int
    field: str
    attribute: str


Member = ConflictingRequest | ConflictingConstraint

LIMITS: tuple[tuple[type[Rule], str], ...] = (
    (CounterRule, "counters"),
    (Capacity, "capacity"),
    (CompatibleGroups, "compatibility groups"),
    (LimitRule, "limits"),
)
"""What several picks share besides the devices themselves, with its name."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflict of members, in the order of the claims."""

    members: tuple[Member, ...]
    is_minimal: bool
    """Without any one of the members the rest can be satisfied; false if that is not known, since the budget was spent
    or the attempt failed.
    """
    offer: Offer
    """What the node has for these members alone."""
    wanted: int
    """Devices that its requests need at least, all together."""
    in_common: int | None
    """Devices that any of them could have, None if they can share devices."""
    limits: tuple[str, ...]
    """Of `LIMITS`, those without which the members could be satisfied."""

    @property
    def requests(self) -> tuple[ConflictingRequest, ...]:
        """The requests among the members."""
        return tuple(member for member in self.members if isinstance(member, ConflictingRequest))

    @property
    def constraints(self) -> tuple[ConflictingConstraint, ...]:
        """The constraints among the members."""
        return tuple(member for member in self.members if isinstance(member, ConflictingConstraint))


def conflict_of(asking: Asking, claims: Sequence[Claim]) -> Conflict:
    """The conflict in claims that are refused. Cost: one question for each request and each constraint."""
    every = tuple(member for claim in claims for member in members_of(claim))
    kept, is_minimal = set(every), True
    for member in _last_first(every):
        if not asking.may_ask():
            is_minimal = False
            break
        fewer = reduced(claims, kept - {member})
        answer = asking.ask(fewer)
        if isinstance(answer, Refused):
            kept.remove(member)
        elif not isinstance(answer, Allocated):
            is_minimal = False
    return _measured(asking, claims, tuple(member for member in every if member in kept), is_minimal=is_minimal)


def _last_first(members: Sequence[Member]) -> list[Member]:
    constraints = [member for member in members if isinstance(member, ConflictingConstraint)]
    requests = [member for member in members if isinstance(member, ConflictingRequest)]
    return [*reversed(constraints), *reversed(requests)]


def reduced(claims: Sequence[Claim], members: Iterable[Member]) -> list[Claim]:
    """The claims with these of their members only; without the claims that request no device."""
    kept = frozenset(members)
    fewer = [_reduced(claim, kept) for claim in claims]
    return [claim for claim in fewer if claim.requests]


def _reduced(claim: Claim, kept: frozenset[Member]) -> Claim:
    name = str(claim)
    requests = tuple([one for one in claim.requests if ConflictingRequest(name, one.name) in kept])
    own = zip(claim.constraints, _constraints(claim), strict=True)
    return replace(
        claim, requests=requests, constraints=tuple(constraint for constraint, member in own if member in kept)
    )


def members_of(claim: Claim) -> Iterator[Member]:
    """The requests of a claim, then its constraints."""
    yield from (ConflictingRequest(str(claim), request.name) for request in claim.requests)
    yield from _constraints(claim)


def _constraints(claim: Claim) -> Iterator[ConflictingConstraint]:
    for position, constraint in enumerate(claim.constraints):
        field = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
        attribute = constraint.match_attribute or constraint.distinct_attribute
        yield ConflictingConstraint(str(claim), position, field, attribute)


def _measured(asking: Asking, claims: Sequence[Claim], members: tuple[Member, ...], *, is_minimal: bool) -> Conflict:
    fewer = reduced(claims, members)
    _, problem = prepared(asking.snapshot, asking.node, fewer)
    wanted = sum(min(candidates.need for candidates in alternatives) for alternatives in problem.requests)
    limits = tuple(name for rule_type, name in LIMITS if _would_do_without(asking, problem, rule_type))
    return Conflict(members, is_minimal, offer_of(asking, fewer), wanted, _in_common(asking, problem), limits)


def _in_common(asking: Asking, problem: Problem) -> int | None:
    every = [candidates for alternatives in problem.requests for candidates in alternatives]
    devices = reduce(or_, (candidates.mask for candidates in every), 0)
    shareable = asking.snapshot.view(asking.node).shareable
    if devices & shareable or any(candidates.alternative.admin_access for candidates in every):
        return None
    return devices.bit_count()


def _would_do_without(asking: Asking, problem: Problem, rule_type: type[Rule]) -> bool:
    """True if the search finds devices once rules of this type are silent."""
    every = [candidates for alternatives in problem.requests for candidates in alternatives]
    if not any(isinstance(rule, rule_type) for candidates in every for rule in candidates.rules):
        return False
    if not asking.may_ask():
        return False
    loosened = [[_loosened(candidates, rule_type) for candidates in alternatives] for alternatives in problem.requests]
    search = Search(loosened, Terms(asking.left, MAX_RESULTS, problem.is_exhaustive, problem.may_end))
    try:
        return isinstance(search.run(), Answer)
    except (Poisoned, InvalidClaim):
        return False
    finally:
        asking.charge(search.steps)


def _loosened(candidates: Candidates, rule_type: type[Rule]) -> Candidates:
    return replace(candidates, rules=tuple(rule for rule in candidates.rules if not isinstance(rule, rule_type)))


MOST_LIKE = 2
"""Words that are offered in place of one."""

MOST_TRIED = 8
"""Corrections of one expression that are worth a try."""

LONGEST = 1024
"""Characters of an expression that a person has written."""

MOST_WORDS = 1 << 12
"""Of devices that a word is compared with; where there are more, it may differ in upper and lower case alone."""

_LIKENESS = 0.75
_WORD = re.compile(r"\"([^\"\\]{2,64})\"|'([^'\\]{2,64})'|\.([A-Za-z_]\w{1,63})\b(?!\()")
_OWN = frozenset({"allowMultipleAllocations", "attributes", "capacity", "driver"})
"""Fields of `device`."""


@dataclass(frozen=True, slots=True)
class Correction:
    """An expression in which `by` stands in place of `word`."""

    expression: str
    word: str
    by: str


def corrections(expression: str, devices: Iterable[Device]) -> list[Correction]:
    """Corrected expressions, the first words first. Cost: O(devices times what they say)."""
    if len(expression) > LONGEST:
        return []
    names, texts = _words_of(devices)
    corrected = [one for match in _WORD.finditer(expression) for one in _of_word(expression, match, names, texts)]
    return corrected[:MOST_TRIED]


def _of_word(expression: str, match: re.Match[str], names: set[str], texts: set[str]) -> Iterator[Correction]:
    position = next(number for number in (1, 2, 3) if match[number] is not None)
    word, known = match[position], names if position == 3 else names | texts
    if word in known or word in _OWN:
        return
    folded = {one.casefold(): one for one in sorted(known)}
    like = dict.fromkeys(
        [
            *filter(None, [folded.get(word.casefold())]),
            *(folded[one] for one in _like(word.casefold(), folded)),
            *(one for one in sorted(texts) if position != 3 and one.casefold().startswith(word.casefold())),
        ]
    )
    for by in list(like)[:MOST_LIKE]:
        start, end = match.span(position)
        yield Correction(f"{expression[:start]}{by}{expression[end:]}", word, by)


def _like(word: str, known: Collection[str]) -> list[str]:
    return get_close_matches(word, known, MOST_LIKE, _LIKENESS) if len(known) <= MOST_WORDS else []


def _words_of(devices: Iterable[Device]) -> tuple[set[str], set[str]]:
    """What devices call their attributes and capacities, and the texts that these have; a text may hold no quotes."""
    names: set[str] = set()
    texts: set[str] = set()
    for device in devices:
        names.add(device.driver)
        for name in (*device.attributes, *device.capacity):
            names.update(filter(None, name.partition("/")[::2]))
        values = (value for _, value in device.attributes.values())
        texts.update(value for value in values if isinstance(value, str) and not {'"', "'", "\\"} & set(value))
    return names, texts


_STEPS_OF_A_DEVICE = 2
"""To collect the words that it has, and compare them with those of a selector."""

MOST_RELEASES = 20
"""Claims whose release is tried one by one, those with the most devices of the node first."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class CountLowered:
    """It fits with this count of the request, the largest that is known to. of_all: the request asks for all now."""

    claim: str
    request: str
    count: int
    of_all: bool


@dataclass(frozen=True, slots=True)
class SelectorCorrected:
    """It fits with this selector of the request as corrected. position: among its own, not those of its class."""

    claim: str
    request: str
    position: int
    correction: Correction


@dataclass(frozen=True, slots=True)
class SelectorsDropped:
    """It fits without these selectors of the request's own, by position; none of them can be spared."""

    claim: str
    request: str
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConstraintDropped:
    """It fits without this constraint."""

    constraint: ConflictingConstraint


@dataclass(frozen=True, slots=True)
class ClaimsReleased:
    """It fits once these claims give their devices back; none of them can be spared."""

    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToleratedTaint:
    """A toleration for taints with this key and effect, in one request."""

    claim: str
    request: str
    key: str
    effect: str


@dataclass(frozen=True, slots=True)
class TaintsTolerated:
    """It fits with these tolerations; none of them can be spared."""

    taints: tuple[ToleratedTaint, ...]


Remedy = CountLowered | SelectorCorrected | SelectorsDropped | ConstraintDropped | ClaimsReleased | TaintsTolerated


def remedies_of(asking: Asking, claims: Sequence[Claim]) -> Iterator[Remedy]:
    """What would make the claims fit, which are refused. Cost: a question for each thing tried."""
    for claim in claims:
        for request in claim.requests:
            for alternative in request.alternatives:
                yield from _lower(asking, claims, claim, alternative)
    yield from selectors_mended(asking, claims)
    every = tuple(member for claim in claims for member in members_of(claim))
    for member in every:
        if isinstance(member, ConflictingConstraint) and asking.fits(reduced(claims, _all_but(every, member))):
            yield ConstraintDropped(member)
    yield from _release(asking, claims)
    yield from _tolerate(asking, claims)


def selectors_mended(asking: Asking, claims: Sequence[Claim]) -> Iterator[SelectorCorrected | SelectorsDropped]:
    """The selectors that, corrected or dropped, would make the claims fit."""
    for claim in claims:
        for alternative in _alternatives(claim):
            yield from _correct(asking, claims, claim, alternative)
            yield from _drop(asking, claims, claim, alternative)


def _lower(asking: Asking, claims: Sequence[Claim], claim: Claim, alternative: Alternative) -> Iterator[CountLowered]:
    """By halving: what fits with a count fits with every smaller one."""
    if not asking.may_ask():
        return
    is_all = alternative.mode == "All"
    low, high = 0, MAX_RESULTS + 1 if is_all else min(alternative.count, MAX_RESULTS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        fewer = replace(alternative, mode="ExactCount", count=middle)
        if asking.fits(_changed(claims, claim, fewer)):
            low = middle
        else:
            high = middle
    if low:
        yield CountLowered(str(claim), alternative.name, low, of_all=is_all)


def _correct(
    asking: Asking, claims: Sequence[Claim], claim: Claim, alternative: Alternative
) -> Iterator[SelectorCorrected]:
    """The first correction of each selector that makes it fit."""
    devices = asking.snapshot.view(asking.node).devices if alternative.selectors else ()
    for position, expression in enumerate(alternative.selectors):
        if not asking.may_ask():
            return
        asking.charge(_STEPS_OF_A_DEVICE * len(devices))
        for correction in corrections(expression or "", devices):
            other = (*alternative.selectors[:position], correction.expression, *alternative.selectors[position + 1 :])
            if asking.fits(_changed(claims, claim, replace(alternative, selectors=other))):
                yield SelectorCorrected(str(claim), alternative.name, position, correction)
                break


def _drop(
    asking: Asking, claims: Sequence[Claim], claim: Claim, alternative: Alternative
) -> Iterator[SelectorsDropped]:
    """One selector, where one is enough; else as many as are needed."""

    def fits(dropped: Sequence[int]) -> bool:
        left = tuple(one for place, one in enumerate(alternative.selectors) if place not in dropped)
        return asking.fits(_changed(claims, claim, replace(alternative, selectors=left)))

    every = range(len(alternative.selectors))
    if not every or not asking.may_ask() or not fits(every):
        return
    alone: list[Sequence[int]] = [[place] for place in every if len(every) == 1 or fits([place])]
    for places in alone or [_needed(asking, every, fits)]:
        yield from [SelectorsDropped(str(claim), alternative.name, tuple(places))] if places else []


def _release(asking: Asking, claims: Sequence[Claim]) -> Iterator[Remedy]:
    holders = _holders(asking)
    if not holders or not asking.fits(claims, frozenset(holders)):
        return
    alone = [name for name in holders[:MOST_RELEASES] if asking.fits(claims, frozenset((name,)))]
    if alone:
        yield from (ClaimsReleased((name,)) for name in alone)
    else:
        needed = _needed(asking, holders, lambda released: asking.fits(claims, frozenset(released)))
        yield from [ClaimsReleased(tuple(needed))] if needed else []


def _holders(asking: Asking) -> list[str]:
    """The claims with devices of the node's pools, those with the most devices that the node reaches first."""
    devices = {device.id for device in asking.snapshot.view(asking.node).devices}
    numbers = {
        name: sum(result.id in devices for result in claim.allocation.results if not result.admin_access)
        for name, claim in asking.held.items()
        if claim.allocation
    }
    return sorted(numbers, key=lambda name: (-numbers[name], name))


def _tolerate(asking: Asking, claims: Sequence[Claim]) -> Iterator[Remedy]:
    every = _untolerated(asking, claims)
    if not every or not asking.fits(_tolerant(claims, every)):
        return
    by_taint = dict.fromkeys((taint.key, taint.effect) for taint in every)
    alone = [[taint for taint in every if (taint.key, taint.effect) == one] for one in by_taint]
    enough = [own for own in alone if asking.fits(_tolerant(claims, own))]
    for own in enough or [every]:
        needed = _needed(asking, own, lambda taints: asking.fits(_tolerant(claims, taints)))
        yield from [TaintsTolerated(tuple(needed))] if needed else []


def _untolerated(asking: Asking, claims: Sequence[Claim]) -> list[ToleratedTaint]:
    """For each alternative of the claims, the taints of the node's devices that it does not tolerate."""
    taints = dict.fromkeys(t for d in asking.snapshot.view(asking.node).devices for t in d.taints)
    untolerated = (
        ToleratedTaint(str(claim), alternative.name, taint.key, taint.effect)
        for claim in claims
        for request in claim.requests
        for alternative in request.alternatives
        for taint in taints
        if taint.effect in BLOCKING and not tolerates(alternative.tolerations, taint)
    )
    return list(dict.fromkeys(untolerated))


def _tolerant(claims: Sequence[Claim], taints: Iterable[ToleratedTaint]) -> list[Claim]:
    changed = list(claims)
    for taint in taints:
        for position, claim in enumerate(changed):
            for alternative in _alternatives(claim):
                if (str(claim), alternative.name) == (taint.claim, taint.request):
                    own = Toleration(taint.key, "Exists", "", taint.effect)
                    tolerant = replace(alternative, tolerations=(*alternative.tolerations, own))
                    changed[position] = _with_alternative(claim, tolerant)
    return changed


def _needed(asking: Asking, items: Sequence[Item], suffices: Callable[[Sequence[Item]], bool]) -> Sequence[Item]:
    """Of the items, which suffice, a set that suffices and of which none can be spared; none if that is not known.

    The shorter one of two that are looked for from either end. Source: the method QuickXplain.
    """
    before = asking.gaps
    shrunk = [_shrunk([], one, suffices) for one in (items, list(reversed(items)))]
    shortest = min(shrunk, key=len) if asking.gaps == before else []
    return [item for item in items if item in shortest]


def _shrunk(kept: list[Item], items: Sequence[Item], suffices: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """The items that are needed in addition to those kept; all together suffice."""
    if suffices(kept):
        return []
    if len(items) == 1:
        return list(items)
    first, second = items[: len(items) // 2], items[len(items) // 2 :]
    later = _shrunk([*kept, *first], second, suffices)
    return [*_shrunk([*kept, *later], first, suffices), *later]


def _all_but(members: Iterable[Member], one: Member) -> list[Member]:
    return [member for member in members if member != one]


def _alternatives(claim: Claim) -> list[Alternative]:
    return [alternative for request in claim.requests for alternative in request.alternatives]


def _changed(claims: Sequence[Claim], claim: Claim, alternative: Alternative) -> list[Claim]:
    return [_with_alternative(other, alternative) if other is claim else other for other in claims]


def _with_alternative(claim: Claim, alternative: Alternative) -> Claim:
    """The claim with this alternative in place of the one of its name."""

    def changed(request: Request) -> Request:
        alternatives = tuple(alternative if a.name == alternative.name else a for a in request.alternatives)
        return replace(request, alternatives=alternatives)

    return replace(claim, requests=tuple(changed(request) for request in claim.requests))


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

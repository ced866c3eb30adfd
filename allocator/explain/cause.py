"""Why nothing was found: the first of the causes that explains it, with its numbers.

The funnel is free, since static rules are masks already. A constraint is named where even the best
value of its attribute gives too few devices. What is left is a conflict between requests.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, combinations, islice
from operator import or_
from typing import Final

from allocator.bits import Mask, bits
from allocator.candidates import Problem
from allocator.cluster.usage import Usage
from allocator.features.consumable_capacity import short_of
from allocator.features.contract import NodeAttempt
from allocator.model import Alternative, Claim, Device, DeviceID
from allocator.outcome import (
    AllBlocked,
    Cause,
    ConstraintUnmet,
    DeviceRefusal,
    InvalidPoolSeen,
    LimitReached,
    NotEnough,
    NotTogether,
    Outcome,
    Refused,
)
from allocator.search.rules import Candidates, Stage

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
            return NotTogether(claims, wanted.requests, wanted.number, left)
    return NotTogether(claims)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """So many devices that requests want, and those that may be theirs, which no other request can share."""

    requests: tuple[str, ...]
    number: int
    devices: Mask

    @staticmethod
    def of(alternatives: Sequence[Candidates]) -> "_Wanted | None":
        """What one request wants, at least; None for one that takes no devices from others."""
        if any(one.alternative.admin_access for one in alternatives):
            return None
        devices = reduce(or_, (one.mask for one in alternatives), 0)
        return _Wanted((alternatives[0].alternative.name,), min(one.need for one in alternatives), devices)

    @staticmethod
    def together(every: Iterable["_Wanted"]) -> "_Wanted":
        """What all of them want."""
        names, numbers, devices = zip(*[(one.requests, one.number, one.devices) for one in every], strict=True)
        return _Wanted(tuple(chain.from_iterable(names)), sum(numbers), reduce(or_, devices))


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

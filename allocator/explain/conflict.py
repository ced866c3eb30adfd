"""The conflict of refused claims: requests and constraints that cannot be satisfied together, none of them spare.

Requests and constraints are left out one after the other for as long as the rest is refused; what is
left is the conflict. Constraints go first, since a conflict without them says more, and requests from
the last to the first, since people read from the first.
Source: the deletion method for minimal unsatisfiable subsets.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from allocator.candidates import MAX_RESULTS, Problem
from allocator.explain.offer import Asking, Offer, offer_of, prepared
from allocator.features.consumable_capacity import Capacity
from allocator.features.device_compatibility_groups import CompatibleGroups
from allocator.features.partitionable_devices import CounterRule
from allocator.features.tenant_limits import LimitRule
from allocator.model import Claim
from allocator.outcome import Allocated, InvalidClaim, Refused
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

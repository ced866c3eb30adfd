"""An explanation as sentences."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from allocator.explain.node_explanation import (
    ClaimsReleased,
    Conflict,
    ConflictingConstraint,
    ConflictingRequest,
    ConstraintDropped,
    CountLowered,
    Remedy,
    SelectorCorrected,
    SelectorsDropped,
    TaintsTolerated,
    ToleratedTaint,
)
from allocator.explain.offer import MATCHING, ConstraintOffer, Funnel
from allocator.outcome import (
    AllBlocked,
    CapacityShort,
    Cause,
    ConstraintUnmet,
    DeviceRefusal,
    Exhausted,
    InvalidPoolSeen,
    LimitReached,
    NotEnough,
    NotTogether,
    Outcome,
    PoolNotWhole,
    Refused,
)
from allocator.words import agreeing, and_more, counted, listed, listed_up_to

# Refusals to text: one line for a node, one line for all nodes together.
#
# The line for all nodes counts those that refuse whatever devices they have, and describes the nearest of the others.
#
# `reader` is everywhere the namespace whose people read the text: it names claims of that namespace, and says how many
# others there are. Who calls has to say who reads; an operator (`OPERATOR`) reads all names.


OPERATOR: Final = ""
"""The reader who reads the names of all claims."""


def node_text(answer: str | Outcome, *, reader: str) -> str:
    """Why one node was refused."""
    match answer:
        case str():
            return answer
        case Refused(cause=InvalidPoolSeen() as seen):
            pools = "; ".join(f"pool {pool.driver}/{pool.pool} is invalid: {what}" for pool, what in seen.pools)
            return f"{_cause_text(seen.cause, reader)}; {pools}"
        case Refused(cause=cause):
            assert not isinstance(cause, InvalidPoolSeen)
            return _cause_text(cause, reader)
        case Exhausted():
            return f"not known: no answer after {answer.steps} steps"
        case _:
            raise AssertionError(f"{answer} refuses nothing")


def summary(groups: Iterable[tuple[str, str | Outcome, int]], total: int, updating: Sequence[str] = ()) -> str:
    """Why no node can, in one line: `0/N nodes: ` nodes that refuse whatever devices they have, then the nearest miss.

    An operator reads it: it names all holders of devices.
    groups: of nodes that say the same, the first, what it says, and how many they are; a node may be in several.
    total: the number of all. updating: pools whose devices cannot be had now, in words.
    """
    lacking: dict[str, str | Outcome] = {}
    refused: Counter[str] = Counter()
    for node, answer, number in groups:
        if isinstance(answer, str):
            refused[answer] += number
        else:
            lacking[node] = answer
    reported = [f"{counted(times, 'node')}: {reason}" for reason, times in refused.most_common()]
    if lacking:
        reported = [*reported, nearest_miss(lacking, are_all=not refused, reader=OPERATOR), *_updating_text(updating)]
    return f"0/{total} nodes: {'; '.join(reported)}"


MOST_POOLS = 2
"""Pools being updated that a line names; of the others it has the number."""


def _updating_text(pools: Sequence[str]) -> list[str]:
    """The text about these pools; empty if there are none."""
    if not pools:
        return []
    number = counted(len(pools), "pool is", "pools are")
    return [f"{number} being updated: {listed_up_to(pools, MOST_POOLS)}"]


def nearest_miss(nodes: Mapping[str, str | Outcome], *, reader: str, are_all: bool = True, nearest: str = "") -> str:
    """What the nearest node lacks. nodes: of those that say the same, one is enough.

    are_all: no other nodes, which may have the devices, are refused for other reasons. nearest: `nearest_of` these
    nodes, where it is known.
    """
    return _nearest_text(nearest or nearest_of(nodes), nodes, reader, are_all=are_all)


def nearest_of(nodes: Mapping[str, str | Outcome]) -> str:
    """The node that came closest; the first of equals."""
    return max(nodes, key=lambda name: _nearness(nodes[name]))


def has_matching_devices(answer: Outcome) -> bool:
    """Whether a device of the node passes the selectors of the request that it does not satisfy."""
    cause = inner_cause(answer)
    return not isinstance(cause, NotEnough) or _matching(cause) > 0


def _nearest_text(nearest: str, nodes: Mapping[str, str | Outcome], reader: str, *, are_all: bool) -> str:
    answer = nodes[nearest]
    cause = inner_cause(answer)
    if isinstance(cause, LimitReached):
        return node_text(answer, reader=reader)  # a limit is of no node
    causes = [other for other in map(inner_cause, nodes.values()) if other is not None]
    if not isinstance(cause, NotEnough) or not all(_is_about_the_same(cause, other) for other in causes):
        return f"nearest is node {nearest}: {node_text(answer, reader=reader)}"
    wanted = f"no {'' if are_all else 'other '}node has {devices_text(cause.wanted)} for request {cause.request}"
    if not _matching(cause):
        funnel = _funnel(cause.total, cause.refusals, reader)
        return f"{wanted}, no device passes its selectors (node {nearest} has {funnel})"
    most = f"the most is {cause.left}, on {nearest}" if cause.left else f"{nearest} comes nearest"
    return f"{wanted}, {most} (of {_funnel(cause.total, cause.refusals, reader)})"


def _is_about_the_same(cause: NotEnough, other: Cause) -> bool:
    return isinstance(other, NotEnough) and (cause.claim, cause.request) == (other.claim, other.request)


def inner_cause(answer: str | Outcome) -> Cause | None:
    """The cause of a refusal, whether or not a pool is invalid as well."""
    if not isinstance(answer, Refused):
        return None
    return answer.cause.cause if isinstance(answer.cause, InvalidPoolSeen) else answer.cause


def _nearness(answer: str | Outcome) -> tuple[float, int, int]:  # noqa: PLR0911 - one for each cause
    """(how near to an answer, how many devices came past the selectors, how many there are)."""
    match inner_cause(answer):
        case NotEnough() as cause:
            return cause.left / cause.wanted, _matching(cause), cause.total
        case AllBlocked() as cause:
            blocked = sum(refusal.number for refusal in cause.refusals)
            return 1.0 + (cause.total - blocked) / cause.total, 0, 0
        case ConstraintUnmet() as cause:
            return 2.0 + cause.best / cause.wanted, 0, 0
        case NotTogether():
            return 4.0, 0, 0
        case LimitReached():
            return 6.0, 0, 0  # nothing else is missing
        case PoolNotWhole():
            return 0.0, 0, 0
        case None:
            return (5.0, 0, 0) if isinstance(answer, Exhausted) else (-1.0, 0, 0)


def _matching(cause: NotEnough) -> int:
    """How many devices came past the selectors."""
    return cause.left + sum(refusal.number for refusal in cause.refusals if refusal.category != "selector")


def _cause_text(cause: Cause | None, reader: str) -> str:  # noqa: PLR0911 - one for each cause
    match cause:
        case NotEnough():
            return (
                f"request {cause.request} needs {devices_text(cause.wanted)}, {left_text(cause.left)} "
                f"({_funnel(cause.total, cause.refusals, reader)})"
            )
        case AllBlocked():
            reported = _reported(cause.refusals, reader)
            return f"request {cause.request} needs all of {devices_text(cause.total)}: {reported}"
        case ConstraintUnmet():
            names = ", ".join(cause.requests)
            wanted = devices_text(cause.wanted)
            return f"at most {cause.best} of {wanted} meet {cause.constraint} together (requests {names})"
        case NotTogether():
            return f"{_together_text(cause)} (claims {', '.join(cause.claims)})"
        case LimitReached():
            return cause.limit.text(cause.asked) if cause.limit else f"limit {cause.number}: {cause.asked} requested"
        case PoolNotWhole():
            return f"request {cause.request} needs all devices, and a pool is being updated or invalid"
        case None:
            return "no devices"


def _together_text(cause: NotTogether) -> str:
    if not cause.requests:
        return "no choice of devices satisfies everything together"
    wanted = f"requests {', '.join(cause.requests)} need {devices_text(cause.wanted)} together"
    return f"{wanted}, {left_text(cause.left)}"


def _funnel(total: int, refusals: tuple[DeviceRefusal, ...], reader: str) -> str:
    return f"{devices_text(total)}{': ' if refusals else ''}{_reported(refusals, reader)}"


MOST_HOLDERS = 3
"""Claims that a line names; of the others it has the number."""


def _reported(refusals: tuple[DeviceRefusal, ...], reader: str) -> str:
    """What refused how many; what a request does not mean anyway comes last."""
    ordered = sorted(refusals, key=lambda refusal: refusal.category == "selector")
    return ", ".join(refusal_text(refusal, reader=reader) for refusal in ordered)


def refusal_text(refusal: DeviceRefusal, *, reader: str) -> str:
    """One stage of the funnel: how many, why, and who has them."""
    details = [_short_text(short, refusal.number) for short in refusal.short]
    if refusal.holders:
        details.append(_held_text(refusal.holders, reader=reader))
    reported = f" ({'; '.join(details)})" if details else ""
    number = refusal.number
    return f"{number} {refusal.reason if number > 1 else _of_one(refusal.reason)}{reported}"


_OF_ONE = {
    "are": "is",
    "consume": "consumes",
    "do": "does",
    "fail": "fails",
    "have": "has",
    "need": "needs",
    "skip": "skips",
}


def _of_one(reason: str) -> str:
    """The phrase as it follows the number 1."""
    verb, _, rest = reason.partition(" ")
    return f"{_OF_ONE.get(verb, verb)} {rest.replace(' of their ', ' of its ')}"


def _short_text(short: CapacityShort, devices: int) -> str:
    where = "" if short.devices == devices else f" on {short.devices}"
    if short.takes_all:
        return f"every share takes all of capacity {short.capacity}, which has no request policy{where}"
    return f"too little of capacity {short.capacity}{where}"


SET_ASIDE = "set aside: "
"""What a holder that is no claim begins with; the reason follows. It concerns every reader, as it names nobody."""


def _held_text(holders: Sequence[tuple[str, int]], *, reader: str) -> str:
    """Which claims hold devices, and why others are withheld from all claims."""
    claims = [one for one in holders if not one[0].startswith(SET_ASIDE)]
    withheld = [name for name, _ in holders if name.startswith(SET_ASIDE)]
    return "; ".join([*([f"held by {holders_text(claims, reader=reader)}"] if claims else []), *withheld])


def holders_text(holders: Sequence[tuple[str, int]], *, reader: str, noun: str = "") -> str:
    """The largest holders by name, and how many more there are. noun: before each name.

    Whatever names who holds something does it here, so that no text tells a tenant the names of another one's claims.
    """
    own = [one for one in holders if not reader or one[0].startswith(f"{reader}/")]
    named = [f"{noun}{claim}" + (f" \u00d7{number}" if number > 1 else "") for claim, number in own[:MOST_HOLDERS]]
    rest, others = len(own) - len(named), len(holders) - len(own)
    unnamed = [counted(rest, "more claim")] if rest else []
    if others:
        unnamed.append("a claim of another namespace" if others == 1 else f"{others} claims of other namespaces")
    return listed([*named, *unnamed]) if unnamed else ", ".join(named)


def left_text(number: int) -> str:
    """So many are left."""
    return f"{counted(number, 'is', 'are')} left"


def devices_text(number: int) -> str:
    """So many devices."""
    return counted(number, "device")


# Conflicts, near misses, constraints and remedies to sentences: what `node_explanation` finds, for people.


def conflict_text(conflict: Conflict, node: str) -> str:
    """Why the node cannot allocate the claims, in a sentence."""
    claims = list(dict.fromkeys(member.claim for member in conflict.requests))
    hint = "" if conflict.is_minimal else " A smaller conflict may exist."
    pools = "".join(f" Pool {pool.driver}/{pool.pool} {what}." for pool, what in conflict.offer.unusable)
    named = f"{agreeing(len(claims), 'claim')} {listed(claims)}"
    return f"Because {_reason_of(conflict, node)}, {named} cannot be allocated there.{hint}{pools}"


def _reason_of(conflict: Conflict, node: str) -> str:
    where = f"on node {node}"
    if len(conflict.constraints) == 1 and (reported := _unmet_text(conflict, conflict.offer.constraints[0], where)):
        return reported
    names = _requests_text(conflict.requests)
    verb = agreeing(len(conflict.requests), "needs", "need")
    if conflict.constraints:
        limits = listed([_constraint_text(constraint) for constraint in conflict.constraints])
        wanted = f"{names} {verb} {devices_text(conflict.wanted)} under {limits}"
        return f"{wanted}, and no choice of devices {where} satisfies that"
    if len(conflict.requests) == 1 and (reported := _short_alone(conflict.offer.funnels, where)):
        return f"{names} {reported}"
    together = "" if len(conflict.requests) == 1 else " together"
    wanted = f"{names} {verb} {devices_text(conflict.wanted)}{together}"
    if conflict.in_common is not None and conflict.in_common < conflict.wanted:
        return f"{wanted}, and only {conflict.in_common} {where} can serve any of them"
    if conflict.limits:
        return f"{wanted}, and those {where} {listed([_LIMITS[limit] for limit in conflict.limits])}"
    return f"{wanted}, and no choice of devices {where} satisfies all of them"


_LIMITS = {
    "counters": "need more counters than are left",
    "capacity": "need more capacity than is left",
    "compatibility groups": "are in incompatible compatibility groups",
    "limits": "are more than a limit of the namespace leaves",
}


def _unmet_text(conflict: Conflict, offer: ConstraintOffer, where: str) -> str:
    """What the only constraint of a conflict lacks; empty if its values alone do not explain it."""
    names = _requests_text(conflict.requests)
    verb = agreeing(len(conflict.requests), "needs", "need")
    if offer.wanted != conflict.wanted:
        return ""
    free = [count.free for count in offer.values if count.free]
    if offer.field == "distinctAttribute":
        wanted = f"{names} {verb} {devices_text(offer.wanted)} with different values of {offer.attribute}"
        return f"{wanted}, and there are only {len(free)} such values {where}" if len(free) < offer.wanted else ""
    wanted = f"{names} {verb} {devices_text(offer.wanted)} with one {offer.attribute}"
    if not free:
        return f"{wanted}, and no device that is left {where} has that attribute"
    most = max(free)
    if most < offer.wanted:
        return f"{wanted}, and no value has more than {most} free {where}"
    if offer.best < offer.wanted:
        return f"{wanted}, and no value has enough for each of them {where}: at most {offer.best} together"
    return ""


def _short_alone(funnels: Sequence[Funnel], where: str) -> str:
    """What each alternative of a request lacks by itself; empty if one has candidates enough."""
    reported = [_lack(funnel, where) for funnel in funnels]
    if not all(reported):
        return ""
    if len(funnels) == 1:
        return reported[0]
    return "; ".join(f"as {funnel.request} {lack}" for funnel, lack in zip(funnels, reported, strict=True))


def _lack(funnel: Funnel, where: str) -> str:
    left = len(funnel.left)
    if left >= funnel.wanted:
        return ""
    if funnel.mode != "All":
        others = f" ({reported})" if (reported := _others(funnel)) else ""
        return f"needs {devices_text(funnel.wanted)}, and {left_text(left)} {where}{others}"
    if not left and not funnel.matching:
        return f"needs all devices that it matches, and it matches none {where}"
    others = f": {reported}" if (reported := _others(funnel)) else ""
    return f"needs all of {devices_text(funnel.wanted)} {where}, and {funnel.wanted - left} are unavailable{others}"


def near_miss(funnel: Funnel) -> str:
    """How near a request comes to its devices; empty if it has enough, or nothing else matches."""
    if len(funnel.left) >= funnel.wanted or not (others := _others(funnel)):
        return ""
    return f"{len(funnel.left)} of {funnel.wanted} found; {others}"


def _others(funnel: Funnel) -> str:
    """The devices that match, though the request cannot have them now; empty if there are none."""
    reported = [_hindrance(refusal) for refusal in funnel.refusals if refusal.category in MATCHING]
    number = funnel.matching - len(funnel.left)
    verb = agreeing(number, "matches", "match")
    if len(reported) == 1:
        reported = [reported[0].removeprefix(f"{number} ")]
    return f"{number} more {verb}, but {listed(reported)}" if reported else ""


def _hindrance(refusal: DeviceRefusal) -> str:
    """Why matching devices are unavailable: their holders, an exhausted capacity, or a taint."""
    if refusal.category == "in use" and refusal.holders:
        number = refusal.number
        return f"{counted(number, 'is', 'are')} {_held_text(refusal.holders, reader=OPERATOR)}"
    return refusal_text(replace(refusal, holders=()), reader=OPERATOR)


def constraint_offer_text(offer: ConstraintOffer, most: int = 8) -> str:
    """What a constraint finds: the devices of each value, those with the most free ones first."""
    counts = [f"{count.value} has {count.free} free of {count.matching}" for count in offer.values[:most]]
    if more := and_more(len(offer.values), most, "value"):
        counts.append(more)
    if offer.without:
        counts.append(f"{devices_text(offer.without)} without it")
    kind = "one" if offer.field == "matchAttribute" else "different values of"
    names = listed([f"request {name}" for name in offer.requests]) or "no request"
    offered = ", ".join(counts) or "no device has it"
    return (
        f"constraint #{offer.position}: {kind} {offer.attribute} for {devices_text(offer.wanted)} of {names}: {offered}"
    )


def remedy_texts(remedies: Sequence[Remedy], *, has_many_claims: bool = False) -> list[str]:
    """A line for each remedy; claims of which any one will do share a line."""
    single = [one.claims[0] for one in remedies if isinstance(one, ClaimsReleased) and len(one.claims) == 1]
    others = [one for one in remedies if not isinstance(one, ClaimsReleased) or len(one.claims) > 1 or len(single) == 1]
    reported = [remedy_text(one, has_many_claims=has_many_claims) for one in others]
    return [*reported, f"any one of these claims released: {', '.join(single)}"] if len(single) > 1 else reported


def remedy_text(remedy: Remedy, *, has_many_claims: bool = False) -> str:
    """A remedy in words. has_many_claims: whether to name the claim."""
    match remedy:
        case CountLowered():
            instead = " instead of all" if remedy.of_all else ""
            return f"{_request_text(remedy, has_many_claims)}: count {remedy.count}{instead}"
        case SelectorCorrected():
            words = f"{remedy.correction.by} in place of {remedy.correction.word}"
            return f"{_request_text(remedy, has_many_claims)}: selector #{remedy.position} with {words}"
        case SelectorsDropped():
            places = listed([f"#{position}" for position in remedy.positions])
            selectors = f"{agreeing(len(remedy.positions), 'selector')} {places}"
            return f"{_request_text(remedy, has_many_claims)}: {selectors} dropped"
        case ConstraintDropped(constraint):
            of = f"claim {constraint.claim}, " if has_many_claims else ""
            return f"{of}constraint #{constraint.position} ({_constraint_text(constraint)}) dropped"
        case ClaimsReleased(claims):
            return f"{agreeing(len(claims), 'claim')} {listed(claims)} released"
        case TaintsTolerated(taints):
            return listed(
                [f"taint {t.key}:{t.effect} tolerated by {_request_text(t, has_many_claims)}" for t in taints]
            )


def _request_text(
    member: ConflictingRequest | CountLowered | SelectorCorrected | SelectorsDropped | ToleratedTaint,
    has_many_claims: bool,  # noqa: FBT001 - of the text
) -> str:
    return f"request {member.request}{f' of claim {member.claim}' if has_many_claims else ''}"


def _requests_text(members: Sequence[ConflictingRequest]) -> str:
    has_many = len({member.claim for member in members}) > 1
    return listed([_request_text(member, has_many) for member in members])


def _constraint_text(constraint: ConflictingConstraint) -> str:
    return f"{constraint.field} {constraint.attribute}"

"""Conflicts, near misses, constraints and remedies to sentences: what `node_explanation` finds, for people."""

from collections.abc import Sequence
from dataclasses import replace

from allocator.explain.conflict import Conflict, ConflictingConstraint, ConflictingRequest
from allocator.explain.offer import MATCHING, ConstraintOffer, Funnel
from allocator.explain.remedies import (
    ClaimsReleased,
    ConstraintDropped,
    CountLowered,
    Remedy,
    SelectorCorrected,
    SelectorsDropped,
    TaintsTolerated,
    ToleratedTaint,
)
from allocator.explain.text import OPERATOR, devices_text, holders_text, left_text, refusal_text
from allocator.outcome import DeviceRefusal


def conflict_text(conflict: Conflict, node: str) -> str:
    """Why the node cannot allocate the claims, in a sentence."""
    claims = list(dict.fromkeys(member.claim for member in conflict.requests))
    hint = "" if conflict.is_minimal else " A smaller conflict may exist."
    pools = "".join(f" Pool {pool.driver}/{pool.pool} {what}." for pool, what in conflict.offer.unusable)
    because = f"Because {_reason_of(conflict, node)}, claim{_s(claims)} {_and(claims)} cannot be allocated there."
    return f"{because}{hint}{pools}"


def _reason_of(conflict: Conflict, node: str) -> str:
    where = f"on node {node}"
    if len(conflict.constraints) == 1 and (reported := _unmet_text(conflict, conflict.offer.constraints[0], where)):
        return reported
    names = _requests_text(conflict.requests)
    verb = "needs" if len(conflict.requests) == 1 else "need"
    if conflict.constraints:
        limits = _and([_constraint_text(constraint) for constraint in conflict.constraints])
        wanted = f"{names} {verb} {devices_text(conflict.wanted)} under {limits}"
        return f"{wanted}, and no choice of devices {where} satisfies that"
    if len(conflict.requests) == 1 and (reported := _short_alone(conflict.offer.funnels, where)):
        return f"{names} {reported}"
    together = "" if len(conflict.requests) == 1 else " together"
    wanted = f"{names} {verb} {devices_text(conflict.wanted)}{together}"
    if conflict.in_common is not None and conflict.in_common < conflict.wanted:
        return f"{wanted}, and only {conflict.in_common} {where} can serve any of them"
    if conflict.limits:
        return f"{wanted}, and those {where} {_and([_LIMITS[limit] for limit in conflict.limits])}"
    return f"{wanted}, and no choice of devices {where} satisfies all of them"


_LIMITS = {
    "counters": "need more counters than are left",
    "capacity": "need more capacity than is left",
    "compatibility groups": "are in incompatible compatibility groups",
}


def _unmet_text(conflict: Conflict, offer: ConstraintOffer, where: str) -> str:
    """What the only constraint of a conflict lacks; empty if its values alone do not explain it."""
    names = _requests_text(conflict.requests)
    verb = "needs" if len(conflict.requests) == 1 else "need"
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
    verb = "matches" if number == 1 else "match"
    if len(reported) == 1:
        reported = [reported[0].removeprefix(f"{number} ")]
    return f"{number} more {verb}, but {_and(reported)}" if reported else ""


def _hindrance(refusal: DeviceRefusal) -> str:
    """Why matching devices are unavailable: their holders, an exhausted capacity, or a taint."""
    if refusal.category == "in use" and refusal.holders:
        number = refusal.number
        return f"{number} {'is' if number == 1 else 'are'} held by {holders_text(refusal.holders, reader=OPERATOR)}"
    return refusal_text(replace(refusal, holders=()), reader=OPERATOR)


def constraint_offer_text(offer: ConstraintOffer, most: int = 8) -> str:
    """What a constraint finds: the devices of each value, those with the most free ones first."""
    counts = [f"{count.value} has {count.free} free of {count.matching}" for count in offer.values[:most]]
    if len(offer.values) > most:
        counts.append(f"and {len(offer.values) - most} more values")
    if offer.without:
        counts.append(f"{devices_text(offer.without)} without it")
    one = "one" if offer.field == "matchAttribute" else "different values of"
    names = _and([f"request {name}" for name in offer.requests]) or "no request"
    found = ", ".join(counts) or "no device has it"
    return f"constraint #{offer.position}: {one} {offer.attribute} for {devices_text(offer.wanted)} of {names}: {found}"


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
            places = _and([f"#{position}" for position in remedy.positions])
            return f"{_request_text(remedy, has_many_claims)}: selector{_s(remedy.positions)} {places} dropped"
        case ConstraintDropped(constraint):
            of = f"claim {constraint.claim}, " if has_many_claims else ""
            return f"{of}constraint #{constraint.position} ({_constraint_text(constraint)}) dropped"
        case ClaimsReleased(claims):
            return f"claim{_s(claims)} {_and(claims)} released"
        case TaintsTolerated(taints):
            return _and([f"taint {t.key}:{t.effect} tolerated by {_request_text(t, has_many_claims)}" for t in taints])


def _request_text(
    member: ConflictingRequest | CountLowered | SelectorCorrected | SelectorsDropped | ToleratedTaint,
    has_many_claims: bool,  # noqa: FBT001 - of the text
) -> str:
    return f"request {member.request}{f' of claim {member.claim}' if has_many_claims else ''}"


def _requests_text(members: Sequence[ConflictingRequest]) -> str:
    has_many = len({member.claim for member in members}) > 1
    return _and([_request_text(member, has_many) for member in members])


def _constraint_text(constraint: ConflictingConstraint) -> str:
    return f"{constraint.field} {constraint.attribute}"


def _and(texts: Sequence[str]) -> str:
    *first, last = texts or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _s(counted: Sequence[object]) -> str:
    return "" if len(counted) == 1 else "s"

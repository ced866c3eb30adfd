"""What would make refused claims fit on a node, one change at a time: each was tried, so each is true.

A lower count, a corrected selector, a selector or constraint dropped, claims released, taints tolerated. If one claim,
taint or selector is not enough, a set is searched of which none can be left out; it need not be the smallest.
A corrected selector has one word that no device knows replaced by one like it that devices have: the domain or name of
an attribute or capacity, or a value.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeVar

from allocator.candidates import MAX_RESULTS
from allocator.explain.conflict import ConflictingConstraint, Member, members_of, reduced
from allocator.explain.offer import Asking
from allocator.features.device_taints import BLOCKING, tolerates
from allocator.model import Alternative, Claim, Device, Request, Toleration

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

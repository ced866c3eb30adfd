"""What devices of several claims have in common, or have not: attributes named on a pod, or on a group of pods.

The claims that are allocated together keep to it in one search. What others of the pod, or of the group, have already
counts by its values: a match leaves only those that all of them have, and distinct devices have none of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

from allocator.bits import Mask, bits
from allocator.constraints import covers, published
from allocator.features.list_type_attributes import Incomparable, Token, is_list, tokens
from allocator.fleet.fleet import Fleet
from allocator.gates import LIST_TYPE_ATTRIBUTES
from allocator.model import Claim, Constraint, Device, DeviceResult, JointConstraint, PoolID
from scheduler.core_v1.group_terms import (
    ANY_REQUEST,
    DISTINCT,
    MATCH,
    NO_TERMS,
    AttributeTerm,
    GroupTerms,
    group_terms,
)
from scheduler.core_v1.pod import Pod

NOBODYS: Token = ("none", "")
"""In place of a value: one that no device has."""

ChosenValues = Mapping[str, Token]
"""By attribute the value that all devices have to have."""

NO_VALUES: ChosenValues = {}


def attribute_terms(pod: Pod) -> tuple[GroupTerms, str]:
    """What is said on a pod of its own devices, and what is wrong with it."""
    if pod.grouping.keys().isdisjoint(_OF_DEVICES):
        return NO_TERMS, ""
    terms, errors = group_terms({name: text for name, text in pod.grouping.items() if name in _OF_DEVICES})
    return terms, str(errors[0]) if errors else ""


_OF_DEVICES = (MATCH, DISTINCT)


class DeviceTerms:
    """The constraints of these terms over devices of a fleet."""

    def __init__(self, fleet: Fleet, terms: GroupTerms) -> None:
        self._fleet = fleet
        self.matches = [Constraint(_requests(term), match_attribute=term.attribute) for term in terms.match]
        self._distinct = [Constraint(_requests(term), distinct_attribute=term.attribute) for term in terms.distinct]

    @property
    def is_distinct(self) -> bool:
        """Whether what one member has is lost to the others."""
        return bool(self._distinct)

    def __bool__(self) -> bool:
        return bool(self.matches or self._distinct)

    def joined(
        self, pending: Sequence[Claim], others: Iterable[Claim], values: ChosenValues = NO_VALUES
    ) -> list[Claim]:
        """The claims, bound to each other and to what the others have. values: that were chosen for matches."""
        results = [result for claim in others if claim.allocation for result in claim.allocation.results]
        joint = [JointConstraint(one, self._values(one, results, values)) for one in (*self.matches, *self._distinct)]
        return [
            replace(claim, joint=tuple(one for one in joint if _concerns(one.constraint, claim))) for claim in pending
        ]

    def _values(
        self, constraint: Constraint, results: Iterable[DeviceResult], values: ChosenValues
    ) -> tuple[Token, ...]:
        name = constraint.match_attribute or constraint.distinct_attribute
        own = [self._of_result(name, result) for result in results if _covers(constraint, result.request)]
        if constraint.distinct_attribute:
            return tuple(sorted(frozenset[Token]().union(*own), key=str))
        if name in values:
            own.append(frozenset({values[name]}))
        if not own:
            return ()
        return tuple(sorted(reduce(and_, own), key=str)) or (NOBODYS,)

    def _of_result(self, name: str, result: DeviceResult) -> frozenset[Token]:
        """None for a device that is not published any more."""
        slices = self._fleet.slices.by_pool.get(PoolID(result.driver, result.pool), ())
        named = (device for one in slices for device in one.devices if device.name == result.device)
        return next((self._of_device(name, device) for device in named), frozenset())

    def _of_device(self, name: str, device: Device) -> frozenset[Token]:
        attribute = published(device, name, self._fleet.features)
        if attribute is None or (is_list(attribute) and not self._fleet.features.has(LIST_TYPE_ATTRIBUTES)):
            return frozenset()
        try:
            return frozenset(tokens(attribute, 0, self._fleet.features))
        except Incomparable:
            return frozenset()

    def choices(self, nodes: Mask, pending: Iterable[Claim]) -> Iterator[ChosenValues]:
        """The values that devices of these nodes have of the attributes that have to match; one empty choice for none.

        NOBODYS where no device has any: members that ask for no such device may fit. Cost: O(devices of the
        nodes); as many choices as there are values, of several attributes as combinations.
        """
        claims = list(pending)
        names = [one.match_attribute for one in self.matches if any(_concerns(one, claim) for claim in claims)]
        if not names:
            yield NO_VALUES
            return
        there = {name: self._published_on(name, nodes) or {NOBODYS} for name in dict.fromkeys(names)}
        choices: list[dict[str, Token]] = [{}]
        for name, known in there.items():
            choices = [{**choice, name: value} for choice in choices for value in sorted(known, key=str)]
        yield from choices

    def _published_on(self, name: str, nodes: Mask) -> frozenset[Token]:
        ids = frozenset[object]().union(*(self._fleet.reached_by(self._fleet.node(number)) for number in bits(nodes)))
        slices = (one for every in self._fleet.slices.by_pool.values() for one in every)
        devices = (device for one in slices for device in one.devices if device.id in ids)
        return frozenset[Token]().union(*(self._of_device(name, device) for device in devices))


def _requests(term: AttributeTerm) -> tuple[str, ...]:
    return () if term.request == ANY_REQUEST else (term.request,)


def _concerns(constraint: Constraint, claim: Claim) -> bool:
    return any(covers(constraint, one) for request in claim.requests for one in request.alternatives)


def _covers(constraint: Constraint, request: str) -> bool:
    """As `covers`, by the name in a result."""
    names = constraint.requests
    return not names or request in names or request.partition("/")[0] in names

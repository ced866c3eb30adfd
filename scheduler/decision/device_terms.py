"""What devices of several claims have in common, or have not: attributes named on a pod, or on a group of pods.

The claims that are allocated together keep to it in one search. What others of the pod, or of the group, have already
counts by its values: a match leaves only those that all of them have, and distinct devices have none of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import and_, or_

from allocator.bits import Mask, bits
from allocator.constraints import covers_name, names_of, published
from allocator.features.list_type_attributes import Incomparable, Token, is_list, tokens
from allocator.fleet.fleet import Fleet
from allocator.gates import LIST_TYPE_ATTRIBUTES
from allocator.model import (
    Allocation,
    Claim,
    Constraint,
    Device,
    DeviceID,
    DeviceResult,
    JointConstraint,
    PoolID,
)
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
    """The constraints of these terms over devices of a fleet, which stays as it is meanwhile.

    look: called again and again, for the time that a decision has; raises Cancelled.
    """

    def __init__(self, fleet: Fleet, terms: GroupTerms, look: Callable[[], None]) -> None:
        self._fleet = fleet
        self._look = look
        self.matches = [Constraint(_requests(one), match_attribute=one.attribute) for one in dict.fromkeys(terms.match)]
        self._distinct = [
            Constraint(_requests(one), distinct_attribute=one.attribute) for one in dict.fromkeys(terms.distinct)
        ]
        self._every = (*self.matches, *self._distinct)
        self._pools: dict[PoolID, Mapping[str, Device]] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._had: dict[str, tuple[Allocation, Mapping[Constraint, frozenset[Token]]]] = {}
        """Of an allocated claim, by uid, the values that its devices have in common; all of them for distinct ones."""

    @property
    def is_distinct(self) -> bool:
        """Whether what one member has is lost to the others."""
        return bool(self._distinct)

    def __bool__(self) -> bool:
        return bool(self._every)

    def joined(
        self, pending: Sequence[Claim], others: Iterable[Claim], values: ChosenValues = NO_VALUES
    ) -> list[Claim]:
        """The claims, bound to each other and to what the others have. values: that were chosen for matches."""
        self._look()
        had = [self._values_of(claim, claim.allocation) for claim in others if claim.allocation]
        joint = [JointConstraint(one, self._values(one, had, values)) for one in self._every]
        return [
            replace(claim, joint=tuple([one for one in joint if self._concerns(one.constraint, claim)]))
            for claim in pending
        ]

    def _concerns(self, constraint: Constraint, claim: Claim) -> bool:
        names = self._names_of(claim)
        return bool(names) and (not constraint.requests or not names.isdisjoint(constraint.requests))

    def _names_of(self, claim: Claim) -> frozenset[str]:
        """By which constraints name its requests."""
        if claim.uid not in self._names:
            self._look()
            alternatives = [one for request in claim.requests for one in request.alternatives]
            self._names[claim.uid] = frozenset(name for one in alternatives for name in names_of(one.name))
        return self._names[claim.uid]

    def _values(
        self, constraint: Constraint, had: Iterable[Mapping[Constraint, frozenset[Token]]], values: ChosenValues
    ) -> tuple[Token, ...]:
        self._look()
        own = {one[constraint] for one in had if constraint in one}
        if constraint.distinct_attribute:
            return tuple(sorted(frozenset[Token]().union(*own), key=str))
        if (name := constraint.match_attribute) in values:
            own.add(frozenset({values[name]}))
        if not own:
            return ()
        return tuple(sorted(reduce(and_, own), key=str)) or (NOBODYS,)

    def _values_of(self, claim: Claim, allocation: Allocation) -> Mapping[Constraint, frozenset[Token]]:
        """By constraint, of those that cover one of its devices."""
        known = self._had.get(claim.uid)
        if known is None or known[0] is not allocation:
            known = self._had[claim.uid] = allocation, dict(self._read(allocation))
        return known[1]

    def _read(self, allocation: Allocation) -> Iterator[tuple[Constraint, frozenset[Token]]]:
        for constraint in self._every:
            self._look()
            name = constraint.match_attribute or constraint.distinct_attribute
            own = [self._of_result(name, one) for one in allocation.results if covers_name(constraint, one.request)]
            if own:
                yield constraint, reduce(or_ if constraint.distinct_attribute else and_, own)

    def _of_result(self, name: str, result: DeviceResult) -> frozenset[Token]:
        """None for a device that is not published any more."""
        pool = PoolID(result.driver, result.pool)
        if pool not in self._pools:
            slices = self._fleet.slices.by_pool.get(pool, ())
            # Of several slices that publish a device the first counts.
            self._pools[pool] = {one.name: one for slice_ in reversed(slices) for one in reversed(slice_.devices)}
        device = self._pools[pool].get(result.device)
        return self._of_device(name, device) if device else frozenset()

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

        NOBODYS where no device has any: members that ask for no such device may fit. Raises Cancelled. Cost:
        O(devices of the nodes); of attributes that the same requests have to match as many choices as there are
        devices that differ in them, of others all combinations.
        """
        claims = list({claim.uid: claim for claim in pending}.values())
        together: dict[tuple[str, ...], list[str]] = {}
        for constraint in self.matches:
            self._look()
            name = constraint.match_attribute
            is_new = all(name not in names for names in together.values())
            if is_new and any(self._concerns(constraint, claim) for claim in claims):
                together.setdefault(constraint.requests, []).append(name)
        if not together:
            yield NO_VALUES
            return
        devices = list(self._published_on(nodes))
        for choice in product(*(self._choices_of(names, devices) for names in together.values())):
            yield {name: value for values in choice for name, value in values.items()}

    def _choices_of(self, names: Sequence[str], devices: Iterable[Device]) -> list[ChosenValues]:
        """The values of these attributes that one device has together."""
        every: set[tuple[Token, ...]] = set()
        known: dict[str, Token] = {}
        for device in devices:
            self._look()
            own = [self._of_device(name, device) for name in names]
            known.update((name, min(values, key=str)) for name, values in zip(names, own, strict=True) if values)
            for values in product(*own):  # a list has many
                every.add(values)
                self._look()
        if not every:
            return [{name: known.get(name, NOBODYS) for name in names}]
        in_order = sorted(every, key=lambda values: tuple(map(str, values)))
        return [dict(zip(names, values, strict=True)) for values in in_order]

    def _published_on(self, nodes: Mask) -> Iterator[Device]:
        ids: set[DeviceID] = set()
        for number in bits(nodes):
            self._look()
            ids |= self._fleet.reached_by(self._fleet.node(number))
        slices = (one for every in self._fleet.slices.by_pool.values() for one in every)
        return (device for one in slices for device in one.devices if device.id in ids)


def _requests(term: AttributeTerm) -> tuple[str, ...]:
    return () if term.request == ANY_REQUEST else (term.request,)

"""What claims ask of a fleet: claims that differ in their own names only are one question."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Final

import cel
from allocator.cluster.read_key import ReadKey
from allocator.cluster.snapshot import Snapshot
from allocator.exact import values_of
from allocator.features import FEATURES
from allocator.model import Claim, DeviceClass, Request
from allocator.outcome import Allocated

MOST_ALTERNATIVES: Final = 8
"""Subrequests of a request; kube-scheduler's score counts down from here."""


@dataclass(frozen=True, slots=True)
class DeviceQuestion:
    """Claims that request devices of one node.

    key: equal for claims that get the same answers as long as `classes` are there, the classes that they name.
    """

    claims: Sequence[Claim]
    classes: tuple[DeviceClass | None, ...]
    key: Hashable

    @staticmethod
    def of(claims: Sequence[Claim], classes: Mapping[str, DeviceClass]) -> "DeviceQuestion":
        """The question of these claims. classes: all, by name."""
        named = tuple(map(classes.get, _class_names(claims)))
        return DeviceQuestion(claims, named, (fingerprint_of(claims), *map(id, named)))

    def has(self, classes: Mapping[str, DeviceClass]) -> bool:
        """Whether the classes that the claims name are these still. Cost: O(requests)."""
        return all(map(is_, map(classes.get, _class_names(self.claims)), self.classes))


def _class_names(claims: Iterable[Claim]) -> list[str]:
    return [a.class_name for claim in claims for request in claim.requests for a in request.alternatives]


def fingerprint_of(claims: Iterable[Claim]) -> Hashable:
    """Everything that decides about devices: equal for claims that differ in their own names only."""
    return tuple([(_of_claim(claim), tuple(map(_of_whole_request, claim.requests))) for claim in claims])


def _of_whole_request(request: Request) -> Hashable:
    return _of_request(request), tuple([(one.name, one.fingerprint) for one in request.alternatives])


_of_claim = values_of(
    Claim,
    {
        **dict.fromkeys(["namespace", "name", "uid"], "its own names"),
        "requests": "see `_of_whole_request`",
        "config": "only copied into the result",
        "allocation": "only claims without one are asked for",
    },
)
_of_request = values_of(Request, {"alternatives": "each has a fingerprint of its own"})


def rank_of(claims: Sequence[Claim], allocated: Allocated) -> int:
    """kube-scheduler's score of the chosen subrequests.

    Source: KEP-4816, plugin DynamicResources.
    """
    rank = 0
    for claim, allocation in zip(claims, allocated.allocations, strict=True):
        chosen = {result.request for result in allocation.results}
        for request in claim.requests:
            if request.is_first_available:
                places = (place for place, one in enumerate(request.alternatives) if one.name in chosen)
                rank += MOST_ALTERNATIVES - next(places, MOST_ALTERNATIVES)
    return rank


def reads_of(snapshot: Snapshot, claims: Sequence[Claim], by_policy: Sequence[str]) -> ReadKey:
    """What selectors, constraints, features and the policy read of a device."""
    programs = []
    for expression in expressions_of(snapshot, claims):
        try:
            programs.append(cel.compile(expression, snapshot.features.environment).reads)
        except cel.CompileError:
            continue
    attributes = [c.match_attribute or c.distinct_attribute for claim in claims for c in claim.constraints]
    return ReadKey.of_programs(programs, (*attributes, *by_policy, *_read_by_features(claims)))


def values_read_of(claims: Sequence[Claim], by_policy: Sequence[str]) -> ReadKey:
    """What features and the policy read: see `distinctions` for the others."""
    return ReadKey.of_programs((), (*by_policy, *_read_by_features(claims)))


def _read_by_features(claims: Sequence[Claim]) -> list[str]:
    alternatives = [a for claim in claims for request in claim.requests for a in request.alternatives]
    return [name for feature in FEATURES for alternative in alternatives for name in feature.reads(alternative)]


def expressions_of(snapshot: Snapshot, claims: Sequence[Claim]) -> Iterable[str]:
    """The selectors of the claims and of their classes."""
    for claim in claims:
        for request in claim.requests:
            for alternative in request.alternatives:
                device_class = snapshot.classes.get(alternative.class_name)
                yield from filter(None, (*(device_class.selectors if device_class else ()), *alternative.selectors))

"""Two placements of the same pods, before and after a change: which pods move, fit now, or fit no longer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from allocator.model import Allocation
from scheduler.core_v1.pod import Pod
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import PlacedPod, Result, UnplacedPod
from scheduler.offline.room_by_eviction import PodVictims


@dataclass(frozen=True, slots=True)
class PlaceOfPod:
    """Where a pod, or a claim that no pod uses, is. node: empty if it has no place; refused: why not."""

    node: str = ""
    devices: tuple[str, ...] = ()
    refused: UnplacedPod | None = field(default=None, compare=False)


class DifferenceKind(StrEnum):
    """What a change does to a pod, the worst first."""

    LOST = "no longer fits"
    GONE = "is gone"
    EVICTED = "is evicted"
    MOVED = "moves"
    GAINED = "fits now"
    NEW = "is new"


@dataclass(frozen=True, slots=True)
class PlaceDifference:
    """A pod whose place differs."""

    name: str
    """`pod NAMESPACE/NAME` or `claim NAMESPACE/NAME`."""
    kind: DifferenceKind
    before: PlaceOfPod | None
    after: PlaceOfPod | None
    evicted: str = ""
    """Why it is evicted from its place before the change, empty where it is not. A pod of the kind EVICTED finds the
    same place again.
    """
    victims: PodVictims | None = None
    """Who would be evicted so that a pod without a place after the change gets one."""


Places = Mapping[str, PlaceOfPod]

_NONE: Mapping[str, str] = MappingProxyType({})


def places_of(pods: Iterable[Pod], claims: Claims, results: Iterable[Result]) -> Places:
    """Where everything is: pods that have their node already, and results. claims: as they are afterwards."""
    places = {f"pod {pod}": PlaceOfPod(pod.node_name, _devices_of_pod(pod, claims)) for pod in pods if not pod.is_over}
    for result in results:
        name = f"pod {result.pod}" if result.pod else f"claim {result.claims[0]}"
        places[name] = _place(result)
    return places


def _devices_of_pod(pod: Pod, claims: Claims) -> tuple[str, ...]:
    extended = claims.of_extended_resources(pod)
    extended_claims = [extended.claim] if extended else []
    return _devices(claim.allocation for claim in (*claims.asked_by(pod), *extended_claims))


def _place(result: Result) -> PlaceOfPod:
    if isinstance(result, UnplacedPod):
        return PlaceOfPod(refused=result)
    assert isinstance(result, PlacedPod)
    return PlaceOfPod(result.node, _devices(one.allocation for one in result.claims))


def _devices(allocations: Iterable[Allocation | None]) -> tuple[str, ...]:
    return tuple(sorted(str(result.id) for one in allocations if one for result in one.results))


def differences(before: Places, after: Places, evicted: Mapping[str, str] = _NONE) -> list[PlaceDifference]:
    """What differs, the worst first, then by name. A refusal for another reason is no difference.

    evicted: the pods that the change evicts, by `pod NAMESPACE/NAME`, with why.
    """
    moved = [
        PlaceDifference(name, kind, before.get(name), after.get(name), evicted.get(name, ""))
        for name in before.keys() | after.keys()
        if (kind := _kind(before.get(name), after.get(name), is_evicted=name in evicted)) is not None
    ]
    order = list(DifferenceKind)
    return sorted(moved, key=lambda one: (order.index(one.kind), one.name))


def _kind(before: PlaceOfPod | None, after: PlaceOfPod | None, *, is_evicted: bool) -> DifferenceKind | None:
    if before == after:
        return DifferenceKind.EVICTED if is_evicted else None
    if before is None:
        return DifferenceKind.NEW
    if after is None:
        return DifferenceKind.GONE
    if before.node and after.node:
        return DifferenceKind.MOVED
    return DifferenceKind.LOST if before.node else DifferenceKind.GAINED

"""Which free volume a claim would get on which node: the smallest one that suffices.

A volume that is reserved for the claim is the only one that it can get.
Source: k8s.io/component-helpers storage/volume, FindMatchingVolume.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from allocator.bits import Mask, union
from scheduler.core_v1.label_selectors import selects
from scheduler.core_v1.storage_objects import PersistentVolume, PersistentVolumeClaim
from scheduler.state.storage import AlikeVolumes, Likeness
from scheduler.state.volumes import Volumes


class Offers(Protocol):
    """What a claim would get on the nodes that were asked about."""

    @property
    def nodes(self) -> Mask:
        """Where it would get a volume."""
        ...

    def on(self, number: int) -> PersistentVolume | None:
        """Which one on that node, None for none."""
        ...

    def by_capacity(self) -> Iterable[tuple[int, Mask]]:
        """How many billionths of a byte the volume has, and where it would be that one; no node is in two."""
        ...


@dataclass(frozen=True, slots=True)
class _Listed:
    """Volumes, and the nodes where the claim would get each; no node is in two of them."""

    volumes: Sequence[tuple[PersistentVolume, Mask]]

    @property
    def nodes(self) -> Mask:
        return union(where for _, where in self.volumes)

    def on(self, number: int) -> PersistentVolume | None:
        return next((volume for volume, where in self.volumes if where >> number & 1), None)

    def by_capacity(self) -> Iterable[tuple[int, Mask]]:
        nodes: dict[int, Mask] = {}
        for volume, where in self.volumes:
            nodes[volume.capacity.nanos] = nodes.get(volume.capacity.nanos, 0) | where
        return nodes.items()


@dataclass(frozen=True, slots=True)
class _Nearest:
    """The first volume that a node reaches, by what they are like; among these nodes."""

    alike: Sequence[tuple[Likeness, AlikeVolumes]]
    among: Mask

    @property
    def nodes(self) -> Mask:
        return self.among & union(one.reached() for _, one in self.alike)

    def on(self, number: int) -> PersistentVolume | None:
        volumes = (one.on(number) for _, one in self.alike if self.among >> number & 1)
        return next(filter(None, volumes), None)

    def by_capacity(self) -> Iterator[tuple[int, Mask]]:
        left = self.among
        for like, alike in self.alike:
            where = left & alike.reached()
            yield like.capacity, where
            left &= ~where


def matching(
    volumes: Volumes, claims: Iterable[PersistentVolumeClaim], nodes: Mask
) -> Iterator[tuple[PersistentVolumeClaim, Offers]]:
    """What each of a pod's claims would get on these nodes, the smallest first; no volume is given to two of them.

    Cost: O(groups of free volumes of the class that many nodes reach) for each claim; of all groups for claims with a
    selector, and for several of one class.
    """
    ordered = sorted(claims, key=lambda claim: claim.size.nanos)
    of_class = Counter(claim.storage_class for claim in ordered)
    taken: dict[str, Mask] = {}
    for claim in ordered:
        if own := _own(volumes, claim):
            yield claim, _Listed([(own, volumes.selected(own) & nodes)])
        elif claim.selector is None and of_class[claim.storage_class] == 1:
            yield claim, _Nearest(list(_good_enough(volumes, claim)), nodes)
        else:
            listed = _Listed(list(_free(volumes, claim, nodes, taken)))
            yield claim, listed
            for volume, where in listed.volumes:
                taken[volume.name] = taken.get(volume.name, 0) | where


def _own(volumes: Volumes, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """The volume that is meant for the claim, where it is as the claim asks: the first by name."""
    meant = (one for one in volumes.free.meant_for(claim.key) if _is_own(one, claim))
    return min(meant, key=lambda volume: volume.name, default=None)


def _is_own(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    is_meant = volume.is_for(claim.namespace, claim.name, claim.uid) and volume.storage_class == claim.storage_class
    return is_meant and _is_as_asked(claim, volume.capacity.nanos, volume.volume_mode, volume.attributes_class)


def _free(
    volumes: Volumes, claim: PersistentVolumeClaim, left: Mask, taken: dict[str, Mask]
) -> Iterator[tuple[PersistentVolume, Mask]]:
    for group in (group for _, alike in _good_enough(volumes, claim) for group in alike.groups()):
        for name, volume in sorted(group.volumes.items()) if group.nodes & left else ():
            where = group.nodes & left & ~taken.get(name, 0)
            if where and (claim.selector is None or selects(claim.selector, volume.labels)):
                yield volume, where
                left &= ~where
        if not left:
            return


def _good_enough(volumes: Volumes, claim: PersistentVolumeClaim) -> Iterator[tuple[Likeness, AlikeVolumes]]:
    """Free volumes that the claim could get, the smallest first."""
    for like, alike in volumes.free.by_likeness(claim.storage_class):
        if _is_good_enough(claim, like):
            yield like, alike


def _is_good_enough(claim: PersistentVolumeClaim, like: Likeness) -> bool:
    is_as_asked = _is_as_asked(claim, like.capacity, like.volume_mode, like.attributes_class)
    return is_as_asked and claim.access_modes <= like.access_modes


def _is_as_asked(claim: PersistentVolumeClaim, capacity: int, volume_mode: str, attributes_class: str) -> bool:
    is_alike = (volume_mode, attributes_class) == (claim.volume_mode, claim.attributes_class)
    return is_alike and capacity >= claim.size.nanos

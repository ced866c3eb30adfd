"""Which free volume a claim would get on which node: the smallest one that suffices.

A volume that is reserved for the claim is the only one that it can get.
Source: k8s.io/component-helpers storage/volume, FindMatchingVolume.
"""

from collections.abc import Iterable, Iterator

from allocator.search.rules import Mask
from scheduler.core_v1.label_selector import selects
from scheduler.core_v1.persistent_volume import PersistentVolume
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.state.free_volumes import Group, Likeness
from scheduler.state.volumes import Volumes

Offers = tuple[tuple[PersistentVolume, Mask], ...]
"""Volumes, and the nodes where the claim would get each; no node is in two of them."""


def matching(
    volumes: Volumes, claims: Iterable[PersistentVolumeClaim], nodes: Mask
) -> Iterator[tuple[PersistentVolumeClaim, Offers]]:
    """What each of a pod's claims would get on these nodes, the smallest first; no volume is given to two of them.

    Cost: O(groups of free volumes of the class) for each claim.
    """
    taken: dict[str, Mask] = {}
    for claim in sorted(claims, key=lambda claim: claim.size.nanos):
        offers = tuple(_own(volumes, claim, nodes) or _free(volumes, claim, nodes, taken))
        yield claim, offers
        for volume, where in offers:
            taken[volume.name] = taken.get(volume.name, 0) | where


def _own(volumes: Volumes, claim: PersistentVolumeClaim, nodes: Mask) -> Offers:
    """The volume that is meant for the claim, where it is as the claim asks: the first by name."""
    meant = (one for one in volumes.free.meant_for(claim.key) if _is_own(one, claim))
    found = min(meant, key=lambda volume: volume.name, default=None)
    return ((found, volumes.selected(found) & nodes),) if found else ()


def _is_own(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    is_meant = volume.is_for(claim.namespace, claim.name, claim.uid) and volume.storage_class == claim.storage_class
    return is_meant and _is_as_asked(claim, volume.capacity.nanos, volume.volume_mode, volume.attributes_class)


def _free(
    volumes: Volumes, claim: PersistentVolumeClaim, left: Mask, taken: dict[str, Mask]
) -> Iterator[tuple[PersistentVolume, Mask]]:
    for group in _candidates(volumes, claim):
        for name, volume in sorted(group.volumes.items()) if group.nodes & left else ():
            where = group.nodes & left & ~taken.get(name, 0)
            if where and (claim.selector is None or selects(claim.selector, volume.labels)):
                yield volume, where
                left &= ~where
        if not left:
            return


def _candidates(volumes: Volumes, claim: PersistentVolumeClaim) -> Iterator[Group]:
    """Free volumes that the claim could get, the smallest first."""
    for like in volumes.free.likenesses(claim.storage_class):
        if _is_good_enough(claim, like):
            yield from volumes.free.groups(claim.storage_class, like)


def _is_good_enough(claim: PersistentVolumeClaim, like: Likeness) -> bool:
    is_as_asked = _is_as_asked(claim, like.capacity, like.volume_mode, like.attributes_class)
    return is_as_asked and claim.access_modes <= like.access_modes


def _is_as_asked(claim: PersistentVolumeClaim, capacity: int, volume_mode: str, attributes_class: str) -> bool:
    is_alike = (volume_mode, attributes_class) == (claim.volume_mode, claim.attributes_class)
    return is_alike and capacity >= claim.size.nanos

"""Which volume a claim would get on which node, where none is provisioned: the smallest one that is good enough.

A volume that is meant for the claim is the only one that it can get.
Source: k8s.io/component-helpers storage/volume, FindMatchingVolume.
"""

from collections.abc import Iterable, Iterator

from allocator.search.rules import Mask
from scheduler.core_v1.label_selector import selects
from scheduler.core_v1.persistent_volume import AVAILABLE, PersistentVolume
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim
from scheduler.state.volumes import Volumes

Offers = tuple[tuple[PersistentVolume, Mask], ...]
"""Volumes, and the nodes where the claim would get each; no node is in two of them."""


def matching(
    volumes: Volumes, claims: Iterable[PersistentVolumeClaim], nodes: Mask
) -> Iterator[tuple[PersistentVolumeClaim, Offers]]:
    """What each of a pod's claims would get on these nodes, the smallest first; no volume is given to two of them.

    Cost: O(volumes of the classes) for each claim.
    """
    taken: dict[str, Mask] = {}
    for claim in sorted(claims, key=lambda claim: claim.size.nanos):
        offers = tuple(_offers(volumes, claim, nodes, taken))
        yield claim, offers
        for volume, where in offers:
            taken[volume.name] = taken.get(volume.name, 0) | where


def _offers(
    volumes: Volumes, claim: PersistentVolumeClaim, left: Mask, taken: dict[str, Mask]
) -> Iterator[tuple[PersistentVolume, Mask]]:
    for volume in _candidates(volumes, claim):
        where = volumes.plain_reached(volume) & left & ~taken.get(volume.name, 0)
        if where:
            yield volume, where
            left &= ~where
        if not left:
            return


def _candidates(volumes: Volumes, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
    """The volumes that the claim could get, the best first."""
    fitting = [one for one in volumes.objects.volumes_of(claim.storage_class) if _fits(one, claim)]
    own = [one for one in fitting if one.claim is not None]
    found = sorted(own or (one for one in fitting if _is_free(one, claim)), key=_order)
    return found[:1] if own else found


def _order(volume: PersistentVolume) -> tuple[int, str]:
    return volume.capacity.nanos, volume.name


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume, which may be meant for the claim, is as the claim asks."""
    return (
        not volume.is_deleting
        and (volume.claim is None or volume.is_for(claim.namespace, claim.name, claim.uid))
        and volume.capacity.nanos >= claim.size.nanos
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
    )


def _is_free(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume, which is meant for nobody, may be given to the claim."""
    return (
        volume.phase == AVAILABLE
        and claim.access_modes <= volume.access_modes
        and (claim.selector is None or selects(claim.selector, volume.labels))
    )

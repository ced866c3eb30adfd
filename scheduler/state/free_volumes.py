"""Volumes that claims could get: free ones, grouped by their properties, and those reserved for a claim.

Free volumes with equal properties that the same nodes reach are one group, so the cost grows with the number of groups.
The nodes that reach a group are computed once, until labels of nodes change.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from allocator.model import NodeSelector
from allocator.search.rules import Mask
from scheduler.core_v1.persistent_volume import AVAILABLE, PersistentVolume
from scheduler.state.node_labels import NodeLabels
from scheduler.state.storage_objects import ClaimKey


class Likeness(NamedTuple):
    """What a claim looks at. capacity: in billionths."""

    capacity: int
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str


@dataclass(slots=True)
class Group:
    """Free volumes by name, and the nodes that reach them. version: of the labels that the nodes were found by."""

    affinity: NodeSelector | None
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    nodes: Mask = 0
    version: int = -1


_Groups = dict[NodeSelector | None, Group]


class FreeVolumes:
    """By storage class. labels: of the nodes."""

    def __init__(self, labels: NodeLabels) -> None:
        self._labels = labels
        self._known: dict[str, PersistentVolume] = {}
        self._groups: dict[str, dict[Likeness, _Groups]] = {}
        self._meant: dict[ClaimKey, dict[str, PersistentVolume]] = {}

    def set(self, name: str, volume: PersistentVolume | None) -> None:
        """The volume of that name is as it is now, None where it is gone."""
        if (old := self._known.pop(name, None)) is not None:
            self._take(old)
        if volume is not None and not volume.is_deleting:
            self._known[name] = volume
            self._put(volume)

    def meant_for(self, claim: ClaimKey) -> Iterator[PersistentVolume]:
        """The volumes of that claim, or of another one of its name."""
        return iter(self._meant.get(claim, {}).values())

    def likenesses(self, storage_class: str) -> list[Likeness]:
        """Of the free volumes of the class, the smallest first."""
        return sorted(self._groups.get(storage_class, ()), key=lambda like: like.capacity)

    def groups(self, storage_class: str, like: Likeness) -> Iterator[Group]:
        """The free volumes of the class that are like this."""
        for group in self._groups[storage_class][like].values():
            if group.version != self._labels.version:
                group.version = self._labels.version
                group.nodes = self._labels.all if group.affinity is None else self._labels.selected(group.affinity)
            yield group

    def _put(self, volume: PersistentVolume) -> None:
        if volume.claim is not None:
            self._meant.setdefault((volume.claim.namespace, volume.claim.name), {})[volume.name] = volume
        elif volume.phase == AVAILABLE:
            groups = self._groups.setdefault(volume.storage_class, {}).setdefault(_likeness(volume), {})
            groups.setdefault(volume.affinity, Group(volume.affinity)).volumes[volume.name] = volume

    def _take(self, volume: PersistentVolume) -> None:
        if volume.claim is not None:
            key = volume.claim.namespace, volume.claim.name
            del self._meant[key][volume.name]
            if not self._meant[key]:
                del self._meant[key]
        elif volume.phase == AVAILABLE:
            self._take_free(volume)

    def _take_free(self, volume: PersistentVolume) -> None:
        by_likeness, like = self._groups[volume.storage_class], _likeness(volume)
        group = by_likeness[like][volume.affinity]
        del group.volumes[volume.name]
        if not group.volumes:
            del by_likeness[like][volume.affinity]
        if not by_likeness[like]:
            del by_likeness[like]


def _likeness(volume: PersistentVolume) -> Likeness:
    return Likeness(volume.capacity.nanos, volume.access_modes, volume.volume_mode, volume.attributes_class)

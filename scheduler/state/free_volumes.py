"""Volumes that claims could get: free ones, grouped by their properties, and those reserved for a claim.

Free volumes with equal properties that the same nodes reach are one group, so the cost grows with the number of groups.
The nodes that reach a group are computed once, until labels of nodes change.
Groups that few nodes reach, such as local volumes, are indexed by node.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from allocator.model import NodeSelector
from allocator.search.rules import Mask, bits
from scheduler.core_v1.persistent_volume import AVAILABLE, PersistentVolume
from scheduler.state.masks import union
from scheduler.state.node_labels import NodeLabels
from scheduler.state.storage_objects import ClaimKey

FEW_NODES = 8
"""A group that at most so many nodes reach lies by node."""


class Likeness(NamedTuple):
    """What a claim looks at. capacity: in billionths."""

    capacity: int
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str


@dataclass(slots=True, eq=False)
class Group:
    """Free volumes by name, and the nodes that reach them. position: among those that are alike, the earlier first."""

    affinity: NodeSelector | None
    position: int
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    nodes: Mask = 0


class AlikeVolumes:
    """Free volumes that are alike. labels: of the nodes."""

    def __init__(self, labels: NodeLabels) -> None:
        self._labels = labels
        self._version = -1
        self._groups: dict[NodeSelector | None, Group] = {}
        self._made = 0
        self._of_many: dict[int, Group] = {}
        self._by_node: dict[int, dict[int, Group]] = {}
        self._near: Mask = 0

    def __bool__(self) -> bool:
        return bool(self._groups)

    def groups(self) -> Iterable[Group]:
        """All groups. Cost: O(groups), where labels of nodes have changed."""
        self._catch_up()
        return self._groups.values()

    def reached(self) -> Mask:
        """The nodes that reach one of the volumes."""
        self._catch_up()
        return self._near | union(group.nodes for group in self._of_many.values())

    def on(self, number: int) -> PersistentVolume | None:
        """The first of the volumes that the node reaches, None where it reaches none."""
        self._catch_up()
        groups = [group for group in self._of_many.values() if group.nodes >> number & 1]
        groups += self._by_node.get(number, {}).values()
        first = min(groups, key=lambda group: group.position, default=None)
        return first.volumes[min(first.volumes)] if first else None

    def put(self, volume: PersistentVolume) -> None:
        """One more."""
        group = self._groups.get(volume.affinity)
        if group is None:
            self._made += 1
            group = self._groups[volume.affinity] = Group(volume.affinity, self._made)
            if self._version == self._labels.version:
                self._place(group)
        group.volumes[volume.name] = volume

    def take(self, volume: PersistentVolume) -> None:
        """The volume, which was put, is not free any more."""
        group = self._groups[volume.affinity]
        del group.volumes[volume.name]
        if not group.volumes:
            del self._groups[volume.affinity]
            self._displace(group)

    def _catch_up(self) -> None:
        if self._version != self._labels.version:
            self._version, self._near = self._labels.version, 0
            self._of_many, self._by_node = {}, {}
            for group in self._groups.values():
                self._place(group)

    def _place(self, group: Group) -> None:
        labels, affinity = self._labels, group.affinity
        group.nodes = labels.all if affinity is None else labels.selected(affinity)
        if group.nodes.bit_count() > FEW_NODES:
            self._of_many[group.position] = group
            return
        self._near |= group.nodes
        for number in bits(group.nodes):
            self._by_node.setdefault(number, {})[group.position] = group

    def _displace(self, group: Group) -> None:
        if self._of_many.pop(group.position, None) is not None:
            return
        for number in bits(group.nodes):
            others = self._by_node[number]
            others.pop(group.position)
            if not others:
                del self._by_node[number]
                self._near &= ~(1 << number)


class FreeVolumes:
    """By storage class. labels: of the nodes."""

    def __init__(self, labels: NodeLabels) -> None:
        self._labels = labels
        self._known: dict[str, PersistentVolume] = {}
        self._alike: dict[str, dict[Likeness, AlikeVolumes]] = {}
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

    def by_likeness(self, storage_class: str) -> list[tuple[Likeness, AlikeVolumes]]:
        """The free volumes of the class, the smallest first."""
        return sorted(self._alike.get(storage_class, {}).items(), key=lambda one: one[0].capacity)

    def _put(self, volume: PersistentVolume) -> None:
        if volume.claim is not None:
            self._meant.setdefault((volume.claim.namespace, volume.claim.name), {})[volume.name] = volume
        elif volume.phase == AVAILABLE:
            alike, like = self._alike.setdefault(volume.storage_class, {}), _likeness(volume)
            if like not in alike:
                alike[like] = AlikeVolumes(self._labels)
            alike[like].put(volume)

    def _take(self, volume: PersistentVolume) -> None:
        if volume.claim is not None:
            key = volume.claim.namespace, volume.claim.name
            del self._meant[key][volume.name]
            if not self._meant[key]:
                del self._meant[key]
        elif volume.phase == AVAILABLE:
            self._take_free(volume)

    def _take_free(self, volume: PersistentVolume) -> None:
        alike, like = self._alike[volume.storage_class], _likeness(volume)
        alike[like].take(volume)
        if not alike[like]:
            del alike[like]


def _likeness(volume: PersistentVolume) -> Likeness:
    return Likeness(volume.capacity.nanos, volume.access_modes, volume.volume_mode, volume.attributes_class)

"""The devices that one node reaches, in canonical order; bit i of every mask is device i.

A view depends on slices and the node alone, not on what is in use, so it is made once and kept.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from allocator.bits import Mask
from allocator.cluster.node_affinity import InvalidNodeSelector, reaches
from allocator.cluster.pools import Pool
from allocator.memo import Topic, TypedMemo
from allocator.model import Device, DeviceID, Node, PoolID, Slice


@dataclass(frozen=True, slots=True)
class Segment:
    """The devices of one slice in a view: they start at bit `offset`."""

    slice: Slice
    offset: int

    @property
    def mask(self) -> Mask:
        """The devices of the slice."""
        return ((1 << len(self.slice.devices)) - 1) << self.offset

    def having(self, trait: str) -> Mask:
        """The devices that have the trait (`Slice.traits`)."""
        if trait not in self.slice.traits:
            return 0
        return sum(1 << position for position, d in enumerate(self.slice.devices, self.offset) if getattr(d, trait))


@dataclass(slots=True, eq=False)
class Named:
    """The devices of a pool in a view that a collection of names names."""

    names: Collection[str] | None = None
    mask: Mask = 0


_IDS: Final[Topic[frozenset[DeviceID]]] = Topic("ids")
_POSITIONS: Final[Topic[Mapping[str, int]]] = Topic("positions")


@dataclass(slots=True, eq=False)
class NodeView:
    """What the allocator sees of the cluster from one node."""

    node: Node | None
    pools: tuple[Pool, ...]
    """All, usable or not."""
    segments: tuple[Segment, ...]
    devices: tuple[Device, ...]
    """segments, devices: of the usable pools."""
    reachable: Mask
    """The devices whose own node selection matches."""
    unreadable: Mask
    """Those whose own node selector is invalid."""
    unknown: Mask
    """Those with an unknown field, in the device or its slice."""
    shareable: Mask
    """Those that allow multiple allocations."""
    traits: frozenset[str]
    """Of the slices."""
    memo: TypedMemo = field(default_factory=TypedMemo)
    """What was worked out; all attempts on the node share the view."""

    @property
    def ids(self) -> frozenset[DeviceID]:
        """Those of the devices."""
        return self.memo.remember(_IDS, lambda: frozenset(device.id for device in self.devices))

    @property
    def all(self) -> Mask:
        """All devices of the view."""
        return (1 << len(self.devices)) - 1

    def mask_of(self, names: Mapping[PoolID, Collection[str]], topic: Topic["Named"]) -> Mask:
        """The devices of the view that are named, by pool. topic: each mapping has its own.

        A collection that was seen before is not read again, so it must not change.
        Cost: O(pools of the view), plus O(names) for new collections.
        """
        mask = 0
        for pool in self.pools if names else ():
            named = names.get(pool.id)
            if not named:
                continue
            known = self.memo.remember((topic, pool.id), Named)
            if known.names is not named:
                positions = self.positions(pool)
                known.names, known.mask = named, sum(1 << positions[name] for name in named if name in positions)
            mask |= known.mask
        return mask

    def positions(self, pool: Pool) -> Mapping[str, int]:
        """Device name to bit. Cost: O(devices of the pool), once."""
        return self.memo.remember((_POSITIONS, pool.id), lambda: self._positions_of(pool.id))

    def _positions_of(self, pool_id: PoolID) -> Mapping[str, int]:
        own = [segment for segment in self.segments if segment.slice.pool_id == pool_id]
        return {device.name: position for s in own for position, device in enumerate(s.slice.devices, s.offset)}

    def segment(self, device: int) -> Segment:
        """The segment that a device belongs to. Cost: O(slices of the view)."""
        return next(s for s in reversed(self.segments) if s.offset <= device)


_NO_TRAITS: Final[frozenset[str]] = frozenset()
"""The only instance that views of slices without any need."""


def view_of(node: Node | None, pools: tuple[Pool, ...]) -> NodeView:
    """The view of a node on its pools. Cost: O(devices)."""
    segments: list[Segment] = []
    devices: list[Device] = []
    traits = _NO_TRAITS
    reachable = unreadable = unknown = shareable = 0
    for pool in pools:
        if not pool.is_usable:
            continue
        for slice_ in pool.slices:
            segment = Segment(slice_, len(devices))
            segments.append(segment)
            devices.extend(slice_.devices)
            here, unclear = _reached(slice_, node, segment.offset) if slice_.reach.per_device else (segment.mask, 0)
            reachable |= here
            unreadable |= unclear
            if slice_.unknown_fields:
                unknown |= segment.mask
            if slice_.traits:
                traits |= slice_.traits
                unknown |= segment.having("unknown_fields")
                shareable |= segment.having("allow_multiple_allocations")
    return NodeView(node, pools, tuple(segments), tuple(devices), reachable, unreadable, unknown, shareable, traits)


def _reached(slice_: Slice, node: Node | None, offset: int) -> tuple[Mask, Mask]:
    """Of a slice whose devices choose their nodes: (those that the node reaches, those with an invalid selector)."""
    reached = unreadable = 0
    for position, device in enumerate(slice_.devices, offset):
        try:
            reached |= reaches(device.reach, node) << position
        except InvalidNodeSelector:
            unreadable |= 1 << position
    return reached, unreadable

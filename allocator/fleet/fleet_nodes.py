"""The nodes of a fleet: which pools each reaches, and with which others it forms a group.

Events only note which nodes they touch; `refresh` works them out, once for any number of events.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from allocator.cluster.pools import Pool
from allocator.cluster.snapshot import is_same
from allocator.fleet.current import CurrentSnapshot
from allocator.fleet.fingerprint import Fingerprints
from allocator.fleet.group_changes import NodeGroup
from allocator.fleet.groups import NodeGroups
from allocator.fleet.node_index import NodeIndex
from allocator.fleet.occupancy import NOTHING, Occupancy
from allocator.model import Device, Node, Slice
from allocator.outcome import AllocationError
from allocator.search.rules import Mask

INVALID: Final = -1
"""The fingerprint of a node whose pools cannot be determined."""


@dataclass(slots=True, eq=False)
class FleetNode:
    """A node. pools: None if they cannot be determined. group: None until it is worked out."""

    node: Node
    pools: tuple[Pool, ...] | None = ()
    fingerprint: int = INVALID
    group: NodeGroup | None = None

    def devices(self) -> Sequence[Device]:
        """The devices of the node in the order of its view."""
        usable = [pool for pool in self.pools or () if pool.is_usable]
        return [device for pool in usable for slice_ in pool.slices for device in slice_.devices]


class FleetNodes:
    """The nodes by number.

    all: as a mask. gathered: how often the pools of a node were gathered. renumbered: how often all fingerprints were
    reassigned; what was known by fingerprint is of no use then.
    """

    def __init__(self, current: CurrentSnapshot) -> None:
        self.all: Mask = 0
        self.gathered = 0
        self.renumbered = 0
        self.fingerprints = Fingerprints()
        self.groups = NodeGroups()
        self.occupancy = Occupancy()
        self._current = current
        self._by_number: dict[int, FleetNode] = {}
        self._index = NodeIndex()
        self._ungathered: set[int] = set()
        self._unreached = current.value.slices.unreached(current.value.features)

    def __getitem__(self, number: int) -> FleetNode:
        return self._by_number[number]

    def get(self, number: int) -> FleetNode | None:
        """The node of the number; None if there is none."""
        return self._by_number.get(number)

    def set(self, number: int, node: Node) -> None:
        """Add or replace a node. Raises ValueError if another number has a node of that name."""
        known = self._by_number.get(number)
        if known is not None and is_same(known.node, node):
            known.node = node
            return
        if known is not None and known.node.name != node.name:
            self.remove(number)
        self._index.set(number, node)
        self._by_number.setdefault(number, FleetNode(node)).node = node
        self.all |= 1 << number
        self._ungathered.add(number)

    def remove(self, number: int) -> None:
        """Remove a node. Raises KeyError if it is not there."""
        gone = self._by_number.pop(number)
        self._index.remove(number)
        self.all &= ~(1 << number)
        self._ungathered.discard(number)
        self._leave_group(number, gone)
        self._current.value.forget_view(gone.node.name)

    def lose_slice(self, gone: Slice) -> None:
        """A slice is gone that some of the nodes reached."""
        self._ungathered.update(self._reaching(gone))
        self.fingerprints.forget(gone)

    def refresh(self) -> None:
        """Work out what the events since the last call have touched."""
        if self._current.changed_pools:
            self._refresh_pools()
        if self._current.changed_usage:
            self._refresh_usage()
        if self._ungathered:
            self._gather()

    def shared(self, pools: Iterable[Pool]) -> Iterable[Slice]:
        """The slices that count for a node with these pools, and for other nodes as well."""
        for pool in pools:
            yield from [slice_ for slice_ in pool.slices if not slice_.reach.node_name]
            if self.fingerprints.counted_elsewhere(pool):
                yield from pool.elsewhere

    def _refresh_pools(self) -> None:
        snapshot, changed = self._current.value, self._current.changed_pools
        for pool_id in changed:
            self.occupancy.forget(pool_id)
            for slice_ in snapshot.slices.by_pool.get(pool_id, ()):
                self._ungathered.update(self._reaching(slice_))
        self._current.changed_usage |= changed
        self._current.changed_pools = set()
        unreached = snapshot.slices.unreached(snapshot.features)
        if unreached is not self._unreached:
            self._unreached = unreached
            self._ungathered.update(self._by_number)
        snapshot.forget_view(None)

    def _refresh_usage(self) -> None:
        snapshot, changed = self._current.value, self._current.changed_usage
        self._current.changed_usage = set()
        for pool_id in changed:
            published = snapshot.slices.by_pool.get(pool_id, ())
            for slice_ in self.occupancy.update(pool_id, published, snapshot.usage):
                self.groups.changes.of_shared(slice_)
                number = self._index.number_of(slice_.reach.node_name)
                if number is not None and number not in self._ungathered:
                    self._regroup(number, self._by_number[number])

    def _reaching(self, slice_: Slice) -> Iterable[int]:
        """The nodes that may reach the slice."""
        return self._index.with_one_of(self._current.value.slices.labels_of(slice_))

    def _gather(self) -> None:
        numbers: Iterable[int] = self._ungathered
        self._ungathered = set()
        if self.fingerprints.is_bloated(len(self._by_number)):
            self._renumber()
            numbers = self._by_number
        snapshot = self._current.value
        for number in sorted(numbers):
            node = self._by_number[number]
            self.gathered += 1
            snapshot.forget_view(node.node.name)
            try:
                node.pools = snapshot.pools(node.node)
                node.fingerprint = self.fingerprints.of_node(node.node, node.pools)
            except AllocationError:
                node.pools, node.fingerprint = None, INVALID
            self._regroup(number, node)

    def _renumber(self) -> None:
        """Reassign all fingerprints: most of them are of what is gone."""
        self.renumbered += 1
        self.fingerprints, self.groups = Fingerprints(), NodeGroups()
        for node in self._by_number.values():
            node.group = None

    def _regroup(self, number: int, node: FleetNode) -> None:
        """Put the node into the group where it belongs now."""
        own = [slice_ for pool in node.pools or () for slice_ in pool.slices if slice_.reach.node_name]
        tokens = tuple([self.occupancy.of(slice_.number) for slice_ in own])
        usage = tokens if any(tokens) else NOTHING
        old = node.group
        if old is not None and old.fingerprint == node.fingerprint and old.usage == usage:
            return
        self._leave_group(number, node)
        node.group = self.groups.enter(number, node.fingerprint, usage, self.shared(node.pools or ()))

    def _leave_group(self, number: int, node: FleetNode) -> None:
        self.groups.leave(number, node.group, len(self._by_number))
        node.group = None

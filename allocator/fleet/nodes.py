"""Nodes of a fleet in groups of those that are alike, and what is in use on them."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from allocator.bits import Mask, bits, union
from allocator.cluster.node_affinity import NAME_FIELD
from allocator.cluster.pools import Label, SliceIndex
from allocator.cluster.snapshot import Snapshot, is_same
from allocator.cluster.usage import Usage, occupying
from allocator.fleet.alike import INVALID, Fingerprints, NodeAsItIs, shared_slices
from allocator.limit_use import LimitCount, LimitsInForce, LimitUse
from allocator.memo import Journal
from allocator.model import Claim, DeviceClass, Node, PoolID, Slice
from allocator.outcome import AllocationError
from cel.cache import LruCache

# The nodes by number, by name and by label: the one table of them, which those who follow the nodes read.


MOST_KEYS: Final = 64
"""Label keys that are indexed; beyond, the least recently used is indexed again when it is needed."""

NOBODY: Final = -1
"""In place of the number of the only node in a set."""


@dataclass(slots=True, eq=False)
class NodeSet:
    """Some of the nodes."""

    # Where each node has a serial number or a host name of its own, there are as many sets as nodes: a mask for each
    # would take O(nodes^2).

    _number: int = 0
    _only: int = NOBODY
    _several: Mask = 0

    @property
    def nodes(self) -> Mask:
        """Those in the set now."""
        return self._several if self._only == NOBODY else 1 << self._only

    @property
    def first(self) -> int:
        """The lowest number of a node in the set, which has one."""
        return (self._several & -self._several).bit_length() - 1 if self._only == NOBODY else self._only

    @property
    def is_empty(self) -> bool:
        """Whether no node is in the set."""
        return not self._number

    def add(self, number: int) -> None:
        """The node, which is not in the set, is so from now on."""
        self._only, self._several = (NOBODY, self.nodes | 1 << number) if self._number else (number, 0)
        self._number += 1

    def discard(self, number: int) -> None:
        """The node, which is in the set, is so no more."""
        self._number -= 1
        if not self._number:
            self._only = NOBODY
            return
        rest = self.nodes ^ 1 << number
        self._only, self._several = (rest.bit_length() - 1, 0) if self._number == 1 else (NOBODY, rest)


class NodeTable:
    """The nodes: the number of each name, the node of each number, and which have a label. all: as a mask.

    numbers: by name, to be read. version: changes with every node that comes or goes, and every change of labels.
    A label key is indexed when it is first used, and kept up to date from then on.
    """

    def __init__(self) -> None:
        self.all: Mask = 0
        self.version = 0
        self.numbers: dict[str, int] = {}
        self._nodes: dict[int, Node] = {}
        self._by_label: dict[str, dict[str, NodeSet]] = {}

    def __getitem__(self, number: int) -> Node:
        """The node of the number. Raises KeyError if there is none."""
        return self._nodes[number]

    def get(self, number: int) -> Node | None:
        """The node of the number; None if there is none."""
        return self._nodes.get(number)

    def number_for(self, name: str) -> int:
        """The number of the node of that name; the lowest free one where there is no such node."""
        number = self.numbers.get(name)
        return (~self.all & (self.all + 1)).bit_length() - 1 if number is None else number

    def set(self, number: int, node: Node) -> None:
        """Keep the node of that number. Raises ValueError if another number has a node of that name."""
        if self.numbers.get(node.name, number) != number:
            raise ValueError(f"node {node.name} has number {self.numbers[node.name]} already, and is given {number}")
        old = self._nodes.get(number)
        if old is not None and old.name != node.name:
            del self.numbers[old.name]
        self._nodes[number] = node
        self.numbers[node.name] = number
        self.all |= 1 << number
        if old is None or old.labels != node.labels:
            self._relabel(number, old.labels if old is not None else {}, node.labels)

    def remove(self, number: int) -> None:
        """Forget the node of that number, if there is one."""
        old = self._nodes.pop(number, None)
        if old is not None:
            del self.numbers[old.name]
            self.all &= ~(1 << number)
            self._relabel(number, old.labels, {})

    def _relabel(self, number: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        self.version += 1
        for key, by_value in self._by_label.items():
            before, now = old.get(key), new.get(key)
            if before != now and before is not None:
                by_value[before].discard(number)
                if by_value[before].is_empty:
                    del by_value[before]
            if before != now and now is not None:
                by_value.setdefault(now, NodeSet()).add(number)

    def with_one_of(self, labels: Iterable[Label] | None) -> Mask:
        """The nodes that have one of the labels; None means all. Cost: O(nodes) for a key not asked for before."""
        return self.all if labels is None else union([self._with(key, value) for key, value in labels])

    def _with(self, key: str, value: str) -> Mask:
        if key == NAME_FIELD:
            number = self.numbers.get(value)
            return 0 if number is None else 1 << number
        having = self.by_value(key).get(value)
        return having.nodes if having else 0

    def by_value(self, key: str) -> Mapping[str, NodeSet]:
        """The nodes that have the label, by its value. Cost: O(nodes) for a key not asked for before."""
        by_value = self._by_label.pop(key, None)
        if by_value is None:
            by_value = {}
            for number, node in self._nodes.items():
                if key in node.labels:
                    by_value.setdefault(node.labels[key], NodeSet()).add(number)
        self._by_label[key] = by_value  # at the end: the first is the least recently used
        if len(self._by_label) > MOST_KEYS:
            del self._by_label[next(iter(self._by_label))]
        return by_value


# Groups of nodes, and which nodes have left theirs, so that answers can catch up with what has changed.


@dataclass(slots=True, eq=False)
class NodeGroup:
    """Nodes with one fingerprint and the same devices in use: one of them answers for all."""

    fingerprint: int
    usage: tuple[Hashable, ...]
    """What is in use of each slice that one node alone reaches."""
    shared: tuple[int, ...]
    """The numbers of the other slices, which several nodes reach."""
    members: NodeSet = field(default_factory=NodeSet)


class LeftGroups(Journal[tuple[int, NodeGroup | None]]):
    """Which nodes have left which group; None where they were in none yet.

    shared: how often the use of a slice that several nodes reach has changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shared = 0
        self._watched: Counter[int] = Counter()
        self._moments: dict[int, int] = {}

    def left_since(self, seen: int) -> Mapping[int, NodeGroup | None] | None:
        """The nodes that have left a group after the first `seen` changes, with that group; None if not known."""
        departures = self.since(seen)
        if departures is None:
            return None
        before: dict[int, NodeGroup | None] = {}
        for number, old in departures:
            before.setdefault(number, old)
        return before

    def watch(self, group: NodeGroup) -> None:
        """The group has its first node."""
        self._watched.update(group.shared)

    def unwatch(self, group: NodeGroup) -> None:
        """The group has lost its last node."""
        for slice_number in group.shared:
            self._watched[slice_number] -= 1
            if not self._watched[slice_number]:
                del self._watched[slice_number]
                self._moments.pop(slice_number, None)

    def of_shared(self, slice_: Slice) -> None:
        """The use of the slice has changed."""
        if slice_.number in self._watched:
            self.shared += 1
            self._moments[slice_.number] = self.shared

    def has_shared(self, slice_numbers: Iterable[int], seen: int) -> bool:
        """True if the use of one of the slices has changed after `shared` was `seen`."""
        return any(self._moments.get(number, 0) > seen for number in slice_numbers)


# The nodes of a fleet in groups: all nodes of a group give the same answers.


class NodeGroups:
    """The groups that have nodes, and the nodes that have changed from one to another."""

    def __init__(self) -> None:
        self.changes = LeftGroups()
        self._groups: dict[tuple[int, Hashable], NodeGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def all(self) -> Iterable[NodeGroup]:
        """The groups."""
        return self._groups.values()

    def enter(self, number: int, fingerprint: int, usage: tuple[Hashable, ...], shared: Iterable[Slice]) -> NodeGroup:
        """Put the node, which is in no group, into its group. shared: the slices that other nodes reach too."""
        group = self._groups.get((fingerprint, usage))
        if group is None:
            slice_numbers = tuple([slice_.number for slice_ in shared])
            group = self._groups[fingerprint, usage] = NodeGroup(fingerprint, usage, slice_numbers)
            self.changes.watch(group)
        group.members.add(number)
        return group

    def leave(self, number: int, group: NodeGroup | None, nodes: int) -> None:
        """Take the node out of its group, if it is in one. nodes: how many nodes there are."""
        self.changes.add((number, group), 2 * nodes)
        if group is None:
            return
        group.members.discard(number)
        if group.members.is_empty:
            del self._groups[group.fingerprint, group.usage]
            self.changes.unwatch(group)


# The snapshot of a fleet as of the last event.


class CurrentSnapshot:
    """Follows the events: each replaces `value`, or changes its slices or usage, which belong to the fleet alone then.

    changed_pools: pools whose slices have changed. changed_usage: pools of which other devices are in use. Whoever
    works them out clears them.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.value = snapshot
        self.changed_pools: set[PoolID] = set()
        self.changed_usage: set[PoolID] = {*snapshot.usage.holders, *snapshot.usage.shares}
        self._are_slices_lent = self._is_usage_lent = True
        self._limit_count = LimitCount()

    def lend(self) -> Snapshot:
        """The snapshot for others to keep: an event that changes slices or usage makes a copy of them first."""
        # Lent, not copied: most snapshots are read and dropped before the next event comes.
        self._are_slices_lent = self._is_usage_lent = True
        return self.value

    def add_slice(self, published: Slice) -> None:
        """Add a slice."""
        self._slices_change(self._own_slices().add(published).pool_id)

    def remove_slice(self, published: Slice) -> Slice:
        """Remove a slice; the answer is the slice that was used in its place. Raises KeyError if it is not there."""
        gone = self._own_slices().remove(published)
        self._slices_change(gone.pool_id)
        self.value.selectors.forget(gone)
        return gone

    def add_allocated(self, claims: Iterable[Claim]) -> None:
        """Add what allocated claims hold."""
        claims = tuple(claims)
        self._own_usage().add(claims)
        self._limit_count.add(claims, self.value.limited, self.value)
        self.changed_usage |= _pools_of(claims)

    def remove_allocated(self, claims: Iterable[Claim]) -> None:
        """Remove what claims hold, which are as they were added. Raises ValueError otherwise."""
        claims = tuple(claims)
        self._own_usage().remove(claims)
        self._limit_count.remove(claims, self.value.limited, self.value)
        self.changed_usage |= _pools_of(claims)

    @contextmanager
    def without(self, claims: Sequence[Claim]) -> Iterator[Snapshot]:
        """What there would be without these claims, which are as they were added, until the end of the context.

        Raises ValueError otherwise.
        """
        # In the usage itself, not in a copy: no event may come meanwhile. The pools do not count as changed, since for
        # all who ask after the context nothing has happened.
        usage = self._own_usage()
        usage.remove(claims)
        self._limit_count.remove(claims, self.value.limited, self.value)
        try:
            yield self.value
        finally:
            usage.add(claims)
            self._limit_count.add(claims, self.value.limited, self.value)

    def set_limits(self, limits: LimitsInForce) -> None:
        """These limits hold from now on, and no others."""
        self.value = self.value.with_limited(LimitUse(limits))
        self._limit_count.start(self.value.limited, self.value)

    def namespace_changed(self, name: str) -> None:
        """The labels of the namespace have changed."""
        self.value.limited.limits.forget(name)
        self._limit_count.namespace_changed(name)

    def count_again(self) -> None:
        """Bring what limits count up to date with slices, classes and namespaces."""
        if self._limit_count.is_outdated:
            self._own_usage()
            self._limit_count.count_again(self.value.limited, self.value)

    def set_class(self, device_class: DeviceClass) -> None:
        """Add or replace a class."""
        self._set_classes({**self.value.classes, device_class.name: device_class})

    def remove_class(self, name: str) -> None:
        """Remove a class. Raises KeyError if it is not there."""
        classes = dict(self.value.classes)
        del classes[name]
        self._set_classes(classes)

    def _set_classes(self, classes: Mapping[str, DeviceClass]) -> None:
        self.value = self.value.with_classes(classes)
        self._limit_count.all_changed()

    def _slices_change(self, pool_id: PoolID) -> None:
        self.changed_pools.add(pool_id)
        self.value.limited.published.forget(pool_id)
        self._limit_count.pool_changed(pool_id)

    def _own_slices(self) -> SliceIndex:
        if self._are_slices_lent:
            self.value, self._are_slices_lent = self.value.apart(), False
        return self.value.slices

    def _own_usage(self) -> Usage:
        if self._is_usage_lent:
            own = self.value.with_usage(self.value.usage.copy()).with_limited(self.value.limited.copy())
            self.value, self._is_usage_lent = own, False
        return self.value.usage


def _pools_of(claims: Iterable[Claim]) -> set[PoolID]:
    return {PoolID(result.driver, result.pool) for claim in claims for result in occupying(claim)}


# What is in use of each slice, by the positions of its devices: equal for slices of which the same is in use.


_Positions = Mapping[str, Sequence[tuple[int, int]]]
"""By name of a device: the place of its slice, and its place there; a name may occur in several generations."""

MOST_KINDS: Final = 1 << 12
"""Pools with other names of devices whose positions are shared: most have the same ones."""

MOST_NAMES: Final = 1 << 18
"""Names of all these kinds."""

NOTHING: Final = ()
"""What is in use of a slice without any device in use."""


@dataclass(slots=True)
class _PoolInUse:
    """positions: None until its slices are looked at. slices: those of which anything is in use, by number."""

    positions: _Positions | None = None
    slices: Mapping[int, Slice] = field(default_factory=dict)


class Occupancy:
    """The slices of which anything is in use, pool by pool, as of the last update of each."""

    def __init__(self) -> None:
        self._tokens: dict[int, Hashable] = {}
        self._by_pool: dict[PoolID, _PoolInUse] = {}
        self._alike: LruCache[tuple[tuple[str, ...], ...], _Positions] = LruCache(MOST_KINDS, MOST_NAMES)

    def of(self, slice_number: int) -> Hashable:
        """What is in use of the slice with that number."""
        return self._tokens.get(slice_number, NOTHING)

    def forget(self, pool_id: PoolID) -> None:
        """The slices of the pool have changed; an update has to follow."""
        if pool := self._by_pool.get(pool_id):
            pool.positions = None

    def update(self, pool_id: PoolID, published: Sequence[Slice], usage: Usage) -> list[Slice]:
        """Look at the pool again; the answer is the slices of which something else is in use now.

        published: all slices of the pool.
        Cost: O(devices of the pool that are in use), and O(devices of the pool) once for its slices.
        """
        pool_before = self._by_pool.get(pool_id)
        pool = pool_before or _PoolInUse()
        old = pool.slices
        tokens = self._look(pool, pool_id, published, usage)
        both = {**old, **pool.slices}
        changed = [slice_ for key, slice_ in both.items() if self._tokens.get(key) != tokens.get(key)]
        for key in both:
            if key in tokens:
                self._tokens[key] = tokens[key]
            else:
                del self._tokens[key]
        if pool_before is None and pool.slices:
            self._by_pool[pool_id] = pool
        elif pool_before is not None and not pool.slices:
            del self._by_pool[pool_id]
        return changed

    def _look(
        self, pool: _PoolInUse, pool_id: PoolID, published: Sequence[Slice], usage: Usage
    ) -> Mapping[int, Hashable]:
        """Look at which slices of the pool are in use; the answer is what of each, by number."""
        holders, shares = usage.holders.get(pool_id), usage.shares.get(pool_id)
        if (not holders and not shares) or not published:
            pool.slices = {}
            return {}
        if pool.positions is None:
            pool.positions = self._positions_in(published)
        positions = pool.positions
        held: dict[int, Mask] = {}
        shared: dict[int, list[Hashable]] = {}
        slices: dict[int, Slice] = {}
        for name in holders or ():
            for place, position in positions.get(name, ()):
                slice_ = published[place]
                slices[slice_.number] = slice_
                held[slice_.number] = held.get(slice_.number, 0) | 1 << position
        for name, held_shares in shares.items() if shares else ():
            for place, position in positions.get(name, ()):
                slice_ = published[place]
                slices[slice_.number] = slice_
                shared.setdefault(slice_.number, []).append((position, held_shares.token))
        pool.slices = slices
        return {key: (held.get(key, 0), frozenset(shared.get(key, ()))) for key in slices}

    def _positions_in(self, published: Sequence[Slice]) -> _Positions:
        """Where the devices of a pool stand."""
        names = tuple([tuple([device.name for device in slice_.devices]) for slice_ in published])
        return self._alike.get(names, sum(map(len, names)), lambda: _positions_of(names))


def _positions_of(names: tuple[tuple[str, ...], ...]) -> _Positions:
    """names: of the devices, slice by slice."""
    positions: dict[str, tuple[tuple[int, int], ...]] = {}
    for place, of_slice in enumerate(names):
        for position, name in enumerate(of_slice):
            positions[name] = (*positions.get(name, ()), (place, position))
    return positions


# The nodes of a fleet: which pools each reaches, and with which others it forms a group.
#
# Events only note which nodes they touch; `refresh` works them out, once for any number of events.


@dataclass(slots=True, eq=False)
class FleetNode(NodeAsItIs):
    """A node of the fleet. group: None until it is worked out."""

    group: NodeGroup | None = None


class FleetNodes:
    """What the nodes reach, by number.

    table: the nodes. gathered: how often the pools of a node were gathered. renumbered: how often all fingerprints were
    reassigned; what was known by fingerprint is of no use then.
    """

    def __init__(self, current: CurrentSnapshot) -> None:
        self.table = NodeTable()
        self.gathered = 0
        self.renumbered = 0
        self.fingerprints = Fingerprints()
        self.groups = NodeGroups()
        self.occupancy = Occupancy()
        self._current = current
        self._by_number: dict[int, FleetNode] = {}
        self._ungathered: set[int] = set()
        self._unreached = current.value.slices.unreached(current.value.features)

    def __getitem__(self, number: int) -> FleetNode:
        return self._by_number[number]

    def get(self, number: int) -> FleetNode | None:
        """The node of the number; None if there is none."""
        return self._by_number.get(number)

    def set(self, number: int, node: Node) -> None:
        """Add or replace a node. Raises ValueError if another number has a node of that name."""
        fleet_node = self._by_number.get(number)
        if fleet_node is not None and is_same(fleet_node.node, node):
            self.table.set(number, node)
            fleet_node.node = node
            return
        if fleet_node is not None and fleet_node.node.name != node.name:
            self.remove(number)
        self.table.set(number, node)
        self._by_number.setdefault(number, FleetNode(node)).node = node
        self._ungathered.add(number)

    def remove(self, number: int) -> None:
        """Remove a node. Raises KeyError if it is not there."""
        gone = self._by_number.pop(number)
        self.table.remove(number)
        self._ungathered.discard(number)
        self._leave_group(number, gone)
        self._current.value.forget_view(gone.node.name)

    def lose_slice(self, gone: Slice) -> None:
        """A slice is gone that some of the nodes reached."""
        self._ungathered.update(self._reaching(gone))
        self.fingerprints.forget(gone)

    def refresh(self) -> None:
        """Work out what the events since the last call have touched."""
        self._current.count_again()
        if self._current.changed_pools:
            self._refresh_pools()
        if self._current.changed_usage:
            self._refresh_usage()
        if self._ungathered:
            self._gather()

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
                number = self.table.numbers.get(slice_.reach.node_name)
                if number is not None and number not in self._ungathered:
                    self._regroup(number, self._by_number[number])

    def _reaching(self, slice_: Slice) -> Iterable[int]:
        """The nodes that may reach the slice."""
        return bits(self.table.with_one_of(self._current.value.slices.labels_of(slice_)))

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
        of_node_alone = [slice_ for pool in node.pools or () for slice_ in pool.slices if slice_.reach.node_name]
        tokens = tuple([self.occupancy.of(slice_.number) for slice_ in of_node_alone])
        usage = tokens if any(tokens) else NOTHING
        old = node.group
        if old is not None and old.fingerprint == node.fingerprint and old.usage == usage:
            return
        self._leave_group(number, node)
        node.group = self.groups.enter(number, node.fingerprint, usage, shared_slices(node.pools or ()))

    def _leave_group(self, number: int, node: FleetNode) -> None:
        self.groups.leave(number, node.group, len(self._by_number))
        node.group = None

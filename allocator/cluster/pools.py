"""Pools: the newest generation of each pool's slices, whole or not; and which of their devices a node reaches."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from allocator.bits import Mask
from allocator.cluster.node_affinity import NAME_FIELD, InvalidNodeSelector, reaches, term_problem
from allocator.gates import COMPATIBILITY_GROUPS, PARTITIONABLE_DEVICES, Features, Release
from allocator.memo import Topic, TypedMemo
from allocator.model import Device, DeviceID, Node, PoolID, Slice
from allocator.outcome import InvalidPool

# Slices to pools: which slices count, in which order, and whether their pool can be trusted.
#
# Of each pool a node sees the slices of the newest generation that reach it. A pool with missing slices is
# *incomplete*, one that contradicts itself is *invalid*; both are kept, because a request for all devices has to know
# of them. The order of pools, slices and devices decides which device is chosen, and drivers rely on it. Source:
# KEP-4381 (pools), KEP-4815 (counters), KEP-5007 (binding conditions go last).


_NAME: Final = attrgetter("name")


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool as a node sees it."""

    id: PoolID
    slices: tuple[Slice, ...]
    """Those that reach the node, by name."""
    elsewhere: tuple[Slice, ...] = ()
    """The rest of the generation, for counters."""
    missing: str = ""
    """How the pool is incomplete, in words, or empty."""
    contradiction: str = ""
    """How it is invalid, or empty."""

    @property
    def is_usable(self) -> bool:
        """True if the pool's devices may be allocated."""
        return not self.missing and not self.contradiction

    @property
    def has_binding_conditions(self) -> bool:
        """True if a device that may be allocated waits for conditions: such pools go last."""
        return self.is_usable and any("binding_conditions" in slice_.traits for slice_ in self.slices)


_Whole = tuple[Sequence[Slice], Features, Pool | None]
"""All slices of a pool, and the pool as each node sees it that reaches all of them; as of the features."""


def gather(  # noqa: PLR0913, PLR0917 - the last two have defaults
    slices: Iterable[Slice],
    pool_slices: Mapping[PoolID, Sequence[Slice]],
    node: Node | None,
    features: Features,
    unreached: Mapping[PoolID, Pool] = MappingProxyType({}),
    whole: dict[PoolID, _Whole] | None = None,
) -> tuple[Pool, ...]:
    """The pools that the node reaches, in canonical order.

    slices: the candidates, at least all that reach the node, and none that all nodes see. pool_slices: every slice of
    each pool in the cluster. unreached: the pools that matter though the node reaches nothing of them. whole: what
    other nodes have been answered of pools that several nodes reach; grows. Raises InvalidPool where a node selector
    cannot be evaluated. Cost: O(devices of the slices given), O(slices) where another node has seen them so.
    """
    seen: dict[PoolID, list[Slice]] = {}
    for slice_ in slices:
        if _is_seen(slice_, features) and _reaches(slice_, node):
            seen.setdefault(slice_.pool_id, []).append(slice_)
    if features.release.counter_slices_reach_all:
        for pool_id, own in seen.items():
            own.extend(_counting(pool_slices[pool_id], features))
    pools = [_seen_pool(pool_id, own, pool_slices[pool_id], features, whole) for pool_id, own in seen.items()]
    pools += [pool for pool_id, pool in unreached.items() if pool_id not in seen]
    usual = tuple([pool for pool in pools if pool is not None])
    return usual if len(usual) < 2 else tuple(sorted(usual, key=lambda p: (p.has_binding_conditions, p.id)))


def _seen_pool(
    pool_id: PoolID,
    own: list[Slice],
    everywhere: Sequence[Slice],
    features: Features,
    whole: dict[PoolID, _Whole] | None,
) -> Pool | None:
    if whole is None or len(own) != len(everywhere) or own[0].reach.node_name:
        return _pool(pool_id, _newest(own), everywhere, features)
    known = whole.get(pool_id)
    if known is None or known[0] is not everywhere or known[1] is not features:
        known = whole[pool_id] = everywhere, features, _pool(pool_id, _newest(own), everywhere, features)
    return known[2]


def whole_pool(everywhere: Sequence[Slice], features: Features) -> Pool | None:
    """The pool with all slices of its newest generation, whichever nodes they reach; None if the gates hide it.

    everywhere: every slice of the pool in the cluster.
    """
    seen = [slice_ for slice_ in _newest(list(everywhere)) if _is_seen(slice_, features)]
    return _pool(seen[0].pool_id, seen, everywhere, features) if seen else None


def counting_pool(everywhere: Sequence[Slice], features: Features) -> Pool | None:
    """The pool of a node that reaches only its slices with counter sets; None if it has no such slice."""
    seen = _counting(everywhere, features)
    return _pool(seen[0].pool_id, _newest(seen), everywhere, features) if seen else None


def _counting(slices: Iterable[Slice], features: Features) -> list[Slice]:
    return [slice_ for slice_ in slices if slice_.counter_sets and _is_seen(slice_, features)]


def _newest(slices: list[Slice]) -> list[Slice]:
    """Those of the newest generation."""
    generation = slices[0].generation
    if all([slice_.generation == generation for slice_ in slices]):  # noqa: C419 - faster
        return slices
    generation = max([slice_.generation for slice_ in slices])
    return [slice_ for slice_ in slices if slice_.generation == generation]


def _is_seen(slice_: Slice, features: Features) -> bool:
    """False for slices that use a feature whose gate is off; without them their pool may not be complete."""
    if (slice_.reach.per_device or slice_.counter_sets) and not features.has(PARTITIONABLE_DEVICES):
        return False
    return _has_known_groups(slice_, features)


def _has_known_groups(slice_: Slice, features: Features) -> bool:
    if features.has(COMPATIBILITY_GROUPS) or "consumes_counters" not in slice_.traits:
        return True
    return not any(c.compatibility_groups for device in slice_.devices for c in device.consumes_counters)


def _reaches(slice_: Slice, node: Node | None) -> bool:
    try:
        if not slice_.reach.is_up_to_devices:
            return reaches(slice_.reach, node)
        return any(reaches(device.reach, node) for device in slice_.devices)
    except InvalidNodeSelector as error:
        raise InvalidPool(f"slice {slice_.name}: node selector: {error}") from error


def _pool(pool_id: PoolID, kept: list[Slice], everywhere: Sequence[Slice], features: Features) -> Pool | None:
    """The pool, or None if a newer generation exists that does not reach this node."""
    slices = tuple(kept) if len(kept) == 1 else tuple(sorted(kept, key=lambda slice_: slice_.name))
    generation, wanted = slices[0].generation, _slice_count(slices)
    elsewhere: tuple[Slice, ...] = ()
    # Differs from kube-scheduler, which uses an old generation that is complete on this node though a newer one exists.
    if (len(slices) != wanted or not features.is_strict) and _has_newer(generation, everywhere):
        return None
    if len(slices) != wanted:
        same = [p for p in everywhere if p.generation == generation and _has_known_groups(p, features)]
        if len(same) != wanted:
            return Pool(pool_id, slices, missing=f"{len(same)} of {wanted} slices of generation {generation} exist")
        here = {slice_.number for slice_ in slices}
        elsewhere = tuple(sorted((p for p in same if p.number not in here), key=lambda slice_: slice_.name))
    contradiction = _twice_named(slices)
    if not contradiction and features.has(PARTITIONABLE_DEVICES):
        contradiction = _wrong_counters(slices, elsewhere)
    return Pool(pool_id, slices, elsewhere, contradiction=contradiction)


def _slice_count(slices: Sequence[Slice]) -> int:
    """The number of slices that the pool should have, of which these are there, by name.

    If they disagree, kube-scheduler takes the one that it saw first, those for one node before others.
    """
    count = slices[0].slice_count
    if all([slice_.slice_count == count for slice_ in slices]):  # noqa: C419 - faster
        return count
    # Differs from kube-scheduler: the first by name, so that the same slices give the same answer.
    return min(slices, key=lambda slice_: not slice_.reach.node_name).slice_count


def _has_newer(generation: int, everywhere: Sequence[Slice]) -> bool:
    return len(everywhere) > 1 and any(slice_.generation > generation for slice_ in everywhere)


def _twice_named(slices: Sequence[Slice]) -> str:
    twice = _repeated([name for slice_ in slices for name in map(_NAME, slice_.devices)])
    return f"device name {twice} is published more than once" if twice else ""


def _wrong_counters(slices: Sequence[Slice], elsewhere: Sequence[Slice]) -> str:
    everywhere = (*slices, *elsewhere)
    if not has_counters(everywhere):
        return ""
    sets = [counter_set for slice_ in everywhere for counter_set in slice_.counter_sets]
    if twice := _repeated([counter_set.name for counter_set in sets]):
        return f"counter set {twice} is published more than once"
    counters = {counter_set.name: counter_set.counters.keys() for counter_set in sets}
    for slice_ in everywhere:
        for device in slice_.devices:
            if unknown := _unknown_counter(device, counters):
                return f"device {device.name} consumes {unknown}, which the pool does not publish"
    return ""


def has_counters(slices: Iterable[Slice]) -> bool:
    """True if one of the slices publishes counters, or a device of one consumes some."""
    return any([slice_.counter_sets or "consumes_counters" in slice_.traits for slice_ in slices])  # noqa: C419 - faster


def _unknown_counter(device: Device, counters: Mapping[str, Iterable[str]]) -> str:
    for consumption in device.consumes_counters:
        if consumption.counter_set not in counters:
            return f"counter set {consumption.counter_set}"
        for name in consumption.counters:
            if name not in counters[consumption.counter_set]:
                return f"counter {name} of counter set {consumption.counter_set}"
    return ""


def _repeated(names: Sequence[str]) -> str:
    """The first name, in order of the alphabet, that occurs more than once; empty if none does."""
    if len(set(names)) == len(names):
        return ""
    return min(name for name, times in Counter(names).items() if times > 1)


# Slices with counter sets as releases up to 1.36 see them: each of them belongs to the pools of every node.
#
# To a node that reaches nothing else of a pool, the pool is the same as to all such nodes: it has no devices, and
# matters only where it is incomplete or invalid. So it is looked at once, and not for every node. Source: KEP-4815, as
# kube-scheduler 1.34 to 1.36 carry it out.


class Unreached:
    """The pools that matter to nodes that reach only slices with counter sets of them."""

    def __init__(self) -> None:
        self._pools: Mapping[PoolID, Pool] = MappingProxyType({})
        self._changed: set[PoolID] = set()

    def copy(self) -> "Unreached":
        """Another one that knows the same."""
        copied = Unreached()
        copied._pools, copied._changed = self._pools, set(self._changed)
        return copied

    def change(self, pool_id: PoolID) -> None:
        """A slice of the pool came or went."""
        self._changed.add(pool_id)

    def among(self, pool_slices: Mapping[PoolID, Sequence[Slice]], features: Features) -> Mapping[PoolID, Pool]:
        """These pools; the same object while they, and the slices in them, are the same.

        pool_slices: every slice of each pool in the cluster. Cost: O(slices of the pools that have changed).
        """
        ids, self._changed = self._changed, set()
        looked_at = {pool_id: counting_pool(pool_slices.get(pool_id, ()), features) for pool_id in ids}
        mattering = {pool_id: pool for pool_id, pool in looked_at.items() if pool is not None and _matters(pool)}
        if any(_made_of(mattering.get(pool_id)) != _made_of(self._pools.get(pool_id)) for pool_id in ids):
            kept = {pool_id: pool for pool_id, pool in self._pools.items() if pool_id not in ids}
            self._pools = MappingProxyType(kept | mattering)
        return self._pools


def _matters(pool: Pool) -> bool:
    return not pool.is_usable or any(slice_.devices for slice_ in pool.slices)


def _made_of(pool: Pool | None) -> object:
    """What a pool is made of: a slice that was published again is another one, even if it is equal."""
    if pool is None:
        return None
    return pool.missing, pool.contradiction, [slice_.number for slice_ in (*pool.slices, *pool.elsewhere)]


# The published slices by node and by pool, kept up to date slice by slice.
#
# Code that changes it notifies those who remember results about a slice (`Fleet` does), and changes a `copy` where
# others look at it too.


Label = tuple[str, str]
"""A label of a node with its value; the node's name counts as one, under the name of its field."""

_NONE: Final[Mapping[PoolID, Pool]] = MappingProxyType({})

_Bag = dict[int, Slice]
"""Slices by number."""


class SliceIndex:
    """Slices by the labels of the nodes that reach them, and by pool.

    by_pool: all slices of a pool, of whichever generation, in the order in which they came.
    """

    def __init__(self, release: Release, slices: Iterable[Slice] = ()) -> None:
        self.by_pool: dict[PoolID, Sequence[Slice]] = {}
        self._release = release
        self._by_label: dict[str, dict[str, _Bag]] = {}
        self._by_selection: _Bag = {}
        self._bare: dict[int, tuple[Slice, Slice]] = {}
        self._unreached = Unreached()
        self._whole: dict[PoolID, _Whole] = {}
        for published in slices:
            self.add(published)

    def copy(self) -> "SliceIndex":
        """Another one with the same slices. Cost: O(slices)."""
        copied = SliceIndex(self._release)
        copied.by_pool = dict(self.by_pool)
        copied._by_label = {
            key: {value: dict(bag) for value, bag in by_value.items()} for key, by_value in self._by_label.items()
        }
        copied._by_selection = dict(self._by_selection)
        copied._bare = dict(self._bare)
        copied._unreached = self._unreached.copy()
        copied._whole = dict(self._whole)
        return copied

    def add(self, published: Slice) -> Slice:
        """Add a slice; the answer is the slice that is used in its place, perhaps with its counters alone.

        Cost: O(slices of its pool).
        """
        slice_ = published
        if published.counter_sets and published.devices and not self._release.combined_slices:
            slice_ = replace(published, devices=())
            self._bare[published.number] = (published, slice_)
        labels = self.labels_of(slice_)
        if labels is None:
            self._by_selection[slice_.number] = slice_
        for key, value in labels or ():
            self._by_label.setdefault(key, {}).setdefault(value, {})[slice_.number] = slice_
        self._note_counters(slice_)
        self.by_pool[slice_.pool_id] = (*self.by_pool.get(slice_.pool_id, ()), slice_)
        return slice_

    def remove(self, published: Slice) -> Slice:
        """Remove a slice; the answer is the slice that was used in its place. Raises KeyError if it is not there.

        Cost: O(slices of its pool).
        """
        _, slice_ = self._bare.pop(published.number, (published, published))
        labels = self.labels_of(slice_)
        if labels is None:
            del self._by_selection[slice_.number]
        for key, value in labels or ():
            self._take_out(slice_, key, value)
        self._note_counters(slice_)
        rest = tuple([one for one in self.by_pool[slice_.pool_id] if one is not slice_])
        if rest:
            self.by_pool[slice_.pool_id] = rest
        else:
            del self.by_pool[slice_.pool_id]
        self._whole.pop(slice_.pool_id, None)
        return slice_

    def pools(self, node: Node | None, features: Features) -> tuple[Pool, ...]:
        """The pools that the node reaches, in canonical order. Raises InvalidPool."""
        return gather(self._of_node(node), self.by_pool, node, features, self.unreached(features), self._whole)

    def unreached(self, features: Features) -> Mapping[PoolID, Pool]:
        """The pools that matter to nodes that reach nothing of them; the same object while nothing changes."""
        return self._unreached.among(self.by_pool, features) if self._release.counter_slices_reach_all else _NONE

    def _note_counters(self, changed: Slice) -> None:
        """A slice came or went; only where somebody asks, which forgets it."""
        if self._release.counter_slices_reach_all:
            self._unreached.change(changed.pool_id)

    def _of_node(self, node: Node | None) -> Iterable[Slice]:
        """The slices that may reach the node, each once; the others do not."""
        if node is None:
            return self._by_selection.values()
        bags = [self._by_selection] if self._by_selection else []
        for key, by_value in self._by_label.items():
            if key == NAME_FIELD and not node.name:
                bags.extend(by_value.values())
                continue
            value = node.name if key == NAME_FIELD else node.labels.get(key)
            if value is not None and value in by_value:
                bags.append(by_value[value])
        if len(bags) == 1:
            return bags[0].values()
        return {number: slice_ for bag in bags for number, slice_ in bag.items()}.values()

    def labels_of(self, slice_: Slice) -> Sequence[Label] | None:
        """Labels of which every node that reaches the slice has one; None if there are no such labels.

        Empty for slices that all nodes see: what a node sees of the pool depends on its other slices.
        """
        if slice_.counter_sets and self._release.counter_slices_reach_all:
            return ()
        if slice_.reach.node_name:
            return ((NAME_FIELD, slice_.reach.node_name),)
        terms = slice_.reach.node_selector or ()
        if slice_.reach.all_nodes or slice_.reach.per_device or len(terms) != 1 or term_problem(terms[0]):
            return None
        for requirement in (*terms[0].fields, *terms[0].expressions):
            # A label may have the name of the field, but then it is no field.
            is_clear = requirement.key != NAME_FIELD or requirement in terms[0].fields
            if requirement.operator == "In" and is_clear:
                return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
        return None

    def _take_out(self, slice_: Slice, key: str, value: str) -> None:
        by_value = self._by_label[key]
        del by_value[value][slice_.number]
        if not by_value[value]:
            del by_value[value]
        if not by_value:
            del self._by_label[key]


# The devices that one node reaches, in canonical order; bit i of every mask is device i.
#
# A view depends on slices and the node alone, not on what is in use, so it is made once and kept.


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

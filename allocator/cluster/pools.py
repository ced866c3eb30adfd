"""Slices to pools: which slices count, in which order, and whether their pool can be trusted.

Of each pool a node sees the slices of the newest generation that reach it. A pool with missing slices is *incomplete*,
one that contradicts itself is *invalid*; both are kept, because a request for all devices has to know of them. The
order of pools, slices and devices decides which device is chosen, and drivers rely on it.
Source: KEP-4381 (pools), KEP-4815 (counters), KEP-5007 (binding conditions go last).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from allocator.cluster.node_affinity import InvalidNodeSelector, reaches
from allocator.gates import COMPATIBILITY_GROUPS, PARTITIONABLE_DEVICES, Features
from allocator.model import Device, Node, PoolID, Slice
from allocator.outcome import InvalidPool

_NAME: Final = attrgetter("name")


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool as a node sees it.

    slices: those that reach the node, by name. elsewhere: the rest of the generation, for counters.
    missing: how the pool is incomplete, in words, or empty. contradiction: how it is invalid, or empty.
    """

    id: PoolID
    slices: tuple[Slice, ...]
    elsewhere: tuple[Slice, ...] = ()
    missing: str = ""
    contradiction: str = ""

    @property
    def is_usable(self) -> bool:
        """True if the pool's devices may be allocated."""
        return not self.missing and not self.contradiction

    @property
    def has_binding_conditions(self) -> bool:
        """True if a device in a slice of this node waits for conditions: such pools go last."""
        return any("binding_conditions" in slice_.traits for slice_ in self.slices)


def gather(
    slices: Iterable[Slice],
    pool_slices: Mapping[PoolID, Sequence[Slice]],
    node: Node | None,
    features: Features,
    unreached: Mapping[PoolID, Pool] = MappingProxyType({}),
) -> tuple[Pool, ...]:
    """The pools that the node reaches, in canonical order.

    slices: the candidates, at least all that reach the node, and none that all nodes see. pool_slices: every slice of
    each pool in the cluster. unreached: the pools that matter though the node reaches nothing of them. Raises
    InvalidPool where a node selector cannot be evaluated. Cost: O(devices of the slices given).
    """
    seen: dict[PoolID, list[Slice]] = {}
    for slice_ in slices:
        if _is_seen(slice_, features) and _reaches(slice_, node):
            seen.setdefault(slice_.pool_id, []).append(slice_)
    if features.release.counter_slices_reach_all:
        for pool_id, own in seen.items():
            own.extend(_counting(pool_slices[pool_id], features))
    pools = [_pool(pool_id, _newest(own), pool_slices[pool_id], features) for pool_id, own in seen.items()]
    pools += [pool for pool_id, pool in unreached.items() if pool_id not in seen]
    usual = tuple([pool for pool in pools if pool is not None])
    return usual if len(usual) < 2 else tuple(sorted(usual, key=lambda p: (p.has_binding_conditions, p.id)))


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
